//! Reasons to doubt figures, and remedies.

use laggard_model::{Caveat, Line, Stage};
use schemars::JsonSchema;
use serde::Serialize;

/// Reason to doubt figures. Small problems only cast doubt on them, large ones make them
/// untrustworthy.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Distrust {
    /// The recording does not have wakeups.
    Empty,
    /// There are too few wakeups to describe a machine.
    TooFew {
        /// Number of measured wakeups.
        samples: u64,
    },
    /// Too many wakeups were lost, over all lines.
    Lost {
        lost: u64,
        /// Total number, including lost ones.
        of: u64,
        remedy: MeasuringRemedy,
    },
    /// Lines lost too much of their plan.
    LossyLines {
        /// Lost part of the plan per line, worst first.
        lines: Vec<LinePart>,
        remedy: MeasuringRemedy,
    },
    /// Lines have much less than the fullest one of the same service.
    SparseLines {
        /// Number of wakeups per line, compared with the fullest line.
        lines: Vec<LinePart>,
    },
    /// The clock ran backwards.
    ClockBack { times: u64 },
    /// A stage is missing in too many wakeups.
    StageUnseen(UnseenStage),
    /// A measuring thread had another policy than its service requires.
    Rescheduled {
        /// Warning of the recording.
        warning: Caveat,
    },
    /// Too much of a trace is missing.
    TraceIncomplete {
        /// Warning of the recording.
        warning: Caveat,
    },
    /// Measuring was a significant load.
    OwnCost {
        /// Overhead.
        cost: CpuCost,
        remedy: MeasuringRemedy,
    },
}

#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct LinePart {
    pub line: Line,
    /// Number of wakeups in the part.
    pub count: u64,
    /// Total number.
    pub of: u64,
}

/// Stage that was not observed, and the number of cases.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct UnseenStage {
    pub stage: Stage,
    /// Completed wakeups without the stage.
    pub places: UnseenIn,
}

/// Completed wakeups without a stage.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnseenIn {
    /// Per line, worst first: other lines of the same service have the stage.
    Lines(Vec<LinePart>),
    /// Over all lines: no line has the stage.
    All {
        /// Number of wakeups without it.
        count: u64,
        /// Total number.
        of: u64,
    },
}

/// Part of the measured CPUs that measuring used.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct CpuCost {
    /// CPUs that measuring kept busy.
    pub busy: f64,
    pub cpus: usize,
}

/// Remedy for an untrustworthy measurement.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MeasuringRemedy {
    /// The writer was too slow.
    FasterDisk,
    /// Measuring threads were moved.
    StayPut,
    /// The program was stopped.
    Uninterrupted,
    /// The service did not run.
    LetRun,
    /// The thread that raises the interrupt did not run.
    RaiseLess,
    /// The driver, which serves one read at a time, served another.
    InTurn,
    /// The flight recorder took most.
    NoEpisodes,
    /// `attach` watched too many threads.
    FewerThreads,
    /// Measuring itself takes too much.
    Less {
        /// True if several services were measured.
        several_services: bool,
    },
}

impl CpuCost {
    /// Returns the share of the time of all measured CPUs, 0 to 1.
    pub fn share(&self) -> f64 {
        self.busy / self.cpus as f64
    }
}
