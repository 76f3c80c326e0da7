//! BPF programs that observe interruptions between threads that hand a CPU over;
//! `bpf/handover.bpf.c`.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use laggard_bpf::object::{LoadedObject, ObjectFile, ObjectRefused};
use laggard_model::{Absence, Cpu, Nanos, SwitchSums};

use self::shared::{HANDOVER_INTERRUPT, HANDOVER_KINDS, HANDOVER_NMI, HANDOVER_SOFTIRQ};
use crate::objects;
use laggard_measure::board::Memory as _;
use laggard_measure::linux::clock;
use laggard_measure::linux::mapping::Mapped;
use laggard_measure::linux::objects::leave_out_absent;
use laggard_measure::linux::obstacle::{Help, Obstacle};

#[allow(unreachable_pub, reason = "generated")]
mod shared {
    use laggard_measure::board::Shared;

    include!(concat!(env!("OUT_DIR"), "/handover.rs"));
}

/// Length of a thread's name, with the zero at its end.
const NAME_BYTES: usize = 16;
/// Maximum number of readings. If an interrupt comes between two readings, they are repeated.
const MAX_READINGS: usize = 3;

/// Observer of the context switches between all threads with one name on one CPU.
#[derive(Debug)]
pub(super) struct Watch {
    loaded: LoadedObject,
    /// Memory with its sums.
    pub(super) seen: Arc<WatchMemory>,
}

/// Memory that the programs write and the threads read.
#[derive(Debug)]
pub(super) struct WatchMemory(Mapped<shared::HandoverWatch>);

/// Time, and the interruptions so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WatchReading {
    pub(super) at: Nanos,
    /// Time of interruptions so far in ns.
    pub(super) taken_ns: u64,
    /// Steal time so far in ns.
    pub(super) stolen_ns: u64,
}

impl Watch {
    /// Loads the programs for the threads with this name on `cpu`. They observe nothing before
    /// they are attached.
    pub(super) fn load(cpu: Cpu, name: &str) -> Result<Self, Absence> {
        let load = |object: ObjectFile| {
            let loaded = object.load(&[], &[], |open| {
                leave_out_absent(open)?;
                object.set_input(open, "ring_name", &letters(name))?;
                object.set_input(open, "ring_cpu", &cpu.0.to_ne_bytes())
            })?;
            let memory = {
                let watches = loaded.map("watches")?;
                Mapped::new(watches.as_fd(), 1)
            };
            let memory = memory.map_err(|err| ObjectRefused::because(err.to_string()))?;
            let watch_memory = Arc::new(WatchMemory(memory));
            Ok(Self {
                loaded,
                seen: watch_memory,
            })
        };
        // Without steal time, the other interruptions are still observed.
        load(objects::HANDOVER_STOLEN)
            .or_else(|_: ObjectRefused| load(objects::HANDOVER))
            .map_err(absent)
    }

    /// Starts to observe.
    pub(super) fn attach(&mut self) -> Result<(), Absence> {
        self.loaded.attach().map_err(absent)
    }
}

impl WatchMemory {
    fn now(&self) -> &shared::HandoverWatch {
        &self.0.all()[0]
    }

    /// Returns the current time, read first, and a second reading together with the interruptions
    /// so far. The second reading is consistent unless every attempt was interrupted.
    pub(super) fn read(&self) -> (Nanos, WatchReading) {
        let now = self.now();
        let mut taken_ns = now.taken_ns.load(Ordering::Acquire);
        let first = clock::now();
        let mut time = first;
        for _ in 0..MAX_READINGS {
            let before = taken_ns;
            taken_ns = now.taken_ns.load(Ordering::Acquire);
            if taken_ns == before {
                break;
            }
            time = clock::now();
        }
        let stolen_ns = now.stolen_ns.load(Ordering::Relaxed);
        let reading = WatchReading {
            at: time,
            taken_ns,
            stolen_ns,
        };
        (first, reading)
    }

    /// Returns the sums so far.
    pub(super) fn sums(&self) -> SwitchSums {
        let now = self.now();
        let read = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        let sum =
            |sums: &[AtomicU64; HANDOVER_KINDS as usize], kind: u32| read(&sums[kind as usize]);
        SwitchSums {
            handed_over: read(&now.handed_over),
            others: read(&now.others),
            interrupts: sum(&now.count, HANDOVER_INTERRUPT),
            interrupts_ns: sum(&now.kind_ns, HANDOVER_INTERRUPT),
            softirqs: sum(&now.count, HANDOVER_SOFTIRQ),
            softirqs_ns: sum(&now.kind_ns, HANDOVER_SOFTIRQ),
            nmis: sum(&now.count, HANDOVER_NMI),
            nmis_ns: sum(&now.kind_ns, HANDOVER_NMI),
            // A steal clock at zero means that it does not exist, or that steal time did not occur.
            stolen_ns: (read(&now.steal_clock_ns) > 0).then(|| read(&now.stolen_ns)),
        }
    }
}

/// Returns a thread's name as the kernel stores it.
fn letters(name: &str) -> [u8; NAME_BYTES] {
    let mut letters = [0; NAME_BYTES];
    let end = name.len().min(NAME_BYTES - 1);
    letters[..end].copy_from_slice(&name.as_bytes()[..end]);
    letters
}

fn absent(refused: ObjectRefused) -> Absence {
    let help = if nix::unistd::geteuid().is_root() {
        Help::TypesOfKernel
    } else {
        Help::Rights
    };
    Obstacle::System(refused.reason).absence(&help)
}

/// Checks whether this kernel accepts the programs.
pub(crate) fn try_watch() -> Result<(), ObjectRefused> {
    objects::HANDOVER
        .load(&[], &[], |open| leave_out_absent(open).map(drop))
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_measure::linux::flight;

    #[test]
    fn steal_time_is_observed_if_the_steal_clock_is_readable() {
        if let Err(refused) = flight::try_steal_clock() {
            return println!("skipped: {refused}");
        }

        let loaded =
            objects::HANDOVER_STOLEN.load(&[], &[], |open| leave_out_absent(open).map(drop));

        assert!(loaded.is_ok(), "{loaded:?}");
    }
}
