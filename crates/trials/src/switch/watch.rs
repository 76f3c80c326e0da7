//! The programs that see what comes between threads that hand a CPU over;
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

/// Letters of a thread's name, with the zero at its end.
const NAME_BYTES: usize = 16;
/// An interrupt between two readings has them read again, so often at most.
const MOST_READINGS: usize = 3;

/// Watches one CPU, on which all that are called by one name hand over.
#[derive(Debug)]
pub(super) struct Watch {
    loaded: LoadedObject,
    /// What it has seen.
    pub(super) seen: Arc<WatchMemory>,
}

/// What the programs write, and those who hand over read.
#[derive(Debug)]
pub(super) struct WatchMemory(Mapped<shared::HandoverWatch>);

/// An instant, and what had come between by then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WatchReading {
    /// By the clock.
    pub(super) at: Nanos,
    /// Time taken so far by what interrupted, ns.
    pub(super) taken_ns: u64,
    /// Time stolen so far by the hypervisor, ns.
    pub(super) stolen_ns: u64,
}

impl Watch {
    /// For the threads of this name on `cpu`; sees nothing before it is attached.
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
            let seen = Arc::new(WatchMemory(memory));
            Ok(Self { loaded, seen })
        };
        // Without the clock of what is stolen, the rest is told.
        load(objects::HANDOVER_STOLEN)
            .or_else(|_: ObjectRefused| load(objects::HANDOVER))
            .map_err(absent)
    }

    /// Sees from now on.
    pub(super) fn attach(&mut self) -> Result<(), Absence> {
        self.loaded.attach().map_err(absent)
    }
}

impl WatchMemory {
    fn now(&self) -> &shared::HandoverWatch {
        &self.0.all()[0]
    }

    /// The time now, as the first thing done, and the same once more with what had
    /// come between by then: both of one instant, unless something interrupts every
    /// time.
    pub(super) fn read(&self) -> (Nanos, WatchReading) {
        let now = self.now();
        let mut taken_ns = now.taken_ns.load(Ordering::Acquire);
        let first = clock::now();
        let mut at = first;
        for _ in 0..MOST_READINGS {
            let before = taken_ns;
            taken_ns = now.taken_ns.load(Ordering::Acquire);
            if taken_ns == before {
                break;
            }
            at = clock::now();
        }
        let stolen_ns = now.stolen_ns.load(Ordering::Relaxed);
        let reading = WatchReading {
            at,
            taken_ns,
            stolen_ns,
        };
        (first, reading)
    }

    /// All that was seen so far.
    pub(super) fn sums(&self) -> SwitchSums {
        let now = self.now();
        let read = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        let of =
            |sums: &[AtomicU64; HANDOVER_KINDS as usize], kind: u32| read(&sums[kind as usize]);
        SwitchSums {
            handed_over: read(&now.handed_over),
            others: read(&now.others),
            interrupts: of(&now.count, HANDOVER_INTERRUPT),
            interrupts_ns: of(&now.kind_ns, HANDOVER_INTERRUPT),
            softirqs: of(&now.count, HANDOVER_SOFTIRQ),
            softirqs_ns: of(&now.kind_ns, HANDOVER_SOFTIRQ),
            nmis: of(&now.count, HANDOVER_NMI),
            nmis_ns: of(&now.kind_ns, HANDOVER_NMI),
            // A clock that stands at zero is none, or nothing was ever stolen.
            stolen_ns: (read(&now.steal_clock_ns) > 0).then(|| read(&now.stolen_ns)),
        }
    }
}

/// What a thread's name is in the kernel.
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

/// Whether this kernel takes the programs.
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
    fn what_is_stolen_is_told_wherever_the_steal_clock_is_read() {
        if let Err(refused) = flight::try_steal_clock() {
            return println!("skipped: {refused}");
        }

        let loaded =
            objects::HANDOVER_STOLEN.load(&[], &[], |open| leave_out_absent(open).map(drop));

        assert!(loaded.is_ok(), "{loaded:?}");
    }
}
