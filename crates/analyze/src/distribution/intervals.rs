//! Intervals between the runs of a service. Jones & Regehr 1999, section 3, count the
//! intervals between callbacks of a periodic timer.

use std::collections::BTreeMap;

use laggard_model::{Batch, Gather, Nanos};

/// Number of separate bins on each side of 0.
const BINS: i64 = 2_000;

/// Quantity that is counted for two consecutive runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Between {
    /// Time between the runs.
    Runs,
    /// Excess of that time over the programmed interval; negative if shorter.
    BeyondPlan,
}

/// Run of a service.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct ServedRun {
    /// Sequence number in the line.
    seq: u64,
    expiry: u64,
    /// Time when the service ran.
    at: u64,
}

/// Intervals of one line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineIntervals {
    /// Number of counted intervals.
    pub count: u64,
    /// Number of intervals that are not counted, because an activation between the runs
    /// was lost or not kept.
    pub unknown: u64,
    /// Number of missed activations. The service did not run for each of them, so they
    /// lie within an interval.
    pub missed: u64,
    /// Shortest and longest interval, ns.
    pub extremes: Option<(i64, i64)>,
    /// Number of intervals in each non-empty bin, by bin number: bin 0 starts at 0.
    pub bins: BTreeMap<i64, u64>,
    /// Number of intervals before the first bin and after the last.
    pub outside: (u64, u64),
    sum: i128,
    squares: u128,
    first: Option<ServedRun>,
    last: Option<ServedRun>,
    /// Activations after the last run that were all missed.
    since: u64,
    /// Activations before the first run that were all missed.
    before: u64,
}

/// Intervals of every line, in bins of equal width.
#[derive(Clone, Debug)]
pub struct RunIntervals {
    /// Per line.
    pub lines: Vec<LineIntervals>,
    between: Between,
    width: i64,
}

impl RunIntervals {
    /// Creates empty intervals for this number of lines, in bins of `width`.
    ///
    /// # Panics
    /// If `width` is 0.
    pub fn new(lines: usize, between: Between, width: Nanos) -> Self {
        assert!(width > Nanos::ZERO, "a bin has a width");
        Self {
            lines: vec![LineIntervals::default(); lines],
            between,
            width: i64::try_from(width.ns()).unwrap_or(i64::MAX),
        }
    }
}

impl LineIntervals {
    /// Returns the mean, ns; `None` without intervals.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Returns the standard deviation, ns; `None` for fewer than two intervals.
    pub fn deviation(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let count = self.count as f64;
        let mean = self.mean()?;
        // The sums are exact, so only this difference is rounded.
        let variance = (self.squares as f64 - count * mean * mean) / (count - 1.0);
        Some(variance.max(0.0).sqrt())
    }

    fn add(&mut self, value: i64, width: i64) {
        self.count += 1;
        self.sum += i128::from(value);
        let magnitude = u128::from(value.unsigned_abs());
        self.squares = self.squares.saturating_add(magnitude * magnitude);
        let (least, most) = self.extremes.unwrap_or((value, value));
        self.extremes = Some((least.min(value), most.max(value)));
        match value.div_euclid(width) {
            bin if bin < -BINS => self.outside.0 += 1,
            bin if bin >= BINS => self.outside.1 += 1,
            bin => *self.bins.entry(bin).or_default() += 1,
        }
    }

    /// Counts the interval between two runs with `missed` activations in between.
    fn follow(
        &mut self,
        previous: ServedRun,
        next: ServedRun,
        missed: u64,
        between: Between,
        width: i64,
    ) {
        let is_next = next.seq.checked_sub(previous.seq) == missed.checked_add(1);
        let (ran, planned) = (
            difference(previous.at, next.at),
            difference(previous.expiry, next.expiry),
        );
        let value = match between {
            Between::Runs => ran,
            Between::BeyondPlan => ran
                .zip(planned)
                .and_then(|(ran, plan)| ran.checked_sub(plan)),
        };
        match value {
            Some(value) if is_next => self.add(value, width),
            _ => self.unknown += 1,
        }
    }
}

/// Returns the difference, ns; `None` if it is not representable.
fn difference(previous: u64, next: u64) -> Option<i64> {
    i64::try_from(i128::from(next) - i128::from(previous)).ok()
}

impl Gather for RunIntervals {
    fn batch(&mut self, rows: &Batch) {
        for row in rows.iter() {
            let Some(line) = self.lines.get_mut(usize::from(row.line.0)) else {
                continue;
            };
            if row.missed {
                line.missed += 1;
                match line.last {
                    Some(_) => line.since += 1,
                    None => line.before += 1,
                }
                continue;
            }
            let run = ServedRun {
                seq: row.seq,
                expiry: row.expiry.ns(),
                at: row.expiry.ns().saturating_add(row.latency().ns()),
            };
            if let Some(last) = line.last {
                line.follow(last, run, line.since, self.between, self.width);
            }
            line.first.get_or_insert(run);
            line.last = Some(run);
            line.since = 0;
        }
    }

    fn join(&mut self, later: Self) {
        for (line, later) in self.lines.iter_mut().zip(later.lines) {
            if let (Some(last), Some(first)) = (line.last, later.first) {
                line.follow(
                    last,
                    first,
                    line.since + later.before,
                    self.between,
                    self.width,
                );
            }
            line.count += later.count;
            line.unknown += later.unknown;
            line.missed += later.missed;
            line.sum += later.sum;
            line.squares = line.squares.saturating_add(later.squares);
            line.outside.0 += later.outside.0;
            line.outside.1 += later.outside.1;
            for (bin, count) in later.bins {
                *line.bins.entry(bin).or_default() += count;
            }
            line.extremes = match (line.extremes, later.extremes) {
                (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
                (a, b) => a.or(b),
            };
            match (line.last, later.first) {
                (_, None) if line.last.is_some() => line.since += later.before,
                (_, None) => line.before += later.before,
                (None, Some(first)) => {
                    line.before += later.before;
                    line.first = Some(first);
                    (line.last, line.since) = (later.last, later.since);
                }
                (Some(_), Some(_)) => (line.last, line.since) = (later.last, later.since),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{Activation, LineId, STAGES, Stage};
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    fn activation(seq: u64, expiry_us: u64, latency_us: u64, missed: bool) -> Activation {
        let mut steps = [None; STAGES.len()];
        steps[Stage::User.index()] = Some(Nanos::from_us(latency_us));
        Activation {
            line: LineId(0),
            seq,
            expiry: Nanos::from_us(expiry_us),
            missed,
            censored: false,
            steps,
        }
    }

    fn counted(rows: &[Activation], between: Between) -> LineIntervals {
        let mut intervals = RunIntervals::new(1, between, Nanos::from_us(100));
        intervals.batch(&batch(rows));
        intervals.lines.remove(0)
    }

    fn batch(rows: &[Activation]) -> Batch {
        let mut batch = Batch::default();
        rows.iter().for_each(|row| batch.push(row));
        batch
    }

    #[test]
    fn intervals_between_runs_are_in_bins_of_their_width() {
        let rows = [(0, 10), (1_000, 40), (2_000, 10), (3_000, 10)];
        let rows = (0..).zip(rows);
        let rows: Vec<_> = rows
            .map(|(seq, (expiry, late))| activation(seq, expiry, late, false))
            .collect();

        let ran = counted(&rows, Between::Runs);
        let beyond = counted(&rows, Between::BeyondPlan);

        // 1,030, 970 and 1,000 us.
        assert_eq!((ran.count, ran.unknown), (3, 0));
        assert_eq!(ran.extremes, Some((970_000, 1_030_000)));
        assert_eq!(ran.mean(), Some(1e6));
        assert!((ran.deviation().unwrap() - 30_000.0).abs() < 1e-6);
        assert_eq!(ran.bins, [(9, 1), (10, 2)].into());
        assert_eq!(beyond.extremes, Some((-30_000, 30_000)));
        assert_eq!(beyond.bins, [(-1, 1), (0, 2)].into());
    }

    #[test]
    fn missed_activation_is_inside_an_interval_and_lost_one_makes_it_unknown() {
        let rows = [
            activation(0, 0, 3_500, false),
            activation(1, 1_000, 2_500, true),
            activation(2, 2_000, 1_500, true),
            activation(3, 3_000, 600, false),
            // Number 4 was lost.
            activation(5, 5_000, 0, false),
            activation(6, 6_000, 0, false),
        ];

        let ran = counted(&rows, Between::Runs);

        assert_eq!((ran.count, ran.unknown, ran.missed), (2, 1, 2));
        assert_eq!(ran.extremes, Some((100_000, 1_000_000)));
    }

    #[test]
    fn interval_beyond_the_last_bin_is_counted_outside() {
        let rows = [activation(0, 0, 0, false), activation(1, 900_000, 0, false)];

        let ran = counted(&rows, Between::Runs);

        assert_eq!((ran.outside, ran.bins.len()), ((0, 1), 0));
        assert_eq!(ran.extremes, Some((900_000_000, 900_000_000)));
    }

    #[test]
    fn impossible_times_are_not_counted() {
        let far = |ns| Activation {
            expiry: Nanos::from_ns(ns),
            ..activation(u64::from(ns > 0), 0, 0, false)
        };

        let ran = counted(&[far(0), far(u64::MAX)], Between::Runs);

        assert_eq!((ran.count, ran.unknown), (0, 1));
    }

    proptest! {
        /// The contract of [`Gather`]: any division of the data gives the same counts.
        #[test]
        fn counts_are_equal_for_any_division(
            rows in proptest::collection::vec((1_u64..4, 0_u64..900, any::<bool>()), 1..40),
            cuts in proptest::collection::vec(0_usize..40, 0..4),
        ) {
            let mut seq = 0;
            let rows: Vec<Activation> = rows
                .into_iter()
                .map(|(step, late, missed)| {
                    // Occasionally an activation is lost.
                    seq += step.max(2) - 1;
                    activation(seq, seq * 1_000, late, missed)
                })
                .collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(rows.len())).collect();
            cuts.extend([0, rows.len()]);
            cuts.sort_unstable();
            let whole = counted(&rows, Between::Runs);

            let parts = cuts.windows(2).map(|ends| {
                let mut part = RunIntervals::new(1, Between::Runs, Nanos::from_us(100));
                part.batch(&batch(&rows[ends[0]..ends[1]]));
                part
            });
            let joined = parts.reduce(|mut joined, next| {
                joined.join(next);
                joined
            });

            prop_assert_eq!(&joined.unwrap().lines[0], &whole);
        }
    }
}
