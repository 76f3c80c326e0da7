//! Stops of a real-time thread that never sleeps, while a `SCHED_OTHER` thread waits for its CPU.
//!
//! Real-time throttling and the fair server cause them. The configuration does not show which of
//! them a kernel has, so a bounded trial finds out.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use laggard_model::{Cpu, Nanos, Service};

use super::clock::now;
use super::policy;

/// Length of a trial: more than two periods of either mechanism.
const TRIAL: Nanos = Nanos::from_ms(2_500);
/// Minimum length of a stop. Shorter gaps are interrupts.
const MIN_STOP: Nanos = Nanos::from_ms(5);
/// Lowest real-time priority, so that every other real-time thread runs first.
const PRIORITY: u8 = 1;

/// Result of a trial.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StarvationTrial {
    pub cpu: Cpu,
    /// Time that the real-time thread looped.
    pub length: Nanos,
    /// Length of each stop of the real-time thread while the `SCHED_OTHER` thread ran.
    pub stops: Vec<Nanos>,
}

/// Runs a looping `SCHED_FIFO` thread on `cpu` for 2.5 s while a `SCHED_OTHER` thread waits there,
/// and reports how long it was stopped for that thread.
///
/// # Errors
///
/// Returns an error if this process may not use the CPU or real-time priorities.
pub fn try_starvation(cpu: Cpu) -> io::Result<StarvationTrial> {
    let (has_ended, ran_at) = (AtomicBool::new(false), AtomicU64::new(0));
    let until = now() + TRIAL;
    // The SCHED_OTHER thread also ends by itself after twice that time.
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
                let time = now();
                let gap = time.saturating_sub(last);
                // Otherwise it was steal time, or another real-time thread ran.
                let is_for_normal = || ran_at.load(Ordering::Relaxed) > last.ns();
                if gap >= MIN_STOP && is_for_normal() {
                    stops.push(gap);
                }
                last = time;
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
    /// Returns the longest stop, if there was one.
    pub fn longest(&self) -> Option<Nanos> {
        self.stops.iter().copied().max()
    }
}
