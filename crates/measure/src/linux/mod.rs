//! Measuring on Linux: threads with timers of their own, softirq callbacks,
//! work items, and eBPF programs that stamp the stages in between.

mod abilities;
mod attach;
mod awake;
mod boost;
mod carrier;
pub mod clock;
mod descriptors;
pub mod door;
mod doorbell;
mod external;
pub mod flight;
mod handlers;
mod identity;
pub mod inherited;
mod lines;
mod loan;
pub mod lock;
pub(crate) mod look;
pub mod mapping;
mod memory;
pub mod objects;
pub mod obstacle;
mod passed;
pub mod policy;
mod probe;
mod programs;
mod raise;
pub mod scheduling;
mod sleeper;
mod soft;
mod starvation;
mod statistics;
mod streams;
mod thread;
pub mod threads;
mod timerlat;
mod tracers;
mod uio;
mod unneeded;
mod usage;
pub mod witness;

pub use abilities::{abilities, not_loaded, optional_ability};
pub use attach::{
    AttachError, AttachGroup, AttachLosses, AttachProbe, AttachTarget, GroupError, MarkReader,
    find_threads, is_system_call,
};
pub use awake::Awake;
pub use boost::{LateBoost, take_usual_share};
pub use clock::{now, tick};
pub use descriptors::usual_descriptors;
pub use flight::{FlightError, FlightOptions, FlightRecorder};
pub use handlers::{HandlerCounter, HandlersRefused};
pub use identity::Identity;
pub use inherited::{become_normal, inherited};
pub use memory::{OutOfMemory, ToldMemory, end_in_order, has_room, is_short, ran_out};
pub use probe::LinuxProbe;
pub use starvation::{StarvationTrial, try_starvation};
pub use streams::output_was_closed;
pub use threads::BackendChoice;
pub use unneeded::let_stack_go;

use std::fs;
use std::io;

use laggard_model::{Caveat, CpuList, Service};
use nix::errno::Errno;

use crate::host::{Files, Rights};

/// CPUs that are online.
pub fn online_cpus() -> CpuList {
    cpus_in("/sys/devices/system/cpu/online")
}

/// Other programs that trace or sample this machine, as a reason to doubt. To
/// be asked before our own programs are loaded.
pub fn other_tracers() -> Option<Caveat> {
    tracers::Tracers::look().caveat()
}

/// What the system said, in words alone.
pub fn reason_of(err: &io::Error) -> String {
    match err.raw_os_error() {
        Some(number) => Errno::from_raw(number).desc().to_lowercase(),
        None => err.to_string(),
    }
}

/// Whether a thread of this process may run as `service`.
pub fn may_run_as(service: Service) -> bool {
    threads::may_be_scheduled_as(service).is_ok()
}

/// CPUs of those online that this process may use at all: its set of CPUs
/// (cpuset) may be smaller, as in a container. What `taskset` set does not
/// count.
pub fn allowed_cpus() -> CpuList {
    let online = online_cpus();
    // A thread of its own, so that nobody's affinity has to be restored.
    let trial = std::thread::scope(|scope| {
        let all = online.clone();
        // Where there can be no more threads, it is not known.
        let trial = policy::trial().spawn_scoped(scope, move || {
            policy::pin_to(&all).and_then(|()| inherited::affinity())
        });
        trial.ok().map(std::thread::ScopedJoinHandle::join)
    });
    match trial {
        // The kernel takes off what the process may not use.
        Some(Ok(Ok(allowed))) => allowed,
        _ => online,
    }
}

/// The CPUs to measure where none are named: those of [`allowed_cpus`] that this
/// process was started on (`taskset`), as far as [`become_normal`] saw it.
pub fn usual_cpus() -> CpuList {
    inherited::of_start(&allowed_cpus())
}

/// What this process may do on this machine.
pub fn own_rights() -> Rights {
    Rights {
        forbidden: forbidden_cpus(),
        ..Rights::read(&Files::default())
    }
}

/// CPUs that are online and that this process may not use.
fn forbidden_cpus() -> CpuList {
    let allowed = allowed_cpus();
    let online = online_cpus();
    let cpus = online.as_slice().iter().copied();
    cpus.filter(|&cpu| !allowed.contains(cpu)).collect()
}

/// One more than the highest CPU number that this machine can ever have.
fn possible_cpus() -> usize {
    cpus_in("/sys/devices/system/cpu/possible")
        .as_slice()
        .last()
        .map_or(1, |cpu| cpu.0 as usize + 1)
}

/// The CPUs listed in a file; CPU 0 alone where it cannot be read, because
/// there is always that one.
fn cpus_in(path: &str) -> CpuList {
    fs::read_to_string(path)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| [laggard_model::Cpu(0)].into_iter().collect())
}
