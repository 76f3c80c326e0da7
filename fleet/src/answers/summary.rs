//! `summary`: latency of services, grouped by properties of the machines.

use laggard_model::name::line_name;
use laggard_model::text::{Unit, count};
use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{FleetFigures, figures};
use super::{FLEET_SCHEMA, Lines, StoreView, table};
use crate::engine::Engine;
use crate::sql::{By, Only};

/// Latency figures of each group of recordings.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SummaryReport {
    /// Version of this layout.
    pub schema: u32,
    /// Recordings behind the report.
    pub of: StoreView,
    /// Keys of the groups: `kernel`, `build`, `load`.
    pub by: Vec<String>,
    /// Groups and services.
    pub rows: Vec<SummaryRow>,
}

/// Service in one group of recordings.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SummaryRow {
    /// Values of the group, in the order of `by`.
    pub group: Vec<String>,
    /// Latency of the service.
    pub latency: FleetFigures,
}

/// Reads the figures of each group.
///
/// # Errors
/// If a query fails.
pub fn summary(
    engine: &Engine,
    of: StoreView,
    by: &[&'static str],
    only: Only,
) -> anyhow::Result<SummaryReport> {
    let lines = Lines::read(engine)?;
    let rows = figures(engine, &lines, &By::Kinds(by.to_vec()), only)?;
    Ok(SummaryReport {
        schema: FLEET_SCHEMA,
        of,
        by: by.iter().map(|by| (*by).to_owned()).collect(),
        rows: rows
            .into_iter()
            .map(|row| SummaryRow {
                group: row.keys,
                latency: row.figures,
            })
            .collect(),
    })
}

impl SummaryReport {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut text = self.of.text();
        let mut before: Option<&Vec<String>> = None;
        let mut rows: Vec<Vec<String>> = Vec::new();
        for row in &self.rows {
            if before.is_some_and(|before| *before != row.group) {
                text += &part(before, &self.by, &rows);
                rows.clear();
            }
            before = Some(&row.group);
            rows.push(cells(&row.latency));
        }
        text + &part(before, &self.by, &rows)
    }
}

fn part(group: Option<&Vec<String>>, by: &[String], rows: &[Vec<String>]) -> String {
    let Some(group) = group else {
        return "Nothing was measured in that time.\n".into();
    };
    let named = by
        .iter()
        .zip(group)
        .map(|(by, value)| format!("{by} {}", laggard_model::printable(value)));
    let title = named.collect::<Vec<_>>().join(", ");
    let heads = [
        "", "machines", "samples", "missed", "lost", "p50", "p99", "p99.9", "p99.99", "largest",
    ];
    format!("\n{title}\n{}", table(&heads, 1, rows))
}

/// Formats the cells of a row of figures.
pub(crate) fn cells(figures: &FleetFigures) -> Vec<String> {
    let counts = [figures.hosts, figures.samples, figures.missed, figures.lost].map(count);
    let quantiles = figures
        .quantiles
        .iter()
        .map(super::figures::FleetShare::write);
    let largest = Unit::Auto.write_nanos(figures.largest_ns);
    let largest = if figures.still_waiting > 0 {
        format!(">= {largest}")
    } else {
        largest
    };
    [line_name(figures.service, figures.route)]
        .into_iter()
        .chain(counts)
        .chain(quantiles)
        .chain([largest])
        .collect()
}
