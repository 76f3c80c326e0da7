//! What a timer that goes on by itself does after nobody has waited for it: it comes
//! once for all that passed, or once for each.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use laggard_model::{HeldOff, Nanos};

use super::{TimerPlan, TimerSystem};
use laggard_measure::{Served, TimedWait};

/// So often. Of fewer nothing is told.
pub(super) const ROUNDS: u64 = 10;
/// For so many periods and a half: between two expiries of a timer that keeps time, so
/// that the next one is not at once.
const PERIODS: u64 = 5;
/// From then on it is waited for so many periods.
const AFTER: u64 = 2;
/// More waits than these say nothing more.
const MOST_WAITS: usize = 16;
/// All rounds together have such a part of a row's time.
const SHARE: u64 = 8;

/// How long it takes; nothing where a row has no time for it.
pub(super) fn length(plan: &TimerPlan) -> Nanos {
    // One period to the first expiry, half of one to what is between, one to the last.
    let round = plan.period * (1 + PERIODS + 1 + AFTER + 1);
    if plan.api.goes_on() && round * ROUNDS <= Nanos::from_ns(plan.duration.ns() / SHARE) {
        round * ROUNDS
    } else {
        Nanos::ZERO
    }
}

/// Room for what is seen, whose pages are there.
pub(super) fn room(plan: &TimerPlan) -> Vec<HeldOff> {
    let round = || {
        let mut woke = vec![Nanos::MAX; MOST_WAITS];
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
        _ => ROUNDS,
    };
    (0..rounds).map(|_| round()).collect()
}

/// Holds it off, again and again. A round that was not seen to its end has no waits.
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
        let seen_whole = one(plan.period, system, wait, round);
        wait.end()?;
        match seen_whole {
            Ok(()) => {}
            Err(err) if err.kind() == io::ErrorKind::Interrupted => round.woke.clear(),
            Err(err) => return Err(err),
        }
    }
    Ok(())
}

/// One round. No allocation: there is room.
fn one(
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
    // What expires meanwhile may end the sleep, as of io_uring.
    while system.now() < until {
        system.sleep_until(until);
    }
    round.back = system.now();
    round.told = Some(0);
    let over = round.back + period * AFTER;
    while round.woke.len() < MOST_WAITS && system.now() < over {
        let served = wait.next(due, period)?;
        round.woke.push(wait.over_at(system.now()));
        round.told = match (round.told, served) {
            (Some(told), Served::Together(count)) => Some(told + count),
            (_, Served::One | Served::Untold) | (None, Served::Together(_)) => None,
        };
    }
    Ok(())
}
