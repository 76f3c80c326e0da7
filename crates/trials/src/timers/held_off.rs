//! Behaviour of a periodic timer after a pause without a wait: it reports all expiries that
//! passed at once, or one per wait.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use laggard_model::{HeldOff, Nanos};

use super::{TimerPlan, TimerSystem};
use laggard_measure::{Served, TimedWait};

/// Minimum number of rounds for a result.
pub(super) const MIN_ROUNDS: u64 = 10;
/// Length of the pause in periods, plus half a period, so that the next expiry of a timer that
/// keeps its grid is not immediate.
const PERIODS: u64 = 5;
/// Number of periods to wait afterwards.
const AFTER: u64 = 2;
/// Maximum number of waits per round; more do not give more information.
const MAX_WAITS: usize = 16;
/// Each row gives this fraction of its time (its inverse) to all rounds together.
const INVERSE_SHARE: u64 = 8;

/// Returns the duration of the test; zero if a row is too short for it.
pub(super) fn length(plan: &TimerPlan) -> Nanos {
    // One period until the first expiry, half a period for the margin, one until the last expiry.
    let round_length = plan.period * (1 + PERIODS + 1 + AFTER + 1);
    if plan.api.goes_on()
        && round_length * MIN_ROUNDS <= Nanos::from_ns(plan.duration.ns() / INVERSE_SHARE)
    {
        round_length * MIN_ROUNDS
    } else {
        Nanos::ZERO
    }
}

/// Returns room for the results with all pages present.
pub(super) fn room(plan: &TimerPlan) -> Vec<HeldOff> {
    let round = || {
        let mut woke = vec![Nanos::MAX; MAX_WAITS];
        woke.clear();
        HeldOff {
            from: Nanos::ZERO,
            back: Nanos::ZERO,
            woke,
            told: None,
        }
    };
    let rounds = match length(plan) {
        Nanos::ZERO => 0,
        _ => MIN_ROUNDS,
    };
    (0..rounds).map(|_| round()).collect()
}

/// Repeats the test. A round that was not completed contributes no waits.
pub(super) fn held_off(
    plan: &TimerPlan,
    system: &impl TimerSystem,
    wait: &mut dyn TimedWait,
    end: &AtomicBool,
    rounds: &mut [HeldOff],
) -> io::Result<()> {
    for round in rounds {
        if end.load(Ordering::Relaxed) {
            break;
        }
        let seen_whole = run_round(plan.period, system, wait, round);
        wait.end()?;
        match seen_whole {
            Ok(()) => {}
            Err(err) if err.kind() == io::ErrorKind::Interrupted => round.woke.clear(),
            Err(err) => return Err(err),
        }
    }
    Ok(())
}

/// Runs one round. It does not allocate, because the memory was reserved.
fn run_round(
    period: Nanos,
    system: &impl TimerSystem,
    wait: &mut dyn TimedWait,
    round: &mut HeldOff,
) -> io::Result<()> {
    round.woke.clear();
    let due = wait.begin(system.now() + period, period)?;
    wait.next(due, period)?;
    round.from = wait.over_at(system.now());
    let until = round.from + period * PERIODS + Nanos::from_ns(period.ns() / 2);
    // An expiry may end the sleep, for example of io_uring.
    while system.now() < until {
        system.sleep_until(until);
    }
    round.back = system.now();
    round.told = Some(0);
    let over = round.back + period * AFTER;
    while round.woke.len() < MAX_WAITS && system.now() < over {
        let served = wait.next(due, period)?;
        round.woke.push(wait.over_at(system.now()));
        round.told = match (round.told, served) {
            (Some(reported), Served::Together(count)) => Some(reported + count),
            (_, Served::One | Served::UnknownCount) | (None, Served::Together(_)) => None,
        };
    }
    Ok(())
}
