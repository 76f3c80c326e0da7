//! One timer, asked for one period by one service.

use laggard_analyze::timer::{
    HeldOffRound, RoundingWay, Waits, binned, delivery, difference, find_grid, find_rounding,
    intervals, stalls, tick_from_none,
};
use laggard_model::{Absence, HeldOff, Nanos, Service, TimerApi, TimerRun};
use schemars::JsonSchema;
use serde::Serialize;

use super::class::{TimerClass, TimerFound, machine_late, of_periodic};

/// One timer, asked for one period by a thread of one service. Times are in ns;
/// what is absent could not be measured or is not there.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TimerRow {
    /// The timer.
    pub api: TimerApi,
    /// How it was called.
    pub about: String,
    /// What the thread was: `fifo:N` or `other`.
    pub service: Service,
    /// The period that was asked for.
    pub requested_ns: Nanos,
    /// What it does.
    pub class: TimerClass,
    /// Why there is nothing.
    pub absence: Option<Absence>,
    /// Intervals between callbacks when asked for the period again and again.
    pub intervals: Option<CallbackIntervals>,
    /// The same intervals in bins of 100 us (Jones & Regehr 1999, Table 2). None
    /// is empty.
    pub bins: Vec<IntervalBin>,
    /// The tick of the system's that it waits for. Only what chance does not
    /// explain is claimed.
    pub tick_ns: Option<f64>,
    /// The share of single waits that ended more than a tick late, 0 to 1.
    pub beyond_tick: Option<f64>,
    /// The unit to which it rounds.
    pub rounding: Option<TimerRounding>,
    /// How much later it came for the slack that the system is allowed, by the
    /// lower quartiles of waits with and without. Absent where none was seen.
    pub slack_ns: Option<i64>,
    /// How much slack the system is allowed for this thread.
    pub allowed_slack_ns: Nanos,
    /// How much later than the finest sleep of the same thread it came where no
    /// slack was allowed, by lower quartiles. Absent where it was not.
    pub own_ns: Option<i64>,
    /// How late that finest sleep was, in the median: the machine's own.
    pub machine_ns: Option<i64>,
    /// A difference from the finest sleep as large as this would have been told:
    /// four standard errors.
    pub told_from_ns: Option<i64>,
    /// How much its own time goes wrong, as a share of it.
    pub drift: Option<f64>,
    /// The share of callbacks that come at once, not after a stall, because the others
    /// came later than the period after the one before; absent where none do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caught_up: Option<f64>,
    /// What it does after it was not waited for while expiries passed. Absent where
    /// it does not go on meanwhile, or too little was seen.
    pub held_off: Option<TimerHeldOff>,
    /// How late it was when asked for the period, in the median; negative:
    /// early.
    pub late_median_ns: Option<i64>,
    /// How late it was at most, also in single waits.
    pub late_largest_ns: Option<i64>,
    /// Waits for the period.
    pub periodic: usize,
    /// Single waits, for 1 to 3 ms.
    pub single: usize,
    /// Waits left out, because a signal ended them or laggard was stopped.
    pub left_out: u64,
}

/// Intervals between callbacks, ns (Jones & Regehr 1999, Table 1).
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct CallbackIntervals {
    /// How many.
    pub count: usize,
    /// The shortest.
    pub least_ns: i64,
    /// The longest.
    pub largest_ns: i64,
    /// Their mean.
    pub mean_ns: f64,
    /// Their standard deviation.
    pub deviation_ns: f64,
}

/// Intervals of about the same length.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct IntervalBin {
    /// The shortest that belongs to it; it is 100 us wide.
    pub from_ns: Nanos,
    /// How many.
    pub count: usize,
}

/// What a timer does that was not waited for, or was stalled, while several expiries
/// passed.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct TimerHeldOff {
    /// How often that was tried.
    pub rounds: usize,
    /// How many periods passed meanwhile, in the median.
    pub passed: f64,
    /// How many callbacks came at once after that, in the median.
    pub at_once: f64,
    /// Whether what passed comes in a burst, once for each.
    pub is_burst: bool,
    /// Whether these are stalls that came: of a timer whose callbacks nobody waits for.
    pub is_stalled: bool,
    /// Whether the system says how many passed.
    pub is_told: bool,
}

/// To what a timer rounds times.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct TimerRounding {
    /// The unit.
    pub unit_ns: f64,
    /// Whether up; otherwise down.
    pub is_up: bool,
}

/// A time in mathematics.
fn ns(time: Nanos) -> f64 {
    time.as_f64()
}

/// `to` less `from`, ns.
fn less(to: Nanos, from: Nanos) -> f64 {
    match Nanos::between(from, to) {
        Some(after) => ns(after),
        None => -ns(from.saturating_sub(to)),
    }
}

fn middle(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[half]),
        _ => Some((values[half - 1] + values[half]) / 2.0),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "it is a time in ns, rounded to the whole ones"
)]
fn rounded(ns: f64) -> i64 {
    ns.round() as i64
}

/// What was seen of a timer as a row.
pub(super) fn row(run: &TimerRun) -> TimerRow {
    let singles = Singles::of(run);
    let periodic = Periodic::of(run);
    let found = match run.absence {
        None => found(run, &singles, &periodic),
        Some(_) => TimerFound::default(),
    };
    let class = match run.absence {
        None => found.class(),
        Some(_) => TimerClass::Unavailable,
    };
    let tick = if class == TimerClass::FiresTwice {
        Some(tick_from_none(ns(run.period), found.paired))
    } else {
        found.grid.map(|grid| grid.tick).or(found.doubled)
    };
    let untold = |one: laggard_analyze::timer::QuartileDifference| rounded(4.0 * one.error);
    let largest = periodic.late.iter().chain(&singles.late).copied();
    TimerRow {
        api: run.api,
        about: run.api.about().into(),
        service: run.service,
        requested_ns: run.period,
        class,
        absence: run.absence.clone(),
        intervals: periodic.intervals(),
        bins: periodic.bins(),
        tick_ns: tick,
        beyond_tick: found.grid.map(|grid| grid.beyond),
        rounding: found.rounds_to.map(|one| TimerRounding {
            unit_ns: one.unit,
            is_up: one.way == RoundingWay::Up,
        }),
        slack_ns: found.seen_slack().map(rounded),
        allowed_slack_ns: run.allowed_slack,
        own_ns: found.seen_own().map(rounded),
        machine_ns: middle(&singles.reference).map(rounded),
        told_from_ns: found.own.map(untold),
        drift: found.drift,
        caught_up: (found.caught_up > 0.0).then_some(found.caught_up),
        held_off: found.delivery.map(|one| TimerHeldOff {
            rounds: one.rounds,
            passed: one.passed,
            at_once: one.at_once,
            is_burst: one.is_burst,
            is_stalled: run.api.calls_back(),
            is_told: !run.api.calls_back() && run.held_off.iter().all(|round| round.told.is_some()),
        }),
        late_median_ns: middle(&periodic.late).map(rounded),
        late_largest_ns: largest.reduce(f64::max).map(rounded),
        periodic: periodic.late.len(),
        single: singles.late.len(),
        left_out: run.left_out,
    }
}

/// Single waits, for mathematics.
struct Singles {
    waits: Waits,
    late: Vec<f64>,
    is_tight: Vec<bool>,
    reference: Vec<f64>,
}

impl Singles {
    fn of(run: &TimerRun) -> Self {
        let waits = Waits {
            asked: run.single.iter().map(|one| ns(one.asked)).collect(),
            called: run.single.iter().map(|one| ns(one.called)).collect(),
            woke: run.single.iter().map(|one| ns(one.woke)).collect(),
        };
        Self {
            late: waits.late(),
            waits,
            is_tight: run.single.iter().map(|one| one.is_tight).collect(),
            reference: run
                .single
                .iter()
                .map(|one| ns(one.reference_late))
                .collect(),
        }
    }
}

/// Rounds in which it was not waited for, for mathematics.
fn held_off(run: &TimerRun) -> Vec<HeldOffRound> {
    let round = |one: &HeldOff| HeldOffRound {
        from: ns(one.from),
        back: ns(one.back),
        woke: one.woke.iter().copied().map(ns).collect(),
    };
    run.held_off.iter().map(round).collect()
}

/// Waits for the period, for mathematics.
struct Periodic {
    due: Vec<f64>,
    late: Vec<f64>,
    gaps: Vec<f64>,
}

impl Periodic {
    fn of(run: &TimerRun) -> Self {
        let all = &run.periodic;
        let pairs = all.windows(2).filter(|two| two[1].follows);
        let gaps = pairs.map(|two| less(two[1].woke, two[0].woke));
        Self {
            due: all.iter().map(|one| ns(one.due)).collect(),
            late: all.iter().map(|one| less(one.woke, one.due)).collect(),
            gaps: gaps.collect(),
        }
    }

    fn bins(&self) -> Vec<IntervalBin> {
        let bin = |(from, count)| IntervalBin {
            from_ns: Nanos::from_ns(from),
            count,
        };
        binned(&self.gaps).into_iter().map(bin).collect()
    }

    fn intervals(&self) -> Option<CallbackIntervals> {
        let found = intervals(&self.gaps)?;
        Some(CallbackIntervals {
            count: self.gaps.len(),
            least_ns: rounded(found.least),
            largest_ns: rounded(found.largest),
            mean_ns: found.mean,
            deviation_ns: found.deviation,
        })
    }
}

/// A timer is early that comes before it is due by more than this, ns, and more
/// than this share of the time: another clock may run by so much slower.
const EARLY: f64 = 2e3;
const EARLY_SHARE: f64 = 1e-3;
const LEAST_EARLY: usize = 3;

fn found(run: &TimerRun, singles: &Singles, periodic: &Periodic) -> TimerFound {
    // Times that are no numbers there are none, and a row ends after minutes.
    let grid = find_grid(&singles.waits, &singles.reference).unwrap_or(None);
    let rounds_to = match grid {
        Some(_) => None,
        None => find_rounding(&singles.waits),
    };
    let effective = |asked: f64| rounds_to.map_or(asked, |to| to.of(asked));
    let waited = singles.waits.waited();
    let pairs = waited.iter().zip(&singles.waits.asked);
    let late: Vec<f64> = pairs
        .map(|(waited, asked)| waited - effective(*asked))
        .collect();
    let early = singles.waits.asked.iter().zip(&late);
    let early = early.filter(|(asked, late)| **late < -(EARLY + EARLY_SHARE * **asked));
    let of = |is_tight: bool| -> Vec<f64> {
        let pairs = late.iter().zip(&singles.is_tight);
        pairs
            .filter(|(_, tight)| **tight == is_tight)
            .map(|(late, _)| *late)
            .collect()
    };
    let (allowed, tight) = (of(false), of(true));
    let rounds = if run.api.calls_back() {
        stalls(&periodic.gaps, ns(run.period))
    } else {
        held_off(run)
    };
    let mut found = TimerFound {
        grid,
        rounds_to,
        early: match early.count() {
            // A stray one is not the timer's way.
            0..LEAST_EARLY => 0.0,
            some => some as f64 / late.len() as f64,
        },
        machine_late: machine_late(&singles.reference, grid),
        delivery: delivery(&rounds, ns(run.period)),
        ..TimerFound::default()
    };
    // On a grid, where a wait ends says nothing of slack.
    if grid.is_none() {
        found.slack = difference(&allowed, &tight);
        found.own = difference(&tight, &singles.reference);
    }
    of_periodic(
        &mut found,
        &periodic.gaps,
        (&periodic.due, &periodic.late),
        (ns(run.period), run.api.keeps_time()),
    );
    found
}
