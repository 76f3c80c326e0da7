//! `summary`: how late services ran, by what the machines ran.

use laggard_model::name::line_name;
use laggard_model::text::{Unit, count};
use schemars::JsonSchema;
use serde::Serialize;

use super::figures::{FleetFigures, figures};
use super::{FLEET_SCHEMA, Lines, StoreView, table};
use crate::engine::Engine;
use crate::sql::{By, Only};

/// What `summary` says.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SummaryReport {
    /// The version of this layout.
    pub schema: u32,
    /// What it is of.
    pub of: StoreView,
    /// By what recordings are put together: `kernel`, `build`, `load`.
    pub by: Vec<String>,
    /// Groups x services.
    pub rows: Vec<SummaryRow>,
}

/// A service in one group of recordings.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SummaryRow {
    /// What the group has in common, in the order of `by`.
    pub group: Vec<String>,
    /// How late the service ran.
    pub latency: FleetFigures,
}

/// Asks for the figures of each group.
///
/// # Errors
/// When a query fails.
pub fn summary(
    engine: &Engine,
    of: StoreView,
    by: &[&'static str],
    only: Only,
) -> anyhow::Result<SummaryReport> {
    let lines = Lines::read(engine)?;
    let found = figures(engine, &lines, &By::Kinds(by.to_vec()), only)?;
    Ok(SummaryReport {
        schema: FLEET_SCHEMA,
        of,
        by: by.iter().map(|by| (*by).to_owned()).collect(),
        rows: found
            .into_iter()
            .map(|one| SummaryRow {
                group: one.keys,
                latency: one.figures,
            })
            .collect(),
    })
}

impl SummaryReport {
    /// In words.
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

/// The cells of a row of figures.
pub(crate) fn cells(one: &FleetFigures) -> Vec<String> {
    let counts = [one.hosts, one.samples, one.missed, one.lost].map(count);
    let quantiles = one.quantiles.iter().map(super::figures::FleetShare::write);
    let largest = Unit::Auto.write_nanos(one.largest_ns);
    let largest = if one.still_waiting > 0 {
        format!(">= {largest}")
    } else {
        largest
    };
    [line_name(one.service, one.route)]
        .into_iter()
        .chain(counts)
        .chain(quantiles)
        .chain([largest])
        .collect()
}
