//! What a timer does, in one word.

use laggard_analyze::timer::{
    Delivery, QuartileDifference, RoundingWay, RoundsTo, TickGrid, caught_up, drift, paired,
    share_above, tick_of_doubled,
};
use schemars::JsonSchema;
use serde::Serialize;

/// What a timer does with the times that it is asked for, as far as was
/// measured.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerClass {
    /// Waits too long by one tick and then fires twice.
    FiresTwice,
    /// Late by more with each callback, until one comes at once.
    CatchesUp,
    /// Served by a tick of the system's, and often not by the next.
    TwoTicks,
    /// Rounded up to the next tick of the system's.
    Tick,
    /// Cut to whole units, so that it comes early.
    Cut,
    /// Rounded up to whole units.
    RoundedUp,
    /// Comes before it is due.
    Early,
    /// After it was not waited for, it comes once for each expiry that passed, at
    /// once.
    Bursts,
    /// Goes wrong by more and more.
    Drifts,
    /// Later than others, and no less so than for slack.
    Later,
    /// Later by what the system is allowed, to save wakeups, most of all.
    Slack,
    /// As exact as this machine wakes a thread.
    Exact,
    /// Not told: too few waits, or the machine itself was too late.
    Undecided,
    /// Not to be had here.
    Unavailable,
}

impl TimerClass {
    /// In a word or two.
    pub const fn words(self) -> &'static str {
        match self {
            Self::FiresTwice => "fires twice",
            Self::CatchesUp => "catches up",
            Self::TwoTicks => "two ticks",
            Self::Tick => "tick",
            Self::Cut => "cut",
            Self::RoundedUp => "rounded up",
            Self::Early => "early",
            Self::Bursts => "bursts",
            Self::Drifts => "drifts",
            Self::Later => "later",
            Self::Slack => "slack",
            Self::Exact => "exact",
            Self::Undecided => "undecided",
            Self::Unavailable => "not here",
        }
    }

    /// Whether it comes as it was asked for, but for some delay; `None`: that is
    /// not known.
    pub const fn is_as_asked(self) -> Option<bool> {
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
            Self::Undecided | Self::Unavailable => None,
        }
    }
}

/// What was found of a timer, from which its class follows.
#[derive(Debug, Default)]
pub(super) struct TimerFound {
    pub(super) grid: Option<TickGrid>,
    pub(super) rounds_to: Option<RoundsTo>,
    /// How much later single waits are, beside what they are rounded to, with
    /// the slack allowed than without any.
    pub(super) slack: Option<QuartileDifference>,
    /// How much later they are, all of them, than the finest sleep.
    pub(super) own: Option<QuartileDifference>,
    /// The share of single waits that ended before they were due.
    pub(super) early: f64,
    /// The share of pairs of intervals that are two periods and none.
    pub(super) paired: f64,
    /// The share of intervals next to nothing, by which it makes up for longer ones.
    pub(super) caught_up: f64,
    /// The tick that the intervals tell of a timer that keeps time.
    pub(super) doubled: Option<f64>,
    /// What it does after it was not waited for.
    pub(super) delivery: Option<Delivery>,
    /// By how much of its own time it drifts.
    pub(super) drift: Option<f64>,
    /// The share of the finest sleeps that were late by more than a tenth of a tick.
    pub(super) machine_late: f64,
}

/// Less than this is no slack, and no delay of a timer's own that anybody need
/// know, ns.
const LEAST_SLACK: f64 = 5e3;
const LEAST_OWN: f64 = 20e3;
/// What cannot be told finer than this is not told, ns.
const COARSEST: f64 = 100e3;
/// So many intervals must come in pairs, so many at once to make up for others, so many
/// waits more than a tick late, so many early.
const PAIRED: f64 = 0.2;
const CAUGHT_UP: f64 = 0.02;
const BEYOND: f64 = 0.1;
const EARLY: f64 = 0.01;

impl TimerFound {
    pub(super) fn class(&self) -> TimerClass {
        let is_coarse = |one: &QuartileDifference| 4.0 * one.error > COARSEST;
        if self.paired > PAIRED {
            return TimerClass::FiresTwice;
        }
        if let Some(grid) = self.grid {
            return if grid.beyond > BEYOND + self.machine_late {
                TimerClass::TwoTicks
            } else {
                TimerClass::Tick
            };
        }
        // On a tick that is longer than the period, several come at once.
        if self.caught_up > CAUGHT_UP {
            return TimerClass::CatchesUp;
        }
        if let Some(one) = self.rounds_to {
            return match one.way {
                RoundingWay::Down => TimerClass::Cut,
                RoundingWay::Up => TimerClass::RoundedUp,
            };
        }
        if self.doubled.is_some() {
            return TimerClass::Tick;
        }
        if self.early > EARLY {
            return TimerClass::Early;
        }
        // Of expiries in a burst it is not the machine that tells.
        if self.delivery.is_some_and(|one| one.is_burst) {
            return TimerClass::Bursts;
        }
        let Some(own) = self.own else {
            return TimerClass::Undecided;
        };
        let slack = self.seen_slack();
        if is_coarse(&own) || self.slack.as_ref().is_some_and(is_coarse) {
            // Slack that is seen all the same is more than cannot be told.
            return match slack {
                Some(_) => TimerClass::Slack,
                None => TimerClass::Undecided,
            };
        }
        if self.drift.is_some() {
            return TimerClass::Drifts;
        }
        // What there is more of is what there is to be done about.
        match (self.seen_own(), slack) {
            (None, None) => TimerClass::Exact,
            (Some(own), slack) if slack.is_none_or(|slack| own >= slack) => TimerClass::Later,
            _ => TimerClass::Slack,
        }
    }

    /// What slack does, where it is seen to do something, ns.
    pub(super) fn seen_slack(&self) -> Option<f64> {
        let seen = self.slack.filter(|one| one.is_above(LEAST_SLACK));
        seen.map(|one| one.by)
    }

    /// What the timer adds of its own, where that is seen, ns.
    pub(super) fn seen_own(&self) -> Option<f64> {
        self.own
            .filter(|one| one.is_above(LEAST_OWN))
            .map(|one| one.by)
    }
}

/// The share of pairs among the intervals of a timer, and its drift.
pub(super) fn of_periodic(
    found: &mut TimerFound,
    gaps: &[f64],
    (due, late): (&[f64], &[f64]),
    (period, keeps_time): (f64, bool),
) {
    found.paired = paired(gaps, period);
    found.caught_up = caught_up(gaps, period);
    if keeps_time {
        found.drift = drift(due, late);
        found.doubled = tick_of_doubled(gaps, period);
    }
}

/// How often the machine itself was late by what would be taken for a tick's.
pub(super) fn machine_late(reference: &[f64], grid: Option<TickGrid>) -> f64 {
    grid.map_or(0.0, |grid| share_above(reference, grid.tick / 10.0))
}
