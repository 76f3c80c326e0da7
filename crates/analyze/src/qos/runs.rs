//! Length of runs of late jobs.

use super::failures::{LONG_RUN, PHASES, failures_of_counts};
use super::late::Stalls;
use super::observed::Pick;
use super::{Buffering, Observed};
use crate::InputError;
use crate::counts::SizedEvents;
use crate::sample::descending;

/// Minimum number of runs for an estimate of their length; with fewer, runs of a
/// shorter deadline are used.
const MIN_RUNS: f64 = 5.0;
/// Slack of shorter deadlines, as a fraction of the slack. Blackouts below a tenth of
/// it are unknown.
const SHORTER_SLACKS: [f64; 5] = [0.8, 0.65, 0.5, 0.35, 0.25];

/// Runs of late jobs, averaged over phases.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Runs {
    /// Number of runs.
    count: f64,
    pub(super) misses: f64,
    squares: f64,
    largest: f64,
}

impl Runs {
    pub(super) fn of(
        observed: &[Observed],
        pick: Pick,
        buffering: Buffering,
    ) -> Result<Self, InputError> {
        let mut runs = Self::default();
        let share = 1.0 / f64::from(PHASES);
        for cpu in observed {
            let stalls = Stalls::new(pick(&cpu.blackouts), cpu.exposure, buffering, cpu.base)?;
            for index in 0..PHASES {
                let phase = (f64::from(index) + 0.5) * share * buffering.period();
                let late = stalls.late_jobs(phase)?;
                for length in late.runs() {
                    runs.add(length as f64, share);
                }
            }
        }
        Ok(runs)
    }

    fn add(&mut self, length: f64, share: f64) {
        self.count += share;
        self.misses += share * length;
        self.squares += share * length * length;
        self.largest = self.largest.max(length);
    }

    /// Returns whether runs are too long to count as one failure each. Failures then count late
    /// jobs.
    pub(super) fn are_long(self) -> bool {
        self.misses / LONG_RUN > self.count
    }

    /// Returns the mean number of failures.
    pub(super) const fn failures(self) -> f64 {
        failures_of_counts(self.count, self.misses)
    }

    /// Returns the lengths of runs. If the lengths of stalls are exponential, the
    /// excess over one deadline has the same distribution as over another. Runs of a
    /// shorter deadline therefore replace too few runs.
    fn lengths(
        self,
        observed: &[Observed],
        pick: Pick,
        buffering: Buffering,
    ) -> Result<Self, InputError> {
        let mut runs = self;
        let base = descending(&observed.iter().map(|cpu| cpu.base).collect::<Vec<_>>());
        let base = base.first().copied().unwrap_or(0.0);
        for share in SHORTER_SLACKS {
            let slack = share * buffering.slack();
            // With less, every job would be late.
            if runs.count >= MIN_RUNS || slack <= 2.0 * base {
                break;
            }
            let compute = buffering.compute();
            let shorter = Buffering::with_deadline(buffering.period(), compute, compute + slack)?;
            runs = Self::of(observed, pick, shorter)?;
        }
        Ok(runs)
    }

    /// Returns the late jobs of bursts, if runs come in bursts of `burst` on average
    /// and windows of the time have `dispersion` times the Poisson variance.
    pub(super) fn bursts(
        self,
        observed: &[Observed],
        pick: Pick,
        buffering: Buffering,
        (burst, dispersion): (f64, f64),
    ) -> Result<SizedEvents, InputError> {
        let runs = self.lengths(observed, pick, buffering)?;
        let (mean, variation) = if runs.count > 0.0 {
            let mean = runs.misses / runs.count;
            let variance = (runs.squares / runs.count - mean * mean).max(0.0);
            // As if one more exponential length had been observed.
            let variation = (variance / (mean * mean) * runs.count + 1.0) / (runs.count + 1.0);
            (mean, variation)
        } else {
            (1.0, 1.0)
        };
        let by_windows = dispersion / (mean * (1.0 + variation));
        let burst = burst.max(by_windows).max(1.0);
        Ok(SizedEvents {
            seen: self.count / burst,
            mean: burst * mean,
            // The number of runs in a burst varies as a geometric number.
            variation: (1.0 - 1.0 / burst) + variation / burst,
            sizes: runs.count.max(1.0) / burst,
            largest: burst * runs.largest.max(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exceedance::{Blackout, StreamBlackouts};

    /// Returns stalls of these lengths every 1,000.
    fn observed(lengths: &[f64]) -> [Observed; 1] {
        let stalls = (1_u32..).zip(lengths);
        let middle: Vec<Blackout> = stalls
            .map(|(time, length)| {
                let start = f64::from(time) * 1_000.0;
                let end = start + length;
                Blackout::new(start, end)
            })
            .collect();
        let exposure = 1_000.0 * (lengths.len() + 2) as f64;
        let blackouts = StreamBlackouts {
            middle,
            ..StreamBlackouts::default()
        };
        let base = 0.0;
        [Observed {
            recording: 0,
            blackouts,
            exposure,
            base,
        }]
    }

    #[test]
    fn runs_of_a_shorter_deadline_replace_too_few() {
        let pick: Pick = |blackouts| &blackouts.middle;
        // A deadline of 40: one of 100 stalls is longer, many are longer than 20.
        let buffering = Buffering::with_deadline(10.0, 0.0, 40.0).unwrap();
        let few = observed(&[&[25.0; 99][..], &[75.0]].concat());
        let many = observed(&[75.0; 20]);
        let bursts = |observed: &[Observed]| {
            let runs = Runs::of(observed, pick, buffering).unwrap();
            runs.bursts(observed, pick, buffering, (1.0, 1.0)).unwrap()
        };

        let (few, many) = (bursts(&few), bursts(&many));

        // The number of runs is of this deadline, their length of the shorter one.
        assert!((few.seen - 1.0).abs() < 0.1, "{few:?}");
        assert!(few.sizes > 50.0, "{few:?}");
        assert!((many.seen - 20.0).abs() < 0.1 && (many.sizes - 20.0).abs() < 0.1);
        assert!((many.mean - 3.5).abs() < 0.1, "{many:?}");
    }
}
