//! `causes`: who makes machines late, over all of them.

use laggard_model::text::{Unit, count};
use laggard_model::{CauseClass, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use super::{FLEET_SCHEMA, StoreView, table};
use crate::engine::Engine;
use crate::sql::{self, Only};

/// What `causes` says.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CausesReport {
    /// The version of this layout.
    pub schema: u32,
    /// What it is of.
    pub of: StoreView,
    /// Machines whose late activations were kept with their evidence, in
    /// recordings that ended in the time that is asked for.
    pub watched: u64,
    /// Late activations of these recordings that were not kept, because there
    /// were too many.
    pub surplus: u64,
    /// Time that all causes took together.
    pub total_ns: f64,
    /// Causes, those with most time first.
    pub causes: Vec<FleetCause>,
    /// Causes that are not listed.
    pub more: u64,
}

/// A cause over all machines.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct FleetCause {
    /// What kind of thing, in words.
    pub class: String,
    /// Who, in words.
    pub who: Option<String>,
    /// Whether it is a thread of laggard.
    pub is_ours: bool,
    /// On how many machines.
    pub hosts: u64,
    /// The only one of them; absent where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// In how many hours of all machines together.
    pub hours: u64,
    /// The kernel that all of these machines ran; absent: several.
    pub kernel: Option<String>,
    /// In how many late activations it took part.
    pub episodes: u64,
    /// In how many no other cause took more.
    pub first_in: u64,
    /// Time in all of them.
    pub total_ns: f64,
    /// Its share of what all causes took, 0 to 1.
    pub share: f64,
    /// Most time in one.
    pub largest_ns: Nanos,
    /// How often it comes where it comes again and again: the shortest and the
    /// longest period of any recording; absent: nowhere.
    pub period_ns: Option<[Nanos; 2]>,
}

/// Asks for the causes.
///
/// # Errors
/// When a query fails.
pub fn causes(
    engine: &Engine,
    of: StoreView,
    top: usize,
    only: Only,
) -> anyhow::Result<CausesReport> {
    let kept = engine.query(&sql::watched(only))?;
    let one = |name: &str| -> anyhow::Result<u64> {
        Ok(kept
            .whole(name)?
            .first()
            .copied()
            .flatten()
            .unwrap_or_default()
            .unsigned_abs())
    };
    let mut all = read(engine, only)?;
    let total_ns = all.iter().fold(0.0, |sum, cause| sum + cause.total_ns);
    let more = all.len().saturating_sub(top);
    all.truncate(top);
    Ok(CausesReport {
        schema: FLEET_SCHEMA,
        of,
        watched: one("hosts")?,
        surplus: one("surplus_all")?,
        total_ns,
        causes: all,
        more: more as u64,
    })
}

/// Every cause, those with most time first.
///
/// # Errors
/// When the query fails.
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
    let all: f64 = total.iter().flatten().sum();
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
            share: if all > 0.0 { spent / all } else { 0.0 },
            largest_ns: Nanos::from_ns(number(5).unwrap_or_default()),
            period_ns: number(6)
                .zip(number(7))
                .map(|(from, to)| [from, to].map(Nanos::from_ns)),
        }
    };
    Ok((0..rows.len()).map(cause).collect())
}

/// A cause in words: `softirq: HRTIMER`.
pub(super) fn words(class: &str, who: Option<&str>) -> String {
    let found = CauseClass::ALL.into_iter().find(|one| one.words() == class);
    found.map_or_else(
        || class.to_owned(),
        |found| laggard_model::name::cause_name(found, who),
    )
}

/// The rows of a table of causes.
pub(super) fn rows(causes: &[FleetCause], watched: u64) -> String {
    let row = |cause: &FleetCause| {
        let own = if cause.is_ours {
            " (laggard's own)"
        } else {
            ""
        };
        let machines = match &cause.host {
            Some(host) => format!("{host} alone"),
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
                    let [from, to] = [from, to].map(|one| Unit::Auto.write_nanos(one));
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
    /// In words.
    pub fn text(&self) -> String {
        let mut text = self.of.text();
        if self.watched == 0 {
            return text
                + match &self.of.since {
                    None => {
                        "No recording has its late activations with their evidence: record as root on a kernel with BTF.\n"
                    }
                    Some(_) => {
                        "No recording of that time has its late activations with their evidence.\n"
                    }
                };
        }
        let lost = match self.causes.is_empty() {
            true => "there were none".into(),
            false => format!("they lost {} of time", Unit::Auto.write(self.total_ns)),
        };
        text += &format!(
            "Late activations were kept with their evidence on {}; {lost}.\n",
            super::head::of(self.watched, "machine"),
        );
        if self.surplus > 0 {
            text += &format!(
                "{} more were not kept, because there were too many.\n",
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
