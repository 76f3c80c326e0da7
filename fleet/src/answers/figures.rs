//! Figures of services, as the queries give them.

use laggard_model::name::line_name;
use laggard_model::text::Unit;
use laggard_model::{Histogram, Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use crate::engine::{Engine, Rows};
use crate::sql::{self, By, Only, SHARES};

/// How many samples must be expected beyond a quantile (docs/method.md 8.3).
const MIN_BEYOND: f64 = 3.688_879_454_113_936;

/// The latency of a service reached by a route, in some of the recordings.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FleetFigures {
    /// The service.
    pub service: Service,
    /// How it was reached.
    pub route: Route,
    /// Machines that it was measured on.
    pub hosts: u64,
    /// Recordings.
    pub recordings: u64,
    /// Activations.
    pub samples: u64,
    /// Those of them whose expiry passed while the service was still busy.
    pub missed: u64,
    /// Those of them that were still waiting when measuring ended.
    pub still_waiting: u64,
    /// Activations that were lost; not among the samples.
    pub lost: u64,
    /// The smallest latency of those that were served.
    pub min_ns: Option<Nanos>,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Quantiles; each is its bucket's upper edge, at most 1.09 % high.
    pub quantiles: Vec<FleetShare>,
    /// The largest latency.
    pub largest_ns: Nanos,
}

/// One quantile.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct FleetShare {
    /// The share of all times that do not exceed it, 0 to 1.
    pub q: f64,
    /// The time; absent where the sample does not support it, or so many were
    /// lost that nothing is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns: Option<Nanos>,
    /// Whether the true quantile is at least `ns`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_at_least: bool,
    /// The lower end, where what was lost or still waiting leaves the quantile
    /// between two times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_ns: Option<Nanos>,
    /// How many samples would support it; absent where these do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_samples: Option<u64>,
}

/// Services by route, and their numbers in the tables.
#[derive(Clone, Debug)]
pub struct Lines(Vec<(i64, Service, Route, u64)>);

impl Lines {
    /// Those of a store.
    ///
    /// # Errors
    /// When the catalogue cannot be read.
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
        let all = (0..rows.len()).filter_map(|row| {
            let service: Service = service[row].as_ref()?.parse().ok()?;
            let route = match route[row].as_deref()? {
                "direct" => Route::Direct,
                _ => Route::Deferred,
            };
            Some((line[row]?, service, route, hosts[row]?.unsigned_abs()))
        });
        Ok(Self(all.collect()))
    }

    /// Its service and route.
    pub fn named(&self, line: i64) -> Option<(Service, Route)> {
        let found = self.0.iter().find(|one| one.0 == line)?;
        Some((found.1, found.2))
    }

    /// The one that a question is about: the one asked for; else of the threads
    /// that a timer's interrupt wakes the one that most machines have, and the
    /// most urgent of those.
    ///
    /// # Errors
    /// When no recording has it.
    pub fn chosen(&self, asked: Option<Service>) -> anyhow::Result<(i64, String)> {
        let direct = self.0.iter().filter(|one| one.2 == Route::Direct);
        let found = match asked {
            Some(service) => direct.clone().find(|one| one.1 == service),
            None => {
                let is_thread = |one: &&(i64, Service, Route, u64)| {
                    matches!(
                        one.1,
                        Service::Fifo(_)
                            | Service::Deadline
                            | Service::Other
                            | Service::Nice(_)
                            | Service::Slice(_)
                    )
                };
                let most = |one: &&(i64, Service, Route, u64)| (one.3, std::cmp::Reverse(one.0));
                let thread = direct.clone().filter(is_thread).max_by_key(most);
                thread.or_else(|| direct.clone().max_by_key(most))
            }
        };
        found
            .map(|one| (one.0, line_name(one.1, one.2)))
            .ok_or_else(|| {
                let names: Vec<String> = self.0.iter().map(|one| line_name(one.1, one.2)).collect();
                match asked {
                    Some(service) => anyhow::anyhow!(
                        "no recording has `{service}`; there are {}",
                        names.join(", ")
                    ),
                    None => anyhow::anyhow!("no recording that could be read has a service"),
                }
            })
    }
}

/// A row of figures, and what it is of.
#[derive(Clone, Debug)]
pub(super) struct KeyedFigures {
    /// Its keys, in their order.
    pub keys: Vec<String>,
    /// The figures.
    pub figures: FleetFigures,
}

/// Asks for figures.
///
/// # Errors
/// When the query fails.
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
    let found = (0..rows.len()).filter_map(|row| {
        let (service, route) = lines.named(line[row]?)?;
        Some(KeyedFigures {
            keys: keys
                .iter()
                .map(|key| key[row].clone().unwrap_or_default())
                .collect(),
            figures: read.row(row, service, route),
        })
    });
    Ok(found.collect())
}

/// The columns of an answer.
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

/// What `show` says of the same ends (analyze/src/distribution/quantile.rs).
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
    /// For the eye: a time, `>=` a time, from one to another, or a dash.
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
    /// The quantile `q`.
    pub fn quantile(&self, q: f64) -> Option<FleetShare> {
        self.quantiles
            .iter()
            .find(|one| (one.q - q).abs() < 1e-9)
            .copied()
    }
}
