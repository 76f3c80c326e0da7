//! Measurement on Linux: threads with timers, softirq callbacks, work items, and eBPF programs
//! that stamp the stages in between.

mod abilities;
mod attach;
mod awake;
mod boost;
mod carrier;
pub mod clock;
mod descriptors;
pub mod door;
mod doorbell;
mod event_trace;
mod external;
pub(crate) mod file_state;
pub mod flight;
mod handlers;
mod identity;
pub mod inherited;
mod interrupts;
mod lines;
mod loan;
pub mod lock;
pub mod mapping;
mod memory;
pub mod objects;
pub mod obstacle;
mod page_fault;
mod passed;
mod perf;
mod pidfd;
pub mod policy;
mod probe;
mod programs;
mod raise;
pub mod scheduling;
mod sleeper;
mod soft;
mod starvation;
mod statistics;
mod thread;
pub mod threads;
mod timerlat;
mod tracefs;
mod tracepoints;
mod tracers;
mod uio;
mod unneeded;
mod usage;
pub mod witness;

pub use abilities::{abilities, method, not_loaded, optional_ability, timerlat_ability};
pub use attach::{
    AttachError, AttachGroup, AttachLosses, AttachProbe, AttachTarget, GroupError, MarkReader,
    UnseenCause, find_descendants, find_threads, is_system_call,
};
pub use awake::Awake;
pub use boost::{LateBoost, drop_ambient_capabilities, take_default_share, take_usual_share};
pub use clock::{now, tick};
pub use descriptors::usual_descriptors;
pub use event_trace::EventTrace;
pub use flight::{FlightError, FlightOptions, FlightRecorder, FlightRings};
pub use handlers::{HandlerCounter, HandlersRefused};
pub use identity::Identity;
pub use inherited::{become_normal, inherited};
pub use memory::{
    OutOfMemory, ReportingAllocator, end_in_order, has_room, is_short, keep_free_memory, ran_out,
};
pub use page_fault::page_fault_time;
pub use pidfd::HeldProcess;
pub use probe::LinuxProbe;
pub use starvation::{StarvationTrial, try_starvation};
pub use threads::BackendChoice;
pub use uio::handler_threads;
pub use unneeded::let_stack_go;

use std::fs;
use std::io;

use laggard_model::{Caveat, CpuList, Service};
use nix::errno::Errno;

use crate::host::{self, Files, Rights};
use interrupts::CpuInterrupts;

pub fn online_cpus() -> CpuList {
    cpus_in("/sys/devices/system/cpu/online")
}

/// Returns a warning about other programs that trace or sample this machine. Call it before
/// laggard loads its programs.
pub fn other_tracers() -> Option<Caveat> {
    tracers::Tracers::look().caveat()
}

/// Whether the interrupts between CPUs have numbers, as on arm64. If not, the tracepoints
/// `irq_vectors` report them.
pub const CALLS_HAVE_NUMBERS: bool = interrupts::HAVE_NUMBERS;

/// Returns the number of the interrupt that a CPU sends to have another CPU call a function. `None`
/// if the interrupt is not numbered or not known.
pub fn call_interrupt() -> Option<u32> {
    CpuInterrupts::of_machine().call()
}

/// Returns the text of a system error without its number.
pub fn reason_of(err: &io::Error) -> String {
    match err.raw_os_error() {
        Some(number) => Errno::from_raw(number).desc().to_lowercase(),
        None => err.to_string(),
    }
}

/// Returns whether a thread of this process may run as `service`.
pub fn may_run_as(service: Service) -> bool {
    threads::may_be_scheduled_as(service).is_ok()
}

/// Returns the online CPUs that this process may use. Its set of CPUs (cpuset) may be smaller,
/// for example in a container. The affinity that `taskset` sets does not count.
pub fn allowed_cpus() -> CpuList {
    let online = online_cpus();
    // Uses a separate thread, so that the affinity of the caller does not change.
    let trial = std::thread::scope(|scope| {
        let cpus = online.clone();
        // If no more threads can be started, the set is unknown.
        let trial = policy::trial().spawn_scoped(scope, move || {
            policy::pin_to(&cpus).and_then(|()| inherited::affinity())
        });
        trial.ok().map(std::thread::ScopedJoinHandle::join)
    });
    match trial {
        // The kernel removes CPUs that the process may not use.
        Some(Ok(Ok(allowed))) => allowed,
        _ => online,
    }
}

/// Returns the CPUs to measure by default: the CPUs in [`allowed_cpus`] and in this process's
/// initial affinity (`taskset`), if [`become_normal`] recorded it.
pub fn usual_cpus() -> CpuList {
    inherited::at_start(&allowed_cpus())
}

/// Returns the rights of this process on this machine.
pub fn own_rights() -> Rights {
    Rights {
        forbidden: forbidden_cpus(),
        ..Rights::read(&Files::default())
    }
}

/// Returns the online CPUs that this process may not use.
fn forbidden_cpus() -> CpuList {
    let allowed = allowed_cpus();
    let online = online_cpus();
    let cpus = online.as_slice().iter().copied();
    cpus.filter(|&cpu| !allowed.contains(cpu)).collect()
}

/// Returns whether softirqs run in threads that others preempt: on every `PREEMPT_RT` kernel.
/// Mainline kernels with it lack `/sys/kernel/realtime`.
pub fn softirqs_are_preempted() -> bool {
    let preemption = host::identify(&Files::default()).preemption;
    preemption.as_deref() == Some("rt")
}

/// Returns one more than the highest CPU number that this machine can have.
fn possible_cpus() -> usize {
    cpus_in("/sys/devices/system/cpu/possible")
        .as_slice()
        .last()
        .map_or(1, |cpu| cpu.0 as usize + 1)
}

/// Returns the CPUs listed in a file, or only CPU 0, which always exists, if the file cannot be
/// read.
fn cpus_in(path: &str) -> CpuList {
    fs::read_to_string(path)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| [laggard_model::Cpu(0)].into_iter().collect())
}
