//! `worst`: which machines run their services late most often.

use std::collections::BTreeMap;

use clap::ValueEnum;
use laggard_model::Nanos;
use laggard_model::text::{Unit, count};
use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{FleetShare, figures};
use super::{FLEET_SCHEMA, Lines, StoreView, table};
use crate::engine::Engine;
use crate::sql::{self, By, Only};
use crate::statistics::{Counted, Prior};

/// By what machines are ranked.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// How often they were late, as far as their recordings show it
    #[default]
    Rate,
    /// Their p99.9
    P999,
    /// The largest latency that was seen
    Largest,
}

/// What `worst` says.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct WorstReport {
    /// The version of this layout.
    pub schema: u32,
    /// What it is of.
    pub of: StoreView,
    /// The service.
    pub service: String,
    /// A minute counts as late when an activation in it was later than this.
    pub limit_ns: Nanos,
    /// By what the machines are ranked.
    pub order: Order,
    /// How many of the machines have that service.
    pub measured: u64,
    /// Machines, the worst first.
    pub hosts: Vec<WorstHost>,
    /// Machines that are not listed.
    pub more: u64,
}

/// A machine.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct WorstHost {
    /// Its name.
    pub host: String,
    /// Minutes of which there is an activation.
    pub minutes: u64,
    /// Minutes in which one was later than the limit.
    pub late_minutes: u64,
    /// Late minutes an hour, as they were counted.
    pub counted_per_hour: f64,
    /// The same, as far as it is known of this machine, and else as of all
    /// (empirical Bayes). Absent where no machine was late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_hour: Option<f64>,
    /// It is less than this with 5 % probability: by this the machines are ranked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_per_hour: Option<f64>,
    /// It is more than this with 5 % probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_per_hour: Option<f64>,
    /// The time that 99.9 % of its activations do not exceed.
    pub p999: Option<FleetShare>,
    /// The largest latency.
    pub largest_ns: Nanos,
    /// What took most of its late activations' time; absent: nobody looked, or
    /// there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// That cause's share of it, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause_share: Option<f64>,
}

/// Ranks machines.
///
/// # Errors
/// When a query fails, or no recording has the service.
pub fn worst(
    engine: &Engine,
    of: StoreView,
    (line, service): (i64, String),
    limit: Nanos,
    order: Order,
    top: usize,
    only: Only,
) -> anyhow::Result<WorstReport> {
    let only = Only {
        line: Some(line),
        ..only
    };
    let limit_ns = i64::try_from(limit.ns()).unwrap_or(i64::MAX);
    let rows = engine.query(&sql::late_minutes(limit_ns, only))?;
    let (id, host) = (rows.whole("host_id")?, rows.text("host")?);
    let (minutes, late) = (rows.whole("minutes_seen")?, rows.whole("minutes_late")?);
    let largest = rows.whole("largest_ns")?;
    let number =
        |column: &[Option<i64>], row: usize| column[row].unwrap_or_default().unsigned_abs();
    let counted = |row: usize| Counted {
        late: number(&late, row) as f64,
        minutes: number(&minutes, row) as f64,
    };
    let all: Vec<Counted> = (0..rows.len()).map(counted).collect();
    let prior = Prior::of(&all);
    let mut hosts: Vec<(i64, WorstHost)> = (0..rows.len())
        .map(|row| {
            let shrunk = prior.map(|prior| prior.shrink(all[row]));
            let host = WorstHost {
                host: host[row].clone().unwrap_or_default(),
                minutes: number(&minutes, row),
                late_minutes: number(&late, row),
                counted_per_hour: all[row].late / all[row].minutes * 60.0,
                per_hour: shrunk.map(|one| one.mean * 60.0),
                low_per_hour: shrunk.map(|one| one.low * 60.0),
                high_per_hour: shrunk.map(|one| one.high * 60.0),
                p999: None,
                largest_ns: Nanos::from_ns(number(&largest, row)),
                cause: None,
                cause_share: None,
            };
            (id[row].unwrap_or_default(), host)
        })
        .collect();
    if order == Order::P999 {
        add_p999(engine, &mut hosts, only)?;
    }
    hosts.sort_by(|(_, one), (_, other)| {
        let p999 = |host: &WorstHost| host.p999.and_then(|p999| p999.ns);
        match order {
            Order::Rate => other
                .low_per_hour
                .unwrap_or_default()
                .total_cmp(&one.low_per_hour.unwrap_or_default())
                // Where none was late, no rate tells them apart.
                .then(other.largest_ns.cmp(&one.largest_ns)),
            Order::P999 => p999(other).cmp(&p999(one)),
            Order::Largest => other.largest_ns.cmp(&one.largest_ns),
        }
        .then_with(|| one.host.cmp(&other.host))
    });
    let measured = hosts.len();
    hosts.truncate(top);
    if order != Order::P999 {
        add_p999(engine, &mut hosts, only)?;
    }
    let causes = main_causes(engine, &ids(&hosts), only)?;
    Ok(WorstReport {
        schema: FLEET_SCHEMA,
        of,
        service,
        limit_ns: limit,
        order,
        measured: measured as u64,
        more: (measured - hosts.len()) as u64,
        hosts: hosts
            .into_iter()
            .map(|(id, host)| match causes.get(&id) {
                Some((cause, share)) => WorstHost {
                    cause: Some(cause.clone()),
                    cause_share: Some(*share),
                    ..host
                },
                None => host,
            })
            .collect(),
    })
}

/// More machines than these are not named to the engine: to ask for all is as quick.
const FEW: usize = 500;

/// The numbers of these machines where they are few, and else none.
fn ids(hosts: &[(i64, WorstHost)]) -> Vec<i64> {
    match hosts.len() {
        0..=FEW => hosts.iter().map(|(id, _)| *id).collect(),
        _ => Vec::new(),
    }
}

/// The p99.9 of these machines, by their buckets: of thousands of machines, which
/// have some hundred each, that takes longer than all else, so that it is asked of
/// those alone that are listed.
fn add_p999(engine: &Engine, hosts: &mut [(i64, WorstHost)], only: Only) -> anyhow::Result<()> {
    if hosts.is_empty() {
        return Ok(());
    }
    let lines = Lines::read(engine)?;
    let found = figures(engine, &lines, &By::Hosts(ids(hosts)), only)?.into_iter();
    let quantiles: BTreeMap<String, FleetShare> = found
        .filter_map(|one| Some((one.keys.into_iter().next()?, one.figures.quantile(0.999)?)))
        .collect();
    for (id, host) in hosts {
        host.p999 = quantiles.get(&id.to_string()).copied();
    }
    Ok(())
}

/// By machine: its main cause in words, and that one's share.
fn main_causes(
    engine: &Engine,
    hosts: &[i64],
    only: Only,
) -> anyhow::Result<BTreeMap<i64, (String, f64)>> {
    let rows = engine.query(&sql::main_causes(hosts, 1, only))?;
    let (id, class, who) = (
        rows.whole("host_id")?,
        rows.text("class")?,
        rows.text("who")?,
    );
    let share = rows.number("share")?;
    let found = (0..rows.len()).filter_map(|row| {
        let words = super::causes::words(class[row].as_deref()?, who[row].as_deref());
        Some((id[row]?, (words, share[row]?)))
    });
    Ok(found.collect())
}

impl WorstReport {
    /// In words.
    pub fn text(&self) -> String {
        let mut text = self.of.text();
        if self.measured == 0 {
            return text + &format!("Nothing was measured of {} in that time.\n", self.service);
        }
        let is_none_late = self.hosts.iter().all(|host| host.per_hour.is_none());
        let by = match self.order {
            Order::Rate if is_none_late => {
                "the largest that was seen, because none was late in any minute"
            }
            Order::Rate => {
                "the least late minutes an hour that their recordings leave likely (95 %)"
            }
            Order::P999 => "p99.9",
            Order::Largest => "the largest that was seen",
        };
        text += &format!(
            "{} of {}, by {by}.\nLate: a minute in which an activation was later than {}.\n\n",
            self.service,
            super::head::of(self.measured, "machine"),
            Unit::Auto.write_nanos(self.limit_ns)
        );
        let rows: Vec<Vec<String>> = self.hosts.iter().map(row).collect();
        let heads = [
            "",
            "late an hour",
            "likely",
            "minutes",
            "late",
            "p99.9",
            "largest",
            "mostly",
        ];
        text += &table(&heads, 1, &rows);
        if self.more > 0 {
            text += &format!("{} more: --top, --json\n", count(self.more));
        }
        text
    }
}

fn row(host: &WorstHost) -> Vec<String> {
    let rate = |rate: Option<f64>| rate.map_or("-".into(), per_hour);
    let likely = match (host.low_per_hour, host.high_per_hour) {
        (Some(low), Some(high)) => format!("{} to {}", per_hour(low), per_hour(high)),
        _ => "-".into(),
    };
    vec![
        host.host.clone(),
        rate(host.per_hour),
        likely,
        count(host.minutes),
        count(host.late_minutes),
        host.p999.map_or("-".into(), |one| one.write()),
        Unit::Auto.write_nanos(host.largest_ns),
        match (&host.cause, host.cause_share) {
            (Some(cause), Some(share)) => format!("{:.0} % {cause}", share * 100.0),
            _ => "-".into(),
        },
    ]
}

/// Late minutes an hour, for the eye.
pub(super) fn per_hour(rate: f64) -> String {
    match rate {
        0.0 => "0".into(),
        10.0.. => format!("{rate:.0}"),
        0.01.. => format!("{rate:.2}"),
        _ => format!("{rate:.0e}"),
    }
}
