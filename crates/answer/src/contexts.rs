//! Deferred work beside busy processes, by who does it (Heubaum 1995, Tables 3
//! to 5 and Fig. 4).

use std::cmp::Ordering;

use laggard_analyze::bumps::{self, Bumps, find_bumps};
use laggard_analyze::distribution::{Group, Quantile};
use laggard_model::text::{Unit, count, percent, span};
use laggard_model::{Contexts, Histogram, Nanos, ProbePlan, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

/// Deferred work beside busy processes.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ContextsReport {
    /// Who competed, and for which CPU.
    pub beside: Contexts,
    /// What ends turns there: their own clock, or the kernel's tick.
    pub turn: TurnEnd,
    /// Who was asked, the most direct first.
    pub rows: Vec<ContextRow>,
    /// What that says.
    pub sentences: Vec<String>,
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
    /// What people call it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Any => "any context",
            Self::Worker => "kernel worker",
            Self::Boosted => "boosted thread",
            Self::Lent => "boosted by PI futex",
            Self::Niced => "boosted by nice",
            Self::Sliced => "boosted by slice",
            Self::Woken => "plain thread, asleep",
            Self::Plain => "plain thread, busy",
        }
    }

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

impl ContextRow {
    /// How late it was on average, `>=` where one was still waiting.
    pub fn mean(&self, unit: Unit) -> Option<String> {
        Some(self.at_least(&unit.write(self.mean_ns?)))
    }

    /// The largest, likewise.
    pub fn largest(&self, unit: Unit) -> Option<String> {
        Some(self.at_least(&unit.write_nanos(self.largest_ns?)))
    }

    fn at_least(&self, text: &str) -> String {
        if self.is_at_least {
            format!(">= {text}")
        } else {
            text.into()
        }
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
        let all = found.at_once + found.positions.iter().sum::<u64>() + found.beyond;
        let share = |count: u64| count as f64 / all.max(1) as f64;
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
        let of = |group: &&Group| {
            let key = group.key;
            (key.service, key.route, key.part) == (service, route, None)
        };
        let group = groups.iter().find(of)?;
        let latency = group.latency.histogram();
        let known = |q: f64| match group.quantile(q) {
            Quantile::Is(time) => Some(time),
            Quantile::Between(..)
            | Quantile::AtLeast(_)
            | Quantile::Unknown
            | Quantile::Needs(_) => None,
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
    let bumps = rows
        .iter()
        .filter_map(|row| bumps(row, turn, plan.period_ns));
    let nice = by_session.then(|| worth_of_nice(&rows)).flatten();
    let order = order(&rows, beside).into_iter();
    let sentences = order.chain(nice).chain(bumps).collect();
    Some(ContextsReport {
        beside,
        turn,
        rows,
        sentences,
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

/// Which of two came later on average, where that is more than chance: twice the
/// standard error of their difference, which is so in 1 of 20 cases that are alike.
fn later(one: &ContextRow, other: &ContextRow) -> Option<Ordering> {
    const BEYOND_CHANCE: f64 = 2.0;
    let error = one.mean_error_ns?.hypot(other.mean_error_ns?);
    let by = other.mean_ns? - one.mean_ns?;
    (by.abs() > BEYOND_CHANCE * error).then(|| by.total_cmp(&0.0))
}

/// How late each came on average, and whether that is Heubaum's order.
fn order(rows: &[ContextRow], beside: Contexts) -> Option<String> {
    let row = |context: ContextKind| rows.iter().find(|row| row.context == context);
    let three = [
        row(ContextKind::Any)?,
        row(ContextKind::Boosted)?,
        row(ContextKind::Plain)?,
    ];
    let steps = [later(three[0], three[1]), later(three[1], three[2])];
    let order = if steps.contains(&Some(Ordering::Less)) {
        "not in the order of Heubaum's Tables 3 to 5"
    } else if steps.contains(&None) {
        "whether that is the order of Heubaum's Tables 3 to 5 cannot be told from so few"
    } else {
        "as in Heubaum's Tables 3 to 5, each is later than the one before"
    };
    let [any, boosted, plain] = three.map(|row| row.mean(Unit::Auto));
    let (any, boosted, plain) = (any?, boosted?, plain?);
    let processes = match beside.busy.number() {
        1 => "1 busy process".into(),
        several => format!("{several} busy processes"),
    };
    Some(format!(
        "Beside {processes} on CPU {} work for any context came {any} late on average, for a boosted thread {boosted}, for a plain one that is busy too {plain}: {order}.",
        beside.cpu
    ))
}

/// What a nice value does not do, where that shows: the niced thread is later than the
/// real-time one, and the kernel shares the CPU among sessions before it looks at it.
fn worth_of_nice(rows: &[ContextRow]) -> Option<String> {
    let row = |context: ContextKind| rows.iter().find(|row| row.context == context);
    let (boosted, niced) = (row(ContextKind::Boosted)?, row(ContextKind::Niced)?);
    let is_later = later(boosted, niced) == Some(Ordering::Greater);
    is_later.then(|| {
        format!(
            "Nice counts within a session alone here (autogroup): where other sessions compute on that CPU, {} waits with all of laggard's.",
            niced.service
        )
    })
}

/// Where in the queue a thread was that is asked once in `period`.
fn bumps(row: &ContextRow, turn: TurnEnd, period: Nanos) -> Option<String> {
    let who = format!("{} ({})", row.context.words(), row.service);
    let Some(bumps) = &row.bumps else {
        if row.context != ContextKind::Plain {
            return None;
        }
        return Some(if row.samples < bumps::MIN_LATENCIES {
            format!(
                "Whether how late the {who} was has bumps cannot be told from {} activations; {} take {}.",
                count(row.samples),
                bumps::MIN_LATENCIES,
                span(period * bumps::MIN_LATENCIES)
            )
        } else {
            format!(
                "No bumps that stand evenly apart, three or more, are seen in how late the {who} was."
            )
        });
    };
    let every = Unit::Auto.write(bumps.every_ns);
    let mut each = vec![format!("{} % waited for none", percent_of(bumps.at_once))];
    for (place, share) in bumps.positions.iter().enumerate() {
        let turns = match place {
            0 => "for 1 turn to end".to_owned(),
            more => format!("for {}", more + 1),
        };
        each.push(format!("{} % {turns}", percent_of(*share)));
    }
    if bumps.beyond > 0.0 {
        each.push(format!("{} % longer", percent_of(bumps.beyond)));
    }
    Some(format!(
        "The {who} was late in bumps every {every}, {}: {}.",
        name_of(bumps.every_ns, turn),
        each.join(", ")
    ))
}

/// What so long a turn is.
fn name_of(every_ns: f64, turn: TurnEnd) -> String {
    /// A spacing is as long as so many turns where it differs by less than this
    /// share of one.
    const NEAR: f64 = 0.02;
    let one = turn.every_ns.as_f64();
    let number = (every_ns / one).round();
    let is_whole = number >= 1.0 && (every_ns / one - number).abs() < NEAR * number;
    let length = Unit::Auto.write_nanos(turn.every_ns);
    match (is_whole, turn.is_tick) {
        (true, true) if number < 1.5 => {
            format!("the scheduler's turn: one tick of {length}")
        }
        (true, true) => format!("the scheduler's turn: {number:.0} ticks of {length}"),
        (true, false) if number < 1.5 => "one turn of the busy processes".into(),
        (true, false) => format!("{number:.0} turns of the busy processes"),
        (false, true) => format!("no whole number of ticks of {length}"),
        (false, false) => format!("and not the {length} of their turns"),
    }
}

fn percent_of(share: f64) -> String {
    match share {
        share if share > 0.0 && share < 0.005 => "under 1".into(),
        share => percent((share * 100.0).round() / 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: TurnEnd = TurnEnd {
        every_ns: Nanos::from_ms(4),
        is_tick: true,
    };

    #[test]
    fn a_spacing_is_named_by_what_ends_turns() {
        let own = TurnEnd {
            every_ns: Nanos::from_ms(10),
            is_tick: false,
        };

        assert_eq!(
            name_of(4.02e6, TICK),
            "the scheduler's turn: one tick of 4.00 ms"
        );
        assert_eq!(
            name_of(8.0e6, TICK),
            "the scheduler's turn: 2 ticks of 4.00 ms"
        );
        assert_eq!(name_of(3.0e6, TICK), "no whole number of ticks of 4.00 ms");
        assert_eq!(name_of(9.98e6, own), "one turn of the busy processes");
        assert_eq!(name_of(7.0e6, own), "and not the 10.0 ms of their turns");
    }

    #[test]
    fn what_nice_is_worth_is_said_where_the_niced_thread_is_later() {
        let row = |context, service, mean_ns: f64| ContextRow {
            context,
            service,
            route: Route::Direct,
            samples: 100,
            mean_ns: Some(mean_ns),
            mean_error_ns: Some(1_000.0),
            median_ns: None,
            p99_ns: None,
            largest_ns: None,
            is_at_least: false,
            bumps: None,
        };
        let said = |niced: f64| {
            worth_of_nice(&[
                row(ContextKind::Boosted, Contexts::BOOSTED, 50_000.0),
                row(ContextKind::Niced, Contexts::NICED, niced),
            ])
        };

        assert_eq!(said(50_500.0), None);
        let told = said(5e6).unwrap();
        assert!(
            told.contains("nice:-20 waits with all of laggard's"),
            "{told}"
        );
    }

    #[test]
    fn shares_are_whole_percents_and_what_is_little_is_not_nothing() {
        assert_eq!(percent_of(0.204), "20");
        assert_eq!(percent_of(0.0), "0");
        assert_eq!(percent_of(0.001), "under 1");
    }
}
