//! Deferred work beside busy processes, per context (Heubaum 1995, Tables 3 to 5 and
//! Fig. 4).

#![deny(clippy::disallowed_macros)]

use std::cmp::Ordering;

pub use laggard_analyze::bumps::MIN_LATENCIES as MIN_BUMP_SAMPLES;
use laggard_analyze::bumps::{Bumps, find_bumps};
use laggard_analyze::distribution::{Group, Quantile};
use laggard_model::{Contexts, Histogram, Nanos, ProbePlan, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

/// Deferred work beside busy processes.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ContextsReport {
    /// Busy processes, and their CPU.
    pub beside: Contexts,
    /// End of a turn: the processes' own clock, or the tick of the kernel.
    pub turn: TurnEnd,
    /// Mean time between two requests for work.
    pub period_ns: Nanos,
    /// Whether the kernel shares the CPU among sessions first, so that nice counts only
    /// within a session.
    pub has_autogroups: bool,
    /// Contexts, the most direct first.
    pub rows: Vec<ContextRow>,
}

/// At which instants turns can end.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TurnEnd {
    /// How far they are apart.
    pub every_ns: Nanos,
    /// Whether they are the kernel's ticks.
    pub is_tick: bool,
}

/// How late one of them came.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ContextRow {
    /// Which it is.
    pub context: ContextKind,
    /// The service that stands for it.
    pub service: Service,
    /// How it was reached.
    pub route: Route,
    /// Activations, those among them that were missed too.
    pub samples: u64,
    /// How late they were on average.
    pub mean_ns: Option<f64>,
    /// The standard error of that; absent where there are fewer than ten.
    pub mean_error_ns: Option<f64>,
    /// The median; absent where it is not known.
    pub median_ns: Option<Nanos>,
    /// What one in 100 exceeds; absent where it is not known.
    pub p99_ns: Option<Nanos>,
    /// The largest seen.
    pub largest_ns: Option<Nanos>,
    /// Whether the true mean and the true largest are at least that: one was still
    /// waiting when measuring ended.
    pub is_at_least: bool,
    /// Bumps of that which stand evenly apart, where there are such.
    pub bumps: Option<BumpRow>,
}

/// Who does deferred work.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Context")]
pub enum ContextKind {
    /// Whatever runs there: a softirq (Heubaum's global event).
    Any,
    /// The kernel's own normal thread: a work item.
    Worker,
    /// A thread that is raised above the others for it (his priority VM event).
    Boosted,
    /// A normal thread that is raised by who asks for it, through a PI futex, as long as
    /// it works (likewise).
    Lent,
    /// A normal thread of the least nice value, likewise.
    Niced,
    /// A normal thread of the shortest slice, likewise.
    Sliced,
    /// A thread like the others, which sleeps until it is woken.
    Woken,
    /// One of those that compute, in its turn (his VM event).
    Plain,
}

impl ContextKind {
    /// Each with what stands for it beside `contexts`.
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

/// Bumps that stand evenly apart: one for each number of turns that are waited
/// for.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct BumpRow {
    /// From each to the next, ns.
    pub every_ns: f64,
    /// The standard error of that, ns.
    pub error_ns: f64,
    /// Where the first is, ns.
    pub first_ns: f64,
    /// The share that waited for no turn, 0 to 1.
    pub at_once: f64,
    /// The shares that waited for one turn to end, for two, and so on: each place
    /// in the queue.
    pub positions: Vec<f64>,
    /// The share that waited longer.
    pub beyond: f64,
}

impl From<Bumps> for BumpRow {
    fn from(found: Bumps) -> Self {
        let total = found.at_once + found.positions.iter().sum::<u64>() + found.beyond;
        let share = |count: u64| count as f64 / total.max(1) as f64;
        Self {
            every_ns: found.spacing,
            error_ns: found.error,
            first_ns: found.first,
            at_once: share(found.at_once),
            positions: found.positions.iter().copied().map(share).collect(),
            beyond: share(found.beyond),
        }
    }
}

/// What the activations of a recording of `plan` say of them; `None`: it was not
/// made beside any. `by_session`: the kernel shares the CPU among sessions first.
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
        let known = |q: f64| match group.quantile(q) {
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
            median_ns: known(0.5),
            p99_ns: known(0.99),
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

/// What a mean differs from the true one by, as far as chance goes; `None`: of so
/// few that is not known.
fn mean_error(latency: &Histogram) -> Option<f64> {
    const LEAST: u64 = 10;
    let count = latency.count();
    let deviation = latency.deviation_ns().filter(|_| count >= LEAST)?;
    Some(deviation / (count as f64).sqrt())
}

/// Compares the mean latencies of two contexts. `None`: chance explains the difference, which
/// is less than twice its standard error (exceeded in 1 of 20 equal cases).
pub fn later(one: &ContextRow, other: &ContextRow) -> Option<Ordering> {
    const BEYOND_CHANCE: f64 = 2.0;
    let error = one.mean_error_ns?.hypot(other.mean_error_ns?);
    let by = other.mean_ns? - one.mean_ns?;
    (by.abs() > BEYOND_CHANCE * error).then(|| by.total_cmp(&0.0))
}
