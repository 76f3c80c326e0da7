//! Measures threads of other programs with `bpf/attach.bpf.c`.

mod calls;
mod group;
mod marks;
mod record;
mod ring;
mod target;

use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _};

use laggard_bpf::object::{LoadedObject, ObjectFile, ObjectRefused};
use laggard_bpf::value::Value as _;
use laggard_model::{Absence, CpuList, ThreadTold};
use libbpf_rs::{ErrorKind, Iter, MapCore as _, MapFlags, MapType};

use self::record::shared::{
    ATTACH_ALL, ATTACH_CHOSEN, AttachCall, AttachRecord, AttachState, AttachThread,
};
use self::ring::AttachRings;
use super::flight::FlightRings;
use super::interrupts::CpuInterrupts;
use super::objects;
use super::obstacle::{Help, Obstacle};
use super::possible_cpus;
use crate::host::{Files, Rights};
pub use calls::is_system_call;
pub use group::{AttachGroup, GroupError};
pub use marks::MarkReader;
pub use target::{AttachTarget, find_descendants, find_threads};

/// Size of each CPU's ring as a power of two: 80,000 records per second at 100 ms between two
/// reads.
const RING_BITS: u32 = 13;
/// Rings are smaller on machines with more CPUs than this, so that they take at most 90 MB in
/// total.
const MANY_CPUS: usize = 64;
const RING_BITS_OF_MANY: u32 = 11;
/// Maximum number of threads for `--tid`.
const MAX_CHOSEN: usize = 4_096;

/// Reason why threads cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    #[error("threads cannot be watched here: {}; {}", .0.reason, .0.remedy)]
    Absent(Absence),
    #[error("process {0} cannot be attached to: {1}")]
    NoProcess(u32, String),
    #[error(
        "process {0} cannot be watched: too many open files; raise the limit (`ulimit -Hn`), or attach to fewer processes"
    )]
    TooManyFiles(u32),
    #[error(
        "none of these threads can be watched: they have ended, or the kernel hides them from BPF programs"
    )]
    Nobody,
    #[error("process {0} has no thread {1}")]
    NoThread(u32, u32),
    #[error(
        "--tid does not work in a PID namespace (a container), where the kernel uses other thread IDs; attach to the whole process, or from the host"
    )]
    Namespace,
    #[error("--tid takes at most {MAX_CHOSEN} threads, not {0}; attach to whole processes")]
    TooMany(usize),
}

/// Cause that needs a tracepoint that some kernels lack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UnseenCause {
    /// Waits for a lock of the kernel (Linux 5.19 or later).
    KernelLock,
    /// Memory reclaim of the machine.
    Reclaim,
    /// Memory reclaim at the limit of a control group (`CONFIG_MEMCG`).
    GroupReclaim,
}

/// Losses of all threads together.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct AttachLosses {
    /// Records that were overwritten before they were read.
    pub overwritten: u64,
    /// Records with times out of order: the clocks of two CPUs disagree.
    pub disordered: u64,
    /// Threads that are not measured, because the kernel could not allocate their state.
    pub no_storage: u64,
    /// Executions of BPF programs that the kernel skipped, because the program was already running.
    pub skipped: u64,
}

/// Probe that watches threads until it is dropped.
#[derive(Debug)]
pub struct AttachProbe {
    loaded: LoadedObject,
    rings: AttachRings,
    disordered: u64,
    context_unknown: Option<String>,
    absent: Vec<String>,
    renumbers: bool,
    flight: Option<FlightRings>,
}

impl AttachProbe {
    /// Loads and attaches the BPF programs, which do not watch any thread yet. With `recorded`,
    /// they also record the activity of these CPUs if the kernel accepts this
    /// ([`AttachProbe::take_flight`]).
    ///
    /// # Errors
    /// If the kernel refuses them.
    pub fn new(recorded: Option<&CpuList>) -> Result<Self, AttachError> {
        let load = |object, recorded| {
            // Without the interrupt state of the CPUs, everything else can still be measured.
            Self::load(object, None, recorded)
                .or_else(|refused| Self::load(object, Some(refused.reason), recorded))
        };
        let joined = recorded.ok_or_else(|| ObjectRefused::because("not wanted"));
        joined
            .and_then(|cpus| load(objects::ATTACH_FLIGHT, Some(cpus)))
            .or_else(|_| load(objects::ATTACH, None))
            .map_err(|refused| AttachError::Absent(absent(&refused)))
    }

    fn load(
        object: ObjectFile,
        context_unknown: Option<String>,
        recorded: Option<&CpuList>,
    ) -> Result<Self, ObjectRefused> {
        let cpus = possible_cpus();
        let bits = match cpus {
            0..=MANY_CPUS => RING_BITS,
            _ => RING_BITS_OF_MANY,
        };
        let mut sizes = vec![
            ("attach_heads", cpus),
            ("attach_records", cpus << bits),
            ("chosen", MAX_CHOSEN),
        ];
        sizes.extend(recorded.into_iter().flat_map(FlightRings::sizes));
        let mut absent = Vec::new();
        let mut loaded = object.load(&[], &sizes, |open| {
            absent = objects::leave_out_absent(open)?;
            let left_out = match context_unknown {
                None => "on_sched_waking_uncounted",
                Some(_) => "on_sched_waking",
            };
            for mut program in open.progs_mut() {
                if program.name() == left_out {
                    program.set_autoload(false);
                }
            }
            object.set_input(open, "attach_ring_bits", &bits.to_ne_bytes())?;
            if let Some(recorded) = recorded {
                FlightRings::set_size(object, open, recorded)?;
            }
            let timers = CpuInterrupts::of_machine().timer_input();
            object.set_input(open, "timer_irqs", &timers)?;
            let preempted = u32::from(super::softirqs_are_preempted());
            object.set_input(open, "softirqs_are_preempted", &preempted.to_ne_bytes())
        })?;
        let rings = {
            let (heads, records) = (loaded.map("attach_heads")?, loaded.map("attach_records")?);
            AttachRings::new(heads.as_fd(), records.as_fd(), cpus, bits)
        };
        let rings = rings.map_err(|err| ObjectRefused::because(err.to_string()))?;
        let flight = recorded.map(|recorded| FlightRings::open(&loaded, recorded, &absent));
        let flight = flight.transpose()?;
        loaded.attach()?;
        // Set after all programs are attached, because each recorded start needs its end.
        let begun = AttachState {
            begun: 1,
            ..AttachState::default()
        };
        loaded.set_value("states", 0, &begun)?;
        Ok(Self {
            context_unknown,
            absent,
            renumbers: target::is_in_namespace(),
            loaded,
            rings,
            disordered: 0,
            flight,
        })
    }

    /// Returns the records of the flight recorder, once, if the programs keep them.
    pub fn take_flight(&mut self) -> Option<FlightRings> {
        self.flight.take()
    }

    /// Watches these threads or processes. Threads that a whole process starts are included.
    ///
    /// # Errors
    /// If one of them does not exist or cannot be watched.
    pub fn watch(&mut self, targets: &[AttachTarget]) -> Result<(), AttachError> {
        if targets.is_empty() {
            return Ok(());
        }
        let chosen: Vec<u32> = targets
            .iter()
            .flat_map(|target| target.threads.iter().copied())
            .collect();
        if !chosen.is_empty() && self.renumbers {
            return Err(AttachError::Namespace);
        }
        if chosen.len() > MAX_CHOSEN {
            return Err(AttachError::TooMany(chosen.len()));
        }
        let marked = || -> Result<(), ObjectRefused> {
            let map = self.loaded.map("chosen")?;
            for tid in &chosen {
                map.update(&tid.to_ne_bytes(), &1_u32.to_ne_bytes(), MapFlags::ANY)
                    .map_err(|err| ObjectRefused::because(err.to_string()))?;
            }
            let threads = self.loaded.map("threads")?;
            debug_assert_eq!(threads.map_type(), MapType::TaskStorage);
            for target in targets {
                let marked = AttachThread {
                    process: if target.threads.is_empty() {
                        ATTACH_ALL
                    } else {
                        ATTACH_CHOSEN
                    },
                    ..AttachThread::default()
                };
                let descriptor = target.descriptor.as_raw_fd().to_ne_bytes();
                let marked = threads.update(&descriptor, &marked.to_bytes(), MapFlags::NO_EXIST);
                match marked {
                    // The process is watched already, with the threads and processes that it
                    // starts.
                    Err(err) if err.kind() == ErrorKind::AlreadyExists => {}
                    // The thread has ended since it was found.
                    Err(err) if err.kind() == ErrorKind::NotFound => {}
                    Err(err) => return Err(ObjectRefused::because(err.to_string())),
                    Ok(()) => {}
                }
            }
            self.go_through("watch_marked").map(drop)
        };
        marked().map_err(|refused| AttachError::Absent(absent(&refused)))?;
        match self.watched() {
            0 => Err(AttachError::Nobody),
            _ => Ok(()),
        }
    }

    /// Returns the number of threads that were watched so far, as counted in the kernel. Includes
    /// threads whose records were all lost.
    #[must_use]
    pub fn watched(&self) -> u64 {
        let state = self.loaded.value::<AttachState>("states", 0);
        state.map_or(0, |state| state.threads)
    }

    /// Returns the number of watched threads that have ended, as counted in the kernel.
    #[must_use]
    pub fn ended(&self) -> u64 {
        let state = self.loaded.value::<AttachState>("states", 0);
        state.map_or(0, |state| state.ended)
    }

    /// Sets whether threads and processes that the calling thread starts are watched.
    ///
    /// # Errors
    /// If the kernel cannot allocate it.
    pub fn follow_own(&self, follows: bool) -> Result<(), AttachError> {
        let call = AttachCall {
            follows: u32::from(follows),
            padding: 0,
        };
        let followed = self.loaded.call_with("follow_self", &call);
        followed
            .map(drop)
            .map_err(|refused| AttachError::Absent(absent(&refused)))
    }

    /// Appends the events since the last call, CPU by CPU. Events of a thread that moves between
    /// CPUs may be out of order.
    pub fn drain(&mut self, into: &mut Vec<ThreadTold>) {
        let disordered = &mut self.disordered;
        self.rings.read(|record| match record.told() {
            Some(event) => into.push(event),
            None => *disordered += 1,
        });
    }

    /// Stops watching. The next drain returns the unfinished activations.
    ///
    /// # Errors
    /// If the kernel does not iterate over its threads.
    pub fn settle(&mut self) -> Result<(), AttachError> {
        self.go_through("tell_last")
            .map(drop)
            .map_err(|refused| AttachError::Absent(absent(&refused)))
    }

    /// Returns the states of the watched threads that have slept: the activation that a thread is in,
    /// and the number of its next record. Visits each thread of the machine.
    ///
    /// # Errors
    /// If the kernel does not iterate over its threads.
    pub fn states(&self) -> Result<Vec<ThreadTold>, Absence> {
        let states = self.go_through("show_states");
        let states = states.map_err(|refused| absent(&refused))?;
        let states = states.chunks_exact(AttachRecord::BYTES);
        let states = states.filter_map(|bytes| AttachRecord::from_bytes(bytes)?.told());
        Ok(states.collect())
    }

    /// Runs a BPF program for each thread of the machine, and returns its output.
    fn go_through(&self, program: &str) -> Result<Vec<u8>, ObjectRefused> {
        let because = |err: &dyn std::fmt::Display| ObjectRefused::because(err.to_string());
        let link = self.loaded.program(program)?.attach();
        let link = link.map_err(|err| because(&err))?;
        let mut iterator = Iter::new(&link).map_err(|err| because(&err))?;
        let mut output = Vec::new();
        iterator
            .read_to_end(&mut output)
            .map_err(|err| because(&err))?;
        Ok(output)
    }

    /// Returns the reason why interrupts without a tracepoint cannot be distinguished from the
    /// interrupted thread; `None` if they can.
    #[must_use]
    pub fn context_unknown(&self) -> Option<&str> {
        self.context_unknown.as_deref()
    }

    /// Returns the causes that this kernel does not show, because it lacks a tracepoint for them.
    #[must_use]
    pub fn unseen_causes(&self) -> Vec<UnseenCause> {
        let causes = [
            (UnseenCause::KernelLock, "contention_begin"),
            (UnseenCause::Reclaim, "mm_vmscan_direct_reclaim_begin"),
            (UnseenCause::GroupReclaim, "mm_vmscan_memcg_reclaim_begin"),
        ];
        let absent = causes
            .into_iter()
            .filter(|(_, tracepoint)| self.absent.iter().any(|absent| absent == tracepoint));
        absent.map(|(cause, _)| cause).collect()
    }

    /// Returns true if this is a PID namespace. There the IDs of processes and threads differ from
    /// the IDs in the kernel.
    #[must_use]
    pub const fn renumbers(&self) -> bool {
        self.renumbers
    }

    /// Returns the losses so far.
    #[must_use]
    pub fn losses(&self) -> AttachLosses {
        let state = self.loaded.value::<AttachState>("states", 0);
        AttachLosses {
            overwritten: self.rings.overwritten,
            disordered: self.disordered,
            no_storage: state.map_or(0, |state| state.no_storage),
            skipped: super::statistics::skipped(&self.loaded),
        }
    }
}

fn absent(refused: &ObjectRefused) -> Absence {
    let may = Rights::read(&Files::default()).bpf;
    let help = match (may, nix::unistd::geteuid().is_root()) {
        (true, _) => Help::TypesOfKernel,
        (false, true) => Help::CapabilitiesThen(Help::TypesOfKernel.into()),
        (false, false) => Help::Rights,
    };
    Obstacle::System(refused.reason.clone()).absence(&help)
}
