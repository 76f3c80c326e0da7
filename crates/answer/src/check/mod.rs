//! Recordings against requirements, as `laggard check` shows it: each is met,
//! broken, or not decided, with how long would decide.

mod baseline;
mod build;
mod checking;
mod file;
mod handlers;
mod late;
mod place;
mod requirement;
mod rows;
mod sentences;
mod until;
mod wrong;

use laggard_model::{LoadLabel, Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use crate::note::Note;

pub use build::check;
pub use checking::{CheckError, CheckQuestion};
pub use file::{RequirementError, read_requirements};
pub use place::Place;
pub use requirement::{Requirement, RequirementRow, Requirements, WhenUnclear};
pub use until::{CheckLook, EndedBy, UntilDecided};
pub use wrong::Wrong;

/// The version of the JSON's layout.
pub const CHECK_SCHEMA: u32 = 1;

/// What `laggard check` says.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CheckReport {
    /// The version of this layout.
    pub schema: u32,
    /// The file of requirements.
    pub file: String,
    /// How sure each verdict is, 0.5 to 1.
    pub confidence: f64,
    /// What it means that a requirement cannot be decided.
    pub when_unclear: WhenUnclear,
    /// All of it: broken where one requirement is, met where all are.
    pub verdict: CheckVerdict,
    /// Whether it passes: `verdict`, by `when_unclear`.
    pub passes: bool,
    /// Where the first recording was made, and when, by the clock on its wall.
    pub host: String,
    /// As in `2026-11-20T11:00:00+01:00[Europe/Berlin]`.
    pub recorded_at: String,
    /// The recordings that were checked.
    pub recordings: Vec<String>,
    /// How long they are together.
    pub duration_ns: Nanos,
    /// How often was looked, where recording went on until it was decided.
    pub until_decided: Option<UntilDecided>,
    /// One entry per requirement and each load, service and route that it is of.
    pub rows: Vec<CheckedRow>,
    /// The result in plain words.
    pub sentences: Vec<String>,
    /// What is missing from the recordings, or spoils the answer.
    #[serde(serialize_with = "crate::note::as_text")]
    #[schemars(with = "Vec<String>")]
    pub notes: Vec<Note>,
}

/// What recordings say of a requirement.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckVerdict {
    /// It is met: the whole interval is inside.
    Met,
    /// That cannot be told.
    NotDecided,
    /// It is broken: the whole interval is outside.
    Broken,
}

/// A requirement, checked on one load and service.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CheckedRow {
    /// Where it is in the file.
    pub place: Place,
    /// What it is called, if the file says so.
    pub name: Option<String>,
    /// What it requires, in words.
    pub title: String,
    /// What is required.
    pub requirement: Requirement,
    /// Under which load.
    pub load: LoadLabel,
    /// Of which service; absent for handlers.
    pub service: Option<Service>,
    /// How that is reached.
    pub route: Option<Route>,
    /// What the recordings say of it.
    pub verdict: CheckVerdict,
    /// Why it is not decided.
    pub why: Option<Undecided>,
    /// The figure that decides.
    pub figure: Option<CheckFigure>,
    /// How long must be recorded to decide it, all recordings together, if it
    /// goes on as it was, ns; absent where it is decided, or no time would.
    pub needed_ns: Option<f64>,
    /// Longest stall that the answer covers, ns: `longest` of the requirement, or the
    /// default. Only of a share.
    pub longest_stall_ns: Option<Nanos>,
    /// Length of stalls up to which the recordings show that the share is met, ns. A
    /// recording in which no wakeup was late cannot exclude longer ones. Only of a share;
    /// absent if it is not met for any stall.
    pub holds_to_ns: Option<f64>,
    /// Number of events in a burst up to which the recordings show that a share or a mean
    /// time is met: late wakeups of a share, together in all stalls of the burst. Absent if
    /// it is not met for any burst.
    pub holds_to_burst: Option<f64>,
    /// That in plain words.
    pub sentence: String,
}

/// A figure, its interval and its limit.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct CheckFigure {
    /// What it is.
    pub of: FigureOf,
    /// The estimate; absent where only an interval is known.
    pub value: Option<f64>,
    /// The lower end of its interval, at the confidence by itself.
    pub low: f64,
    /// The upper end, the same; absent where there is none.
    pub high: Option<f64>,
    /// Its limit.
    pub limit: f64,
    /// How many of its activations, runs, or handlers were too late or too long.
    pub seen: f64,
    /// How many more may have been: lost, or still waiting for less.
    pub unknown: f64,
}

/// What a figure is, with its unit.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureOf {
    /// A share of activations, 0 to 1; at most the limit is required.
    Share,
    /// A mean time between events on a CPU, ns; at least the limit is required.
    MeanTime,
    /// A rate over that of the baseline; at most the limit is required.
    Ratio,
    /// The longest that was seen, ns; at most the limit is required.
    Longest,
}

/// Why a requirement is not decided.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
    /// The recordings are too short.
    TooShort,
    /// The recordings are too short to exclude stalls as long as the requirement covers.
    LongStalls,
    /// A recording is not trustworthy.
    NotTrustworthy,
    /// Whoever was still waiting when measuring ended may have been later.
    StillWaiting,
    /// The baseline or the recordings are fewer than four.
    FewRecordings,
    /// Recordings vary too much by themselves.
    Varies,
    /// The order of the recordings and of the baseline repeats itself, so that a regular
    /// job could be the difference.
    FixedOrder,
    /// What was lost, or was not kept, could have turned it.
    NotKept,
    /// Activations are too far apart to tell, however long it goes on.
    TooCoarse,
    /// Nothing looked for handlers.
    NotWatched,
    /// The load failed, ended before a recording did, or was stopped meanwhile.
    LoadEnded,
    /// It was late for so much of the time that how often does not tell, and how
    /// many activations were late says something else.
    TooOften,
}

impl CheckedRow {
    /// What to call it.
    pub fn called(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.title)
    }
}

impl Undecided {
    /// Whether longer recordings would help.
    pub const fn is_of_length(&self) -> bool {
        matches!(
            self,
            Self::TooShort | Self::LongStalls | Self::FewRecordings | Self::Varies
        )
    }
}
