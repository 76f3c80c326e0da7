//! Meaning of the rows of a recording.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Nanos, SwitchWay, TimerApi};

/// Meaning of each row of a recording.
///
/// Expiries come at planned times, so rates over time are defined. The other kinds are
/// requested one after the other: a slow machine has fewer of them, not more late ones.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "of")]
pub enum RowsOf {
    /// Planned expiry.
    #[default]
    Expiries,
    /// Context switch from one thread to the next, with interruptions. Its expiry is
    /// the time before the switch.
    HandOvers {
        /// Number of threads that take turns.
        threads: u32,
        /// Mechanism and scheduling of the switches.
        way: SwitchWay,
    },
    /// Wait of one thread for a timer. Its expiry is the due time.
    Waits {
        /// Timer.
        timer: TimerApi,
        /// Number of early waits: they have a latency of 0, and are due when they
        /// ended.
        early: u64,
    },
    /// Activation of another program's thread. Its expiry is the expiry of the timer that woke it,
    /// otherwise the start of the interrupt or softirq that did, otherwise the wakeup.
    Activations,
    /// Duration in a trace of another system: a run of a handler, or a wait of a
    /// thread. Its expiry is the start.
    Traced,
}

impl RowsOf {
    /// Returns whether the rows are planned expiries.
    #[must_use]
    pub const fn are_expiries(&self) -> bool {
        matches!(self, Self::Expiries)
    }

    /// Returns the meaning in words: `context switches by futex among 10 threads`; `period`
    /// is the requested one of timers. `None` for expiries.
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
                    "context switches by {via} among {threads} {who}{set}{cross}"
                ))
            }
            Self::Waits { timer, .. } => Some(format!("waits for {timer} every {period}")),
            Self::Activations => Some("cycles of watched threads".into()),
            Self::Traced => {
                Some("runs of ISRs and DPCs and waits of threads in a trace of Windows".into())
            }
        }
    }

    /// Returns the number of early rows, which have a latency of 0.
    #[must_use]
    pub const fn early(&self) -> u64 {
        match *self {
            Self::Expiries | Self::HandOvers { .. } | Self::Activations | Self::Traced => 0,
            Self::Waits { early, .. } => early,
        }
    }

    /// Returns start and end of the latency; `None` for the time from the expiry to the
    /// service's first instruction.
    #[must_use]
    pub const fn latency(&self) -> Option<&'static str> {
        match self {
            Self::Expiries => None,
            Self::HandOvers { .. } => Some(
                "from the clock reading before a context switch to the first instruction of the next thread, interruptions included",
            ),
            Self::Waits { .. } => Some("from when a wait was due to the thread's next instruction"),
            Self::Activations => Some(
                "from the time when a cycle is due (or its thread is woken) until the thread waits for the next, execution time included",
            ),
            Self::Traced => Some(
                "of ISRs and DPCs from their first to their last instruction, of threads from ready to running, of hard faults until the page is there",
            ),
        }
    }

    /// Returns the reason why the latencies cannot be compared with a requirement;
    /// `None` if they can.
    #[must_use]
    pub const fn no_demand(&self) -> Option<&'static str> {
        match self {
            Self::Activations => Some(
                "their latencies include the execution time of the threads, which an application's demand would count again; `laggard attach` compares them with a deadline",
            ),
            // Without rates no comparison is possible.
            Self::Expiries | Self::HandOvers { .. } | Self::Waits { .. } | Self::Traced => None,
        }
    }

    /// Returns the reason why rates of late rows are not defined; `None` if they are.
    #[must_use]
    pub const fn no_rates(&self) -> Option<&'static str> {
        match self {
            // As far as the program is concerned, they come at given times.
            Self::Expiries | Self::Activations => None,
            Self::HandOvers { .. } => Some(
                "each context switch starts when the one before has ended, so a slow system has fewer of them, not more late ones",
            ),
            Self::Waits { .. } => Some(
                "a thread waits again when the wait before has ended, so a slow system has fewer waits, not more late ones",
            ),
            Self::Traced => Some("an imported trace has no sampling schedule"),
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
    fn rows_are_read_back_unchanged() {
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
            // Earlier readers do not know the field.
            assert_eq!(text.contains("\"rows\""), !rows.are_expiries(), "{text}");
        }
    }

    /// Two recordings of one timer are comparable for any number of early waits.
    #[test]
    fn number_of_early_waits_does_not_distinguish_rows() {
        let rows = |early| RowsOf::Waits {
            timer: TimerApi::ALL[0],
            early,
        };

        let words = |early| rows(early).words(Nanos::from_us(1_500));
        assert_eq!(words(3), words(0));
        assert_eq!((rows(3).early(), RowsOf::Expiries.early()), (3, 0));
    }

    #[test]
    fn rows_without_rates_have_a_reason() {
        let rows = RowsOf::HandOvers {
            threads: 10,
            way: WAY,
        };

        let words = rows.words(Nanos::ZERO).unwrap();
        assert_eq!(
            words,
            "context switches by pipe among 10 processes, each with 65536 bytes of memory"
        );
        assert!(rows.no_rates().is_some() && rows.latency().is_some());
        assert_eq!(RowsOf::Expiries.no_rates(), None);
    }
}
