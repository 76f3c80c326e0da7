//! Misses with more work: cycles replayed with longer execution times and the same delays.
//!
//! A cycle starts when it ran or when the previous one has ended, whichever is later. It runs for
//! its execution time times a factor, and keeps its measured delay. Longer cycles would also be
//! preempted more often, so the result is a lower bound.

use laggard_model::{Nanos, ThreadActivation};

/// Growth of the execution time, percent.
pub(super) const GROWTHS: [u32; 3] = [10, 20, 50];

/// Response of a cycle, and its responses with more work.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttachJob {
    pub(super) at: Nanos,
    pub(super) response: Nanos,
    pub(super) grown: [Nanos; GROWTHS.len()],
}

impl AttachJob {
    /// Subtracts a part of the response that does not belong to the cycle.
    pub(super) fn shorten(&mut self, part: Nanos) {
        self.response = self.response.saturating_sub(part);
        for grown in &mut self.grown {
            *grown = grown.saturating_sub(part);
        }
    }
}

/// End of the last cycle of a thread, for each growth.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backlog {
    free: [Nanos; GROWTHS.len()],
}

impl Backlog {
    /// Adds the next cycle of the thread.
    pub(super) fn job(&mut self, cycle: &ThreadActivation) -> AttachJob {
        let mut grown = [Nanos::ZERO; GROWTHS.len()];
        let execution = cycle.execution().ns();
        for (place, growth) in GROWTHS.into_iter().enumerate() {
            let more = u128::from(execution) * u128::from(100 + growth) / 100;
            let more = Nanos::from_ns(u64::try_from(more).unwrap_or(u64::MAX));
            let start = cycle.running.max(self.free[place]);
            let waits = cycle.waits.slept + cycle.waits.stopped;
            let done = start + more + cycle.preempted + cycle.blocked + waits;
            self.free[place] = done;
            grown[place] = done.saturating_sub(cycle.origin);
        }
        AttachJob {
            at: cycle.origin,
            response: cycle.response(),
            grown,
        }
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{Cpu, Tid, WokenBy};

    use super::*;

    fn ran(origin: u64, running: u64, done: u64, preempted: u64) -> ThreadActivation {
        let woken = WokenBy::Thread(Tid(1), laggard_model::ThreadName::default());
        let times = [origin, running, done].map(Nanos::from_us);
        ThreadActivation {
            preempted: Nanos::from_us(preempted),
            ..ThreadActivation::new(woken, Cpu(0), times)
        }
    }

    #[test]
    fn work_grows_and_delays_do_not() {
        let job = Backlog::default().job(&ran(0, 10, 160, 50));

        // 100 us of work, 10 us late, held up for 50.
        assert_eq!(job.response, Nanos::from_us(160));
        assert_eq!(job.grown, [170, 180, 210].map(Nanos::from_us));
    }

    #[test]
    fn longer_cycle_delays_the_next() {
        let mut backlog = Backlog::default();
        backlog.job(&ran(0, 0, 900, 0));

        let next = backlog.job(&ran(1_000, 1_000, 1_900, 0));

        // 900 by 1.5 are 1,350; the next one starts 350 late.
        assert_eq!(
            next.grown,
            [990, 1_080 + 80, 1_350 + 700 - 350].map(Nanos::from_us)
        );
    }
}
