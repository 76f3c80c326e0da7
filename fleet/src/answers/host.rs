//! `show HOST`: report of one machine.

use laggard_model::Nanos;
use laggard_model::text::{Unit, count};
use schemars::JsonSchema;
use serde::Serialize;

use super::causes::{self, FleetCause};
use super::figures::{FleetFigures, figures};
use super::summary::cells;
use super::{FLEET_SCHEMA, Lines, StoreView, table};
use crate::engine::Engine;
use crate::sql::{self, By, Only};

/// Report of `show`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HostReport {
    /// Version of this layout.
    pub schema: u32,
    /// Recordings behind the report.
    pub of: StoreView,
    /// Name of the machine.
    pub host: String,
    /// Kernels of the machine, in the order of their first use.
    pub kernels: Vec<String>,
    /// Services per route.
    pub services: Vec<FleetFigures>,
    /// Hours of the machine, largest latency first.
    pub hours: Vec<HostHour>,
    /// Number of hours that are not listed.
    pub more_hours: u64,
    /// Causes of late wakeups, longest total time first.
    pub causes: Vec<FleetCause>,
}

/// Hour of a machine, over all services.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct HostHour {
    /// Start, UTC, RFC 3339.
    pub at: String,
    /// Number of wakeups.
    pub samples: u64,
    /// Wakeups whose expiry passed while their service was still busy.
    pub missed: u64,
    /// Maximum latency.
    pub largest_ns: Nanos,
}

/// Reads the figures of a machine.
///
/// # Errors
/// If a query fails, or if the machine is unknown.
pub fn host(
    engine: &Engine,
    of: StoreView,
    name: &str,
    top: usize,
    only: Only,
) -> anyhow::Result<HostReport> {
    let rows = engine.query(&format!(
        "SELECT host_id, kernel, MIN(start_s) AS since FROM recordings WHERE refused IS NULL AND host = {} \
         GROUP BY host_id, kernel ORDER BY since, kernel",
        sql::literal(name)
    ))?;
    let id = rows.whole("host_id")?.first().copied().flatten();
    let Some(id) = id else {
        anyhow::bail!(
            "no readable recording is from `{name}`; `worst --top 1000000` lists all machines"
        );
    };
    let kernels = rows.text("kernel")?.into_iter().flatten().collect();
    let only = Only {
        host: Some(id),
        ..only
    };
    let lines = Lines::read(engine)?;
    let services = figures(engine, &lines, &By::Hosts(Vec::new()), only)?
        .into_iter()
        .map(|row| row.figures)
        .collect();
    let hours = engine.query(&sql::hours_of(only))?;
    let (hour_starts, samples) = (hours.whole("at_h")?, hours.whole("samples")?);
    let (missed, largest) = (hours.whole("missed_all")?, hours.whole("largest_ns")?);
    let number =
        |column: &[Option<i64>], row: usize| column[row].unwrap_or_default().unsigned_abs();
    let hour = |row: usize| HostHour {
        at: jiff::Timestamp::from_second(hour_starts[row].unwrap_or_default() * 3_600)
            .unwrap_or_default()
            .to_string(),
        samples: number(&samples, row),
        missed: number(&missed, row),
        largest_ns: Nanos::from_ns(number(&largest, row)),
    };
    let mut causes = causes::read(engine, only)?;
    causes.truncate(top);
    Ok(HostReport {
        schema: FLEET_SCHEMA,
        of,
        host: name.into(),
        kernels,
        services,
        hours: (0..hours.len().min(top)).map(hour).collect(),
        more_hours: hours.len().saturating_sub(top) as u64,
        causes,
    })
}

impl HostReport {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut text = self.of.text();
        let name = laggard_model::printable(&self.host).to_string();
        let kernels: Vec<String> = self
            .kernels
            .iter()
            .map(|kernel| laggard_model::printable(kernel).to_string())
            .collect();
        text += &format!("\n{name}, kernel {}\n", kernels.join(", then "));
        let rows: Vec<Vec<String>> = self.services.iter().map(cells).collect();
        let heads = [
            "", "machines", "samples", "missed", "lost", "p50", "p99", "p99.9", "p99.99", "largest",
        ];
        text += &table(&heads, 1, &rows);
        text += "\nWorst hours (UTC)\n";
        let hour = |hour: &HostHour| {
            vec![
                hour.at.clone(),
                count(hour.samples),
                count(hour.missed),
                Unit::Auto.write_nanos(hour.largest_ns),
            ]
        };
        let rows: Vec<Vec<String>> = self.hours.iter().map(hour).collect();
        text += &table(&["", "samples", "missed", "largest"], 1, &rows);
        if self.more_hours > 0 {
            text += &format!("{} more: --top, --json\n", count(self.more_hours));
        }
        text += if self.causes.is_empty() {
            "\nNo late wakeup has trace data.\n"
        } else {
            "\nCauses of late wakeups\n"
        };
        if !self.causes.is_empty() {
            text += &causes::rows(&self.causes, 1);
        }
        text
    }
}
