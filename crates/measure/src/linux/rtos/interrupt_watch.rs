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
pub(super) struct InterruptMemory {
    watch: Mapped<shared::InterruptWatch>,
    handlers: Mapped<shared::InterruptHandler>,
}

/// So many handlers are kept: of more that come unseen the oldest are gone.
const ROOM: u64 = shared::INTERRUPT_ROOM as u64;

/// A handler that ended. Instants; 0: never yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HandlerSeen {
    /// Its first instruction,
    pub(super) began: Nanos,
    /// and its last.
    pub(super) ended: Nanos,
    /// When a softirq began last before it,
    pub(super) softirq: Nanos,
    /// and a thread.
    pub(super) switch: Nanos,
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
            let room = shared::INTERRUPT_ROOM as usize;
            let unmapped = |err: std::io::Error| ObjectRefused::because(err.to_string());
            let memory = InterruptMemory {
                watch: Mapped::new(loaded.map("watches")?.as_fd(), 1).map_err(unmapped)?,
                handlers: Mapped::new(loaded.map("handlers")?.as_fd(), room).map_err(unmapped)?,
            };
            loaded.attach()?;
            Ok(Self {
                _loaded: loaded,
                seen: Arc::new(memory),
            })
        };
        load().map_err(|refused| absent(&refused, irq.is_some()))
    }
}

impl InterruptMemory {
    fn now(&self) -> &shared::InterruptWatch {
        &self.watch.all()[0]
    }

    /// How many handlers have ended.
    pub(super) fn count(&self) -> u64 {
        self.now().count.load(Ordering::Acquire)
    }

    /// The `nth` of them, from 1; `None`: it is no longer kept.
    pub(super) fn handler(&self, nth: u64) -> Option<HandlerSeen> {
        let slot = &self.handlers.all()[(nth.checked_sub(1)? % ROOM) as usize];
        let read = |one: &AtomicU64| Nanos::from_ns(one.load(Ordering::Relaxed));
        let handler = HandlerSeen {
            began: read(&slot.began_ns),
            ended: read(&slot.ended_ns),
            softirq: read(&slot.softirq_ns),
            switch: read(&slot.switch_ns),
        };
        // Who reads is interrupted on the CPU of the handlers: what one of them wrote
        // before is seen with the count.
        std::sync::atomic::compiler_fence(Ordering::Acquire);
        // The next that begins is written in the place of the oldest.
        (nth + ROOM > self.count() + 1).then_some(handler)
    }

    /// When a thread began to run there last.
    pub(super) fn newest_switch(&self) -> Nanos {
        Nanos::from_ns(self.now().newest_switch_ns.load(Ordering::Relaxed))
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
