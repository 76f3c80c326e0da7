//! Reasons why a recording does not show whether a task meets its deadline.

use laggard_analyze::forecast::exposure_without_model;
use laggard_model::{Keep, Nanos, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::rank::StandIn;
use super::runner::Runner;
use crate::finer::{FinerPeriod, two_digits};
use crate::qos::CONFIDENCE;

/// Maximum stall between two samples, as a divisor of the time that the measured stalls
/// leave of a deadline.
const FINE_PART: f64 = 4.0;

/// Reason why a recording does not show whether a task meets its deadline.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskDoubt {
    /// The service was still waiting when measuring ended.
    Waiting {
        /// Length of the wait by then.
        waited_ns: Nanos,
    },
    /// Every latency was 0 ns, so no latency has a bound.
    AllZero,
    /// The times of the latencies were not recorded. The histogram has the latencies.
    NotKept {
        /// The largest of these latencies.
        floor_ns: Nanos,
        /// Share of the samples above the slack, 0 to 1.
        late: f64,
        /// Whether the recording keeps only the tail. Otherwise there were too many
        /// samples.
        is_tail: bool,
    },
    /// It shares its CPU with tasks of its priority, or runs below tasks that do less than
    /// the analysed work.
    Shared {
        /// Response if these tasks run later, ns.
        least_ns: f64,
        /// Response if these tasks run first, ns; `null` in JSON without a bound.
        #[schemars(with = "Option<f64>")]
        most_ns: f64,
    },
    /// It or tasks before it may run on several CPUs. laggard analyses one CPU.
    SeveralCpus {
        /// Response on a CPU that the other tasks do not use, ns.
        least_ns: f64,
        /// Response with all of them on one CPU, ns; `null` in JSON without a bound.
        #[schemars(with = "Option<f64>")]
        most_ns: f64,
    },
    /// Its service was not measured, and the measured one does not bound its latency.
    NotMeasured {
        /// Service that runs the task.
        wanted: Service,
    },
    /// The samples are too far apart: a stall between two of them is not recorded.
    Coarse {
        /// Maximum time between two samples, ns.
        apart_ns: f64,
        /// Lower limit of the worst response, ns.
        least_ns: f64,
        /// Upper limit, ns; `null` in JSON without a bound.
        #[schemars(with = "Option<f64>")]
        most_ns: f64,
        /// Period that is short enough.
        finer: FinerPeriod,
    },
    /// The recording is too short for the permitted rate.
    Short {
        /// Permitted time between two misses.
        permitted_ns: Nanos,
        /// Recording time that the rate needs, ns.
        #[schemars(with = "Option<f64>")]
        needed_ns: f64,
        /// Shortest time between two misses that this recording can show; absent if it is
        /// shorter than the period of the task.
        shown_ns: Option<Nanos>,
    },
    /// The task may take too long at the permitted rate.
    Rare {
        /// Permitted time between two misses.
        permitted_ns: Nanos,
        /// Upper limit of its response at that rate, ns; `null` in JSON without a bound.
        #[schemars(with = "Option<f64>")]
        most_ns: f64,
    },
}

/// Responses of one task; times in ns.
pub(super) struct Found<'a> {
    pub(super) way: &'a Runner<'a>,
    /// Time per permitted failure.
    pub(super) permitted: Nanos,
    /// The task's period: a shorter time cannot be permitted.
    pub(super) period: Nanos,
    pub(super) deadline: f64,
    /// Whether it may run on another CPU than tasks that it is analysed with.
    pub(super) may_be_apart: bool,
    /// The worst response before the work of tasks of its priority.
    pub(super) before_equals: f64,
    /// Lower and upper limit of the worst response.
    pub(super) least: f64,
    pub(super) most: f64,
    /// Response at the permitted rate, and true if the recording contains it.
    pub(super) rated: f64,
    pub(super) is_rated: bool,
    /// The share of activations that were later than the slack.
    pub(super) late: f64,
    pub(super) stand_in: Option<StandIn>,
}

/// Returns the reasons why the analysis cannot show that a task meets its deadline.
pub(super) fn doubts(analysed: &Found<'_>) -> Vec<TaskDoubt> {
    if let Some(floor) = analysed.way.not_kept {
        let mut recordings = analysed.way.seen.streams.iter().map(|(run, _)| run);
        return vec![TaskDoubt::NotKept {
            floor_ns: floor,
            late: analysed.late,
            is_tail: recordings.any(|run| run.plan.keep == Keep::Tail),
        }];
    }
    if analysed.way.is_all_zero {
        return vec![TaskDoubt::AllZero];
    }
    let mut doubts = Vec::new();
    let not_measured = |stand_in: StandIn| TaskDoubt::NotMeasured {
        wanted: stand_in.wanted,
    };
    let is_no_bound = |stand_in: &StandIn| !stand_in.is_upper_bound;
    doubts.extend(analysed.stand_in.filter(is_no_bound).map(not_measured));
    if analysed.before_equals <= analysed.deadline && analysed.least > analysed.deadline {
        let (least_ns, most_ns) = (analysed.before_equals, analysed.least);
        doubts.push(if analysed.may_be_apart {
            TaskDoubt::SeveralCpus { least_ns, most_ns }
        } else {
            TaskDoubt::Shared { least_ns, most_ns }
        });
    } else if analysed.least > analysed.deadline {
        let is_upper = |stand_in: &StandIn| stand_in.is_upper_bound;
        doubts.extend(analysed.stand_in.filter(is_upper).map(not_measured));
    } else if analysed.most > analysed.deadline {
        doubts.push(coarse(analysed));
    }
    if !analysed.is_rated {
        doubts.push(short(analysed));
    } else if analysed.rated > analysed.deadline && analysed.most <= analysed.deadline {
        doubts.push(TaskDoubt::Rare {
            permitted_ns: analysed.permitted,
            most_ns: analysed.rated,
        });
    }
    doubts
}

fn coarse(analysed: &Found<'_>) -> TaskDoubt {
    let streams = &analysed.way.seen.streams;
    let factor = (analysed.deadline - analysed.least) / FINE_PART / analysed.way.unseen;
    let recordings = streams.iter().map(|(run, _)| *run);
    TaskDoubt::Coarse {
        apart_ns: analysed.way.unseen,
        least_ns: analysed.least,
        most_ns: analysed.most,
        finer: FinerPeriod::new(recordings, factor.min(0.5)),
    }
}

fn short(analysed: &Found<'_>) -> TaskDoubt {
    let permitted = analysed.permitted.as_secs_f64() * 1e9;
    let needed = exposure_without_model(permitted, CONFIDENCE).unwrap_or(f64::INFINITY);
    let streams = &analysed.way.seen.streams;
    let observed = streams.iter().map(|(run, _)| run.duration.ns()).min();
    let shown = Nanos::from_f64(observed.unwrap_or_default() as f64 * permitted / needed);
    // Two digits can be a twentieth less.
    let is_enough = shown.as_f64() * 0.95 >= analysed.period.as_f64();
    TaskDoubt::Short {
        permitted_ns: analysed.permitted,
        needed_ns: needed,
        shown_ns: is_enough.then(|| two_digits(shown)),
    }
}
