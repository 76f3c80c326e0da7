//! `causes`: causes of late wakeups over all machines.

use laggard_model::Nanos;
use laggard_model::text::{Unit, count};
use schemars::JsonSchema;
use serde::Serialize;

use super::{FLEET_SCHEMA, StoreView, table};
use crate::engine::Engine;
use crate::sql::{self, Only};

/// Causes of late wakeups over all machines, with their total time.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CausesReport {
    /// Version of this layout.
    pub schema: u32,
    /// Recordings behind the report.
    pub of: StoreView,
    /// Machines that kept late wakeups with their trace data, in recordings that ended in the
    /// requested time.
    pub watched: u64,
    /// Late wakeups of these recordings that were not kept, because there were too many.
    pub surplus: u64,
    /// Total time of all causes.
    pub total_ns: f64,
    /// Causes, longest total time first.
    pub causes: Vec<FleetCause>,
    /// Number of causes that are not listed.
    pub more: u64,
}

/// Cause over all machines.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FleetCause {
    /// Class of the cause, in words.
    pub class: String,
    /// Name of the culprit, in words.
    pub who: Option<String>,
    /// True if it is a thread of laggard.
    pub is_ours: bool,
    /// Number of machines.
    pub hosts: u64,
    /// Machine, if there is only one; absent if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Number of hours with this cause, over all machines.
    pub hours: u64,
    /// Kernel of all these machines; absent if there are several kernels.
    pub kernel: Option<String>,
    /// Number of late wakeups that it contributed to.
    pub episodes: u64,
    /// Number of late wakeups with this as the largest cause.
    pub first_in: u64,
    /// Total time in all late wakeups.
    pub total_ns: f64,
    /// Share of the total time of all causes, 0 to 1.
    pub share: f64,
    /// Longest time in one late wakeup.
    pub largest_ns: Nanos,
    /// Shortest and longest period over all recordings, if it recurs; absent if no recording shows
    /// a period.
    pub period_ns: Option<[Nanos; 2]>,
}

/// Reads the causes.
///
/// # Errors
/// If a query fails.
pub fn causes(
    engine: &Engine,
    of: StoreView,
    top: usize,
    only: Only,
) -> anyhow::Result<CausesReport> {
    let kept = engine.query(&sql::watched(only))?;
    let sum_of = |name: &str| -> anyhow::Result<u64> {
        Ok(kept
            .whole(name)?
            .first()
            .copied()
            .flatten()
            .unwrap_or_default()
            .unsigned_abs())
    };
    let mut causes = read(engine, only)?;
    let total_ns = causes.iter().fold(0.0, |sum, cause| sum + cause.total_ns);
    let more = causes.len().saturating_sub(top);
    causes.truncate(top);
    Ok(CausesReport {
        schema: FLEET_SCHEMA,
        of,
        watched: sum_of("hosts")?,
        surplus: sum_of("surplus_all")?,
        total_ns,
        causes,
        more: more as u64,
    })
}

/// Reads all causes, longest total time first.
///
/// # Errors
/// If the query fails.
pub(super) fn read(engine: &Engine, only: Only) -> anyhow::Result<Vec<FleetCause>> {
    let rows = engine.query(&sql::causes(only))?;
    let names = [
        "hosts",
        "hours",
        "is_own",
        "late_all",
        "first_all",
        "largest_ns",
        "period_from_ns",
        "period_to_ns",
    ];
    let mut numbers = Vec::new();
    for name in names {
        numbers.push(rows.whole(name)?);
    }
    let (class, who, total) = (
        rows.text("class")?,
        rows.text("who")?,
        rows.number("total_all_ns")?,
    );
    let (first, last, host) = (
        rows.text("kernel_first")?,
        rows.text("kernel_last")?,
        rows.text("first_host")?,
    );
    let total_all: f64 = total.iter().flatten().sum();
    let cause = |row: usize| {
        let number = |column: usize| numbers[column][row].map(i64::unsigned_abs);
        let hosts = number(0).unwrap_or_default();
        let spent = total[row].unwrap_or_default();
        FleetCause {
            class: class[row].clone().unwrap_or_default(),
            who: who[row].clone(),
            is_ours: number(2) == Some(1),
            hosts,
            host: host[row].clone().filter(|_| hosts == 1),
            hours: number(1).unwrap_or_default(),
            kernel: first[row]
                .clone()
                .filter(|first| last[row].as_ref() == Some(first)),
            episodes: number(3).unwrap_or_default(),
            first_in: number(4).unwrap_or_default(),
            total_ns: spent,
            share: if total_all > 0.0 {
                spent / total_all
            } else {
                0.0
            },
            largest_ns: Nanos::from_ns(number(5).unwrap_or_default()),
            period_ns: number(6)
                .zip(number(7))
                .map(|(from, to)| [from, to].map(Nanos::from_ns)),
        }
    };
    Ok((0..rows.len()).map(cause).collect())
}

/// Returns a cause in words: `softirq: HRTIMER`.
pub(super) fn words(class: &str, who: Option<&str>) -> String {
    who.map_or_else(|| class.to_owned(), |who| format!("{class}: {who}"))
}

/// Returns the rows of a table of causes.
pub(super) fn rows(causes: &[FleetCause], watched: u64) -> String {
    let row = |cause: &FleetCause| {
        let own = if cause.is_ours { " (laggard)" } else { "" };
        let machines = match &cause.host {
            Some(host) => format!("only {host}"),
            None => format!("{} of {}", count(cause.hosts), count(watched)),
        };
        vec![
            format!("{}{own}", words(&cause.class, cause.who.as_deref())),
            machines,
            cause
                .kernel
                .as_ref()
                .map_or("several".into(), |kernel| format!("all {kernel}")),
            count(cause.hours),
            format!("{} x", count(cause.episodes)),
            format!("{:.0} %", cause.share * 100.0),
            format!("up to {}", Unit::Auto.write_nanos(cause.largest_ns)),
            match cause.period_ns {
                None => "-".into(),
                Some([from, to]) => {
                    let [from, to] = [from, to].map(|period| Unit::Auto.write_nanos(period));
                    if from == to {
                        format!("every {from}")
                    } else {
                        format!("every {from} to {to}")
                    }
                }
            },
        ]
    };
    let rows: Vec<Vec<String>> = causes.iter().map(row).collect();
    table(
        &[
            "", "machines", "kernel", "hours", "late", "of all", "", "rhythm",
        ],
        3,
        &rows,
    )
}

impl CausesReport {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut text = self.of.text();
        if self.watched == 0 {
            return text
                + match &self.of.since {
                    None => {
                        "No recording has trace data of late wakeups; record as root on a kernel with BTF.\n"
                    }
                    Some(_) => "No recording of that time has trace data of late wakeups.\n",
                };
        }
        let lost = if self.causes.is_empty() {
            "none was late".into()
        } else {
            format!("{} of latency in total", Unit::Auto.write(self.total_ns))
        };
        text += &format!(
            "Late wakeups with trace data on {}: {lost}.\n",
            super::head::of(self.watched, "machine"),
        );
        if self.surplus > 0 {
            text += &format!(
                "{} more late wakeups have no trace data, because there were too many.\n",
                count(self.surplus)
            );
        }
        if !self.causes.is_empty() {
            text += "\n";
            text += &rows(&self.causes, self.watched);
        }
        if self.more > 0 {
            text += &format!("{} more: --top, --json\n", count(self.more));
        }
        text
    }
}
