//! The programs that see when a CPU is interrupted, by a call from another or by a
//! device; `bpf/interruption.bpf.c`, `bpf/interruption_device.bpf.c`.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use laggard_bpf::object::{LoadedObject, ObjectRefused};
use laggard_model::{Absence, Cpu, Nanos};

use super::super::mapping::Mapped;
use super::super::objects;
use super::super::obstacle::{Help, Obstacle};
use crate::board::Memory as _;

mod shared {
    use crate::board::Shared;

    include!(concat!(env!("OUT_DIR"), "/interruption.rs"));
}

/// Watches one CPU, as long as it lives.
#[derive(Debug)]
pub(super) struct InterruptWatch {
    _loaded: LoadedObject,
    /// What it has seen.
    pub(super) seen: Arc<InterruptMemory>,
}

/// What the programs write, and who is interrupted reads.
#[derive(Debug)]
pub(super) struct InterruptMemory(Mapped<shared::InterruptWatch>);

/// The last handler that ended. Instants; 0: never yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandlerSeen {
    /// Its first instruction,
    pub(super) began: Nanos,
    /// and its last.
    pub(super) ended: Nanos,
    /// When a softirq began last before it,
    pub(super) softirq: Nanos,
    /// and a thread.
    pub(super) switch: Nanos,
    /// When a thread began last, up to now.
    pub(super) newest_switch: Nanos,
}

impl InterruptWatch {
    /// Watches `cpu` from now on: calls from another, or this interrupt of a device.
    ///
    /// # Errors
    /// Where this kernel refuses the programs, or has no such tracepoints.
    pub(super) fn start(cpu: Cpu, irq: Option<u32>) -> Result<Self, Absence> {
        let object = match irq {
            None => objects::INTERRUPTION,
            Some(_) => objects::INTERRUPTION_DEVICE,
        };
        let load = || -> Result<Self, ObjectRefused> {
            let mut loaded = object.load(&[], &[], |open| {
                if let Some(irq) = irq {
                    object.set_input(open, "interrupting_irq", &irq.to_ne_bytes())?;
                }
                object.set_input(open, "interrupted_cpu", &cpu.0.to_ne_bytes())
            })?;
            let memory = {
                let watches = loaded.map("watches")?;
                Mapped::new(watches.as_fd(), 1)
            };
            let memory = memory.map_err(|err| ObjectRefused::because(err.to_string()))?;
            loaded.attach()?;
            Ok(Self {
                _loaded: loaded,
                seen: Arc::new(InterruptMemory(memory)),
            })
        };
        load().map_err(|refused| absent(&refused, irq.is_some()))
    }
}

impl InterruptMemory {
    fn now(&self) -> &shared::InterruptWatch {
        &self.0.all()[0]
    }

    /// How many handlers have ended.
    pub(super) fn count(&self) -> u64 {
        self.now().count.load(Ordering::Acquire)
    }

    /// The last of them, by the thread that it interrupted: as long as `count` stays
    /// what it is, all of it is of one handler.
    pub(super) fn last(&self) -> HandlerSeen {
        let now = self.now();
        let read = |one: &AtomicU64| Nanos::from_ns(one.load(Ordering::Relaxed));
        HandlerSeen {
            began: read(&now.began_ns),
            ended: read(&now.ended_ns),
            softirq: read(&now.softirq_ns),
            switch: read(&now.switch_ns),
            newest_switch: read(&now.newest_switch_ns),
        }
    }
}

fn absent(refused: &ObjectRefused, is_of_device: bool) -> Absence {
    let help = match (nix::unistd::geteuid().is_root(), is_of_device) {
        (true, false) => Help::CallTracepoints,
        (true, true) => Help::Doctor,
        (false, _) => Help::Rights,
    };
    Obstacle::System(refused.reason.clone()).absence(&help)
}

/// Whether this kernel takes the programs.
pub(crate) fn try_watch() -> Result<(), ObjectRefused> {
    objects::INTERRUPTION.load(&[], &[], |_| Ok(())).map(drop)
}
