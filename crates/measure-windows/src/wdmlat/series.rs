//! Activations from the results of expiries.

use laggard_model::{LineId, LossReason, Nanos, STAGES, Stage};

use laggard_measure::board::Timeline;
use laggard_measure::settled::{SettledExpiry, SettledLine};

/// Result of a planned expiry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ExpiryResult {
    /// The timer was set to `expiry`; the times when the DPC and the thread that it woke ran.
    Served {
        expiry: Nanos,
        dpc: Nanos,
        thread: Option<Nanos>,
    },
    /// The service had not served the previous expiry, and ran at `ran`.
    Missed { ran: Nanos },
    /// The timer could not be set in time.
    NotArmed,
    /// The driver's report is inconsistent.
    Inconsistent,
}

/// Planned expiries of a line, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expiries {
    timeline: Timeline,
    stride: u64,
}

impl Expiries {
    /// Creates the expiries: every `stride`-th of the timeline, starting at number `first`.
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

/// Activations of one service. Every planned expiry is settled once, in order.
#[derive(Debug)]
pub(super) struct DriverSeries {
    pub(super) settled: SettledLine,
    last: Stage,
    /// Expiries to settle; `None` before the start.
    planned: Option<Expiries>,
}

impl DriverSeries {
    /// Creates a series without results.
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

    /// Adds the result of the expiry that was planned for `planned`. Earlier expiries without a
    /// result are lost. Results after the end of the plan are ignored, because their expiries are
    /// settled.
    pub(super) fn add(&mut self, planned: Nanos, came: ExpiryResult) {
        if self.next().is_none_or(|next| planned < next) {
            return;
        }
        self.lose_until(planned, LossReason::RingFull);
        match came {
            ExpiryResult::Served {
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
                let settled_expiry = SettledExpiry {
                    expiry,
                    missed: false,
                    censored: false,
                    steps,
                };
                self.settled.push(planned, settled_expiry);
            }
            ExpiryResult::Missed { ran } => {
                let missed = self.missed(planned, ran, false);
                self.settled.push(planned, missed);
            }
            ExpiryResult::NotArmed => self.settled.lose(planned, LossReason::NotRaised),
            ExpiryResult::Inconsistent => self.settled.lose(planned, LossReason::OutOfOrder),
        }
        if let Some(planned) = &mut self.planned {
            planned.advance();
        }
    }

    /// Settles the rest of the plan. If the service was awaited (`waits`), it had not run at
    /// `given_up`; otherwise no timer was set for it.
    pub(super) fn close(&mut self, waits: bool, given_up: Nanos) {
        let until = self.settled.until;
        while let Some(planned) = self.next().filter(|next| *next < until) {
            if waits {
                let missed = self.missed(planned, given_up, true);
                self.settled.push(planned, missed);
            } else {
                self.settled.lose(planned, LossReason::NotRaised)
            }
            if let Some(planned) = &mut self.planned {
                planned.advance();
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
            if let Some(planned) = &mut self.planned {
                planned.advance();
            }
        }
    }

    /// Returns the missed expiry that was due at `planned` and waited until `ran`.
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

    /// From 10 ms to 60 ms, which are five expiries.
    fn series() -> DriverSeries {
        let mut series = DriverSeries::new(Stage::Kthread);
        series.start(LineId(3), planned());
        series.settled.begin(Nanos::ZERO);
        series.settled.until = Nanos::from_ms(60);
        series
    }

    fn served(planned_ms: u64, dpc_us: u64, thread_us: u64) -> ExpiryResult {
        let expiry = Nanos::from_ms(planned_ms);
        ExpiryResult::Served {
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
    fn stages_of_an_activation_are_dpc_and_thread() {
        let mut series = series();

        series.add(Nanos::from_ms(10), served(10, 30, 75));

        let (activations, _) = closed(series, false);
        assert_eq!(activations[0].line, LineId(3));
        assert_eq!(
            activations[0].until(Stage::Expire),
            Some(Nanos::from_us(30))
        );
        assert_eq!(activations[0].latency(), Nanos::from_us(75));
    }

    #[test]
    fn every_planned_expiry_is_served_missed_or_lost() {
        let mut series = series();
        let ms = Nanos::from_ms;

        series.add(ms(10), served(10, 30, 12_000));
        series.add(ms(20), ExpiryResult::Missed { ran: ms(22) });
        // 30 ms does not have a result.
        series.add(ms(40), ExpiryResult::NotArmed);
        series.add(ms(50), ExpiryResult::Inconsistent);

        let (activations, account) = closed(series, false);
        let outcomes: Vec<(u64, bool, u64)> = activations
            .iter()
            .map(|activation| {
                (
                    activation.seq,
                    activation.missed,
                    activation.latency().ns() / 1_000_000,
                )
            })
            .collect();
        assert_eq!(outcomes, [(0, false, 12), (1, true, 2)]);
        assert_eq!((account.planned, account.lost), (Some(5), 3));
        let losses = account.losses;
        assert_eq!(
            (losses.ring_full, losses.not_raised, losses.out_of_order),
            (1, 1, 1)
        );
    }

    #[test]
    fn service_awaited_at_the_end_has_a_lower_bound() {
        let mut series = series();
        series.add(Nanos::from_ms(10), served(10, 30, 75));

        let (activations, account) = closed(series, true);

        assert_eq!((account.planned, account.lost), (Some(5), 0));
        assert!(
            activations[1..]
                .iter()
                .all(|activation| activation.missed && activation.censored)
        );
        assert_eq!(activations[1].latency(), Nanos::from_ms(80));
    }

    #[test]
    fn result_after_the_end_of_the_plan_is_not_counted_again() {
        let mut series = series();
        series.close(true, Nanos::from_ms(100));

        series.add(Nanos::from_ms(50), served(50, 30, 75));

        let (activations, account) = closed(series, true);
        assert_eq!((activations.len(), account.planned), (5, Some(5)));
    }

    #[test]
    fn expiry_before_the_recording_has_no_number() {
        let mut series = series();
        series.settled.begin(Nanos::from_ms(15));

        series.add(Nanos::from_ms(10), served(10, 30, 75));
        series.add(Nanos::from_ms(20), served(20, 30, 75));

        let (activations, account) = closed(series, false);
        assert_eq!((activations.len(), activations[0].seq), (1, 0));
        assert_eq!((account.planned, account.lost), (Some(4), 3));
    }
}
