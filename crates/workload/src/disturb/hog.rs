//! Threads that compute: above all others, or among equals.

use std::thread;

use laggard_model::Nanos;

use super::{DisturbError, Hit, Site, clock};
use crate::scheduling::Policy;
use crate::watchdog::Watchdog;

/// Above the measured `fifo:90`, below the kernel's own at 99.
pub(super) const ABOVE_ALL: Policy = Policy::Fifo(95);

/// How many normal threads compete: with one measured thread, each gets a
/// fifth of the CPU.
const EQUALS: usize = 4;

/// One thread at [`ABOVE_ALL`].
pub(super) fn thread(site: &Site<'_>) -> Result<Vec<Hit>, DisturbError> {
    let _watchdog =
        Watchdog::new(site.plan.length).map_err(site.needs("set RLIMIT_RTTIME, the watchdog"))?;
    site.in_thread(|| {
        site.place(ABOVE_ALL)?;
        site.rounds(|_| Ok(compute(site)))
    })
}

/// Normal threads that all compute at the same time.
pub(super) fn queue(site: &Site<'_>) -> Result<Vec<Hit>, DisturbError> {
    site.in_thread(|| {
        site.place(Policy::Other)?;
        site.rounds(|_| {
            let start = clock::now();
            let end = start + site.plan.length;
            thread::scope(|scope| {
                for _ in 1..EQUALS {
                    thread::Builder::new()
                        .name(site.thread_name())
                        .spawn_scoped(scope, || clock::spin_until(end))
                        .map_err(site.needs("start another thread"))?;
                }
                clock::spin_until(end);
                Ok::<_, DisturbError>(())
            })?;
            Ok(site.hit_since(start))
        })
    })
}

fn compute(site: &Site<'_>) -> Hit {
    let start = clock::now();
    clock::spin_until(start + site.plan.length);
    site.hit_since(start)
}

impl Site<'_> {
    /// The name of a thread of this fault; tools show its first 15 bytes.
    pub(super) fn thread_name(&self) -> String {
        format!("lag/{}", self.plan.kind)
    }

    /// Runs `work` in a thread of its own, so that the caller's scheduling
    /// stays as it is, and that carries the fault's name.
    pub(super) fn in_thread<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, DisturbError> + Send,
    ) -> Result<T, DisturbError> {
        thread::scope(|scope| {
            thread::Builder::new()
                .name(self.thread_name())
                .spawn_scoped(scope, work)
                .map_err(self.needs("start a thread"))?
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Computes for `time` of the calling thread's own CPU time.
pub(super) fn compute_for(time: Nanos) {
    let end = clock::own_cpu_time() + time;
    while clock::own_cpu_time() < end {
        std::hint::spin_loop();
    }
}
