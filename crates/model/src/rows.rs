//! What the rows of a recording are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Nanos, SwitchWay, TimerApi};

/// What each row of a recording is.
///
/// Expiries come by themselves, as planned, so that rates over time are told of them.
/// The others are asked for by who waits for them, one after the other: a slow machine
/// has fewer of them, not more that are late.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "of")]
pub enum RowsOf {
    /// An expiry that was planned.
    #[default]
    Expiries,
    /// A hand-over of the CPU from one thread to the next, with whatever came between.
    /// Its expiry is the instant before.
    HandOvers {
        /// How many threads take turns.
        threads: u32,
        /// How they hand over, and as what.
        way: SwitchWay,
    },
    /// A wait of one thread for a timer. Its expiry is when that was due.
    Waits {
        /// The timer.
        timer: TimerApi,
        /// How many came early: they have a latency of 0, and are due when they came.
        early: u64,
    },
    /// What a thread of somebody else's was woken for. Its expiry is that of the timer
    /// that woke it, else the beginning of the interrupt or softirq that did, else the
    /// wakeup.
    Activations,
    /// What a trace of another system tells: a run of a handler, or a wait of a thread.
    /// Its expiry is when that began.
    Traced,
}

impl RowsOf {
    /// Whether they come by themselves, as planned.
    #[must_use]
    pub const fn are_expiries(&self) -> bool {
        matches!(self, Self::Expiries)
    }

    /// What they are, in words: `hand-overs by futex among 10 threads`; `period`: what
    /// timers were asked for. `None`: expiries.
    #[must_use]
    pub fn words(&self, period: Nanos) -> Option<String> {
        match self {
            Self::Expiries => None,
            Self::HandOvers { threads, way } => {
                let who = if way.are_processes {
                    "processes"
                } else {
                    "threads"
                };
                let set = match way.working_set_bytes {
                    0 => String::new(),
                    bytes => format!(", each with {bytes} bytes of memory"),
                };
                let cross = if way.is_cross { ", on two CPUs" } else { "" };
                let via = way.via;
                Some(format!(
                    "hand-overs by {via} among {threads} {who}{set}{cross}"
                ))
            }
            Self::Waits { timer, .. } => Some(format!("waits for {timer} every {period}")),
            Self::Activations => Some("activations of threads that were watched".into()),
            Self::Traced => {
                Some("runs of ISRs and DPCs and waits of threads in a trace of Windows".into())
            }
        }
    }

    /// How many came before they were due, and so have a latency of 0.
    #[must_use]
    pub const fn early(&self) -> u64 {
        match *self {
            Self::Expiries | Self::HandOvers { .. } | Self::Activations | Self::Traced => 0,
            Self::Waits { early, .. } => early,
        }
    }

    /// From where latency is counted, and to where; `None`: from the expiry to the
    /// service's first instruction.
    #[must_use]
    pub const fn latency(&self) -> Option<&'static str> {
        match self {
            Self::Expiries => None,
            Self::HandOvers { .. } => Some(
                "from the instant before a hand-over to the next thread's first, with what came between",
            ),
            Self::Waits { .. } => Some("from when a wait was due to the thread's next instruction"),
            Self::Activations => Some(
                "from what woke a thread (a timer: when it was due) to its next sleep, its own work included",
            ),
            Self::Traced => Some(
                "of ISRs and DPCs from their first to their last instruction, of threads from ready to running, of hard faults until the page is there",
            ),
        }
    }

    /// Why no demand for time can be held against its latencies; `None`: it can.
    #[must_use]
    pub const fn no_demand(&self) -> Option<&'static str> {
        match self {
            Self::Activations => Some(
                "their latencies have the threads' own work in them, which an application's demand would count again; `laggard attach` holds them against a deadline",
            ),
            // Without rates there is nothing to hold it against.
            Self::Expiries | Self::HandOvers { .. } | Self::Waits { .. } | Self::Traced => None,
        }
    }

    /// Why nothing can be told of how often something is late; `None`: it can be.
    #[must_use]
    pub const fn no_rates(&self) -> Option<&'static str> {
        match self {
            // They come by themselves, as far as the program goes.
            Self::Expiries | Self::Activations => None,
            Self::HandOvers { .. } => Some(
                "each hand-over begins when the one before has ended, so that a slow system makes fewer of them, not more that are late",
            ),
            Self::Waits { .. } => Some(
                "one thread waits again when the wait before has ended, so that a slow system has fewer of them, not more that are late",
            ),
            Self::Traced => Some(
                "a trace has what happened, whenever devices and threads made it happen, and not how often something should have happened",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HandOver, ProbePlan, SwitchPolicy};

    const WAY: SwitchWay = SwitchWay {
        via: HandOver::Pipe,
        service: SwitchPolicy::Fifo(80),
        are_processes: true,
        working_set_bytes: 65_536,
        is_cross: false,
    };

    #[test]
    fn rows_are_read_back_as_they_were_written() {
        for rows in [
            RowsOf::Expiries,
            RowsOf::Traced,
            RowsOf::HandOvers {
                threads: 10,
                way: WAY,
            },
            RowsOf::Waits {
                timer: TimerApi::ALL[0],
                early: 3,
            },
            RowsOf::Activations,
        ] {
            let plan = ProbePlan {
                rows,
                ..ProbePlan::default()
            };
            let text = serde_json::to_string(&plan).unwrap();

            assert_eq!(serde_json::from_str::<ProbePlan>(&text).unwrap(), plan);
            // Readers of today's recordings know nothing of it.
            assert_eq!(text.contains("\"rows\""), !rows.are_expiries(), "{text}");
        }
    }

    /// Two recordings of one timer are of the same, however many came early.
    #[test]
    fn how_many_came_early_is_no_part_of_what_waits_are() {
        let rows = |early| RowsOf::Waits {
            timer: TimerApi::ALL[0],
            early,
        };

        let words = |early| rows(early).words(Nanos::from_us(1_500));
        assert_eq!(words(3), words(0));
        assert_eq!((rows(3).early(), RowsOf::Expiries.early()), (3, 0));
    }

    #[test]
    fn what_has_no_rates_says_what_it_is_and_why() {
        let rows = RowsOf::HandOvers {
            threads: 10,
            way: WAY,
        };

        let words = rows.words(Nanos::ZERO).unwrap();
        assert_eq!(
            words,
            "hand-overs by pipe among 10 processes, each with 65536 bytes of memory"
        );
        assert!(rows.no_rates().is_some() && rows.latency().is_some());
        assert_eq!(RowsOf::Expiries.no_rates(), None);
    }
}
