//! Stops of a real-time thread that never sleeps, while a normal thread waits for its CPU.
//!
//! Real-time throttling and the fair server make them. The configuration does not tell
//! which of them a kernel has, so a bounded trial finds out.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use laggard_model::{Cpu, Nanos, Service};

use super::clock::now;
use super::policy;

/// Length of a trial: two periods of either mechanism, and more.
const TRIAL: Nanos = Nanos::from_ms(2_500);
/// Shorter gaps are interrupts.
const MIN_STOP: Nanos = Nanos::from_ms(5);
/// Lowest real-time priority: every other real-time thread goes first.
const PRIORITY: u8 = 1;

/// Result of a trial.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StarvationTrial {
    /// Where it ran.
    pub cpu: Cpu,
    /// How long the real-time thread looped.
    pub length: Nanos,
    /// Each time that it was stopped while the normal thread ran.
    pub stops: Vec<Nanos>,
}

/// Has a `SCHED_FIFO` thread loop on `cpu` for 2.5 s while a normal thread waits there, and
/// reports how long it was stopped for the normal thread.
///
/// # Errors
/// When this process may not use the CPU or real-time priorities.
pub fn try_starvation(cpu: Cpu) -> io::Result<StarvationTrial> {
    let (has_ended, ran_at) = (AtomicBool::new(false), AtomicU64::new(0));
    let until = now() + TRIAL;
    // The normal thread ends by itself, too, after twice that time.
    let limit = until + TRIAL;
    std::thread::scope(|scope| {
        let normal = policy::trial().spawn_scoped(scope, || {
            policy::pin(cpu)?;
            policy::schedule_as(Service::Other)?;
            while !has_ended.load(Ordering::Relaxed) && now() < limit {
                ran_at.store(now().ns(), Ordering::Relaxed);
            }
            io::Result::Ok(())
        })?;
        let real_time = policy::trial().spawn_scoped(scope, || {
            policy::pin(cpu)?;
            policy::schedule_as(Service::Fifo(PRIORITY))?;
            let begin = now();
            let (mut stops, mut last) = (Vec::new(), begin);
            while last < until {
                let at = now();
                let gap = at.saturating_sub(last);
                // Otherwise the hypervisor stopped the CPU, or another real-time thread ran.
                let is_for_normal = || ran_at.load(Ordering::Relaxed) > last.ns();
                if gap >= MIN_STOP && is_for_normal() {
                    stops.push(gap);
                }
                last = at;
            }
            io::Result::Ok((last.saturating_sub(begin), stops))
        });
        let outcome = real_time.map(|thread| thread.join().expect("it does not panic"));
        has_ended.store(true, Ordering::Relaxed);
        normal.join().expect("it does not panic")?;
        let (length, stops) = outcome??;
        Ok(StarvationTrial { cpu, length, stops })
    })
}

impl StarvationTrial {
    /// The longest stop, if there was one.
    pub fn longest(&self) -> Option<Nanos> {
        self.stops.iter().copied().max()
    }
}
