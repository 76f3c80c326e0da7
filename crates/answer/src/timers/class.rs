//! Class of a timer: how its expiries differ from the requested times.

use laggard_analyze::timer::{
    Delivery, QuartileDifference, RoundingWay, RoundsTo, TickGrid, caught_up, drift, paired,
    share_above, tick_of_doubled,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Difference between the expiries of a timer and the requested times.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerClass {
    /// Waits one tick too long, then fires twice.
    FiresTwice,
    /// Each callback is later than the one before, until one comes immediately.
    CatchesUp,
    /// Expires on a tick of the system, and often not on the next one.
    TwoTicks,
    /// Rounded up to the next tick of the system.
    Tick,
    /// Rounded down to whole units, so that it expires early.
    Cut,
    /// Rounded up to whole units.
    RoundedUp,
    /// Expires before the requested time.
    Early,
    /// After a stall or a late wait, expires at once for each missed period.
    Bursts,
    /// Its clock runs at a different rate.
    Drifts,
    /// Later than other timers, mostly for a reason other than timer slack.
    Later,
    /// Later than other timers, mostly due to timer slack.
    Slack,
    /// As accurate as this machine wakes a thread.
    Exact,
    /// Unknown: too few waits, or the machine itself was too late.
    Unknown,
    /// Not available here.
    Unavailable,
}

impl TimerClass {
    /// Returns whether the timer expires as requested, apart from a delay. `None` if this
    /// is not known.
    pub const fn is_as_requested(self) -> Option<bool> {
        match self {
            Self::FiresTwice
            | Self::CatchesUp
            | Self::TwoTicks
            | Self::Tick
            | Self::Cut
            | Self::RoundedUp
            | Self::Early
            | Self::Bursts
            | Self::Drifts => Some(false),
            Self::Later | Self::Slack | Self::Exact => Some(true),
            Self::Unknown | Self::Unavailable => None,
        }
    }
}

/// Results of the tests of a timer. Its class follows from them.
#[derive(Debug, Default)]
pub(super) struct TimerFindings {
    pub(super) grid: Option<TickGrid>,
    pub(super) rounds_to: Option<RoundsTo>,
    /// Difference between single waits with timer slack and single waits without it, after
    /// rounding.
    pub(super) slack: Option<QuartileDifference>,
    /// Difference between single waits and the most accurate sleep.
    pub(super) delay: Option<QuartileDifference>,
    /// Fraction of single waits that ended before the requested time.
    pub(super) early: f64,
    /// Fraction of intervals in pairs of two periods and almost none.
    pub(super) paired: f64,
    /// Fraction of intervals of almost no length, which make up for longer ones.
    pub(super) caught_up: f64,
    /// Tick that the intervals of a periodic timer show.
    pub(super) doubled: Option<f64>,
    /// Expiries after the timer was not waited for.
    pub(super) delivery: Option<Delivery>,
    /// Difference between the rate of the timer and the rate of the clock.
    pub(super) drift: Option<f64>,
    /// Fraction of the most accurate sleeps that were late by more than a tenth of a tick.
    pub(super) machine_late: f64,
}

/// Slack below this is not reported, ns.
const MIN_SLACK: f64 = 5e3;
/// A delay below this does not affect a program, ns.
const MIN_DELAY: f64 = 20e3;
/// Coarsest resolution that allows a class, ns.
const MAX_RESOLUTION: f64 = 100e3;
/// Minimum fraction so that a pattern of intervals or waits counts as the class.
const MIN_PAIRED: f64 = 0.2;
const MIN_CAUGHT_UP: f64 = 0.02;
const MIN_BEYOND_TICK: f64 = 0.1;
const MIN_EARLY: f64 = 0.01;

impl TimerFindings {
    pub(super) fn class(&self) -> TimerClass {
        let is_coarse = |difference: &QuartileDifference| 4.0 * difference.error > MAX_RESOLUTION;
        if self.paired > MIN_PAIRED {
            return TimerClass::FiresTwice;
        }
        if let Some(grid) = self.grid {
            return if grid.beyond > MIN_BEYOND_TICK + self.machine_late {
                TimerClass::TwoTicks
            } else {
                TimerClass::Tick
            };
        }
        // On a tick that is longer than the period, several expire at once.
        if self.caught_up > MIN_CAUGHT_UP {
            return TimerClass::CatchesUp;
        }
        if let Some(rounds_to) = self.rounds_to {
            return match rounds_to.way {
                RoundingWay::Down => TimerClass::Cut,
                RoundingWay::Up => TimerClass::RoundedUp,
            };
        }
        if self.doubled.is_some() {
            return TimerClass::Tick;
        }
        if self.early > MIN_EARLY {
            return TimerClass::Early;
        }
        // A late machine does not cause bursts, so the resolution does not matter.
        if self.delivery.is_some_and(|delivery| delivery.is_burst) {
            return TimerClass::Bursts;
        }
        let Some(delay) = self.delay else {
            return TimerClass::Unknown;
        };
        let slack = self.visible_slack();
        if is_coarse(&delay) || self.slack.as_ref().is_some_and(is_coarse) {
            // Slack that is visible in spite of the resolution is larger than it.
            return if slack.is_some() {
                TimerClass::Slack
            } else {
                TimerClass::Unknown
            };
        }
        if self.drift.is_some() {
            return TimerClass::Drifts;
        }
        // The larger part decides, because removing it helps most.
        match (self.visible_delay(), slack) {
            (None, None) => TimerClass::Exact,
            (Some(delay), slack) if slack.is_none_or(|slack| delay >= slack) => TimerClass::Later,
            _ => TimerClass::Slack,
        }
    }

    /// Returns the delay due to timer slack if it is significant, ns.
    pub(super) fn visible_slack(&self) -> Option<f64> {
        let slack = self.slack.filter(|slack| slack.is_above(MIN_SLACK));
        slack.map(|slack| slack.by)
    }

    /// Returns the delay without timer slack if it is significant, ns.
    pub(super) fn visible_delay(&self) -> Option<f64> {
        let delay = self.delay.filter(|delay| delay.is_above(MIN_DELAY));
        delay.map(|delay| delay.by)
    }
}

/// Adds the patterns of the intervals between expiries and, for a timer that keeps time,
/// its drift.
pub(super) fn add_periodic(
    findings: &mut TimerFindings,
    gaps: &[f64],
    (due, late): (&[f64], &[f64]),
    (period, keeps_time): (f64, bool),
) {
    findings.paired = paired(gaps, period);
    findings.caught_up = caught_up(gaps, period);
    if keeps_time {
        findings.drift = drift(due, late);
        findings.doubled = tick_of_doubled(gaps, period);
    }
}

/// Returns how frequently the latency of the machine itself was a tick or more.
pub(super) fn machine_late(reference: &[f64], grid: Option<TickGrid>) -> f64 {
    grid.map_or(0.0, |grid| share_above(reference, grid.tick / 10.0))
}
