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
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::hog::ABOVE_ALL;
use super::{DisturbError, Hit, Site, clock};
use object::{Fault, LoadedFault};

/// Where in the kernel the time is spent.
#[derive(Clone, Copy, Debug)]
pub(super) enum KernelContext {
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

pub(super) fn run(site: &Site<'_>, context: KernelContext) -> Result<Vec<Hit>, DisturbError> {
    site.in_thread(|| {
        let trap = Trap::new(site, context)?;
        site.place(ABOVE_ALL)?;
        let mut rounds = 0_u64;
        let hits = site.rounds_ahead(LEAD, |next| {
            rounds += 1;
            trap.bring(site, next)?;
            trap.outcome(site)
        })?;
        if hits.is_empty() && rounds > 0 {
            Err(DisturbError::Unseen {
                kind: site.plan.kind,
                rounds,
            })
        } else {
            Ok(hits)
        }
    })
}

/// A program that computes when its context comes about.
struct Trap {
    loaded: LoadedFault,
    spring: Spring,
}

/// How the context is brought about.
enum Spring {
    /// A BPF timer expires.
    BpfTimer,
    /// A timer that anybody can have expires in a softirq.
    SoftTimer(TimerFd),
    /// The thread's own sleep ends, by an interrupt.
    SleepEnds,
    /// The thread goes to sleep, which queues a timer.
    SleepBegins,
}

impl Trap {
    fn new(site: &Site<'_>, context: KernelContext) -> Result<Self, DisturbError> {
        let (source, spring, act) = match context {
            KernelContext::Softirq => (
                object::SOFTIRQ,
                Spring::BpfTimer,
                "use a BPF timer; run as root on a kernel with BTF",
            ),
            KernelContext::Irq => (
                object::IRQ,
                Spring::SleepEnds,
                "use a BPF program in interrupts; run as root on a kernel with BTF",
            ),
            KernelContext::IrqsOff => (
                object::IRQS_OFF,
                Spring::SleepBegins,
                "use a BPF program where interrupts are disabled; run as root on a kernel with BTF",
            ),
        };
        let refused = match LoadedFault::new(source) {
            Ok(loaded) => return Ok(Self { loaded, spring }),
            Err(refused) => site.needs(act)(refused),
        };
        if !matches!(context, KernelContext::Softirq) {
            return Err(refused);
        }
        // PREEMPT_RT has no BPF timers. Where this does not load either, the
        // first reason is the one to know.
        let loaded = LoadedFault::new(object::SOFT_TIMER).map_err(|_| refused)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)
            .map_err(site.needs("make a timer (timerfd)"))?;
        Ok(Self {
            loaded,
            spring: Spring::SoftTimer(timer),
        })
    }

    /// Has the context come about at `next`, and sleeps meanwhile.
    fn bring(&self, site: &Site<'_>, next: Nanos) -> Result<(), DisturbError> {
        let due = |mark| {
            self.loaded
                .set(Fault::due(mark, site.plan.length))
                .map_err(site.needs("tell the BPF program what is due"))
        };
        match &self.spring {
            Spring::BpfTimer => {
                due(next)?;
                self.loaded
                    .call("arm")
                    .map_err(site.needs("arm the BPF timer"))?;
                clock::sleep_until(next);
            }
            Spring::SoftTimer(timer) => {
                due(next)?;
                timer
                    .set(
                        Expiration::OneShot(clock::timer_at(next)),
                        TimerSetTimeFlags::TFD_TIMER_ABSTIME,
                    )
                    .map_err(site.needs("arm the timer (timerfd)"))?;
                clock::sleep_until(next);
            }
            Spring::SleepEnds => {
                due(next)?;
                clock::sleep_once_until(next);
            }
            Spring::SleepBegins => {
                clock::sleep_until(next);
                // The sleep itself is over when the hit is.
                let mark = next + site.plan.length;
                due(mark)?;
                clock::sleep_once_until(mark);
            }
        }
        Ok(())
    }

    /// The hit, or none where the kernel let the moment pass: an interrupt
    /// whose time has come before it is asked for is not always made.
    fn outcome(&self, site: &Site<'_>) -> Result<Option<Hit>, DisturbError> {
        let is_deferred = matches!(self.spring, Spring::BpfTimer | Spring::SoftTimer(_));
        let patience = clock::now() + PATIENCE;
        loop {
            let outcome = self
                .loaded
                .fault()
                .map_err(site.needs("read what the BPF program did"))?
                .outcome();
            if let Some((start, length, cpu)) = outcome {
                return Ok(Some(Hit {
                    cpu,
                    ..site.hit(start, length)
                }));
            }
            if !is_deferred || clock::now() >= patience {
                return Ok(None);
            }
            clock::sleep_until(clock::now() + POLL);
        }
    }
}
