//! Duration of context switches, and its growth with the number of threads (Timmerman
//! 1998, thread switch latency).

use laggard_model::Interruption;

use crate::InputError;
use crate::compare::{MeanRatio, mean_ratio};
use crate::input::{at_least, paired};
use crate::sample::index;

/// Minimum number of switches for a p99.9; with fewer, p99.9 is one of the largest values.
const MIN_FOR_ONE_IN_1000: usize = 10_000;

/// Durations of the context switches with one number of threads, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HandOverTimes {
    /// Number of switches.
    pub count: usize,
    /// Minimum.
    pub least: f64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// p99.9; `None` with fewer than 10,000 switches.
    pub one_in_1000: Option<f64>,
    /// Maximum.
    pub largest: f64,
}

/// Computes the statistics of durations in any order, ns.
///
/// # Errors
/// If durations are missing.
pub fn hand_over_times(took_ns: &[u32]) -> Result<HandOverTimes, InputError> {
    at_least("hand-overs", took_ns, 1)?;
    let mut sorted = took_ns.to_vec();
    sorted.sort_unstable();
    let rank = |share: f64| {
        let rank = index((share * sorted.len() as f64).ceil()).max(1);
        f64::from(sorted[rank.min(sorted.len()) - 1])
    };
    Ok(HandOverTimes {
        count: sorted.len(),
        least: rank(0.0),
        mean: sorted.iter().map(|&ns| f64::from(ns)).sum::<f64>() / sorted.len() as f64,
        median: rank(0.5),
        one_in_1000: (sorted.len() >= MIN_FOR_ONE_IN_1000).then(|| rank(0.999)),
        largest: rank(1.0),
    })
}

/// Returns how much longer switches take with many threads than with few: the ratio of
/// the geometric means of one figure per stretch, with its interval (Welch 1947, for
/// the logarithms). Returns `None` with fewer than two stretches on a side.
///
/// # Errors
/// If a figure is not positive or the confidence is out of its range.
pub fn growth(few: &[f64], many: &[f64], confidence: f64) -> Result<Option<MeanRatio>, InputError> {
    if few.len() < 2 || many.len() < 2 {
        return Ok(None);
    }
    mean_ratio(few, many, confidence).map(Some)
}

/// Returns the durations of switches without interruptions, ns, in the same order.
///
/// Steal time is known only at the next switch. It is subtracted from this switch or
/// the previous one, whichever has more time that could have been stolen. If that would leave less
/// than the minimum of all durations, it is subtracted from neither. Subtraction of interruptions
/// also never leaves less than that minimum.
///
/// # Errors
/// If both do not have the same length.
pub fn net(took_ns: &[u32], between: &[Interruption]) -> Result<Vec<u32>, InputError> {
    paired("hand-overs", took_ns, "interruptions", between)?;
    let least = took_ns.iter().min().copied().unwrap_or(0);
    let mut net: Vec<u32> = took_ns
        .iter()
        .zip(between)
        .map(|(took, between)| took.saturating_sub(between.taken_ns).max(least))
        .collect();
    for (position, between) in between.iter().enumerate() {
        let stolen = between.stolen_ns;
        let before = position.checked_sub(1).filter(|_| between.follows);
        let candidates = [before, Some(position)].into_iter().flatten();
        let whose = candidates.max_by_key(|&candidate| net[candidate]);
        if let Some(left) = whose.map(|index| &mut net[index])
            && *left >= stolen.saturating_add(least)
        {
            *left -= stolen;
        }
    }
    Ok(net)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(taken_ns: u32, stolen_ns: u32) -> Interruption {
        Interruption {
            taken_ns,
            stolen_ns,
            follows: true,
        }
    }

    #[test]
    fn interruptions_are_subtracted_down_to_the_minimum() {
        let times = net(
            &[600, 5_600, 700],
            &[taken(0, 0), taken(5_000, 0), taken(900, 0)],
        );

        assert_eq!(times.unwrap(), [600, 600, 600]);
        assert!(net(&[600, 700], &[taken(0, 0)]).is_err());
    }

    #[test]
    fn steal_time_is_subtracted_from_the_switch_that_lost_it() {
        // Known at the next switch after the one that it was stolen from,
        let late = net(
            &[600, 90_600, 610],
            &[taken(0, 0), taken(0, 0), taken(0, 90_000)],
        );
        assert_eq!(late.unwrap(), [600, 600, 610]);
        // at the same switch,
        let soon = net(
            &[600, 90_600, 610],
            &[taken(0, 0), taken(0, 90_000), taken(0, 0)],
        );
        assert_eq!(soon.unwrap(), [600, 600, 610]);
        // or stolen between two switches.
        let neither = net(&[600, 620], &[taken(0, 0), taken(0, 90_000)]);
        assert_eq!(neither.unwrap(), [600, 620]);
    }

    #[test]
    fn steal_time_after_a_pause_is_not_subtracted_from_the_previous_switch() {
        let first = Interruption {
            follows: false,
            ..taken(0, 90_000)
        };

        assert_eq!(
            net(&[90_600, 610], &[taken(0, 0), first]).unwrap(),
            [90_600, 610]
        );
    }

    #[test]
    fn figures_are_those_of_the_sorted_sample() {
        let mut took: Vec<u32> = (1..=20_000).collect();
        took.reverse();

        let times = hand_over_times(&took).unwrap();

        assert_eq!(times.count, 20_000);
        assert_eq!((times.least, times.median), (1.0, 10_000.0));
        assert_eq!(
            (times.one_in_1000, times.largest),
            (Some(19_980.0), 20_000.0)
        );
        assert!((times.mean - 10_000.5).abs() < 1e-9);
    }

    #[test]
    fn few_switches_have_no_p999_and_zero_switches_are_refused() {
        let times = hand_over_times(&[7]).unwrap();

        assert_eq!(times.one_in_1000, None);
        assert_eq!((times.least, times.largest), (7.0, 7.0));
        assert!(hand_over_times(&[]).is_err());
    }

    #[test]
    fn growth_exceeds_its_interval() {
        let grown = growth(
            &[1_000.0, 1_010.0, 990.0],
            &[2_000.0, 2_020.0, 1_980.0],
            0.95,
        );
        let same = growth(&[1_000.0, 1_100.0, 900.0], &[1_050.0, 930.0, 1_080.0], 0.95);

        let grown = grown.unwrap().unwrap();
        assert!(grown.interval.unwrap().low > 1.9, "{grown:?}");
        let interval = same.unwrap().unwrap().interval.unwrap();
        assert!(interval.low < 1.0 && interval.high > 1.0);
        assert_eq!(growth(&[1.0], &[2.0, 3.0], 0.95).unwrap(), None);
    }
}
