//! Present state of the peaks: whether latencies grow or fall, or changed at a time
//! (docs/method.md 8.3).
//!
//! Exchangeable blocks are the assumption of every bound without a model. A drift contradicts
//! it: if latencies grow, the future is worse than the recording.
//!
//! **Drift.** The maxima of up to 40 blocks are tested for a monotone trend (Mann 1945;
//! Kendall 1975; with the correction for ties). If there is one, the logarithms of the maxima
//! are levelled with the median of the slopes of all pairs (Theil 1950; Sen 1968) to the end of
//! the horizon: at most one more length of the recording; a falling trend only to the end of
//! the recording.
//!
//! **Change.** The detector of series of recordings ([`change_points`]) finds changes of the
//! same maxima. The parts before the last change are levelled to the part after it, by the
//! difference of the medians of the logarithms. If latencies went up and down, either may
//! happen again, so nothing is levelled down.
//!
//! If both are found, the smaller sum of squares with a penalty for parameters (Schwarz 1978)
//! decides.

use statrs::distribution::{ContinuousCDF, Normal};

use super::empirical::exposure_without_model;
use super::level::{Estimate, LevelSettings, return_level};
use super::prediction::{block_maxima, ranks};
use super::{Peaks, Reason, Refusal};
use crate::InputError;
use crate::compare::change_points;
use crate::input::positive;
use crate::sample::{index, mean};

/// Maximum number of blocks whose maxima are tested.
const BLOCKS: f64 = 40.0;
/// Minimum number of blocks for a test.
const MIN_BLOCKS: usize = 20;
/// Level of the test for a trend.
const TREND_LEVEL: f64 = 0.01;
/// Level of the test for a change.
const CHANGE_LEVEL: f64 = 0.005;
/// Level of the test that precedes the test for a change.
const SCREENING_LEVEL: f64 = 0.2;
/// Maximum fraction of blocks without a peak. Their maxima are known only to be below the
/// threshold, so with more of them a factor would be too small.
const MAX_EMPTY_SHARE: f64 = 0.2;
/// Minimum number of blocks between two changes.
const MIN_PART: usize = 5;

/// Course of the latencies over the recorded time.
#[derive(Clone, Debug, PartialEq)]
pub enum Course {
    /// Neither a drift nor a change was found.
    Steady,
    /// Latencies grow or fall evenly.
    Drift {
        /// Change of the logarithm per time.
        slope: f64,
    },
    /// Latencies changed at some times.
    Changes(Vec<Change>),
}

/// Change of the latencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Time since the start of the peaks' exposure.
    pub at: f64,
    /// Latencies after the change, relative to the latencies before.
    pub times: f64,
}

impl Course {
    /// Finds the course of `peaks` in blocks of `shortest` or longer.
    ///
    /// # Errors
    /// If a time is not positive.
    pub fn of(peaks: &Peaks, shortest: f64) -> Result<Self, InputError> {
        let length = (peaks.exposure() / BLOCKS).max(positive("shortest block", shortest)?);
        let count = index(peaks.exposure() / length);
        if count < MIN_BLOCKS || peaks.threshold() <= 0.0 {
            return Ok(Self::Steady);
        }
        let maxima = block_maxima(peaks, count as u64, length);
        let empty = maxima.iter().filter(|max| **max <= peaks.threshold());
        if empty.count() as f64 > MAX_EMPTY_SHARE * count as f64 {
            return Ok(Self::Steady);
        }
        let logs: Vec<f64> = maxima.iter().map(|max| max.ln()).collect();
        // Permutations take long, so a simpler test excludes most steady courses.
        let cuts: Vec<usize> = if pettitt(&logs) < SCREENING_LEVEL {
            let changes = change_points(&logs, MIN_PART, CHANGE_LEVEL, 0)?;
            changes.iter().map(|change| change.at).collect()
        } else {
            Vec::new()
        };
        let has_trend = mann_kendall(&logs) < TREND_LEVEL;
        let slope = theil_sen(&logs);
        let drift = Self::Drift {
            slope: slope / length,
        };
        Ok(if cuts.is_empty() {
            if has_trend { drift } else { Self::Steady }
        } else if has_trend && along(&logs, slope) <= in_parts(&logs, &cuts) {
            drift
        } else {
            let levels = parts(&logs, &cuts).map(|part| median(&mut part.to_vec()));
            let levels: Vec<f64> = levels.collect();
            let changes = cuts.iter().zip(levels.windows(2));
            let changes = changes.map(|(&cut, levels)| Change {
                at: cut as f64 * length,
                times: (levels[1] - levels[0]).exp(),
            });
            Self::Changes(changes.collect())
        })
    }

    /// Returns whether the state at the end of a `horizon` after an `exposure` is unknown: a
    /// growth is not continued for longer than it was recorded.
    #[must_use]
    pub fn is_unknown_after(&self, exposure: f64, horizon: f64) -> bool {
        matches!(self, Self::Drift { slope } if *slope > 0.0) && horizon > exposure
    }

    /// Returns whether latencies changed both upwards and downwards. Then the future may
    /// have either state.
    #[must_use]
    pub fn alternates(&self) -> bool {
        let Self::Changes(changes) = self else {
            return false;
        };
        let is_up = |change: &Change| change.times > 1.0;
        changes.iter().any(is_up) && !changes.iter().all(is_up)
    }

    /// Returns the level that peaks in the present state exceed once per `horizon` on
    /// average. If latencies drift, the interval includes the states from the start to the end of
    /// the horizon. If latencies drift or changed, only ranks give it: levelled peaks lack the
    /// peaks below the threshold, so that a model of their tail would be wrong.
    ///
    /// # Errors
    /// As for [`return_level`].
    pub fn level(
        &self,
        peaks: &Peaks,
        horizon: f64,
        settings: &LevelSettings,
    ) -> Result<Estimate, Refusal> {
        let (now, end) = (peaks.exposure(), self.end(peaks, horizon));
        let states = match self {
            Self::Steady => return return_level(peaks, horizon, settings),
            Self::Drift { .. } => [now, f64::midpoint(now, end), end],
            Self::Changes(_) => [now; 3],
        };
        let needed = exposure_without_model(horizon, settings.confidence);
        let needed = needed.unwrap_or(f64::INFINITY);
        if peaks.exposure() < needed {
            let refusal = return_level(peaks, horizon, settings).err();
            let mut refusal = refusal.unwrap_or(Refusal {
                reasons: Vec::new(),
                exposure_for_model: None,
                exposure_without_model: needed,
            });
            refusal.reasons.push(Reason::Drifts);
            refusal.exposure_for_model = None;
            return Err(refusal);
        }
        let unusable = |_| Refusal {
            reasons: vec![Reason::Unusable],
            exposure_for_model: None,
            exposure_without_model: needed,
        };
        let level = |state| {
            let peaks = self.levelled(peaks, state).map_err(unusable)?;
            return_level(&peaks, horizon, settings)
        };
        let [first, mut middle, last] = [level(states[0])?, level(states[1])?, level(states[2])?];
        for other in [&first.interval, &last.interval] {
            let interval = &mut middle.interval;
            interval.low = interval.low.min(other.low);
            interval.high = interval.high.max(other.high);
        }
        middle.doubts.push(Reason::Drifts);
        Ok(middle)
    }

    /// Returns the time until which a drift continues: at most one more exposure.
    fn end(&self, peaks: &Peaks, horizon: f64) -> f64 {
        peaks.exposure() + horizon.min(peaks.exposure())
    }

    /// Returns the peaks with the sizes that they would have in the present state: at the end
    /// of a `horizon` after them, or after the last change. If latencies alternate, none is
    /// smaller than measured. See [`Self::is_unknown_after`].
    ///
    /// # Errors
    /// If the horizon is not positive.
    pub fn present(&self, peaks: &Peaks, horizon: f64) -> Result<Peaks, InputError> {
        let end = self.end(peaks, positive("horizon", horizon)?);
        // An improvement is not assumed to continue.
        let is_better = matches!(self, Self::Drift { slope } if *slope < 0.0);
        self.levelled(peaks, if is_better { peaks.exposure() } else { end })
    }

    /// Returns the peaks with the sizes that they would have at the time `end`, or after the
    /// last change.
    fn levelled(&self, peaks: &Peaks, end: f64) -> Result<Peaks, InputError> {
        let factor = |time: f64| match self {
            Self::Steady => 1.0,
            Self::Drift { slope } => (slope * (end - time)).exp(),
            Self::Changes(changes) => {
                let later = changes.iter().filter(|change| change.at > time);
                let factor: f64 = later.map(|change| change.times).product();
                if self.alternates() {
                    factor.max(1.0)
                } else {
                    factor
                }
            }
        };
        let pairs = peaks.times().iter().zip(peaks.sizes());
        let sizes = pairs.map(|(&time, &size)| size * factor(time)).collect();
        // Blocks without a peak count as the threshold, which is the smallest level.
        let mut starts = vec![0.0, peaks.exposure()];
        if let Self::Changes(changes) = self {
            starts.extend(changes.iter().map(|change| change.at));
        }
        let smallest = starts.into_iter().map(factor).fold(f64::INFINITY, f64::min);
        let threshold = peaks.threshold() * smallest;
        Peaks::new(threshold, peaks.exposure(), peaks.times().to_vec(), sizes)
    }
}

/// Returns the two-sided p-value of Mann's and Kendall's test for a trend.
fn mann_kendall(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let sign = |a: f64, b: f64| f64::from(i8::from(b > a) - i8::from(b < a));
    let mut sum = 0.0;
    for (index, early) in values.iter().enumerate() {
        for late in &values[index + 1..] {
            sum += sign(*early, *late);
        }
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let of_ties: f64 = sorted
        .chunk_by(|a, b| a == b)
        .map(|tied| tied.len() as f64)
        .map(|tied| tied * (tied - 1.0) * (2.0 * tied + 5.0))
        .sum();
    let variance = (n * (n - 1.0) * (2.0 * n + 5.0) - of_ties) / 18.0;
    if variance <= 0.0 {
        return 1.0;
    }
    let deviate = (sum.abs() - 1.0).max(0.0) / variance.sqrt();
    2.0 * Normal::standard().sf(deviate)
}

/// Returns the approximate p-value of Pettitt's (1979) test for a change.
fn pettitt(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let ranks = ranks(values);
    let (mut sum, mut largest) = (0.0, 0.0_f64);
    for rank in ranks {
        sum += 2.0 * rank - (n + 1.0);
        largest = largest.max(sum.abs());
    }
    (2.0 * (-6.0 * largest * largest / (n * n * (n + 1.0))).exp()).min(1.0)
}

/// Returns the median of the slopes of all pairs, per index.
fn theil_sen(values: &[f64]) -> f64 {
    let mut slopes = Vec::new();
    for (index, early) in values.iter().enumerate() {
        for (further, late) in values[index + 1..].iter().enumerate() {
            slopes.push((late - early) / (further as f64 + 1.0));
        }
    }
    median(&mut slopes)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        f64::midpoint(values[middle - 1], values[middle])
    }
}

/// Returns the criterion of a line with this slope.
fn along(values: &[f64], slope: f64) -> f64 {
    let level = (0..).zip(values);
    let residuals: Vec<f64> = level
        .map(|(index, value)| value - slope * f64::from(index))
        .collect();
    criterion(squares(&residuals), values.len(), 2)
}

/// Returns the parts of `values` between `cuts`.
fn parts<'a>(values: &'a [f64], cuts: &'a [usize]) -> impl Iterator<Item = &'a [f64]> {
    let mut from = 0;
    let ends = cuts.iter().copied().chain(std::iter::once(values.len()));
    ends.map(move |end| &values[std::mem::replace(&mut from, end)..end])
}

/// Returns the criterion of constant parts between `cuts`.
fn in_parts(values: &[f64], cuts: &[usize]) -> f64 {
    let sum = parts(values, cuts).map(squares).sum();
    criterion(sum, values.len(), 2 * cuts.len() + 1)
}

fn squares(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

/// Returns Schwarz's criterion of a sum of squares, up to a constant.
fn criterion(squares: f64, values: usize, parameters: usize) -> f64 {
    let n = values as f64;
    n * (squares / n).max(f64::MIN_POSITIVE).ln() + parameters as f64 * n.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    /// Draws one exponential peak a second, multiplied by a `factor` of the time.
    fn peaks(seed: u64, factor: impl Fn(f64) -> f64) -> Peaks {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let times: Vec<f64> = (0..400).map(|time| f64::from(time) + 0.5).collect();
        let size = |&time: &f64| factor(time) * (1.0 - (1.0 - random.random::<f64>()).ln());
        let sizes = times.iter().map(size).collect();
        Peaks::new(0.01, 400.0, times, sizes).unwrap()
    }

    fn course(seed: u64, factor: impl Fn(f64) -> f64) -> Course {
        Course::of(&peaks(seed, factor), 1.0).unwrap()
    }

    #[test]
    fn steady_latencies_have_a_course_in_few_cases() {
        let steady = (0..200).filter(|&seed| course(seed, |_| 1.0) == Course::Steady);

        // At levels of 1 % and .5 %, 191 or fewer of 200 have a probability of .1 %.
        let steady = steady.count();
        assert!(steady >= 192, "{steady} of 200");
    }

    #[test]
    fn growth_is_a_drift_with_its_slope() {
        let courses = (0..20).map(|seed| course(seed, |time| (time / 200.0).exp()));
        let slopes = courses.filter_map(|course| match course {
            Course::Drift { slope } => Some(slope),
            Course::Steady | Course::Changes(_) => None,
        });
        let slopes: Vec<f64> = slopes.collect();

        // Some courses look more like steps.
        assert!(slopes.len() >= 15, "{slopes:?}");
        assert!(
            slopes.iter().all(|slope| (0.003..0.007).contains(slope)),
            "{slopes:?}"
        );
    }

    #[test]
    fn growth_is_not_continued_for_longer_than_it_was_recorded() {
        let two = Peaks::new(1.0, 100.0, vec![10.0, 90.0], vec![2.0, 8.0]).unwrap();
        let growth = Course::Drift { slope: 0.1 };

        let present = growth.present(&two, 1e9).unwrap();

        assert_eq!(present, growth.present(&two, 100.0).unwrap());
        assert!(growth.is_unknown_after(100.0, 101.0));
        assert!(!growth.is_unknown_after(100.0, 100.0));
        assert!(!Course::Drift { slope: -0.1 }.is_unknown_after(100.0, 1e9));
    }

    #[test]
    fn latencies_that_went_up_and_down_are_not_made_smaller() {
        let three = Peaks::new(1.0, 90.0, vec![10.0, 40.0, 80.0], vec![2.0, 6.0, 2.0]).unwrap();
        let change = |time, times| Change { at: time, times };
        let sizes = |times: [f64; 2]| {
            let changes = vec![change(30.0, times[0]), change(60.0, times[1])];
            let present = Course::Changes(changes).present(&three, 10.0).unwrap();
            present.sizes().to_vec()
        };

        assert_eq!(sizes([4.0, 0.25]), [2.0, 6.0, 2.0]);
        assert_eq!(sizes([0.5, 4.0]), [4.0, 24.0, 2.0]);
        assert_eq!(sizes([0.5, 0.5]), [0.5, 3.0, 2.0]);
    }

    /// Without levelling, the level is for the middle of the recording.
    #[test]
    fn level_of_a_growth_is_for_the_horizon_and_needs_ranks() {
        let growing = peaks(0, |time| (time / 200.0).exp());
        let course = Course::of(&growing, 1.0).unwrap();
        let settings = LevelSettings::default();
        let level_of = |course: &Course, horizon| course.level(&growing, horizon, &settings);

        let (level, raw) = (level_of(&course, 50.0), level_of(&Course::Steady, 50.0));

        let (level, raw) = (level.unwrap(), raw.unwrap());
        assert!(level.value > 1.5 * raw.value, "{level:?}, {raw:?}");
        assert!(level.doubts.contains(&Reason::Drifts));
        let refusal = level_of(&course, 200.0).unwrap_err();
        assert!(refusal.reasons.contains(&Reason::Drifts), "{refusal:?}");
    }

    #[test]
    fn many_blocks_without_a_peak_have_no_course() {
        let late = peaks(1, |time| if time < 150.0 { 1.0 } else { 4.0 });
        let (times, sizes) = late
            .times()
            .iter()
            .zip(late.sizes())
            .filter(|(time, _)| **time > 150.0)
            .unzip();
        let late = Peaks::new(0.01, 400.0, times, sizes).unwrap();

        assert_eq!(Course::of(&late, 1.0).unwrap(), Course::Steady);
    }

    #[test]
    fn step_is_a_change_at_its_time() {
        for seed in 0..20 {
            let Course::Changes(changes) =
                course(seed, |time| if time < 150.0 { 1.0 } else { 4.0 })
            else {
                panic!("{seed}: no change");
            };
            let first = changes[0];
            assert!((110.0..=190.0).contains(&first.at), "{seed}: {changes:?}");
            let times: f64 = changes.iter().map(|change| change.times).product();
            assert!((2.5..6.0).contains(&times), "{seed}: {changes:?}");
        }
    }

    #[test]
    fn present_peaks_have_the_size_at_the_end() {
        let two = Peaks::new(1.0, 100.0, vec![10.0, 90.0], vec![2.0, 8.0]).unwrap();
        let sizes = |course: Course| course.present(&two, 10.0).unwrap().sizes().to_vec();
        let drift = |slope: f64| Course::Drift { slope };
        let changes = Course::Changes(vec![
            Change {
                at: 50.0,
                times: 3.0,
            },
            Change {
                at: 80.0,
                times: 0.5,
            },
        ]);

        assert_eq!(sizes(Course::Steady), [2.0, 8.0]);
        let grown = sizes(drift(0.01));
        assert!((grown[0] - 2.0 * 1.0_f64.exp()).abs() < 1e-9, "{grown:?}");
        // An improvement ends with the recording.
        let fallen = sizes(drift(-0.01));
        assert!((fallen[1] - 8.0 * (-0.1_f64).exp()).abs() < 1e-9);
        assert_eq!(sizes(changes), [3.0, 8.0]);
    }

    /// p-values by hand: n = 4, S = 6, variance 26 / 3.
    #[test]
    fn trend_test_has_the_published_variance() {
        let p = mann_kendall(&[1.0, 2.0, 3.0, 4.0]);
        let expected = 2.0 * Normal::standard().sf(5.0 / (26.0_f64 / 3.0).sqrt());

        assert!((p - expected).abs() < 1e-12, "{p}");
        assert_eq!(mann_kendall(&[2.0; 5]), 1.0);
        assert_eq!(theil_sen(&[0.0, 1.0, 2.0, 30.0]), 5.5);
    }
}
