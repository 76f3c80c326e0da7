//! Criterion `inversion`: wait for a lock that a thread of lower priority holds.

use laggard_model::{InversionRound, InversionRounds, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use super::RtosReason;

/// Minimum number of rounds for a verdict unless a round is inverted.
const MIN_ROUNDS: usize = 10;

/// Waits with each kind of lock.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct InversionFigures {
    /// Waits for a lock with `PTHREAD_PRIO_INHERIT`.
    pub inherit: LockWaits,
    pub plain: LockWaits,
    /// CPU time of the low thread with the lock held.
    pub hold_ns: Nanos,
    /// Computing time of the middle thread.
    pub middle_ns: Nanos,
}

#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct LockWaits {
    pub rounds: usize,
    /// Number of rounds where the middle thread finished first.
    pub inverted: usize,
    /// Longest wait for the lock.
    pub max_ns: Option<Nanos>,
    /// Longest run time of the middle thread during a wait.
    pub middle_max_ns: Option<Nanos>,
}

pub(super) fn figures(rounds: &InversionRounds) -> InversionFigures {
    InversionFigures {
        inherit: waits(&rounds.inherit),
        plain: waits(&rounds.plain),
        hold_ns: rounds.hold,
        middle_ns: rounds.middle,
    }
}

fn waits(rounds: &[InversionRound]) -> LockWaits {
    LockWaits {
        rounds: rounds.len(),
        inverted: rounds.iter().filter(|round| round.is_inverted).count(),
        max_ns: rounds.iter().map(|round| round.waited).max(),
        middle_max_ns: rounds.iter().map(|round| round.middle_ran).max(),
    }
}

/// Returns the reason for the verdict.
///
/// A lock without priority inheritance lets its waiter wait for the critical section and
/// for the computation of the middle thread. A pass therefore requires that the middle
/// thread never ran during a wait, that every wait was shorter than an inversion, and that the same
/// test with a plain lock shows an inversion.
pub(super) fn reason(figures: &InversionFigures) -> RtosReason {
    let (inherit, plain) = (&figures.inherit, &figures.plain);
    let inversion = figures.hold_ns + figures.middle_ns;
    if inherit.inverted > 0 {
        RtosReason::InheritingLockInverted
    } else if inherit.middle_max_ns.is_some_and(|ran| ran > Nanos::ZERO) {
        RtosReason::MiddleThreadRan
    } else if inherit.rounds.min(plain.rounds) < MIN_ROUNDS {
        RtosReason::TooFewSamples
    } else if plain.inverted == 0 {
        RtosReason::PlainLockNotInverted
    } else if inherit.max_ns.is_some_and(|wait| wait >= inversion) {
        RtosReason::WaitAsLongAsInversion
    } else {
        RtosReason::PriorityInherited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason_of(inherit: &[InversionRound], plain: &[InversionRound]) -> RtosReason {
        reason(&figures(&InversionRounds {
            inherit: inherit.to_vec(),
            plain: plain.to_vec(),
            hold: Nanos::from_us(500),
            middle: Nanos::from_ms(5),
        }))
    }

    const INHERITED: InversionRound = InversionRound {
        waited: Nanos::from_us(507),
        middle_ran: Nanos::ZERO,
        is_inverted: false,
    };
    const INVERTED: InversionRound = InversionRound {
        waited: Nanos::from_us(5_512),
        middle_ran: Nanos::from_ms(5),
        is_inverted: true,
    };

    #[test]
    fn a_lock_that_inherits_priority_passes() {
        let reason = reason_of(&[INHERITED; 20], &[INVERTED; 20]);

        assert_eq!(reason, RtosReason::PriorityInherited);
    }

    #[test]
    fn one_inverted_round_fails() {
        let mut inherit = [INHERITED; 20];
        inherit[13] = INVERTED;

        let reason = reason_of(&inherit, &[INVERTED; 20]);

        assert_eq!(reason, RtosReason::InheritingLockInverted);
    }

    /// The middle thread did not run, so the hypervisor may have taken the time. Such a
    /// wait does not show that priority was inherited.
    #[test]
    fn a_wait_as_long_as_an_inversion_is_unknown() {
        let with_wait = |us: u64| {
            let mut inherit = [INHERITED; 20];
            inherit[7].waited = Nanos::from_us(us);
            reason_of(&inherit, &[INVERTED; 20])
        };

        assert_eq!(with_wait(5_499), RtosReason::PriorityInherited);
        assert_eq!(with_wait(5_500), RtosReason::WaitAsLongAsInversion);
        assert_eq!(with_wait(20_600), RtosReason::WaitAsLongAsInversion);
    }

    #[test]
    fn a_middle_thread_that_runs_during_a_wait_fails() {
        let mut inherit = [INHERITED; 20];
        inherit[3].middle_ran = Nanos::from_us(40);

        let reason = reason_of(&inherit, &[INVERTED; 20]);

        assert_eq!(reason, RtosReason::MiddleThreadRan);
    }

    #[test]
    fn a_plain_lock_without_inversion_shows_no_effect() {
        let reason = reason_of(&[INHERITED; 20], &[INHERITED; 20]);

        assert_eq!(reason, RtosReason::PlainLockNotInverted);
    }

    #[test]
    fn a_few_rounds_decide_nothing() {
        for (inherit, plain) in [(9, 20), (20, 9)] {
            let reason = reason_of(&vec![INHERITED; inherit], &vec![INVERTED; plain]);

            assert_eq!(reason, RtosReason::TooFewSamples);
        }
    }
}
