//! Latency figures of services, computed by queries.

use laggard_model::name::line_name;
use laggard_model::text::Unit;
use laggard_model::{Histogram, Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::{Engine, Rows};
use crate::sql::{self, By, Only, SHARES};

/// Minimum expected number of samples beyond a quantile (docs/method.md 8.3).
const MIN_BEYOND: f64 = 3.688_879_454_113_936;

/// Latency of a service by one route, in some of the recordings.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FleetFigures {
    /// Measured service.
    pub service: Service,
    /// Route of the wakeup.
    pub route: Route,
    /// Number of machines that measured it.
    pub hosts: u64,
    /// Number of recordings.
    pub recordings: u64,
    /// Number of wakeups.
    pub samples: u64,
    /// Wakeups whose expiry passed while the service was still busy.
    pub missed: u64,
    /// Wakeups that were still pending when measuring ended.
    pub still_waiting: u64,
    /// Lost wakeups. They are not part of the samples.
    pub lost: u64,
    /// Smallest latency of completed wakeups.
    pub min_ns: Option<Nanos>,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Quantiles. Each is the upper edge of its bucket, at most 1.09 % too high.
    pub quantiles: Vec<FleetShare>,
    /// Maximum latency.
    pub largest_ns: Nanos,
}

/// Quantile of the latency.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct FleetShare {
    /// Share of the latencies that do not exceed it, 0 to 1.
    pub q: f64,
    /// Latency; absent if there are too few samples, or if too many were lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns: Option<Nanos>,
    /// True if the quantile is a lower bound.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_at_least: bool,
    /// Lower end of the interval, if lost or pending wakeups make the quantile uncertain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_ns: Option<Nanos>,
    /// Number of samples that would suffice; absent if there are enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_samples: Option<u64>,
}

/// Services per route, with their numbers in the tables and the number of machines.
#[derive(Clone, Debug)]
pub struct Lines(Vec<(i64, Service, Route, u64)>);

impl Lines {
    /// Reads the services of a store.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn read(engine: &Engine) -> anyhow::Result<Self> {
        let rows = engine.query(
            "SELECT line, MIN(service) AS service, MIN(route) AS route, COUNT(DISTINCT host_id) AS hosts \
             FROM lines GROUP BY line ORDER BY line",
        )?;
        let (line, service, route) = (
            rows.whole("line")?,
            rows.text("service")?,
            rows.text("route")?,
        );
        let hosts = rows.whole("hosts")?;
        let lines = (0..rows.len()).filter_map(|row| {
            let service: Service = service[row].as_ref()?.parse().ok()?;
            let route = match route[row].as_deref()? {
                "direct" => Route::Direct,
                _ => Route::Deferred,
            };
            Some((line[row]?, service, route, hosts[row]?.unsigned_abs()))
        });
        Ok(Self(lines.collect()))
    }

    /// Returns the service and route of the number `line`.
    pub fn named(&self, line: i64) -> Option<(Service, Route)> {
        let entry = self.0.iter().find(|entry| entry.0 == line)?;
        Some((entry.1, entry.2))
    }

    /// Returns the service of a question: the requested one, otherwise the thread woken directly by
    /// a timer interrupt that most machines have. If several threads qualify, returns the most
    /// urgent.
    ///
    /// # Errors
    /// If no recording has the service.
    pub fn chosen(&self, requested: Option<Service>) -> anyhow::Result<(i64, String)> {
        let direct = self.0.iter().filter(|entry| entry.2 == Route::Direct);
        let chosen = match requested {
            Some(service) => direct.clone().find(|entry| entry.1 == service),
            None => {
                let is_thread = |entry: &&(i64, Service, Route, u64)| {
                    matches!(
                        entry.1,
                        Service::Fifo(_)
                            | Service::Deadline
                            | Service::Other
                            | Service::Nice(_)
                            | Service::Slice(_)
                    )
                };
                let most =
                    |entry: &&(i64, Service, Route, u64)| (entry.3, std::cmp::Reverse(entry.0));
                let thread = direct.clone().filter(is_thread).max_by_key(most);
                thread.or_else(|| direct.clone().max_by_key(most))
            }
        };
        chosen
            .map(|entry| (entry.0, line_name(entry.1, entry.2)))
            .ok_or_else(|| {
                let names: Vec<String> = self
                    .0
                    .iter()
                    .map(|entry| line_name(entry.1, entry.2))
                    .collect();
                match requested {
                    Some(service) => anyhow::anyhow!(
                        "no recording has `{service}`; there are {}",
                        names.join(", ")
                    ),
                    None => anyhow::anyhow!("no recording that could be read has a service"),
                }
            })
    }
}

/// Row of figures, with its keys.
#[derive(Clone, Debug)]
pub(super) struct KeyedFigures {
    /// Keys of the row, in the order of the query.
    pub keys: Vec<String>,
    pub figures: FleetFigures,
}

/// Reads figures.
///
/// # Errors
/// If the query fails.
pub(super) fn figures(
    engine: &Engine,
    lines: &Lines,
    by: &By,
    only: Only,
) -> anyhow::Result<Vec<KeyedFigures>> {
    let rows = engine.query(&sql::figures(by, only))?;
    let keys: Vec<Vec<Option<String>>> = match by {
        By::Kinds(columns) => columns
            .iter()
            .map(|name| rows.text(name))
            .collect::<Result<_, _>>()?,
        By::Hosts(_) => vec![rows.text("host_id")?],
    };
    let read = Read::new(&rows)?;
    let line = rows.whole("line")?;
    let keyed = (0..rows.len()).filter_map(|row| {
        let (service, route) = lines.named(line[row]?)?;
        Some(KeyedFigures {
            keys: keys
                .iter()
                .map(|key| key[row].clone().unwrap_or_default())
                .collect(),
            figures: read.row(row, service, route),
        })
    });
    Ok(keyed.collect())
}

/// Columns of the query.
struct Read {
    counts: [Vec<Option<i64>>; 8],
    total: Vec<Option<f64>>,
    ends: Vec<[Vec<Option<i64>>; 2]>,
}

impl Read {
    fn new(rows: &Rows) -> anyhow::Result<Self> {
        let names = [
            "hosts",
            "recordings",
            "samples",
            "missed",
            "waited",
            "lost",
            "least_ns",
            "largest_ns",
        ];
        let mut counts = [const { Vec::new() }; 8];
        for (column, name) in counts.iter_mut().zip(names) {
            *column = rows.whole(name)?;
        }
        let ends = SHARES.iter().map(|(_, name)| {
            anyhow::Ok([
                rows.whole(&format!("{name}_low"))?,
                rows.whole(&format!("{name}_high"))?,
            ])
        });
        Ok(Self {
            counts,
            total: rows.number("total_ns")?,
            ends: ends.collect::<Result<_, _>>()?,
        })
    }

    fn row(&self, row: usize, service: Service, route: Route) -> FleetFigures {
        let [
            hosts,
            recordings,
            samples,
            missed,
            waiting,
            lost,
            least,
            largest,
        ] = self
            .counts
            .each_ref()
            .map(|column| column[row].map(i64::unsigned_abs));
        let samples = samples.unwrap_or_default();
        let (least, largest) = (
            least.map(Nanos::from_ns),
            Nanos::from_ns(largest.unwrap_or_default()),
        );
        let quantiles = SHARES.iter().zip(&self.ends).map(|((q, _), [low, high])| {
            let edge = |end: &[Option<i64>]| end[row].map(|ns| Nanos::from_ns(ns.unsigned_abs()));
            share(*q, samples, [edge(low), edge(high)], least, largest)
        });
        FleetFigures {
            service,
            route,
            hosts: hosts.unwrap_or_default(),
            recordings: recordings.unwrap_or_default(),
            samples,
            missed: missed.unwrap_or_default(),
            still_waiting: waiting.unwrap_or_default(),
            lost: lost.unwrap_or_default(),
            min_ns: least,
            mean_ns: self.total[row].unwrap_or_default() / samples as f64,
            quantiles: quantiles.collect(),
            largest_ns: largest,
        }
    }
}

/// Applies the same limits as `show` (analyze/src/distribution/quantile.rs).
fn share(
    q: f64,
    samples: u64,
    [low, high]: [Option<Nanos>; 2],
    least: Option<Nanos>,
    largest: Nanos,
) -> FleetShare {
    let none = FleetShare {
        q,
        ns: None,
        is_at_least: false,
        low_ns: None,
        needs_samples: None,
    };
    let beyond = (1.0 - q).min(q);
    if (samples as f64) * beyond < MIN_BEYOND {
        let needs = laggard_model::whole((MIN_BEYOND / beyond - 1e-6).ceil());
        return FleetShare {
            needs_samples: Some(needs),
            ..none
        };
    }
    let at_least = |edge: Nanos| {
        let before = Histogram::bucket_of(edge)
            .checked_sub(1)
            .map(Histogram::upper_edge);
        before.max(least).unwrap_or_default()
    };
    let at_most = |edge: Nanos| edge.min(largest);
    match (low, high) {
        (None, None) => none,
        (Some(low), None) => FleetShare {
            ns: Some(at_least(low)),
            is_at_least: true,
            ..none
        },
        (Some(low), Some(high)) if low == high => FleetShare {
            ns: Some(at_most(high)),
            ..none
        },
        (low, Some(high)) => FleetShare {
            ns: Some(at_most(high)),
            low_ns: Some(low.map_or(Nanos::ZERO, at_least)),
            ..none
        },
    }
}

impl FleetShare {
    /// Formats the quantile for a table: a time, `>=` a time, a range of times, or a dash.
    pub fn write(&self) -> String {
        let Some(ns) = self.ns else { return "-".into() };
        let time = Unit::Auto.write_nanos(ns);
        match self.low_ns.map(|low| Unit::Auto.write_nanos(low)) {
            Some(low) if low != time => format!("{low} to {time}"),
            _ if self.is_at_least => format!(">= {time}"),
            _ => time,
        }
    }
}

impl FleetFigures {
    /// Returns the quantile `q`.
    pub fn quantile(&self, q: f64) -> Option<FleetShare> {
        self.quantiles
            .iter()
            .find(|quantile| (quantile.q - q).abs() < 1e-9)
            .copied()
    }
}
