//! Figures of one timer.

use laggard_analyze::timer::{
    HeldOffRound, RoundingWay, Waits, binned, delivery, difference, find_grid, find_rounding,
    intervals, stalls, tick_from_none,
};
use laggard_model::{Absence, HeldOff, Nanos, Service, TimerApi, TimerRun};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::class::{TimerClass, TimerFindings, add_periodic, machine_late};

/// Figures of one timer with one period, used by threads of one service. A figure is
/// absent if it could not be measured or does not apply.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct TimerRow {
    pub api: TimerApi,
    /// Service of the thread: `fifo:N` or `other`.
    pub service: Service,
    pub requested_ns: Nanos,
    /// Difference between the expiries and the requested times.
    pub class: TimerClass,
    /// Reasons for the missing figures.
    pub absence: Option<Absence>,
    /// Intervals between expiries for the period.
    pub intervals: Option<IntervalFigures>,
    /// The same intervals in bins of 100 us (Jones & Regehr 1999, Table 2). Empty bins are
    /// left out.
    pub bins: Vec<IntervalBin>,
    /// Tick of the system that the timer expires on. Stated only if chance does not explain it.
    pub tick_ns: Option<f64>,
    /// Fraction of single waits that ended more than a tick late, 0 to 1.
    pub beyond_tick: Option<f64>,
    pub rounding: Option<TimerRounding>,
    /// Delay due to timer slack: difference between the lower quartiles of waits with and
    /// without it. Absent if it is not significant.
    pub slack_ns: Option<i64>,
    /// Timer slack of this thread.
    pub allowed_slack_ns: Nanos,
    /// Delay without timer slack: difference between the lower quartiles of this timer and
    /// of the most accurate sleep of the same thread. Absent if it is not significant.
    pub delay_ns: Option<i64>,
    /// Median latency of that sleep: the latency of the machine.
    pub reference_ns: Option<i64>,
    /// Smallest delay that the test can detect: four standard errors.
    pub resolution_ns: Option<i64>,
    /// Relative error of the timer's rate.
    pub drift: Option<f64>,
    /// Fraction of callbacks that come immediately although there was no stall. The timer catches
    /// up, because its other intervals are longer than a period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caught_up: Option<f64>,
    /// Expiries after periods while the thread did not wait. Absent if the timer stops during that
    /// time, or in too few rounds.
    pub overrun: Option<TimerOverrun>,
    /// Median latency for the period. Negative: early.
    pub median_ns: Option<i64>,
    /// Max latency, single waits included.
    pub max_ns: Option<i64>,
    /// Number of waits for the period.
    pub periodic: usize,
    /// Number of single waits, for 1 to 3 ms.
    pub single: usize,
    /// Number of waits left out, because a signal ended them or laggard was stopped.
    pub left_out: u64,
}

/// Intervals between expiries, ns (Jones & Regehr 1999, Table 1).
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct IntervalFigures {
    /// Number of intervals.
    pub count: usize,
    /// Shortest interval.
    pub min_ns: i64,
    /// Longest interval.
    pub max_ns: i64,
    pub mean_ns: f64,
    /// Standard deviation.
    pub deviation_ns: f64,
}

/// Number of intervals of about the same length.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct IntervalBin {
    /// Lower end of the bin, which is 100 us wide.
    pub from_ns: Nanos,
    /// Number of intervals.
    pub count: usize,
}

/// Expiries of a timer after several periods without a wait of the thread, or after a stall.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct TimerOverrun {
    pub rounds: usize,
    /// Median number of periods that passed.
    pub passed: f64,
    /// Median number of expiries immediately afterwards.
    pub at_once: f64,
    /// Whether the timer then expires once for each period that passed.
    pub is_burst: bool,
    /// Whether the rounds are stalls that happened. Otherwise the thread did not wait on
    /// purpose.
    pub is_stall: bool,
    /// Whether the system reports the number of periods that passed.
    pub is_counted: bool,
}

/// Rounding of the requested times.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct TimerRounding {
    pub unit_ns: f64,
    /// Whether the timer rounds up. Otherwise it rounds down.
    pub is_up: bool,
}

/// Returns the time as a number of ns.
fn ns(time: Nanos) -> f64 {
    time.as_f64()
}

/// Returns `to` minus `from`, ns.
fn difference_ns(to: Nanos, from: Nanos) -> f64 {
    match Nanos::between(from, to) {
        Some(after) => ns(after),
        None => -ns(from.saturating_sub(to)),
    }
}

fn median(values: &[f64]) -> Option<f64> {
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
    reason = "a time in ns, rounded to whole ns"
)]
fn rounded(ns: f64) -> i64 {
    ns.round() as i64
}

/// Computes the figures of a timer.
pub(super) fn row(run: &TimerRun) -> TimerRow {
    let singles = Singles::new(run);
    let periodic = Periodic::new(run);
    let findings = if run.absence.is_none() {
        find(run, &singles, &periodic)
    } else {
        TimerFindings::default()
    };
    let class = if run.absence.is_none() {
        findings.class()
    } else {
        TimerClass::Unavailable
    };
    let tick = if class == TimerClass::FiresTwice {
        Some(tick_from_none(ns(run.period), findings.paired))
    } else {
        findings.grid.map(|grid| grid.tick).or(findings.doubled)
    };
    let latencies = periodic.late.iter().chain(&singles.late).copied();
    TimerRow {
        api: run.api,
        service: run.service,
        requested_ns: run.period,
        class,
        absence: run.absence.clone(),
        intervals: periodic.intervals(),
        bins: periodic.bins(),
        tick_ns: tick,
        beyond_tick: findings.grid.map(|grid| grid.beyond),
        rounding: findings.rounds_to.map(|rounding| TimerRounding {
            unit_ns: rounding.unit,
            is_up: rounding.way == RoundingWay::Up,
        }),
        slack_ns: findings.visible_slack().map(rounded),
        allowed_slack_ns: run.allowed_slack,
        delay_ns: findings.visible_delay().map(rounded),
        reference_ns: median(&singles.reference).map(rounded),
        resolution_ns: findings.delay.map(|delay| rounded(4.0 * delay.error)),
        drift: findings.drift,
        caught_up: (findings.caught_up > 0.0).then_some(findings.caught_up),
        overrun: findings.delivery.map(|delivery| TimerOverrun {
            rounds: delivery.rounds,
            passed: delivery.passed,
            at_once: delivery.at_once,
            is_burst: delivery.is_burst,
            is_stall: run.api.calls_back(),
            is_counted: !run.api.calls_back()
                && run.held_off.iter().all(|round| round.told.is_some()),
        }),
        median_ns: median(&periodic.late).map(rounded),
        max_ns: latencies.reduce(f64::max).map(rounded),
        periodic: periodic.late.len(),
        single: singles.late.len(),
        left_out: run.left_out,
    }
}

/// Single waits as numbers.
struct Singles {
    waits: Waits,
    late: Vec<f64>,
    is_tight: Vec<bool>,
    reference: Vec<f64>,
}

impl Singles {
    fn new(run: &TimerRun) -> Self {
        let single = || run.single.iter();
        let waits = Waits {
            asked: single().map(|wait| ns(wait.asked)).collect(),
            called: single().map(|wait| ns(wait.called)).collect(),
            woke: single().map(|wait| ns(wait.woke)).collect(),
        };
        Self {
            late: waits.late(),
            waits,
            is_tight: single().map(|wait| wait.is_tight).collect(),
            reference: single().map(|wait| ns(wait.reference_late)).collect(),
        }
    }
}

/// Returns the rounds where the thread did not wait, as numbers.
fn held_off(run: &TimerRun) -> Vec<HeldOffRound> {
    let round = |round: &HeldOff| HeldOffRound {
        from: ns(round.from),
        back: ns(round.back),
        woke: round.woke.iter().copied().map(ns).collect(),
    };
    run.held_off.iter().map(round).collect()
}

/// Waits for the period as numbers.
struct Periodic {
    due: Vec<f64>,
    late: Vec<f64>,
    gaps: Vec<f64>,
}

impl Periodic {
    fn new(run: &TimerRun) -> Self {
        let waits = &run.periodic;
        let pairs = waits.windows(2).filter(|pair| pair[1].follows);
        let gaps = pairs.map(|pair| difference_ns(pair[1].woke, pair[0].woke));
        let late = waits.iter().map(|wait| difference_ns(wait.woke, wait.due));
        Self {
            due: waits.iter().map(|wait| ns(wait.due)).collect(),
            late: late.collect(),
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

    fn intervals(&self) -> Option<IntervalFigures> {
        let figures = intervals(&self.gaps)?;
        Some(IntervalFigures {
            count: self.gaps.len(),
            min_ns: rounded(figures.least),
            max_ns: rounded(figures.largest),
            mean_ns: figures.mean,
            deviation_ns: figures.deviation,
        })
    }
}

/// An expiry counts as early if it precedes the requested time by more than this, ns, plus
/// a share of the time, because another clock may run slower.
const MIN_EARLY: f64 = 2e3;
const MIN_EARLY_SHARE: f64 = 1e-3;
/// Fewer early expiries are strays.
const MIN_EARLY_COUNT: usize = 3;

fn find(run: &TimerRun, singles: &Singles, periodic: &Periodic) -> TimerFindings {
    // The only error is a time that is not a number. Clocks do not return one.
    let grid = find_grid(&singles.waits, &singles.reference).unwrap_or(None);
    let rounds_to = if grid.is_none() {
        find_rounding(&singles.waits)
    } else {
        None
    };
    let effective = |requested: f64| rounds_to.map_or(requested, |to| to.of(requested));
    let waited = singles.waits.waited();
    let pairs = waited.iter().zip(&singles.waits.asked);
    let late: Vec<f64> = pairs
        .map(|(waited, asked)| waited - effective(*asked))
        .collect();
    let early = singles.waits.asked.iter().zip(&late);
    let early = early.filter(|(asked, late)| **late < -(MIN_EARLY + MIN_EARLY_SHARE * **asked));
    let with_slack = |is_tight: bool| -> Vec<f64> {
        let pairs = late.iter().zip(&singles.is_tight);
        pairs
            .filter(|(_, tight)| **tight == is_tight)
            .map(|(late, _)| *late)
            .collect()
    };
    let (allowed, tight) = (with_slack(false), with_slack(true));
    let rounds = if run.api.calls_back() {
        stalls(&periodic.gaps, ns(run.period))
    } else {
        held_off(run)
    };
    let mut findings = TimerFindings {
        grid,
        rounds_to,
        early: match early.count() {
            0..MIN_EARLY_COUNT => 0.0,
            count => count as f64 / late.len() as f64,
        },
        machine_late: machine_late(&singles.reference, grid),
        delivery: delivery(&rounds, ns(run.period)),
        ..TimerFindings::default()
    };
    // On a grid, the end of a wait does not depend on slack.
    if grid.is_none() {
        findings.slack = difference(&allowed, &tight);
        findings.delay = difference(&tight, &singles.reference);
    }
    add_periodic(
        &mut findings,
        &periodic.gaps,
        (&periodic.due, &periodic.late),
        (ns(run.period), run.api.keeps_time()),
    );
    findings
}
