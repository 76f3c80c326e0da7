//! Deferred work while processes keep a CPU busy, per context (Heubaum 1995, Tables 3 to 5 and Fig.
//! 4).

use std::cmp::Ordering;

pub use laggard_analyze::bumps::MIN_LATENCIES as MIN_BUMP_SAMPLES;
use laggard_analyze::bumps::{Bumps, find_bumps};
use laggard_analyze::distribution::{Group, Quantile};
use laggard_model::{Contexts, Histogram, Nanos, ProbePlan, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

/// Deferred work while processes keep a CPU busy.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ContextsReport {
    /// Busy processes and their CPU.
    pub beside: Contexts,
    /// End of a turn: a timer of the processes, or the tick of the kernel.
    pub turn: TurnEnd,
    /// Mean time between two requests for work.
    pub period_ns: Nanos,
    /// Whether the kernel shares the CPU among sessions first, so that nice counts only
    /// within a session.
    pub has_autogroups: bool,
    /// Contexts, the most direct first.
    pub rows: Vec<ContextRow>,
}

/// Times when a turn can end.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TurnEnd {
    /// Distance of two consecutive times.
    pub every_ns: Nanos,
    /// Whether they are the kernel's ticks.
    pub is_tick: bool,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ContextRow {
    pub context: ContextKind,
    pub service: Service,
    pub route: Route,
    /// Number of wakeups, including missed ones.
    pub samples: u64,
    pub mean_ns: Option<f64>,
    /// Standard error of the mean; absent with fewer than ten samples.
    pub mean_error_ns: Option<f64>,
    /// Median; absent if it is not known.
    pub median_ns: Option<Nanos>,
    /// p99; absent if it is not known.
    pub p99_ns: Option<Nanos>,
    /// Max.
    pub largest_ns: Option<Nanos>,
    /// Whether mean and max are lower limits, because a wakeup was still waiting when measuring
    /// ended.
    pub is_at_least: bool,
    /// Evenly spaced bumps of the distribution; absent without them.
    pub bumps: Option<BumpRow>,
}

/// Context that does deferred work.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Context")]
pub enum ContextKind {
    /// Softirq (Heubaum's global event).
    Any,
    /// Work item in a kworker.
    Worker,
    /// Thread that is raised above the others for this work (Heubaum's priority VM event).
    Boosted,
    /// Normal thread that the requester raises through a PI futex while it works (likewise).
    Lent,
    /// Normal thread with the lowest nice value (likewise).
    Niced,
    /// Normal thread with the shortest slice (likewise).
    Sliced,
    /// Normal thread with the default nice value that sleeps until it is woken.
    Woken,
    /// Busy thread that does the work in its turn (Heubaum's VM event).
    Plain,
}

impl ContextKind {
    /// Returns all contexts with their service and route under `contexts`.
    fn all(contexts: Contexts) -> [(Self, Service, Route); 8] {
        let (direct, deferred) = (Route::Direct, Route::Deferred);
        [
            (Self::Any, Service::Softirq, direct),
            (Self::Worker, Service::Worker, deferred),
            (Self::Boosted, Contexts::BOOSTED, direct),
            (Self::Lent, Contexts::LENT, direct),
            (Self::Niced, Contexts::NICED, direct),
            (Self::Sliced, Contexts::SLICED, direct),
            (Self::Woken, contexts.plain(), deferred),
            (Self::Plain, contexts.plain(), direct),
        ]
    }
}

/// Evenly spaced bumps: one per number of turns that the work waited for.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct BumpRow {
    /// Distance of two bumps, ns.
    pub every_ns: f64,
    /// Standard error of the distance, ns.
    pub error_ns: f64,
    /// Position of the first bump, ns.
    pub first_ns: f64,
    /// Share that waited for no turn, 0 to 1.
    pub at_once: f64,
    /// Shares that waited for one turn, for two turns, and so on.
    pub positions: Vec<f64>,
    /// Share that waited longer.
    pub beyond: f64,
}

impl From<Bumps> for BumpRow {
    fn from(bumps: Bumps) -> Self {
        let total = bumps.at_once + bumps.positions.iter().sum::<u64>() + bumps.beyond;
        let share = |count: u64| count as f64 / total.max(1) as f64;
        Self {
            every_ns: bumps.spacing,
            error_ns: bumps.error,
            first_ns: bumps.first,
            at_once: share(bumps.at_once),
            positions: bumps.positions.iter().copied().map(share).collect(),
            beyond: share(bumps.beyond),
        }
    }
}

/// Returns the latencies per context; `None` if the plan does not have contexts. `by_session`: the
/// kernel shares the CPU among sessions first.
pub(crate) fn contexts(
    plan: &ProbePlan,
    groups: &[Group],
    by_session: bool,
) -> Option<ContextsReport> {
    let beside = plan.contexts?;
    let row = |(context, service, route)| {
        let error_of = |group: &&Group| {
            let key = group.key;
            (key.service, key.route, key.part) == (service, route, None)
        };
        let group = groups.iter().find(error_of)?;
        let latency = group.latency.histogram();
        let exact = |q: f64| match group.quantile(q) {
            Quantile::Is(time) => Some(time),
            _ => None,
        };
        Some(ContextRow {
            context,
            service,
            route,
            samples: latency.count(),
            mean_ns: latency.mean_ns(),
            mean_error_ns: mean_error(latency),
            median_ns: exact(0.5),
            p99_ns: exact(0.99),
            largest_ns: latency.max(),
            is_at_least: group.censored.histogram().count() > 0,
            bumps: find_bumps(latency).map(BumpRow::from),
        })
    };
    let rows: Vec<ContextRow> = ContextKind::all(beside)
        .into_iter()
        .filter_map(row)
        .collect();
    let turn = TurnEnd {
        every_ns: beside.turn(plan.period_ns),
        is_tick: beside.turn_ns.is_none(),
    };
    Some(ContextsReport {
        beside,
        turn,
        period_ns: plan.period_ns,
        has_autogroups: by_session,
        rows,
    })
}

/// Returns the standard error of the mean; `None` with fewer than ten samples.
fn mean_error(latency: &Histogram) -> Option<f64> {
    const LEAST: u64 = 10;
    let count = latency.count();
    let deviation = latency.deviation_ns().filter(|_| count >= LEAST)?;
    Some(deviation / (count as f64).sqrt())
}

/// Compares the mean latencies of two contexts. `None`: chance explains the difference, which
/// is less than twice its standard error (exceeded in 1 of 20 equal cases).
pub fn later(first: &ContextRow, second: &ContextRow) -> Option<Ordering> {
    const BEYOND_CHANCE: f64 = 2.0;
    let error = first.mean_error_ns?.hypot(second.mean_error_ns?);
    let by = second.mean_ns? - first.mean_ns?;
    (by.abs() > BEYOND_CHANCE * error).then(|| by.total_cmp(&0.0))
}
