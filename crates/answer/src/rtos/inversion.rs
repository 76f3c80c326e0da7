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
    if with.rounds < ENOUGH {
        let because = format!("only {} rounds were tried", with.rounds);
        return (RtosVerdict::CannotBeTold, because);
    }
    let hold = Unit::Auto.write_nanos(figures.hold_ns);
    let plain = match without.inverted {
        0 => format!("without it at most {} too", time(without.largest_ns)),
        _ => format!(
            "without it {}, as long as others compute",
            time(without.largest_ns)
        ),
    };
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

    /// The hypervisor may take as long as it likes: that inverts nothing.
    #[test]
    fn a_long_wait_is_no_inversion() {
        let long = InversionRound {
            waited: Nanos::from_ms(13),
            ..LENT
        };

        assert_eq!(
            judged(&figures(&seen(&[long; 20], &[]))).0,
            RtosVerdict::Pass
        );
    }

    #[test]
    fn a_few_rounds_decide_nothing() {
        assert_eq!(
            judged(&figures(&seen(&[LENT; 9], &[]))).0,
            RtosVerdict::CannotBeTold
        );
    }
}
