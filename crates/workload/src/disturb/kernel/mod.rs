//! Faults inside the kernel, made by BPF programs: code that runs for long in a context
//! that no thread can preempt (Jones and Regehr 1999, 4.2 and 4.4).
//!
//! A thread causes the context at the planned time, and a program computes there for
//! the length of the hit. The thread is above all others, so the period is as exact as
//! the machine permits.
//!
//! The kernel removes programs and timers when the process ends in any way. Each spin
//! ends by itself, even if the clock stops.

mod object;

use laggard_model::Nanos;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::hog::ABOVE_ALL;
use super::{DisturbError, Hit, Site, clock};
use object::{Fault, LoadedFault};

/// Kernel context where the time is spent.
#[derive(Clone, Copy, Debug)]
pub(super) enum KernelContext {
    /// A timer's callback in a softirq.
    Softirq,
    /// The handler of the timer interrupt.
    Irq,
    /// Thread that has disabled interrupts.
    IrqsOff,
}

/// A hit is prepared this time before its start.
const LEAD: Nanos = Nanos::from_ms(1);

/// Maximum wait for a hit. A softirq may have to wait for a thread that other work
/// preempts.
const PATIENCE: Nanos = Nanos::from_secs(2);

/// Interval of the checks during that wait.
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

/// Program that computes when its context occurs.
struct Trap {
    loaded: LoadedFault,
    spring: Spring,
}

/// Cause of the context.
enum Spring {
    /// A BPF timer expires.
    BpfTimer,
    /// Ordinary timer that expires in a softirq.
    SoftTimer(TimerFd),
    /// The thread's own sleep ends, by an interrupt.
    SleepEnds,
    /// The thread goes to sleep, which arms a timer.
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
        // PREEMPT_RT lacks BPF timers. If this does not load either, the first reason is the
        // relevant one.
        let loaded = LoadedFault::new(object::SOFT_TIMER).map_err(|_| refused)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)
            .map_err(site.needs("make a timer (timerfd)"))?;
        Ok(Self {
            loaded,
            spring: Spring::SoftTimer(timer),
        })
    }

    /// Causes the context at `next`, and sleeps until the hit is over.
    fn bring(&self, site: &Site<'_>, next: Nanos) -> Result<(), DisturbError> {
        let due = |mark| {
            self.loaded
                .set(Fault::due(mark, site.plan.length))
                .map_err(site.needs("pass the next hit to the BPF program"))
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
                // The sleep itself ends with the hit.
                let mark = next + site.plan.length;
                due(mark)?;
                clock::sleep_once_until(mark);
            }
        }
        Ok(())
    }

    /// Returns the hit, or `None` if the kernel missed it: an interrupt that is
    /// requested after its time is not always raised.
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
