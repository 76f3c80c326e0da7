//! What limits a task: the largest part of its worst response.

use std::fmt::{self, Display, Formatter};

use laggard_analyze::sched::Task;
use laggard_model::Nanos;
use laggard_model::text::{Unit, mean_time};
use serde::{Serialize, Serializer};

use super::runner::Runner;

/// The largest part of the worst response that was measured, and beside it what
/// is no measurement. Serialized in words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseLimit {
    /// The part.
    pub largest: LargestPart,
    /// How much more the recording cannot rule out, ns, which may be infinite;
    /// absent where there is nothing more, or no response to add it to.
    pub more_ns: Option<f64>,
}

/// What takes most of a response; times in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LargestPart {
    /// More than all of the processor is asked for.
    Overload,
    /// Blackouts that leave too little of it.
    Blackouts {
        /// The longest that was seen.
        longest_ns: f64,
    },
    /// A stall that had not ended when measuring did.
    Stall {
        /// How long it had lasted by then.
        waited: Nanos,
    },
    /// Its own work.
    Work(f64),
    /// What lower priorities hold up.
    Blocking(f64),
    /// Tasks of higher priority, or of the same.
    Above(f64),
    /// Latency.
    Latency(f64),
}

impl ResponseLimit {
    /// Of a task whose response takes `ideal` without latency, and with what was
    /// measured `least` to `most`; ns, infinite where there is no bound.
    pub(super) fn of(task: &Task, ideal: f64, (least, most): (f64, f64), way: &Runner<'_>) -> Self {
        let alone = |largest| Self {
            largest,
            more_ns: None,
        };
        if !ideal.is_finite() {
            return alone(LargestPart::Overload);
        }
        if !least.is_finite() {
            return alone(LargestPart::Blackouts {
                longest_ns: way.longest,
            });
        }
        let above = ideal - task.cost - task.blocking;
        let latency = least - ideal;
        let parts = [
            (LargestPart::Work(task.cost), task.cost),
            (LargestPart::Blocking(task.blocking), task.blocking),
            (LargestPart::Above(above), above),
            (LargestPart::Latency(latency), latency),
        ];
        let largest = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        Self {
            largest: largest.unwrap_or(parts[0]).0,
            more_ns: Some(most - least).filter(|&more| more > 0.0),
        }
    }

    /// Of a task whose service still waited when measuring ended.
    pub(super) const fn stall(waited: Nanos) -> Self {
        Self {
            largest: LargestPart::Stall { waited },
            more_ns: None,
        }
    }
}

impl Display for LargestPart {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (what, took) = match *self {
            Self::Overload => return f.write_str("an overload of the processor"),
            Self::Blackouts { longest_ns } => {
                return write!(
                    f,
                    "blackouts, which leave too little of the processor (the longest seen: {})",
                    mean_time(longest_ns)
                );
            }
            Self::Stall { waited } => {
                return write!(
                    f,
                    "a stall that had lasted for {} when measuring ended, and went on",
                    Unit::Auto.write_nanos(waited)
                );
            }
            Self::Work(took) => ("its own work", took),
            Self::Blocking(took) => ("blocking", took),
            Self::Above(took) => ("tasks that run before it", took),
            Self::Latency(took) => ("latency", took),
        };
        write!(f, "{what}, {}", mean_time(took))
    }
}

impl Display for ResponseLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.largest.fmt(f)?;
        match self.more_ns {
            None => Ok(()),
            Some(more) if more.is_infinite() => {
                f.write_str("; how much more the recording cannot rule out has no bound")
            }
            Some(more) => write!(
                f,
                "; the recording cannot rule out up to {} more: a bound, not a measurement",
                mean_time(more)
            ),
        }
    }
}

impl Serialize for ResponseLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
