//! Reasons why figures are not trustworthy, and remedies.

use std::fmt::{self, Display, Formatter};

use laggard_model::name::line_name;
use laggard_model::{Caveat, Line, Stage};
use serde::{Serialize, Serializer};

use super::LOST_IN;

/// Maximum number of lines that a reason names. The others are counted.
const NAMED: usize = 3;

/// Reason why figures are not trustworthy. It is displayed and serialised as a problem and its
/// remedy, separated by a semicolon.
#[derive(Clone, Debug, PartialEq)]
pub enum Distrust {
    /// There are no wakeups.
    Empty,
    /// There are too few wakeups to describe a machine.
    TooFew {
        /// Number of measured wakeups.
        samples: u64,
    },
    /// Too many wakeups were lost, over all lines.
    Lost {
        /// Number of lost wakeups.
        lost: u64,
        /// Total number, including lost ones.
        of: u64,
        /// Remedy.
        remedy: MeasuringRemedy,
    },
    /// Lines lost too much of their plan.
    LossyLines {
        /// Lost part of the plan per line, worst first.
        lines: Vec<LinePart>,
        /// Remedy.
        remedy: MeasuringRemedy,
    },
    /// Lines have much less than the fullest one of the same service.
    SparseLines {
        /// Number of wakeups per line, compared with the fullest line.
        lines: Vec<LinePart>,
    },
    /// The clock ran backwards.
    ClockBack {
        /// Number of times.
        times: u64,
    },
    /// A stage is missing in too many wakeups.
    StageUnseen(UnseenStage),
    /// A measuring thread had another policy than its service requires.
    Rescheduled(Caveat),
    /// Too much of a trace is missing.
    TraceIncomplete(Caveat),
    /// Measuring was a significant load.
    OwnCost {
        /// Overhead.
        cost: CpuCost,
        /// Remedy.
        remedy: MeasuringRemedy,
    },
}

/// Part of the wakeups of a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LinePart {
    /// Measured line.
    pub line: Line,
    /// Number of wakeups in the part.
    pub count: u64,
    /// Total number.
    pub of: u64,
}

/// Stage that was not observed, and the number of cases.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnseenStage {
    /// Missing stage.
    pub stage: Stage,
    /// Completed wakeups in which it is missing.
    pub places: UnseenIn,
}

/// Completed wakeups without a stage.
#[derive(Clone, Debug, Eq, PartialEq)]
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuCost {
    /// CPUs that measuring kept busy.
    pub busy: f64,
    /// Measured CPUs.
    pub cpus: usize,
}

/// Remedy for an untrustworthy measurement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
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
    /// Measuring itself takes too much.
    Less {
        /// True if several services were measured.
        several_services: bool,
    },
}

impl UnseenStage {
    /// Advice: latencies are correct even if their parts are not.
    pub const ADVICE: &str = "use the latencies, not their parts, and see `laggard doctor`";
}

impl CpuCost {
    /// Returns the share of the time of all measured CPUs, 0 to 1.
    pub fn share(&self) -> f64 {
        self.busy / self.cpus as f64
    }
}

impl Distrust {
    /// Returns the remedy, if there is one other than to measure again.
    fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::Empty => return None,
            Self::TooFew { .. } => "record for longer".into(),
            Self::Lost { remedy, .. }
            | Self::LossyLines { remedy, .. }
            | Self::OwnCost { remedy, .. } => remedy.to_string(),
            Self::SparseLines { .. } => Self::AGAIN.into(),
            Self::ClockBack { .. } => "check the clocksource".into(),
            Self::StageUnseen(_) => UnseenStage::ADVICE.into(),
            Self::Rescheduled(caveat) | Self::TraceIncomplete(caveat) => caveat.advice.to_string(),
        })
    }

    const AGAIN: &str = "record again, and see `laggard doctor`";

    /// Returns the remedy as text.
    pub fn advice(&self) -> String {
        self.remedy().unwrap_or_else(|| Self::AGAIN.into())
    }

    /// Returns the reason as text.
    pub fn what(&self) -> String {
        match self {
            Self::Empty => "nothing was measured".into(),
            Self::TooFew { samples: 1 } => "only 1 wakeup was measured".into(),
            Self::TooFew { samples } => format!("only {samples} wakeups were measured"),
            Self::Lost { lost, of, .. } => {
                let were_lost = match lost {
                    1 => "1 wakeup was lost".to_owned(),
                    _ => format!("{lost} wakeups were lost"),
                };
                format!("{were_lost}, more than one in {LOST_IN} of {of}")
            }
            Self::LossyLines { lines, .. } => format!(
                "series lost more than one in {LOST_IN} of their wakeups: {}",
                named(lines, |part| format!(
                    "{} {} of {}",
                    place(part),
                    part.count,
                    part.of
                ))
            ),
            Self::SparseLines { lines } => format!(
                "series have less than half of the wakeups of the same service on another CPU: {}",
                named(lines, |part| format!(
                    "{} has {} of {}",
                    place(part),
                    part.count,
                    part.of
                ))
            ),
            Self::ClockBack { times: 1 } => "the clock ran backwards once".into(),
            Self::ClockBack { times } => format!("the clock ran backwards {times} times"),
            Self::StageUnseen(unseen) => unseen.to_string(),
            Self::Rescheduled(caveat) | Self::TraceIncomplete(caveat) => caveat.what.to_string(),
            Self::OwnCost { cost, .. } => cost.to_string(),
        }
    }
}

impl Display for Distrust {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what())?;
        match self.remedy() {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl Serialize for Distrust {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Display for UnseenStage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let places = match &self.places {
            UnseenIn::Lines(lines) => named(lines, |part| {
                format!("{} ({} of {})", place(part), part.count, part.of)
            }),
            UnseenIn::All { count, of } => format!("{count} of {of} wakeups"),
        };
        write!(
            f,
            "the stage `{}` was not seen in {places}; its time is part of the next stage",
            self.stage
        )
    }
}

impl Display for CpuCost {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.busy;
        match self.cpus {
            1 => write!(f, "measuring took {percent:.0} % of the measured CPU"),
            several => write!(
                f,
                "measuring took {percent:.0} % of a CPU, {:.0} % of the time of the {several} measured CPUs",
                100.0 * self.share()
            ),
        }
    }
}

impl Display for MeasuringRemedy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FasterDisk => {
                "record to a faster or emptier disk (`-o`), or keep less with `--keep tail`"
            }
            Self::StayPut => {
                "do not move the measuring threads, and keep the CPUs online during the recording"
            }
            Self::Uninterrupted => {
                "record again without stopping laggard (a signal, a debugger, suspend)"
            }
            Self::LetRun => {
                "find out what kept the service from running (`laggard why`, if late wakeups were recorded), or record until it runs"
            }
            Self::RaiseLess => {
                "record with a longer --period, or find out what kept the thread that raises the interrupt"
            }
            Self::InTurn => {
                "record with a longer --period or fewer services of the driver, which take turns, and let no other program use it during the recording"
            }
            Self::NoEpisodes => {
                "record with `--episodes off`, which records no causes of late wakeups"
            }
            Self::Less {
                several_services: true,
            } => {
                "record with a longer --period, which misses more of the short stalls, or fewer services"
            }
            Self::Less {
                several_services: false,
            } => "record with a longer --period, which misses more of the short stalls",
        })
    }
}

fn place(LinePart { line, .. }: &LinePart) -> String {
    format!(
        "{} on CPU {}",
        line_name(line.service, line.route),
        line.cpu
    )
}

/// Describes the first parts of `all` and counts the others.
fn named(all: &[LinePart], write: impl Fn(&LinePart) -> String) -> String {
    let first: Vec<String> = all.iter().take(NAMED).map(write).collect();
    let mut words = first.join(", ");
    words += &match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        1 => " and 1 more series".into(),
        more => format!(" and {more} more series"),
    };
    words
}
