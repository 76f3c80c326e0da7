//! From what came of each expiry to activations.

use laggard_model::{LineId, LossReason, Nanos, STAGES, Stage};

use laggard_measure::board::Timeline;
use laggard_measure::settled::{SettledExpiry, SettledLine};

/// What came of a planned expiry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Came {
    /// The timer was set to `expiry`; when the DPC ran, and the thread that it woke.
    Served {
        expiry: Nanos,
        dpc: Nanos,
        thread: Option<Nanos>,
    },
    /// The service had not come to the one before, and ran then.
    Missed { ran: Nanos },
    /// No timer could be set for it in time.
    NotArmed,
    /// What the driver told of it cannot be.
    Nonsense,
}

/// The planned expiries of a line, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expiries {
    timeline: Timeline,
    stride: u64,
}

impl Expiries {
    /// Each `stride`-th of the timeline, from its number `first` on.
    pub(super) fn new(mut timeline: Timeline, first: u64, stride: u64) -> Self {
        timeline.advance_by(first);
        Self { timeline, stride }
    }

    pub(super) fn next(&self) -> Nanos {
        self.timeline.expiry()
    }

    pub(super) fn advance(&mut self) {
        self.timeline.advance_by(self.stride);
    }
}

/// The activations of one service. Every planned expiry is settled once, in order.
#[derive(Debug)]
pub(super) struct DriverSeries {
    pub(super) settled: SettledLine,
    last: Stage,
    /// What is to be settled; `None` before it was started.
    planned: Option<Expiries>,
}

impl DriverSeries {
    /// Nothing seen, nothing recorded.
    pub(super) fn new(last: Stage) -> Self {
        Self {
            settled: SettledLine::new(),
            last,
            planned: None,
        }
    }

    pub(super) fn start(&mut self, line: LineId, planned: Expiries) {
        (self.settled.line, self.planned) = (line, Some(planned));
    }

    /// Takes in what came of the expiry that was planned for `planned`; what lies between
    /// was not told of. What comes after the plan was closed is settled already.
    pub(super) fn add(&mut self, planned: Nanos, came: Came) {
        if self.next().is_none_or(|next| planned < next) {
            return;
        }
        self.lose_until(planned, LossReason::RingFull);
        match came {
            Came::Served {
                expiry,
                dpc,
                thread,
            } => {
                let mut steps = [None; STAGES.len()];
                let expire = dpc.saturating_sub(expiry);
                steps[Stage::Expire.index()] = Some(expire);
                if let Some(thread) = thread {
                    steps[Stage::Kthread.index()] = Some(thread.saturating_sub(dpc));
                }
                let one = SettledExpiry {
                    expiry,
                    missed: false,
                    censored: false,
                    steps,
                };
                self.settled.push(planned, one);
            }
            Came::Missed { ran } => {
                let missed = self.missed(planned, ran, false);
                self.settled.push(planned, missed);
            }
            Came::NotArmed => self.settled.lose(planned, LossReason::NotRaised),
            Came::Nonsense => self.settled.lose(planned, LossReason::OutOfOrder),
        }
        if let Some(all) = &mut self.planned {
            all.advance();
        }
    }

    /// Settles what is left of the plan: where the service was waited for (`waits`), it had
    /// not run at `given_up`; else no timer was set for it.
    pub(super) fn close(&mut self, waits: bool, given_up: Nanos) {
        let until = self.settled.until;
        while let Some(planned) = self.next().filter(|next| *next < until) {
            match waits {
                true => {
                    let missed = self.missed(planned, given_up, true);
                    self.settled.push(planned, missed);
                }
                false => self.settled.lose(planned, LossReason::NotRaised),
            }
            if let Some(all) = &mut self.planned {
                all.advance();
            }
        }
        self.settled.close();
    }

    fn next(&self) -> Option<Nanos> {
        self.planned.as_ref().map(Expiries::next)
    }

    fn lose_until(&mut self, planned: Nanos, reason: LossReason) {
        while let Some(before) = self.next().filter(|next| *next < planned) {
            self.settled.lose(before, reason);
            if let Some(all) = &mut self.planned {
                all.advance();
            }
        }
    }

    /// What was due at `planned` was waited for until `ran`.
    fn missed(&self, planned: Nanos, ran: Nanos, censored: bool) -> SettledExpiry {
        let mut steps = [None; STAGES.len()];
        steps[self.last.index()] = Some(ran.saturating_sub(planned));
        SettledExpiry {
            expiry: planned,
            missed: true,
            censored,
            steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{Account, Activation, Batch};

    use super::*;

    fn planned() -> Expiries {
        let timeline = Timeline::new(1, Nanos::from_ms(10), false, 0, 1, Nanos::ZERO);
        Expiries::new(timeline, 0, 1)
    }

    /// From 10 ms to 60 ms, so with five expiries.
    fn series() -> DriverSeries {
        let mut series = DriverSeries::new(Stage::Kthread);
        series.start(LineId(3), planned());
        series.settled.begin(Nanos::ZERO);
        series.settled.until = Nanos::from_ms(60);
        series
    }

    fn served(planned_ms: u64, dpc_us: u64, thread_us: u64) -> Came {
        let expiry = Nanos::from_ms(planned_ms);
        Came::Served {
            expiry,
            dpc: expiry + Nanos::from_us(dpc_us),
            thread: Some(expiry + Nanos::from_us(thread_us)),
        }
    }

    fn closed(mut series: DriverSeries, waits: bool) -> (Vec<Activation>, Account) {
        series.close(waits, Nanos::from_ms(100));
        let mut batch = Batch::default();
        series.settled.drain(&mut batch);
        (batch.iter().collect(), series.settled.account())
    }

    #[test]
    fn the_way_of_an_activation_is_dpc_and_thread() {
        let mut series = series();

        series.add(Nanos::from_ms(10), served(10, 30, 75));

        let (seen, _) = closed(series, false);
        assert_eq!(seen[0].line, LineId(3));
        assert_eq!(seen[0].until(Stage::Expire), Some(Nanos::from_us(30)));
        assert_eq!(seen[0].latency(), Nanos::from_us(75));
    }

    #[test]
    fn every_planned_expiry_is_served_missed_or_lost() {
        let mut series = series();
        let ms = Nanos::from_ms;

        series.add(ms(10), served(10, 30, 12_000));
        series.add(ms(20), Came::Missed { ran: ms(22) });
        // 30 ms was not told of.
        series.add(ms(40), Came::NotArmed);
        series.add(ms(50), Came::Nonsense);

        let (seen, account) = closed(series, false);
        let all: Vec<(u64, bool, u64)> = seen
            .iter()
            .map(|one| (one.seq, one.missed, one.latency().ns() / 1_000_000))
            .collect();
        assert_eq!(all, [(0, false, 12), (1, true, 2)]);
        assert_eq!((account.planned, account.lost), (Some(5), 3));
        let losses = account.losses;
        assert_eq!(
            (losses.ring_full, losses.not_raised, losses.out_of_order),
            (1, 1, 1)
        );
    }

    #[test]
    fn who_was_waited_for_to_the_end_is_late_by_at_least_that() {
        let mut series = series();
        series.add(Nanos::from_ms(10), served(10, 30, 75));

        let (seen, account) = closed(series, true);

        assert_eq!((account.planned, account.lost), (Some(5), 0));
        assert!(seen[1..].iter().all(|one| one.missed && one.censored));
        assert_eq!(seen[1].latency(), Nanos::from_ms(80));
    }

    #[test]
    fn what_comes_after_the_plan_was_closed_counts_no_second_time() {
        let mut series = series();
        series.close(true, Nanos::from_ms(100));

        series.add(Nanos::from_ms(50), served(50, 30, 75));

        let (seen, account) = closed(series, true);
        assert_eq!((seen.len(), account.planned), (5, Some(5)));
    }

    #[test]
    fn what_came_before_the_recording_has_no_number() {
        let mut series = series();
        series.settled.begin(Nanos::from_ms(15));

        series.add(Nanos::from_ms(10), served(10, 30, 75));
        series.add(Nanos::from_ms(20), served(20, 30, 75));

        let (seen, account) = closed(series, false);
        assert_eq!((seen.len(), seen[0].seq), (1, 0));
        assert_eq!((account.planned, account.lost), (Some(4), 3));
    }
}
