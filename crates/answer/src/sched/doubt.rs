//! Why a recording does not tell whether a task meets its deadline.

use std::fmt::{self, Display, Formatter};

use laggard_analyze::forecast::exposure_without_model;
use laggard_model::text::{Unit, mean_time};
use laggard_model::{Keep, Nanos, Service};
use serde::{Serialize, Serializer};

use super::rank::StandIn;
use super::runner::Runner;
use crate::finer::{FinerPeriod, two_digits};
use crate::qos::CONFIDENCE;

/// A stall that fits between two activations should take no more than this
/// part of what the blackouts seen leave of a deadline.
const FINE_PART: f64 = 4.0;

/// Why a recording does not tell whether a task meets its deadline, and what
/// would. Serialized in words.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskDoubt {
    /// The service was still waiting when measuring ended.
    Waiting {
        /// For so long by then.
        waited: Nanos,
    },
    /// Every latency was 0 ns, so that no latency is bounded.
    AllZero,
    /// When latencies came was not kept; the histogram has them.
    NotKept {
        /// Those up to this.
        floor: Nanos,
        /// The share of all activations that were later than the slack, 0 to 1.
        late: f64,
        /// Whether only a tail was to be kept; else there were too many.
        is_tail: bool,
    },
    /// It shares its CPU with tasks of its priority, or below tasks that do less
    /// than is analysed.
    Shared {
        /// The response before all of their work, ns.
        least_ns: f64,
        /// The response after it, ns; may be infinite.
        most_ns: f64,
    },
    /// It or tasks before it may run on several CPUs, and one CPU was analysed.
    SeveralCpus {
        /// The response on a CPU that the others leave to it, ns.
        least_ns: f64,
        /// The response with all of them on one CPU, ns; may be infinite.
        most_ns: f64,
    },
    /// Its service was not measured, and the one that stands in is no bound.
    NotMeasured {
        /// The service that runs it.
        wanted: Service,
    },
    /// What begins and ends between two activations is not seen.
    Coarse {
        /// Activations are up to so far apart, ns.
        apart_ns: f64,
        /// The worst response, at least, ns.
        least_ns: f64,
        /// At most; may be infinite.
        most_ns: f64,
        /// With what they would be near enough.
        finer: FinerPeriod,
    },
    /// Too little was recorded for the rate that is permitted.
    Short {
        /// One failure per so long.
        permitted: Nanos,
        /// To be recorded for that, ns.
        needed_ns: f64,
        /// What this recording can tell instead, where the task comes that often.
        told: Option<Nanos>,
    },
    /// At the rate that is permitted it may take too long.
    Rare {
        /// One failure per so long.
        permitted: Nanos,
        /// The upper limit of its response at that rate, ns; may be infinite.
        most_ns: f64,
    },
}

/// What was found of one task; times in ns.
pub(super) struct Found<'a> {
    pub(super) way: &'a Runner<'a>,
    /// One failure is permitted per so long.
    pub(super) permitted: Nanos,
    /// The task's period: a shorter time cannot be permitted.
    pub(super) period: Nanos,
    pub(super) deadline: f64,
    /// Whether it may run on another CPU than tasks that it is analysed with.
    pub(super) may_be_apart: bool,
    /// The worst response before the work of tasks of its priority.
    pub(super) before_equals: f64,
    /// The worst response, at least and at most.
    pub(super) least: f64,
    pub(super) most: f64,
    /// At the permitted rate, and whether the recording tells it.
    pub(super) rated: f64,
    pub(super) is_rated: bool,
    /// The share of activations that were later than the slack.
    pub(super) late: f64,
    pub(super) stand_in: Option<StandIn>,
}

/// What keeps a task from being shown to meet its deadline; nothing where it
/// is shown.
pub(super) fn doubts(found: &Found<'_>) -> Vec<TaskDoubt> {
    if let Some(floor) = found.way.not_kept {
        let mut recordings = found.way.seen.streams.iter().map(|(seen, _)| seen);
        return vec![TaskDoubt::NotKept {
            floor,
            late: found.late,
            is_tail: recordings.any(|seen| seen.plan.keep == Keep::Tail),
        }];
    }
    if found.way.is_all_zero {
        return vec![TaskDoubt::AllZero];
    }
    let mut doubts = Vec::new();
    let not_measured = |stand_in: StandIn| TaskDoubt::NotMeasured {
        wanted: stand_in.wanted,
    };
    let is_no_bound = |stand_in: &StandIn| !stand_in.is_upper_bound;
    doubts.extend(found.stand_in.filter(is_no_bound).map(not_measured));
    if found.before_equals <= found.deadline && found.least > found.deadline {
        let (least_ns, most_ns) = (found.before_equals, found.least);
        doubts.push(if found.may_be_apart {
            TaskDoubt::SeveralCpus { least_ns, most_ns }
        } else {
            TaskDoubt::Shared { least_ns, most_ns }
        });
    } else if found.least > found.deadline {
        let is_upper = |stand_in: &StandIn| stand_in.is_upper_bound;
        doubts.extend(found.stand_in.filter(is_upper).map(not_measured));
    } else if found.most > found.deadline {
        doubts.push(coarse(found));
    }
    if !found.is_rated {
        doubts.push(short(found));
    } else if found.rated > found.deadline && found.most <= found.deadline {
        doubts.push(TaskDoubt::Rare {
            permitted: found.permitted,
            most_ns: found.rated,
        });
    }
    doubts
}

fn coarse(found: &Found<'_>) -> TaskDoubt {
    let streams = &found.way.seen.streams;
    let factor = (found.deadline - found.least) / FINE_PART / found.way.unseen;
    let recordings = streams.iter().map(|(seen, _)| *seen);
    TaskDoubt::Coarse {
        apart_ns: found.way.unseen,
        least_ns: found.least,
        most_ns: found.most,
        finer: FinerPeriod::new(recordings, factor.min(0.5)),
    }
}

fn short(found: &Found<'_>) -> TaskDoubt {
    let permitted = found.permitted.as_secs_f64() * 1e9;
    let needed = exposure_without_model(permitted, CONFIDENCE).unwrap_or(f64::INFINITY);
    let streams = &found.way.seen.streams;
    let observed = streams.iter().map(|(seen, _)| seen.duration.ns()).min();
    let told = Nanos::from_f64(observed.unwrap_or_default() as f64 * permitted / needed);
    // Two digits can be a twentieth less.
    let is_enough = told.as_f64() * 0.95 >= found.period.as_f64();
    TaskDoubt::Short {
        permitted: found.permitted,
        needed_ns: needed,
        told: is_enough.then(|| two_digits(told)),
    }
}

impl Display for TaskDoubt {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Waiting { waited } => write!(
                f,
                "it was still waiting when measuring ended, for {} by then, and how long in the end is not known: record \
                 until it has run",
                Unit::Auto.write_nanos(waited)
            ),
            Self::AllZero => f.write_str(
                "every latency was 0 ns, so that no bound is known; record with a clock that is fine enough",
            ),
            Self::NotKept {
                floor,
                late,
                is_tail,
            } => {
                let by_histogram = if late > 0.0 {
                    format!("{:.2} % of all activations were", 100.0 * late)
                } else {
                    "no activation was".into()
                };
                let (why, advice) = if is_tail {
                    ("`--keep tail`", "record with `--keep all`")
                } else {
                    (
                        "too many to hold",
                        "record only the services and CPUs that matter (`--services`, `--cpus`), or a shorter time",
                    )
                };
                write!(
                    f,
                    "when latencies up to {} came was not kept ({why}), so what comes together is not known; by the \
                     histogram {by_histogram} later than its slack; {advice}",
                    Unit::Auto.write_nanos(floor)
                )
            }
            Self::Shared { least_ns, most_ns } => write!(
                f,
                "it shares its CPU with tasks of its priority, or with tasks that may do less than is analysed: it \
                 takes {} before their work, {} after it",
                bound(least_ns),
                bound(most_ns),
            ),
            Self::SeveralCpus { least_ns, most_ns } => write!(
                f,
                "it or tasks of its priority or above may run on several CPUs, and laggard analyses one: it takes {} if \
                 they leave it a CPU, {} if all share one; give every task the same single CPU in `cpus`",
                bound(least_ns),
                bound(most_ns),
            ),
            Self::NotMeasured { wanted } => write!(
                f,
                "its service was not measured, and the latency that stands in can be longer or shorter: record with \
                 `--services {wanted}`"
            ),
            Self::Coarse {
                apart_ns,
                least_ns,
                most_ns,
                finer,
            } => write!(
                f,
                "activations are up to {} apart, and what begins and ends between two is not seen: it takes at least \
                 {}, at most {}; {finer}",
                Unit::Auto.write(apart_ns),
                bound(least_ns),
                bound(most_ns),
            ),
            Self::Short {
                permitted,
                needed_ns,
                told,
            } => {
                write!(
                    f,
                    "too short a recording to tell whether it misses once in {}: record for {}",
                    mean_time(permitted.as_f64()),
                    mean_time(needed_ns),
                )?;
                match told {
                    Some(told) => write!(
                        f,
                        ", or ask what this one can tell (`permitted = \"{told}\"` in the task set)"
                    ),
                    None => Ok(()),
                }
            }
            Self::Rare { permitted, most_ns } => write!(
                f,
                "once in {} it may take {}: the upper limit of the level",
                mean_time(permitted.as_f64()),
                bound(most_ns)
            ),
        }
    }
}

impl Serialize for TaskDoubt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn bound(ns: f64) -> String {
    if ns.is_finite() {
        Unit::Auto.write(ns)
    } else {
        "no bound".into()
    }
}
