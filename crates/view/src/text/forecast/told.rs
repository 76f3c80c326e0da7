//! What `laggard forecast` says of a load, for a reader other than a terminal:
//! the same tables and sentences in the same order.

use laggard_answer::Note;
use laggard_answer::forecast::{ForecastReport, LoadForecast};
use laggard_model::printable;
use schemars::JsonSchema;
use serde::Serialize;

use super::super::grid::TableView;
use super::levels::{self, Remarks};
use super::{RESTS_ON, assumed, bounds, carried, chances, fitted, sentence, used, what};

/// What is said of a load, that which needs no model first.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct ForecastTold {
    /// What was recorded, and for how long.
    pub what: String,
    /// How the machine is used.
    pub used: String,
    /// What makes all of it doubtful.
    pub warnings: Vec<String>,
    /// The chance of a new largest, and what is bounded, by horizon.
    pub chances: TableView,
    /// The largest seen, and what horizons stay below that the ranks bound.
    pub bounds: TableView,
    /// What the bounds rest on.
    pub carried: String,
    /// What horizons stay below that the ranks do not bound.
    pub assumed: Option<AssumedTold>,
    /// The levels of a fit, where one is told.
    pub levels: Option<TableView>,
    /// What a question mark beside one says, where there is any.
    pub doubted: Option<String>,
    /// How many levels are told, and why the others are refused.
    pub fitted: String,
    /// What limits these recordings.
    pub advice: Vec<String>,
    /// What chances and bounds rest on.
    pub rests_on: String,
    /// Every level or the reasons against it.
    pub every: EveryLevel,
}

/// An assumption, and what holds if it does.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct AssumedTold {
    /// The assumption.
    pub words: String,
    /// What holds then.
    pub table: TableView,
    /// Where the assumption comes from.
    pub explained: String,
}

/// Every level or the reasons against it, and the second estimate.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct EveryLevel {
    /// By service and horizon.
    pub table: TableView,
    /// What the letters in it stand for, and what else there is to say.
    pub remarks: Vec<String>,
    /// What else makes them doubtful.
    pub notes: Vec<String>,
    /// How to read it.
    pub legend: Vec<String>,
}

/// What is said of each load.
pub fn told(report: &ForecastReport) -> Vec<ForecastTold> {
    report.loads.iter().map(of_load).collect()
}

fn of_load(load: &LoadForecast) -> ForecastTold {
    let noted = |is_wanted: &dyn Fn(&Note) -> bool| -> Vec<String> {
        let notes = load.notes.iter().filter(|note| is_wanted(note));
        notes
            .map(|note| printable(&note.to_string()).to_string())
            .collect()
    };
    let see = "see below";
    let (levels, is_doubted) = levels::told(load).unzip();
    ForecastTold {
        what: what(load),
        used: used(load),
        warnings: noted(&Note::is_warning),
        chances: chances(load).into(),
        bounds: bounds(load).into(),
        carried: carried(load),
        assumed: assumed::of_load(load).map(|(words, table)| AssumedTold {
            words,
            table: table.into(),
            explained: assumed::EXPLAINED.into(),
        }),
        levels: levels.map(Into::into),
        doubted: (is_doubted == Some(true)).then(|| levels::doubted(see)),
        fitted: fitted(load, see),
        advice: load.advice.iter().map(|one| sentence(&one.words)).collect(),
        rests_on: RESTS_ON.into(),
        every: every(load, noted(&|note| !note.is_warning())),
    }
}

fn every(load: &LoadForecast, notes: Vec<String>) -> EveryLevel {
    let mut remarks = Remarks::default();
    let table = levels::table(load, &mut remarks).into();
    let more = levels::how_long(load)
        .into_iter()
        .chain(levels::periods(load));
    EveryLevel {
        table,
        remarks: remarks
            .lines()
            .chain(more)
            .chain(levels::composed(load))
            .collect(),
        notes,
        legend: levels::LEGEND.map(String::from).into(),
    }
}
