//! How long hand-overs of a CPU take, and whether that grows with the number of
//! threads (Timmerman 1998, thread switch latency).

use laggard_model::Interruption;

use crate::InputError;
use crate::compare::{MeanRatio, mean_ratio};
use crate::input::{at_least, paired};
use crate::sample::index;

/// With fewer, what one in 1,000 exceeds is one of the largest by itself.
const ENOUGH_FOR_ONE_IN_1000: usize = 10_000;

/// How long the hand-overs of one number of threads took, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HandOverTimes {
    /// How many.
    pub count: usize,
    /// The shortest.
    pub least: f64,
    /// Their mean.
    pub mean: f64,
    /// Half of them took no longer.
    pub median: f64,
    /// One in 1,000 took longer; `None` of fewer than 10,000.
    pub one_in_1000: Option<f64>,
    /// The longest.
    pub largest: f64,
}

/// Of hand-overs in any order, ns.
///
/// # Errors
/// When there is none.
pub fn hand_over_times(took_ns: &[u32]) -> Result<HandOverTimes, InputError> {
    at_least("hand-overs", took_ns, 1)?;
    let mut sorted = took_ns.to_vec();
    sorted.sort_unstable();
    let rank = |share: f64| {
        let at = index((share * sorted.len() as f64).ceil()).max(1);
        f64::from(sorted[at.min(sorted.len()) - 1])
    };
    Ok(HandOverTimes {
        count: sorted.len(),
        least: rank(0.0),
        mean: sorted.iter().map(|&ns| f64::from(ns)).sum::<f64>() / sorted.len() as f64,
        median: rank(0.5),
        one_in_1000: (sorted.len() >= ENOUGH_FOR_ONE_IN_1000).then(|| rank(0.999)),
        largest: rank(1.0),
    })
}

/// How much longer hand-overs take in stretches of more threads than in those of
/// few: the ratio of the geometric means of one figure of each stretch, with its interval
/// (Welch 1947, of the logarithms). `None` with fewer than two stretches a side.
///
/// # Errors
/// When a figure is not positive or the confidence is out of its range.
pub fn growth(few: &[f64], many: &[f64], confidence: f64) -> Result<Option<MeanRatio>, InputError> {
    if few.len() < 2 || many.len() < 2 {
        return Ok(None);
    }
    mean_ratio(few, many, confidence).map(Some)
}

/// How long hand-overs took without what came between, ns, in the same order.
///
/// What the hypervisor stole is known at the next switch only: it counts to this
/// hand-over or the one before, to whichever has more time left that it could have
/// been stolen from. Where less would be left than the shortest of all took, it was
/// stolen from neither. So no time is taken off that a hand-over did not have: also of
/// what came between, so much is left in that none takes less than that shortest.
///
/// # Errors
/// When there are not as many of both.
pub fn net(took_ns: &[u32], between: &[Interruption]) -> Result<Vec<u32>, InputError> {
    paired("hand-overs", took_ns, "what came between", between)?;
    let least = took_ns.iter().min().copied().unwrap_or(0);
    let mut net: Vec<u32> = took_ns
        .iter()
        .zip(between)
        .map(|(took, between)| took.saturating_sub(between.taken_ns).max(least))
        .collect();
    for (at, between) in between.iter().enumerate() {
        let stolen = between.stolen_ns;
        let before = at.checked_sub(1).filter(|_| between.follows);
        let candidates = [before, Some(at)].into_iter().flatten();
        let whose = candidates.max_by_key(|&one| net[one]);
        if let Some(left) = whose.map(|one| &mut net[one])
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
    fn what_came_between_is_taken_off_and_the_shortest_that_was_seen_stays() {
        let found = net(
            &[600, 5_600, 700],
            &[taken(0, 0), taken(5_000, 0), taken(900, 0)],
        );

        assert_eq!(found.unwrap(), [600, 600, 600]);
        assert!(net(&[600, 700], &[taken(0, 0)]).is_err());
    }

    #[test]
    fn what_was_stolen_counts_to_the_hand_over_that_it_was_stolen_from() {
        // Known at the switch after the one that it was stolen in,
        let late = net(
            &[600, 90_600, 610],
            &[taken(0, 0), taken(0, 0), taken(0, 90_000)],
        );
        assert_eq!(late.unwrap(), [600, 600, 610]);
        // at once,
        let soon = net(
            &[600, 90_600, 610],
            &[taken(0, 0), taken(0, 90_000), taken(0, 0)],
        );
        assert_eq!(soon.unwrap(), [600, 600, 610]);
        // or stolen between two hand-overs.
        let neither = net(&[600, 620], &[taken(0, 0), taken(0, 90_000)]);
        assert_eq!(neither.unwrap(), [600, 620]);
    }

    #[test]
    fn after_a_pause_nothing_counts_to_the_hand_over_before_it() {
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

        let found = hand_over_times(&took).unwrap();

        assert_eq!(found.count, 20_000);
        assert_eq!((found.least, found.median), (1.0, 10_000.0));
        assert_eq!(
            (found.one_in_1000, found.largest),
            (Some(19_980.0), 20_000.0)
        );
        assert!((found.mean - 10_000.5).abs() < 1e-9);
    }

    #[test]
    fn few_hand_overs_have_no_one_in_1000_and_none_no_figures() {
        let found = hand_over_times(&[7]).unwrap();

        assert_eq!(found.one_in_1000, None);
        assert_eq!((found.least, found.largest), (7.0, 7.0));
        assert!(hand_over_times(&[]).is_err());
    }

    #[test]
    fn what_grows_does_so_beyond_its_interval() {
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
