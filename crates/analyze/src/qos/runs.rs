//! How long runs of late jobs are.

use super::failures::{LONG_RUN, PHASES, failures_of_counts};
use super::late::Stalls;
use super::observed::Pick;
use super::{Buffering, Observed};
use crate::InputError;
use crate::counts::SizedEvents;
use crate::sample::descending;

/// Runs from which their length can be told; with fewer, those of a shorter
/// deadline are looked at.
const ENOUGH: f64 = 5.0;
/// The slack of shorter deadlines, as a share of the slack. Blackouts below a
/// tenth of it are not known.
const SHORTER: [f64; 5] = [0.8, 0.65, 0.5, 0.35, 0.25];

/// Runs of late jobs, means over phases. A long run is cut into pieces of 100.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Runs {
    episodes: f64,
    /// Pieces.
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
        for one in observed {
            let stalls = Stalls::new(pick(&one.blackouts), one.exposure, buffering, one.base)?;
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
        let pieces = (length / LONG_RUN).floor();
        let rest = length - pieces * LONG_RUN;
        self.episodes += share;
        self.count += share * (pieces + f64::from(rest > 0.0));
        self.misses += share * length;
        self.squares += share * (pieces * LONG_RUN * LONG_RUN + rest * rest);
        self.largest = self.largest.max(length.min(LONG_RUN));
    }

    /// How many failures they are, by the mean.
    pub(super) const fn failures(self) -> f64 {
        failures_of_counts(self.episodes, self.misses)
    }

    /// What is known of the lengths. What is longer than one deadline is,
    /// beyond it, as long as beyond another, if lengths of stalls are
    /// exponential: so runs of a shorter deadline stand in for too few.
    fn lengths(
        self,
        observed: &[Observed],
        pick: Pick,
        buffering: Buffering,
    ) -> Result<Self, InputError> {
        let mut known = self;
        let base = descending(&observed.iter().map(|one| one.base).collect::<Vec<_>>());
        let base = base.first().copied().unwrap_or(0.0);
        for share in SHORTER {
            let slack = share * buffering.slack();
            // With less, every job would be late.
            if known.count >= ENOUGH || slack <= 2.0 * base {
                break;
            }
            let compute = buffering.compute();
            let shorter = Buffering::with_deadline(buffering.period(), compute, compute + slack)?;
            known = Self::of(observed, pick, shorter)?;
        }
        Ok(known)
    }

    /// The late jobs of bursts, when runs come in bursts of `burst` on average
    /// and windows of the time vary `dispersion` times as much as Poisson's.
    pub(super) fn bursts(
        self,
        observed: &[Observed],
        pick: Pick,
        buffering: Buffering,
        (burst, dispersion): (f64, f64),
    ) -> Result<SizedEvents, InputError> {
        let known = self.lengths(observed, pick, buffering)?;
        let (mean, variation) = if known.count > 0.0 {
            let mean = known.misses / known.count;
            let variance = (known.squares / known.count - mean * mean).max(0.0);
            // As if one exponential length more had been seen.
            let variation = (variance / (mean * mean) * known.count + 1.0) / (known.count + 1.0);
            (mean, variation)
        } else {
            (1.0, 1.0)
        };
        let by_windows = dispersion / (mean * (1.0 + variation));
        let burst = burst.max(by_windows).max(1.0);
        Ok(SizedEvents {
            seen: self.count / burst,
            mean: burst * mean,
            // How many runs a burst has varies as a geometric number.
            variation: (1.0 - 1.0 / burst) + variation / burst,
            sizes: known.count.max(1.0) / burst,
            largest: burst * known.largest.max(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exceedance::{Blackout, StreamBlackouts};

    /// Stalls of these lengths, one every 1,000.
    fn observed(lengths: &[f64]) -> [Observed; 1] {
        let stalls = (1_u32..).zip(lengths);
        let middle: Vec<Blackout> = stalls
            .map(|(at, length)| {
                let start = f64::from(at) * 1_000.0;
                let end = start + length;
                Blackout { start, end }
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
    fn runs_of_a_shorter_deadline_stand_in_for_too_few() {
        let pick: Pick = |all| &all.middle;
        // A deadline of 40: one of 100 stalls is longer, many are longer than 20.
        let buffering = Buffering::with_deadline(10.0, 0.0, 40.0).unwrap();
        let few = observed(&[&[25.0; 99][..], &[75.0]].concat());
        let many = observed(&[75.0; 20]);
        let bursts = |observed: &[Observed]| {
            let runs = Runs::of(observed, pick, buffering).unwrap();
            runs.bursts(observed, pick, buffering, (1.0, 1.0)).unwrap()
        };

        let (few, many) = (bursts(&few), bursts(&many));

        // How many came is of this deadline, how long they are of the shorter.
        assert!((few.seen - 1.0).abs() < 0.1, "{few:?}");
        assert!(few.sizes > 50.0, "{few:?}");
        assert!((many.seen - 20.0).abs() < 0.1 && (many.sizes - 20.0).abs() < 0.1);
        assert!((many.mean - 3.5).abs() < 0.1, "{many:?}");
    }
}
