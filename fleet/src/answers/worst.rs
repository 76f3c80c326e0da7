//! `worst`: machines whose services are late most often.

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

/// Sort key of the machines.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Rate of late minutes, with its uncertainty
    #[default]
    Rate,
    /// Their p99.9
    P999,
    /// Max latency
    Largest,
}

/// Machines, in the order of a latency figure.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct WorstReport {
    /// Version of this layout.
    pub schema: u32,
    /// Recordings behind the report.
    pub of: StoreView,
    /// Measured service.
    pub service: String,
    /// A minute is late if a wakeup in it was later than this.
    pub limit_ns: Nanos,
    /// Sort key of the machines.
    pub order: Order,
    /// Number of machines that have the service.
    pub measured: u64,
    /// Machines, worst first.
    pub hosts: Vec<WorstHost>,
    /// Number of machines that are not listed.
    pub more: u64,
}

/// Rank and figures of a machine.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct WorstHost {
    /// Name of the machine.
    pub host: String,
    /// Number of minutes with a wakeup.
    pub minutes: u64,
    /// Number of minutes with a wakeup later than the limit.
    pub late_minutes: u64,
    /// Observed late minutes per hour.
    pub counted_per_hour: f64,
    /// Expected late minutes per hour: from the data of this machine and, if these are few, of all
    /// machines (empirical Bayes). Absent if no machine was late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_hour: Option<f64>,
    /// Lower limit: the rate is less with 5 % probability. The machines are sorted by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_per_hour: Option<f64>,
    /// Upper limit: the rate is more with 5 % probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_per_hour: Option<f64>,
    /// p99.9 latency.
    pub p999: Option<FleetShare>,
    /// Maximum latency.
    pub largest_ns: Nanos,
    /// Cause with the most time in its late wakeups; absent if causes were not observed, or without
    /// late wakeups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Share of that cause, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause_share: Option<f64>,
}

/// Ranks machines.
///
/// # Errors
/// If a query fails, or if no recording has the service.
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
    let counts: Vec<Counted> = (0..rows.len()).map(counted).collect();
    let prior = Prior::fit(&counts);
    let mut hosts: Vec<(i64, WorstHost)> = (0..rows.len())
        .map(|row| {
            let shrunk = prior.map(|prior| prior.shrink(counts[row]));
            let host = WorstHost {
                host: host[row].clone().unwrap_or_default(),
                minutes: number(&minutes, row),
                late_minutes: number(&late, row),
                counted_per_hour: counts[row].late / counts[row].minutes * 60.0,
                per_hour: shrunk.map(|rate| rate.mean * 60.0),
                low_per_hour: shrunk.map(|rate| rate.low * 60.0),
                high_per_hour: shrunk.map(|rate| rate.high * 60.0),
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
    hosts.sort_by(|(_, first), (_, second)| {
        let p999 = |host: &WorstHost| host.p999.and_then(|p999| p999.ns);
        match order {
            Order::Rate => second
                .low_per_hour
                .unwrap_or_default()
                .total_cmp(&first.low_per_hour.unwrap_or_default())
                // If no machine was late, all rates are equal.
                .then(second.largest_ns.cmp(&first.largest_ns)),
            Order::P999 => p999(second).cmp(&p999(first)),
            Order::Largest => second.largest_ns.cmp(&first.largest_ns),
        }
        .then_with(|| first.host.cmp(&second.host))
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

/// Maximum number of machines that a query names. For more machines, a query over all is as fast.
const MAX_NAMED_MACHINES: usize = 500;

/// Returns the numbers of the machines if they are few, otherwise an empty list.
fn ids(hosts: &[(i64, WorstHost)]) -> Vec<i64> {
    match hosts.len() {
        0..=MAX_NAMED_MACHINES => hosts.iter().map(|(id, _)| *id).collect(),
        _ => Vec::new(),
    }
}

/// Adds the p99.9 of these machines, computed from their buckets. For thousands of machines with
/// some hundred buckets each, this takes longer than all other queries. Therefore it is computed
/// only for the listed machines.
fn add_p999(engine: &Engine, hosts: &mut [(i64, WorstHost)], only: Only) -> anyhow::Result<()> {
    if hosts.is_empty() {
        return Ok(());
    }
    let lines = Lines::read(engine)?;
    let rows = figures(engine, &lines, &By::Hosts(ids(hosts)), only)?.into_iter();
    let quantiles: BTreeMap<String, FleetShare> = rows
        .filter_map(|row| Some((row.keys.into_iter().next()?, row.figures.quantile(0.999)?)))
        .collect();
    for (id, host) in hosts {
        host.p999 = quantiles.get(&id.to_string()).copied();
    }
    Ok(())
}

/// Reads the main cause of each machine in words, and its share.
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
    let causes = (0..rows.len()).filter_map(|row| {
        let words = super::causes::words(class[row].as_deref()?, who[row].as_deref());
        Some((id[row]?, (words, share[row]?)))
    });
    Ok(causes.collect())
}

impl WorstReport {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut text = self.of.text();
        if self.measured == 0 {
            return text + &format!("Nothing was measured of {} in that time.\n", self.service);
        }
        let is_none_late = self.hosts.iter().all(|host| host.per_hour.is_none());
        let by = match self.order {
            Order::Rate if is_none_late => "max latency, because no machine was late in any minute",
            Order::Rate => "lower 95 % bound of the late minutes per hour",
            Order::P999 => "p99.9",
            Order::Largest => "max latency",
        };
        text += &format!(
            "{} of {}, sorted by {by}.\nLate: a minute with a latency above {}.\n\n",
            self.service,
            super::head::of(self.measured, "machine"),
            Unit::Auto.write_nanos(self.limit_ns)
        );
        let rows: Vec<Vec<String>> = self.hosts.iter().map(row).collect();
        let heads = [
            "",
            "late/hour",
            "95 % CI",
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
        host.p999.map_or("-".into(), |quantile| quantile.write()),
        Unit::Auto.write_nanos(host.largest_ns),
        match (&host.cause, host.cause_share) {
            (Some(cause), Some(share)) => format!("{:.0} % {cause}", share * 100.0),
            _ => "-".into(),
        },
    ]
}

/// Formats late minutes per hour.
pub(super) fn per_hour(rate: f64) -> String {
    match rate {
        0.0 => "0".into(),
        10.0.. => format!("{rate:.0}"),
        0.01.. => format!("{rate:.2}"),
        _ => format!("{rate:.0e}"),
    }
}
