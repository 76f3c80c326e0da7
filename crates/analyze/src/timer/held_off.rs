//! Behaviour of a periodic timer after a time without a wait: it reports all passed
//! expiries once, or each of them in a burst.

use crate::sample::median;

/// Round without a wait for a timer, times in ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeldOffRound {
    /// Time after the last served expiry, when waiting stopped.
    pub from: f64,
    /// Time when waiting resumed.
    pub back: f64,
    /// Times when the following waits ended, in order.
    pub woke: Vec<f64>,
}

/// Delivery of passed expiries, over all rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delivery {
    /// Number of rounds.
    pub rounds: usize,
    /// Median number of periods that passed.
    pub passed: f64,
    /// Median number of callbacks that followed at once.
    pub at_once: f64,
    /// Whether the passed expiries came in a burst, in most rounds.
    pub is_burst: bool,
}

/// Minimum number of rounds.
const MIN_ROUNDS: usize = 5;
/// Fraction of a period below which callbacks come at once.
const MAX_AT_ONCE_GAP: f64 = 0.2;
/// Maximum number of callbacks without a burst. A timer that reports all passed
/// expiries once fires again if the next expiry is due just then.
const MAX_WITHOUT_BURST: usize = 2;
/// Minimum fraction of the passed expiries in a burst.
const MIN_PASSED_FRACTION: f64 = 0.5;
/// Minimum fraction of rounds with a burst.
const MIN_BURST_ROUNDS: f64 = 2.0 / 3.0;

/// Returns the stalls among the intervals of a free-running timer, ns, as rounds: the
/// callbacks after each until they no longer come at once.
pub fn stalls(gaps: &[f64], period: f64) -> Vec<HeldOffRound> {
    let is_stall = |gap: f64| gap > MAX_WITHOUT_BURST as f64 * period;
    let burst = |start: usize| {
        let back = gaps[start];
        let next = gaps[start + 1..].iter().scan(back, |now, gap| {
            *now += gap;
            (*gap < MAX_AT_ONCE_GAP * period).then_some(*now)
        });
        HeldOffRound {
            from: 0.0,
            back,
            woke: std::iter::once(back).chain(next).collect(),
        }
    };
    (0..gaps.len())
        .filter(|&gap| is_stall(gaps[gap]))
        .map(burst)
        .collect()
}

/// Returns the behaviour of a timer of this period, ns, after rounds without a wait;
/// `None` with too few rounds or fewer than two periods.
pub fn delivery(rounds: &[HeldOffRound], period: f64) -> Option<Delivery> {
    let passed = |round: &HeldOffRound| ((round.back - round.from) / period).floor();
    let valid: Vec<&HeldOffRound> = rounds
        .iter()
        .filter(|round| passed(round) > MAX_WITHOUT_BURST as f64 && !round.woke.is_empty())
        .collect();
    if valid.len() < MIN_ROUNDS || period <= 0.0 {
        return None;
    }
    let at_once = |round: &HeldOffRound| {
        let gaps = round.woke.windows(2).map(|two| two[1] - two[0]);
        1 + gaps
            .take_while(|gap| *gap < MAX_AT_ONCE_GAP * period)
            .count()
    };
    let is_burst = |round: &&&HeldOffRound| {
        let at_once = at_once(round);
        at_once > MAX_WITHOUT_BURST && at_once as f64 >= MIN_PASSED_FRACTION * passed(round)
    };
    let bursts = valid.iter().filter(is_burst).count();
    let figures = |figure: &dyn Fn(&HeldOffRound) -> f64| -> Vec<f64> {
        valid.iter().map(|round| figure(round)).collect()
    };
    Some(Delivery {
        rounds: valid.len(),
        passed: median(&figures(&passed)),
        at_once: median(&figures(&|round| at_once(round) as f64)),
        is_burst: bursts as f64 >= MIN_BURST_ROUNDS * valid.len() as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: f64 = 1.5e6;
    /// Time between two callbacks of a burst, and latency of a thread.
    const CALLBACK_DELAY_NS: f64 = 3e3;

    /// Returns a round of five periods and a half, with this many callbacks at once,
    /// and then one each period.
    fn round(second: u32, at_once: u32) -> HeldOffRound {
        let from = 5e12 + 100e6 * f64::from(second);
        let back = from + 5.5 * PERIOD;
        let burst = (0..at_once).map(|callback| back + CALLBACK_DELAY_NS * f64::from(callback + 1));
        let later = (6..8).map(|period| from + PERIOD * f64::from(period) + CALLBACK_DELAY_NS);
        HeldOffRound {
            from,
            back,
            woke: burst.chain(later).collect(),
        }
    }

    fn rounds(at_once: impl Fn(u32) -> u32) -> Vec<HeldOffRound> {
        (0..10)
            .map(|second| round(second, at_once(second)))
            .collect()
    }

    #[test]
    fn callbacks_for_each_passed_expiry_are_a_burst() {
        let delivery = delivery(&rounds(|_| 5), PERIOD).unwrap();

        assert!(delivery.is_burst, "{delivery:?}");
        assert_eq!(
            (delivery.rounds, delivery.passed, delivery.at_once),
            (10, 5.0, 5.0)
        );
    }

    #[test]
    fn callback_for_all_passed_expiries_is_no_burst() {
        let delivery = delivery(&rounds(|_| 1), PERIOD).unwrap();

        assert!(!delivery.is_burst, "{delivery:?}");
        assert_eq!(delivery.at_once, 1.0);
    }

    /// The thread returns just before the next expiry, each time.
    #[test]
    fn expiry_that_is_due_on_return_makes_no_burst() {
        let delivery = delivery(&rounds(|_| 2), PERIOD).unwrap();

        assert!(!delivery.is_burst, "{delivery:?}");
    }

    /// Other threads delay a callback until the next one comes.
    #[test]
    fn burst_in_a_few_rounds_is_not_attributed_to_the_timer() {
        let some = rounds(|second| if second < 5 { 5 } else { 1 });

        assert!(!delivery(&some, PERIOD).unwrap().is_burst);
    }

    #[test]
    fn stalls_of_callbacks_are_rounds() {
        let period = 1e6;
        let caught_up = [5.1e6, 1e4, 1e4, 1e4, 1e4, 0.9e6, 1e6, 1e6].repeat(6);
        let merged = [5.1e6, 0.9e6, 1e6, 1e6].repeat(6);

        let rounds = stalls(&caught_up, period);
        let result = delivery(&rounds, period).unwrap();

        assert_eq!(
            (result.rounds, result.passed, result.at_once),
            (6, 5.0, 5.0)
        );
        assert!(result.is_burst);
        assert!(!delivery(&stalls(&merged, period), period).unwrap().is_burst);
        assert_eq!(stalls(&[1e6; 9], period), []);
        assert_eq!(stalls(&[], period), []);
    }

    #[test]
    fn few_or_short_rounds_have_no_delivery() {
        assert_eq!(delivery(&rounds(|_| 5)[..4], PERIOD), None);
        assert_eq!(delivery(&rounds(|_| 5), 3.0 * PERIOD), None);
        let mut silent = rounds(|_| 5);
        silent.iter_mut().for_each(|round| round.woke.clear());
        assert_eq!(delivery(&silent, PERIOD), None);
        assert_eq!(delivery(&[], PERIOD), None);
    }
}
