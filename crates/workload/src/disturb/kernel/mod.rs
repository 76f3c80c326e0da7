//! Faults inside the kernel, made by BPF programs: code that runs long in a
//! context in which no thread can (Jones and Regehr 1999, 4.2 and 4.4).
//!
//! A thread of ours brings the context about at the planned time, and a
//! program computes there for the hit's length. The thread is above all
//! others, so that the period is as exact as the machine allows.
//!
//! The kernel takes programs and timers away when the process ends, however
//! it ends; and each spin ends by itself, even if the clock stands still.

mod object;

use laggard_model::Nanos;

use super::hog::{ABOVE_ALL, in_thread};
use super::{DisturbError, Hit, Site, clock};
use object::{Fault, Loaded};

/// Where in the kernel the time is spent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Context {
    /// A timer's callback in a softirq.
    Softirq,
    /// The handler of the timer interrupt.
    Irq,
    /// A thread that has disabled interrupts.
    IrqsOff,
}

/// How long before a hit it is prepared.
const LEAD: Nanos = Nanos::from_ms(1);

/// How long a hit is waited for. A softirq may have to wait for a thread that
/// other work keeps from running.
const PATIENCE: Nanos = Nanos::from_secs(2);

/// How often it is looked for meanwhile.
const POLL: Nanos = Nanos::from_ms(1);

pub(super) fn run(site: &Site<'_>, context: Context) -> Result<Vec<Hit>, DisturbError> {
    let (source, act) = match context {
        Context::Softirq => (
            object::SOFTIRQ,
            "use a BPF timer; run as root on a kernel with BTF and without PREEMPT_RT",
        ),
        Context::Irq => (
            object::IRQ,
            "use a BPF program in interrupts; run as root on a kernel with BTF",
        ),
        Context::IrqsOff => (
            object::IRQS_OFF,
            "use a BPF program where interrupts are disabled; run as root on a kernel with BTF",
        ),
    };
    in_thread(|| {
        let loaded = source.load().map_err(site.needs(act))?;
        site.place(ABOVE_ALL)?;
        let mut rounds = 0_u64;
        let hits = site.rounds_ahead(LEAD, |next| {
            rounds += 1;
            round(site, context, &loaded, next)
        })?;
        match hits.is_empty() && rounds > 0 {
            true => Err(DisturbError::Unseen {
                kind: site.plan.kind,
                rounds,
            }),
            false => Ok(hits),
        }
    })
}

/// One hit at `next`, or none where the kernel let the moment pass: an
/// interrupt whose time has come before it is asked for is not always made.
fn round(
    site: &Site<'_>,
    context: Context,
    loaded: &Loaded,
    next: Nanos,
) -> Result<Option<Hit>, DisturbError> {
    let length = site.plan.length;
    let due = |mark| {
        loaded
            .set(Fault::due(mark, length))
            .map_err(site.needs("tell the BPF program what is due"))
    };
    match context {
        Context::Softirq => {
            due(next)?;
            loaded
                .call("arm")
                .map_err(site.needs("arm the BPF timer"))?;
            clock::sleep_once_until(next);
        }
        Context::Irq => {
            due(next)?;
            clock::sleep_once_until(next);
        }
        Context::IrqsOff => {
            clock::sleep_until(next);
            // The hit is at the call; the sleep itself is over with it.
            let mark = next + length;
            due(mark)?;
            clock::sleep_once_until(mark);
        }
    }
    let patience = clock::now() + PATIENCE;
    loop {
        let outcome = loaded
            .fault()
            .map_err(site.needs("read what the BPF program did"))?
            .outcome();
        if let Some((start, length, cpu)) = outcome {
            return Ok(Some(Hit {
                cpu,
                ..site.hit(start, length)
            }));
        }
        if !matches!(context, Context::Softirq) || clock::now() >= patience {
            return Ok(None);
        }
        clock::sleep_until(clock::now() + POLL);
    }
}
