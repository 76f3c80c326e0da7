//! What a timer that goes on by itself does after it was not waited for: it comes once
//! for all expiries that passed, or once for each, in a burst.

use crate::sample::median;

/// One round in which a timer was not waited for, times in ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeldOffRound {
    /// When an expiry had been served, and it was not waited for any more.
    pub from: f64,
    /// When it was waited for again.
    pub back: f64,
    /// When the waits from then on were over, in order.
    pub woke: Vec<f64>,
}

/// What was seen of these rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivery {
    /// How many rounds.
    pub rounds: usize,
    /// How many periods passed, in the median.
    pub passed: f64,
    /// How many callbacks came at once after that, in the median.
    pub at_once: f64,
    /// Whether what had passed came in a burst, in most rounds.
    pub is_burst: bool,
}

/// Of fewer rounds nothing is told.
const LEAST: usize = 5;
/// Callbacks closer than this share of a period are at once.
const AT_ONCE: f64 = 0.2;
/// A timer that comes once for all that passed comes once more where the next expiry
/// is due just then: two are no burst.
const NO_BURST: usize = 2;
/// In a burst come at least so many of those that passed.
const OF_PASSED: f64 = 0.5;
/// In so many rounds.
const MOST_ROUNDS: f64 = 2.0 / 3.0;

/// The stalls among the intervals of a timer whose callbacks nobody waits for, ns, as
/// rounds: what came after each until callbacks were no longer at once.
pub fn stalls(gaps: &[f64], period: f64) -> Vec<HeldOffRound> {
    let is_stall = |gap: f64| gap > NO_BURST as f64 * period;
    let burst = |at: usize| {
        let back = gaps[at];
        let next = gaps[at + 1..].iter().scan(back, |now, gap| {
            *now += gap;
            (*gap < AT_ONCE * period).then_some(*now)
        });
        HeldOffRound {
            from: 0.0,
            back,
            woke: std::iter::once(back).chain(next).collect(),
        }
    };
    (0..gaps.len())
        .filter(|&at| is_stall(gaps[at]))
        .map(burst)
        .collect()
}

/// What a timer of this period, ns, did after it was held off; `None`: it was too
/// seldom, or for less than two periods.
pub fn delivery(rounds: &[HeldOffRound], period: f64) -> Option<Delivery> {
    let passed = |round: &HeldOffRound| ((round.back - round.from) / period).floor();
    let seen: Vec<&HeldOffRound> = rounds
        .iter()
        .filter(|round| passed(round) > NO_BURST as f64 && !round.woke.is_empty())
        .collect();
    if seen.len() < LEAST || period <= 0.0 {
        return None;
    }
    let at_once = |round: &HeldOffRound| {
        let gaps = round.woke.windows(2).map(|two| two[1] - two[0]);
        1 + gaps.take_while(|gap| *gap < AT_ONCE * period).count()
    };
    let is_burst = |round: &&&HeldOffRound| {
        let at_once = at_once(round);
        at_once > NO_BURST && at_once as f64 >= OF_PASSED * passed(round)
    };
    let bursts = seen.iter().filter(is_burst).count();
    let all = |of: &dyn Fn(&HeldOffRound) -> f64| -> Vec<f64> {
        seen.iter().map(|round| of(round)).collect()
    };
    Some(Delivery {
        rounds: seen.len(),
        passed: median(&all(&passed)),
        at_once: median(&all(&|round| at_once(round) as f64)),
        is_burst: bursts as f64 >= MOST_ROUNDS * seen.len() as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: f64 = 1.5e6;
    /// Between two callbacks of a burst, and how late a thread runs.
    const SOON: f64 = 3e3;

    /// A round of five periods and a half, with this many callbacks at once, and then
    /// one each period.
    fn round(at: u32, at_once: u32) -> HeldOffRound {
        let from = 5e12 + 100e6 * f64::from(at);
        let back = from + 5.5 * PERIOD;
        let burst = (0..at_once).map(|of| back + SOON * f64::from(of + 1));
        let later = (6..8).map(|of| from + PERIOD * f64::from(of) + SOON);
        HeldOffRound {
            from,
            back,
            woke: burst.chain(later).collect(),
        }
    }

    fn rounds(at_once: impl Fn(u32) -> u32) -> Vec<HeldOffRound> {
        (0..10).map(|at| round(at, at_once(at))).collect()
    }

    #[test]
    fn what_comes_once_for_each_that_passed_is_a_burst() {
        let found = delivery(&rounds(|_| 5), PERIOD).unwrap();

        assert!(found.is_burst, "{found:?}");
        assert_eq!((found.rounds, found.passed, found.at_once), (10, 5.0, 5.0));
    }

    #[test]
    fn what_comes_once_for_all_that_passed_is_none() {
        let found = delivery(&rounds(|_| 1), PERIOD).unwrap();

        assert!(!found.is_burst, "{found:?}");
        assert_eq!(found.at_once, 1.0);
    }

    /// The thread comes back just before the next expiry, each time.
    #[test]
    fn an_expiry_that_is_due_just_then_makes_no_burst() {
        let found = delivery(&rounds(|_| 2), PERIOD).unwrap();

        assert!(!found.is_burst, "{found:?}");
    }

    /// Others that take the CPU hold a callback back until the next comes.
    #[test]
    fn what_a_busy_machine_does_to_some_rounds_is_none_of_the_timers() {
        let some = rounds(|at| if at < 5 { 5 } else { 1 });

        assert!(!delivery(&some, PERIOD).unwrap().is_burst);
    }

    #[test]
    fn stalls_of_callbacks_are_rounds_of_their_own() {
        let period = 1e6;
        let caught_up = [5.1e6, 1e4, 1e4, 1e4, 1e4, 0.9e6, 1e6, 1e6].repeat(6);
        let merged = [5.1e6, 0.9e6, 1e6, 1e6].repeat(6);

        let rounds = stalls(&caught_up, period);
        let found = delivery(&rounds, period).unwrap();

        assert_eq!((found.rounds, found.passed, found.at_once), (6, 5.0, 5.0));
        assert!(found.is_burst);
        assert!(!delivery(&stalls(&merged, period), period).unwrap().is_burst);
        assert_eq!(stalls(&[1e6; 9], period), []);
        assert_eq!(stalls(&[], period), []);
    }

    #[test]
    fn nothing_is_told_of_few_rounds_nor_of_short_ones() {
        assert_eq!(delivery(&rounds(|_| 5)[..4], PERIOD), None);
        assert_eq!(delivery(&rounds(|_| 5), 3.0 * PERIOD), None);
        let mut silent = rounds(|_| 5);
        silent.iter_mut().for_each(|round| round.woke.clear());
        assert_eq!(delivery(&silent, PERIOD), None);
        assert_eq!(delivery(&[], PERIOD), None);
    }
}
