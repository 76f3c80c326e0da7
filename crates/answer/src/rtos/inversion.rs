//! A mechanism that avoids priority inversion: for how long a thread waits for a
//! lock that a less urgent one holds.

use laggard_model::text::{Unit, count};
use laggard_model::{InversionRound, InversionsSeen, Nanos, RtosCriterion};
use schemars::JsonSchema;
use serde::Serialize;

use super::{RtosRow, RtosVerdict};

/// Fewer rounds decide nothing where none is inverted.
const ENOUGH: usize = 10;

/// What was seen of inversions.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct InversionFigures {
    /// With `PTHREAD_PRIO_INHERIT`.
    pub with: LockWaits,
    /// With a plain lock.
    pub without: LockWaits,
    /// How long the holder computes with the lock held, of its own time.
    pub hold_ns: Nanos,
    /// How long the thread between the two computes.
    pub middle_ns: Nanos,
}

/// Waits for a lock of one kind.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct LockWaits {
    /// Rounds.
    pub rounds: usize,
    /// Rounds in which the thread between the two ran to its end first.
    pub inverted: usize,
    /// The longest wait for the lock.
    pub largest_ns: Option<Nanos>,
    /// The longest that the thread between the two ran meanwhile.
    pub kept_largest_ns: Option<Nanos>,
}

pub(super) fn figures(seen: &InversionsSeen) -> InversionFigures {
    InversionFigures {
        with: waits(&seen.with),
        without: waits(&seen.without),
        hold_ns: seen.hold,
        middle_ns: seen.middle,
    }
}

fn waits(rounds: &[InversionRound]) -> LockWaits {
    LockWaits {
        rounds: rounds.len(),
        inverted: rounds.iter().filter(|round| round.is_inverted).count(),
        largest_ns: rounds.iter().map(|round| round.waited).max(),
        kept_largest_ns: rounds.iter().map(|round| round.kept_by_middle).max(),
    }
}

pub(super) fn row(figures: &InversionFigures) -> RtosRow {
    let (verdict, because) = judged(figures);
    RtosRow {
        criterion: RtosCriterion::Inversion,
        verdict,
        because,
        absence: None,
    }
}

/// Whether a lock lends the priority of its waiter to its holder. A lock that does not
/// keeps the waiter for the critical section and for as long as the thread between the
/// two computes. So a pass takes that this thread never ran while the lock was waited
/// for, that no wait was as long as an inversion takes, and that the plain lock, tried
/// in the same way, was inverted.
fn judged(figures: &InversionFigures) -> (RtosVerdict, String) {
    let time = |ns: Option<Nanos>| Unit::Auto.write_nanos(ns.unwrap_or_default());
    let (with, without) = (&figures.with, &figures.without);
    if with.inverted > 0 {
        let because = format!(
            "with PTHREAD_PRIO_INHERIT too a lock was waited for until a less urgent thread had ended, in {} of {} rounds (at most {})",
            with.inverted,
            count(with.rounds as u64),
            time(with.largest_ns)
        );
        return (RtosVerdict::Fail, because);
    }
    if with.kept_largest_ns.is_some_and(|kept| kept > Nanos::ZERO) {
        let because = format!(
            "with PTHREAD_PRIO_INHERIT too a less urgent thread ran for up to {} while a lock was waited for",
            time(with.kept_largest_ns)
        );
        return (RtosVerdict::Fail, because);
    }
    let rounds = with.rounds.min(without.rounds);
    if rounds < ENOUGH {
        let because = format!("only {rounds} rounds were tried with each lock");
        return (RtosVerdict::CannotBeTold, because);
    }
    if without.inverted == 0 {
        let because = format!(
            "a plain lock was not inverted either, in {} rounds (at most {}), so that the trial shows no effect of PTHREAD_PRIO_INHERIT",
            count(without.rounds as u64),
            time(without.largest_ns)
        );
        return (RtosVerdict::CannotBeTold, because);
    }
    let inverted = figures.hold_ns + figures.middle_ns;
    if with.largest_ns.is_some_and(|waited| waited >= inverted) {
        let because = format!(
            "with PTHREAD_PRIO_INHERIT a lock was waited for {}, and an inversion takes {} or more (without it {}): something else had the CPU; try again on a calm machine",
            time(with.largest_ns),
            Unit::Auto.write_nanos(inverted),
            time(without.largest_ns)
        );
        return (RtosVerdict::CannotBeTold, because);
    }
    let hold = Unit::Auto.write_nanos(figures.hold_ns);
    let plain = format!(
        "without it {}, as long as others compute",
        time(without.largest_ns)
    );
    let because = format!(
        "a lock held for {hold} is had after {} at most with PTHREAD_PRIO_INHERIT; {plain}",
        time(with.largest_ns)
    );
    (RtosVerdict::Pass, because)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(with: &[InversionRound], without: &[InversionRound]) -> InversionsSeen {
        InversionsSeen {
            with: with.to_vec(),
            without: without.to_vec(),
            hold: Nanos::from_us(500),
            middle: Nanos::from_ms(5),
        }
    }

    const LENT: InversionRound = InversionRound {
        waited: Nanos::from_us(507),
        kept_by_middle: Nanos::ZERO,
        is_inverted: false,
    };
    const INVERTED: InversionRound = InversionRound {
        waited: Nanos::from_us(5_512),
        kept_by_middle: Nanos::from_ms(5),
        is_inverted: true,
    };

    #[test]
    fn a_lock_that_lends_priority_passes() {
        let (verdict, because) = judged(&figures(&seen(&[LENT; 20], &[INVERTED; 20])));

        assert_eq!(verdict, RtosVerdict::Pass);
        assert_eq!(
            because,
            "a lock held for 500 us is had after 507 us at most with PTHREAD_PRIO_INHERIT; without it 5.51 ms, as long as others compute"
        );
    }

    #[test]
    fn a_lock_that_does_not_fails_on_the_first_round() {
        let mut with = [LENT; 20];
        with[13] = INVERTED;

        let (verdict, because) = judged(&figures(&seen(&with, &[INVERTED; 20])));

        assert_eq!(verdict, RtosVerdict::Fail);
        assert!(
            because.ends_with("in 1 of 20 rounds (at most 5.51 ms)"),
            "{because}"
        );
    }

    /// As long as an inverted one, though the thread between the two did not run: the
    /// hypervisor may have taken it. That shows no effect.
    #[test]
    fn wait_as_long_as_an_inversion_is_no_pass() {
        let long = |us: u64| InversionRound {
            waited: Nanos::from_us(us),
            ..LENT
        };
        let plain = InversionRound {
            waited: Nanos::from_us(25_800),
            ..INVERTED
        };
        let verdict = |us: u64| {
            let mut with = [LENT; 20];
            with[7] = long(us);
            judged(&figures(&seen(&with, &[plain; 20])))
        };

        assert_eq!(verdict(5_499).0, RtosVerdict::Pass);
        assert_eq!(verdict(5_500).0, RtosVerdict::CannotBeTold);
        let (of_long, because) = verdict(20_600);
        assert_eq!(of_long, RtosVerdict::CannotBeTold);
        assert!(
            because.contains(
                "waited for 20.6 ms, and an inversion takes 5.50 ms or more (without it 25.8 ms)"
            ),
            "{because}"
        );
    }

    #[test]
    fn thread_that_runs_while_the_lock_is_waited_for_is_a_failure() {
        let mut with = [LENT; 20];
        with[3].kept_by_middle = Nanos::from_us(40);

        let (verdict, because) = judged(&figures(&seen(&with, &[INVERTED; 20])));

        assert_eq!(verdict, RtosVerdict::Fail);
        assert!(because.contains("ran for up to 40.0 us"), "{because}");
    }

    #[test]
    fn plain_lock_that_is_not_inverted_shows_no_effect() {
        let (verdict, because) = judged(&figures(&seen(&[LENT; 20], &[LENT; 20])));

        assert_eq!(verdict, RtosVerdict::CannotBeTold);
        assert!(because.contains("not inverted either"), "{because}");
    }

    #[test]
    fn a_few_rounds_decide_nothing() {
        assert_eq!(
            judged(&figures(&seen(&[LENT; 9], &[INVERTED; 20]))).0,
            RtosVerdict::CannotBeTold
        );
        assert_eq!(
            judged(&figures(&seen(&[LENT; 20], &[INVERTED; 9]))).0,
            RtosVerdict::CannotBeTold
        );
    }
}
