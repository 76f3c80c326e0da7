//! Threads that compute: above all others, or with equal priority.

use std::thread;

use laggard_model::Nanos;

use super::{DisturbError, Hit, Site, clock};
use crate::scheduling::Policy;
use crate::watchdog::Watchdog;

/// Priority above the measured `fifo:90` and below the kernel's threads at 99.
pub(super) const ABOVE_ALL: Policy = Policy::Fifo(95);

/// Number of competing normal threads: one measured thread then gets a fifth of the
/// CPU.
const EQUALS: usize = 4;

/// Runs one thread at [`ABOVE_ALL`].
pub(super) fn thread(site: &Site<'_>) -> Result<Vec<Hit>, DisturbError> {
    let _watchdog =
        Watchdog::new(site.plan.length).map_err(site.needs("set RLIMIT_RTTIME, the watchdog"))?;
    site.in_thread(|| {
        site.place(ABOVE_ALL)?;
        site.rounds(|_| Ok(compute(site)))
    })
}

/// Runs normal threads that all compute at the same time.
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
    /// Returns the name of a thread of this fault. Tools show its first 15 bytes.
    pub(super) fn thread_name(&self) -> String {
        format!("lag/{}", self.plan.kind)
    }

    /// Runs `work` in a separate thread with the fault's name, so that the scheduling
    /// of the caller stays unchanged.
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

/// Computes for `time` of CPU time of the calling thread.
pub(super) fn compute_for(time: Nanos) {
    let end = clock::own_cpu_time() + time;
    while clock::own_cpu_time() < end {
        std::hint::spin_loop();
    }
}
