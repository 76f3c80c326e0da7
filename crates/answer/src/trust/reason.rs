//! Why figures cannot be trusted, and what to do about it.

use std::fmt::{self, Display, Formatter};

use laggard_model::name::line_name;
use laggard_model::{Caveat, Line, Stage};
use serde::{Serialize, Serializer};

use super::LOST_IN;

/// Lines that a reason names; the others are counted.
const NAMED: usize = 3;

/// A reason why figures cannot be trusted. Displayed, and serialized, as what
/// is wrong and what to do, with a semicolon between.
#[derive(Clone, Debug, PartialEq)]
pub enum Distrust {
    /// There is no activation.
    Empty,
    /// Too few activations say nothing of a machine.
    TooFew {
        /// How many were measured.
        samples: u64,
    },
    /// Too many activations were lost, all lines together.
    Lost {
        /// Lost activations.
        lost: u64,
        /// Of how many, the lost ones among them.
        of: u64,
        /// What would help.
        remedy: MeasuringRemedy,
    },
    /// Lines lost too much of their own plan.
    LossyLines {
        /// What each lost of its plan, the worst first.
        lines: Vec<LinePart>,
        /// What would help.
        remedy: MeasuringRemedy,
    },
    /// Lines have much less than the fullest one of the same service.
    SparseLines {
        /// What each has of what the fullest has.
        lines: Vec<LinePart>,
    },
    /// The clock ran backwards.
    ClockBack {
        /// Times that it did.
        times: u64,
    },
    /// A stage is missing in too many activations.
    StageUnseen(UnseenStage),
    /// A measuring thread was given other scheduling than its service has.
    Rescheduled(Caveat),
    /// Too much of a trace is missing.
    TraceIncomplete(Caveat),
    /// Measuring was a load itself.
    OwnCost {
        /// What it took.
        cost: CpuCost,
        /// What would help.
        remedy: MeasuringRemedy,
    },
}

/// A part of the activations of a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LinePart {
    /// The line.
    pub line: Line,
    /// How many activations.
    pub count: u64,
    /// Of how many.
    pub of: u64,
}

/// Where a stage was not seen, and how often.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnseenStage {
    /// The stage.
    pub stage: Stage,
    /// The served activations in which it is missing.
    pub places: UnseenIn,
}

/// The served activations that lack a stage.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UnseenIn {
    /// By line, the worst first: other lines of the same service have it.
    Lines(Vec<LinePart>),
    /// Of all lines, where none has it.
    All {
        /// How many lack it.
        count: u64,
        /// Of how many.
        of: u64,
    },
}

/// How much of the measured CPUs measuring took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuCost {
    /// CPUs that it kept busy.
    pub busy: f64,
    /// CPUs that were measured.
    pub cpus: usize,
}

/// What to do about a measurement that cannot be trusted.
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
        /// Whether several services were measured.
        several_services: bool,
    },
}

impl UnseenStage {
    /// What to do: latencies are right even where their parts are not.
    pub const ADVICE: &str = "use the latencies, not their parts, and see `laggard doctor`";
}

impl CpuCost {
    /// Of the time of all measured CPUs, 0 to 1.
    pub fn share(&self) -> f64 {
        self.busy / self.cpus as f64
    }
}

impl Distrust {
    /// What to do, where there is more to do than to measure again.
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
                named(lines, |one| format!(
                    "{} {} of {}",
                    place(one),
                    one.count,
                    one.of
                ))
            ),
            Self::SparseLines { lines } => format!(
                "series have less than half of the wakeups of the same service on another CPU: {}",
                named(lines, |one| format!(
                    "{} has {} of {}",
                    place(one),
                    one.count,
                    one.of
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
            UnseenIn::Lines(lines) => named(lines, |one| {
                format!("{} ({} of {})", place(one), one.count, one.of)
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
