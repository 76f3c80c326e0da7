//! BPF programs that observe interrupts of a CPU by a call from another CPU
//! (`bpf/interruption.bpf.c`) or by a device (`bpf/interruption_device.bpf.c`). On arm64 a call
//! from another CPU has an interrupt number, and counts as an interrupt of a device.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use laggard_bpf::object::{LoadedObject, ObjectFile, ObjectRefused};
use laggard_model::{Absence, Cpu, Nanos, Tid};

use crate::objects;
use laggard_measure::board::Memory as _;
use laggard_measure::linux::mapping::Mapped;
use laggard_measure::linux::obstacle::{Help, Obstacle};
use laggard_measure::linux::{CALLS_HAVE_NUMBERS, call_interrupt};

#[allow(unreachable_pub, reason = "generated")]
mod shared {
    use laggard_measure::board::Shared;

    include!(concat!(env!("OUT_DIR"), "/interruption.rs"));
}

/// Loaded programs, which observe one CPU until they are dropped.
#[derive(Debug)]
pub(super) struct InterruptWatch {
    _loaded: LoadedObject,
    /// Memory that the programs write to.
    pub(super) memory: Arc<InterruptMemory>,
}

/// Memory that the programs write and the interrupted thread reads.
#[derive(Debug)]
pub(super) struct InterruptMemory {
    watch: Mapped<shared::InterruptWatch>,
    handlers: Mapped<shared::InterruptHandler>,
}

/// Number of handlers that are kept. Newer ones overwrite the oldest.
const MAX_HANDLERS: u64 = shared::INTERRUPT_ROOM as u64;

/// Timestamps of a handler that ended; 0 before the first one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HandlerTimes {
    /// First instruction.
    pub(super) began: Nanos,
    /// Last instruction.
    pub(super) ended: Nanos,
    /// Start of the last softirq before the handler.
    pub(super) softirq: Nanos,
    /// Last context switch before the handler.
    pub(super) switch: Nanos,
    /// First switch to the thread of the handler; 0 before it.
    pub(super) thread: Nanos,
}

impl InterruptWatch {
    /// Starts to observe `cpu`: calls from another CPU, or the interrupt `irq` of a device, and
    /// the `thread` of its handler.
    ///
    /// # Errors
    ///
    /// Returns an error if this kernel refuses the programs or lacks the tracepoints.
    pub(super) fn start(cpu: Cpu, irq: Option<u32>, thread: Option<Tid>) -> Result<Self, Absence> {
        let is_of_device = irq.is_some();
        let (object, irq) = object_for(irq).map_err(|refused| absent(&refused, is_of_device))?;
        let load = || -> Result<Self, ObjectRefused> {
            let mut loaded = object.load(&[], &[], |open| {
                if let Some(irq) = irq {
                    object.set_input(open, "interrupting_irq", &irq.to_ne_bytes())?;
                }
                if let Some(Tid(thread)) = thread {
                    object.set_input(open, "handler_thread", &thread.to_ne_bytes())?;
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
                memory: Arc::new(memory),
            })
        };
        load().map_err(|refused| absent(&refused, is_of_device))
    }
}

impl InterruptMemory {
    fn now(&self) -> &shared::InterruptWatch {
        &self.watch.all()[0]
    }

    /// Returns the number of handlers that have ended.
    pub(super) fn count(&self) -> u64 {
        self.now().count.load(Ordering::Acquire)
    }

    /// Returns handler number `nth`, from 1; `None` if it was already discarded.
    pub(super) fn handler(&self, nth: u64) -> Option<HandlerTimes> {
        let slot = &self.handlers.all()[(nth.checked_sub(1)? % MAX_HANDLERS) as usize];
        let read = |timestamp: &AtomicU64| Nanos::from_ns(timestamp.load(Ordering::Relaxed));
        let handler = HandlerTimes {
            began: read(&slot.began_ns),
            ended: read(&slot.ended_ns),
            softirq: read(&slot.softirq_ns),
            switch: read(&slot.switch_ns),
            thread: read(&slot.thread_ns),
        };
        // The reader runs on the CPU of the handlers. It sees all writes of a handler
        // together with the count.
        std::sync::atomic::compiler_fence(Ordering::Acquire);
        // The next handler overwrites the oldest.
        (nth + MAX_HANDLERS > self.count() + 1).then_some(handler)
    }

    /// Returns the time of the last context switch on the CPU.
    pub(super) fn newest_switch(&self) -> Nanos {
        Nanos::from_ns(self.now().newest_switch_ns.load(Ordering::Relaxed))
    }
}

/// Returns the object that observes the interrupt `irq`, or calls from another CPU, and the number
/// of the interrupt to observe.
fn object_for(irq: Option<u32>) -> Result<(ObjectFile, Option<u32>), ObjectRefused> {
    if !CALLS_HAVE_NUMBERS && irq.is_none() {
        return Ok((objects::INTERRUPTION, None));
    }
    let irq = irq.or_else(call_interrupt).ok_or_else(|| {
        ObjectRefused::because("the number of the interrupt for function calls is unknown")
    })?;
    Ok((objects::INTERRUPTION_DEVICE, Some(irq)))
}

fn absent(refused: &ObjectRefused, is_of_device: bool) -> Absence {
    let help = match (nix::unistd::geteuid().is_root(), is_of_device) {
        (true, false) => Help::CallTracepoints,
        (true, true) => Help::Doctor,
        (false, _) => Help::Rights,
    };
    Obstacle::System(refused.reason.clone()).absence(&help)
}

/// Returns whether this kernel accepts the programs.
pub(crate) fn try_watch() -> Result<(), ObjectRefused> {
    let (object, _) = object_for(None)?;
    object.load(&[], &[], |_| Ok(())).map(drop)
}
