//! `laggard study`: the tables of four papers, from recordings of today's machines.
//!
//! A study is data: [`plan`] lists its recordings, and a file per paper fills its tables.
//! `paper` has the numbers that the papers print.

mod chain;
mod dir;
mod error;
mod heubaum;
mod hotos99;
mod osdi99;
mod paper;
pub mod plan;
mod timmerman;

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use laggard_model::{Absence, Host, NamedCause, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::remedy::Fix;
use crate::rtos::{InterruptFigures, RtosReason, TestVerdict};
use crate::switch::SwitchReport;
pub use dir::{Piece, StudyDir, StudyKind, TOLERANCE};
pub use error::{StudyError, UnknownStudy};
use plan::{Gap, Role, Step};

/// Version of the JSON layout of `study --json`.
pub const STUDY_SCHEMA: u32 = 1;

/// Papers whose experiments are repeated.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StudyName {
    /// Cota-Robles & Held, OSDI 1999: Windows 98 and NT, Tables 1 to 4, Figures 4 to 7.
    Osdi99,
    /// Jones & Regehr, `HotOS` 1999: Windows NT, Tables 1 to 3, and causes of late threads.
    Hotos99,
    /// Heubaum, Vireo Software, 1995: Windows 95, Tables 1 to 5, Figures 2 to 5.
    Heubaum,
    /// Timmerman, 1998: Windows NT as a real-time operating system, Figures 2 to 7.
    Timmerman,
}

impl StudyName {
    pub const ALL: [Self; 4] = [Self::Osdi99, Self::Hotos99, Self::Heubaum, Self::Timmerman];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Osdi99 => "osdi99",
            Self::Hotos99 => "hotos99",
            Self::Heubaum => "heubaum",
            Self::Timmerman => "timmerman",
        }
    }
}

impl fmt::Display for StudyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for StudyName {
    type Err = UnknownStudy;

    fn from_str(name: &str) -> Result<Self, UnknownStudy> {
        let study = Self::ALL.into_iter().find(|study| study.name() == name);
        study.ok_or_else(|| UnknownStudy(name.into()))
    }
}

/// Answer of `laggard study`.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct StudyReport {
    /// Version of this layout.
    pub schema: u32,
    pub study: StudyName,
    /// The systems, this one first. A cell has one value per system.
    pub systems: Vec<StudySystem>,
    /// The tables, in the order of the paper.
    pub tables: Vec<StudyTable>,
    /// Mechanisms to get work done on this system, the fastest first.
    pub mechanisms: Vec<Mechanism>,
    /// Parts of the paper that this system does not repeat.
    pub gaps: Vec<Gap>,
}

/// Mechanism to get work done.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Mechanism {
    pub row: String,
    /// Highest average latency of all columns, ns.
    pub worst_mean_ns: f64,
}

/// A system with values in the tables.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct StudySystem {
    /// Directory of the recordings. Absent: the numbers are the paper's, from hardware of
    /// 1995 to 1999.
    pub directory: Option<String>,
    /// Whether its recordings have the lengths of `--quick`.
    pub is_quick: bool,
    /// The machine, if anything was recorded.
    pub host: Option<Host>,
    /// Steps of the study, and the recorded part of each.
    pub steps: Vec<StudyStep>,
    /// Steps that it cannot record.
    pub missing: Vec<StudyMissing>,
}

/// A step that the machine cannot record.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct StudyMissing {
    pub step: String,
    /// Whether a recording was tried and failed.
    pub is_failed: bool,
    /// Reason and remedy.
    pub absence: Absence,
}

#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct StudyStep {
    /// Name, which starts the names of its recordings.
    pub name: String,
    /// Planned length.
    pub planned_ns: Nanos,
    /// Recorded length.
    pub recorded_ns: Nanos,
    pub recordings: usize,
    /// Whether all its recordings are trustworthy and undamaged, and the load ran until their end.
    /// Absent without a recording.
    pub is_trusted: Option<bool>,
    pub lost: u64,
}

#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct StudyTable {
    /// Name, such as `table3`.
    pub name: String,
    /// Keys of the columns.
    pub columns: Vec<String>,
    pub rows: Vec<StudyRow>,
}

#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct StudyRow {
    pub row: String,
    /// Values per column and system.
    pub cells: Vec<Vec<StudyCell>>,
}

/// A value of a table.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StudyCell {
    Time {
        /// The time, ns.
        ns: f64,
    },
    /// A lower limit: the recording is shorter than the span, or a service was still waiting.
    AtLeast {
        /// The limit, ns.
        ns: f64,
    },
    /// An upper limit.
    AtMost {
        /// The limit, ns.
        ns: f64,
    },
    /// A time between two limits: a stage was not seen in every wakeup.
    Between {
        /// Lower limit, ns.
        low_ns: f64,
        /// Upper limit, ns.
        high_ns: f64,
    },
    Range {
        /// Shortest, ns.
        low_ns: f64,
        /// Longest, ns.
        high_ns: f64,
    },
    Count {
        count: u64,
    },
    /// A share of a whole, 0 to 1.
    Share {
        /// The share.
        share: f64,
    },
    /// Work per second.
    Rate {
        /// Number of units.
        per_second: f64,
        unit: String,
    },
    /// A verdict on a criterion.
    Verdict {
        verdict: TestVerdict,
        /// Reason, if laggard tested the criterion.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<RtosReason>,
    },
    /// A cause of late wakeups.
    Cause {
        #[serde(flatten)]
        cause: NamedCause,
        /// Fix against it. Absent: none is known.
        fix: Option<Fix>,
    },
    /// A name or a figure of the system.
    Name {
        text: String,
    },
    /// Nothing is recorded yet; this is the length to record.
    Record {
        /// The length, ns.
        ns: f64,
    },
    /// The value is missing.
    Missing {
        reason: MissingReason,
    },
}

/// Reason for a cell without a value.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingReason {
    /// The paper does not have this row or column.
    NotInPaper,
    /// Only the paper has this row or column.
    OnlyInPaper,
    /// The machine cannot run the load.
    NoLoad,
    Failed,
    NeedsRoot,
    /// Chance explains the times between the events.
    NoPeriod,
    /// The latency does not have three evenly spaced bumps.
    NoBumps,
    /// The recordings do not have the service.
    NoService,
    /// The handler runs in the interrupt and not in a thread, or its device is missing.
    NoThread,
    /// No recorded wakeup of the span has the stages of the row, or all were lost.
    NoWakeup,
    /// The recording lacks trace data of a late wakeup.
    NoTraceData,
    /// There are too few values for this quantile.
    TooFew,
    /// The system does not report it.
    NotReported,
}

/// A table of one system: each row has one cell per column.
#[derive(Clone, Debug, Default)]
struct SystemTable {
    name: &'static str,
    columns: Vec<String>,
    rows: Vec<(String, Vec<StudyCell>)>,
}

impl SystemTable {
    fn new(name: &'static str, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            name,
            columns: columns.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    fn row(&mut self, row: impl Into<String>, cells: Vec<StudyCell>) {
        self.rows.push((row.into(), cells));
    }

    fn has(&self, row: &str) -> bool {
        self.rows.iter().any(|(name, _)| name == row)
    }

    fn has_column(&self, column: &str) -> bool {
        self.columns.iter().any(|name| name == column)
    }

    fn cell(&self, row: &str, column: &str) -> Option<StudyCell> {
        let place = self.columns.iter().position(|name| name == column)?;
        let (_, cells) = self.rows.iter().find(|(name, _)| name == row)?;
        cells.get(place).cloned()
    }
}

/// Second system of a study.
#[derive(Debug)]
pub enum Against {
    /// Recordings of another system.
    Directory(StudyDir),
    Paper,
}

/// Fills the tables of the study `name` from the recordings in `dir`, reading each on at most
/// `threads` threads.
///
/// # Errors
/// If a recording cannot be read.
pub fn study(
    name: StudyName,
    dir: &StudyDir,
    against: Option<&Against>,
    threads: NonZeroUsize,
) -> Result<StudyReport, StudyError> {
    let mut systems = vec![dir.system(threads)?];
    let mut tables = vec![fill(name, dir, threads)?];
    match against {
        Some(Against::Directory(other)) => {
            systems.push(other.system(threads)?);
            tables.push(fill(name, other, threads)?);
        }
        Some(Against::Paper) => {
            systems.push(StudySystem {
                directory: None,
                is_quick: false,
                host: None,
                steps: Vec::new(),
                missing: Vec::new(),
            });
            tables.push(paper::tables(name));
        }
        None => {}
    }
    let mut merged = merge(&tables, &systems);
    if name == StudyName::Hotos99 {
        merged.iter_mut().for_each(hotos99::join_rare);
    }
    Ok(StudyReport {
        schema: STUDY_SCHEMA,
        study: name,
        mechanisms: heubaum::mechanisms(name, &tables[0]),
        gaps: gaps(name, dir)?,
        tables: merged,
        systems,
    })
}

/// Returns the parts of the paper that the recordings in `dir` do not repeat.
fn gaps(name: StudyName, dir: &StudyDir) -> Result<Vec<Gap>, StudyError> {
    let mut gaps = name.gaps().to_vec();
    let receives = dir.steps().filter(|(step, _)| step.name == plan::RECEIVE);
    let mut receivers = receives
        .flat_map(|(_, pieces)| pieces)
        .filter_map(|piece| piece.recording.manifest().load.as_ref());
    let is_from_card = receivers.any(|load| load.name != plan::RECEIVER);
    if dir.has_other_loads() {
        gaps.push(Gap::Loads);
    }
    let is_kernel_thread = |step: &Step| step.role == Role::KernelThread;
    let has_kernel_thread = dir
        .steps()
        .any(|(step, pieces)| is_kernel_thread(step) && !pieces.is_empty());
    let has_clock = timmerman::has_separate_clock(dir)?;
    gaps.retain(|gap| match gap {
        Gap::NetworkCards => !is_from_card,
        Gap::ExternalClock => !has_clock,
        Gap::KernelThreads => !has_kernel_thread,
        Gap::Loads | Gap::BusStalls => true,
    });
    Ok(gaps)
}

fn fill(
    name: StudyName,
    dir: &StudyDir,
    threads: NonZeroUsize,
) -> Result<Vec<SystemTable>, StudyError> {
    match name {
        StudyName::Osdi99 => osdi99::tables(dir, threads),
        StudyName::Hotos99 => hotos99::tables(dir, threads),
        StudyName::Heubaum => heubaum::tables(dir, threads),
        StudyName::Timmerman => timmerman::tables(dir),
    }
}

/// Results that the figures of a study show.
#[derive(Clone, Debug, Default)]
pub struct StudyResults {
    /// Result of `laggard bench switch`.
    pub switch: Option<SwitchReport>,
    /// Interrupts of `laggard bench rtos`.
    pub interrupts: Option<InterruptFigures>,
}

/// Reads the results of the tests in `dir`.
///
/// # Errors
/// If another version of laggard wrote one.
pub fn results(dir: &StudyDir) -> Result<StudyResults, StudyError> {
    let rtos = dir.result::<timmerman::Rtos>(timmerman::RTOS)?;
    Ok(StudyResults {
        switch: dir.result(timmerman::SWITCH)?,
        interrupts: rtos.and_then(|rtos| rtos.interrupts),
    })
}

/// Puts the tables of the systems side by side. Rows and columns that only a later system has
/// follow the common ones.
fn merge(by_system: &[Vec<SystemTable>], systems: &[StudySystem]) -> Vec<StudyTable> {
    let mut merged: Vec<StudyTable> = Vec::new();
    for table in by_system.iter().flatten() {
        if merged.iter().all(|listed| listed.name != table.name) {
            // A table as the paper prints it follows the table of this system.
            let own = table.name.strip_suffix(".paper");
            let own = own.and_then(|own| merged.iter().position(|listed| listed.name == own));
            let place = own.map_or(merged.len(), |own| own + 1);
            let name = table.name.into();
            let new = StudyTable {
                name,
                ..StudyTable::default()
            };
            merged.insert(place, new);
        }
    }
    for table in &mut merged {
        let same: Vec<Option<&SystemTable>> = by_system
            .iter()
            .map(|tables| tables.iter().find(|other| other.name == table.name))
            .collect();
        let mut rows: Vec<String> = Vec::new();
        for system_table in same.iter().flatten() {
            add_new(&mut table.columns, system_table.columns.iter());
            add_new(&mut rows, system_table.rows.iter().map(|(row, _)| row));
        }
        let paper = same.iter().zip(systems);
        let mut paper = paper.filter(|(_, system)| system.directory.is_none());
        let paper = paper.find_map(|(table, _)| *table);
        let is_in_paper =
            |row: &str, column: &str| paper.is_some_and(|table| table.cell(row, column).is_some());
        for row in rows {
            let cell = |table: &Option<&SystemTable>, system: &StudySystem, column: &str| {
                let cell_found = table.and_then(|table| table.cell(&row, column));
                let has_row = table.is_some_and(|table| table.has(&row));
                let has_column = table.is_some_and(|table| table.has_column(column));
                cell_found.unwrap_or(StudyCell::Missing {
                    reason: match &system.directory {
                        None => MissingReason::NotInPaper,
                        Some(_) if is_in_paper(&row, column) => MissingReason::OnlyInPaper,
                        // No cell of such a row is shown.
                        Some(_) if !has_row && paper.is_some_and(|paper| paper.has(&row)) => {
                            MissingReason::OnlyInPaper
                        }
                        Some(_)
                            if !has_column
                                && paper.is_some_and(|paper| paper.has_column(column)) =>
                        {
                            MissingReason::OnlyInPaper
                        }
                        Some(_) => MissingReason::NotReported,
                    },
                })
            };
            let cells = table.columns.iter().map(|column| {
                let tables = same.iter().zip(systems);
                tables
                    .map(|(table, system)| cell(table, system, column))
                    .collect()
            });
            let cells = cells.collect();
            table.rows.push(StudyRow { row, cells });
        }
    }
    merged
}

fn add_new<'a>(to: &mut Vec<String>, names: impl Iterator<Item = &'a String>) {
    for name in names {
        if !to.contains(name) {
            to.push(name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::Lacks;

    use super::*;

    #[test]
    fn recording_that_failed_is_not_a_missing_load() {
        let dir = tempfile::tempdir().unwrap();
        let missing = |step: &str, is_failed| StudyMissing {
            step: step.into(),
            is_failed,
            absence: Absence::new(String::new(), String::new(), Lacks::Machine),
        };
        let name = StudyName::Heubaum;
        let kind = StudyKind {
            study: name,
            is_quick: true,
            loads: Vec::new(),
        };
        let empty = StudyDir::open(dir.path(), &kind).unwrap();
        let empty = empty.without(vec![missing("idle", true), missing("fp", false)]);

        let report = study(name, &empty, None, NonZeroUsize::MIN).unwrap();

        let cells = report.tables[0].rows[0].cells.iter();
        let cells: Vec<&StudyCell> = cells.flatten().collect();
        let [failed, no_load] = [MissingReason::Failed, MissingReason::NoLoad]
            .map(|reason| StudyCell::Missing { reason });
        let record = StudyCell::Record { ns: 10e9 };
        assert_eq!(cells, [&failed, &record, &no_load, &record]);
    }
}
