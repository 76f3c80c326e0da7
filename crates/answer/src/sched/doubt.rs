//! Why a recording does not tell whether a task meets its deadline.

use laggard_analyze::forecast::exposure_without_model;
use laggard_model::text::{Unit, mean_time};
use laggard_model::{Keep, Nanos};

use super::runner::Runner;
use crate::finer::{Finer, two_digits};
use crate::qos::CONFIDENCE;

/// A stall that fits between two activations should take no more than this
/// part of what the blackouts seen leave of a deadline.
const FINE_PART: f64 = 4.0;

/// What was found of one task; times in ns.
pub(super) struct Found<'a> {
    pub(super) way: &'a Runner<'a>,
    /// One failure is permitted per so long.
    pub(super) permitted: Nanos,
    /// The task's period: a shorter time cannot be permitted.
    pub(super) period: Nanos,
    pub(super) deadline: f64,
    /// The worst response, at least and at most.
    pub(super) least: f64,
    pub(super) most: f64,
    /// At the permitted rate, and whether the recording tells it.
    pub(super) rated: f64,
    pub(super) is_rated: bool,
    /// The share of activations that were later than the slack.
    pub(super) late: f64,
}

/// What keeps a task from being shown to meet its deadline; nothing where it
/// is shown.
pub(super) fn doubts(found: &Found<'_>) -> Vec<String> {
    if let Some(floor) = found.way.not_kept {
        return vec![not_kept(found, floor)];
    }
    let mut doubts = Vec::new();
    if found.most > found.deadline {
        doubts.push(coarse(found));
    }
    if !found.is_rated {
        doubts.push(short(found));
    } else if found.rated > found.deadline && found.most <= found.deadline {
        doubts.push(format!(
            "once in {} it may take {}: the upper limit of the level",
            time(found.permitted),
            bound(found.rated)
        ));
    }
    doubts
}

/// Samples below a floor are missing; the histogram has them.
fn not_kept(found: &Found<'_>, floor: Nanos) -> String {
    let by_histogram = if found.late > 0.0 {
        format!("{:.2} % of all activations were", 100.0 * found.late)
    } else {
        "no activation was".into()
    };
    let mut recordings = found.way.seen.streams.iter().map(|(seen, _)| seen);
    let (why, advice) = if recordings.any(|seen| seen.plan.keep == Keep::Tail) {
        ("`--keep tail`", "record with `--keep all`")
    } else {
        (
            "too many to hold",
            "record only the services and CPUs that matter (`--services`, `--cpus`), or a shorter time",
        )
    };
    format!(
        "when latencies up to {} came was not kept ({why}), so what comes together is not known; by the histogram \
         {by_histogram} later than its slack; {advice}",
        Unit::Auto.write_nanos(floor)
    )
}

/// What comes between two activations is not seen.
fn coarse(found: &Found<'_>) -> String {
    let streams = &found.way.seen.streams;
    let factor = (found.deadline - found.least) / FINE_PART / found.way.unseen;
    let recordings = streams.iter().map(|(seen, _)| *seen);
    format!(
        "activations are up to {} apart, and what begins and ends between two is not seen: it takes at least {}, at \
         most {}; {}",
        Unit::Auto.write(found.way.unseen),
        bound(found.least),
        bound(found.most),
        Finer::than(recordings, factor.min(0.5))
    )
}

/// Too little was recorded for the permitted rate.
fn short(found: &Found<'_>) -> String {
    let permitted = found.permitted.as_secs_f64() * 1e9;
    let needed = exposure_without_model(permitted, CONFIDENCE).unwrap_or(f64::INFINITY);
    let streams = &found.way.seen.streams;
    let observed = streams.iter().map(|(seen, _)| seen.duration.ns()).min();
    let told = Nanos::from_f64(observed.unwrap_or_default() as f64 * permitted / needed);
    // Two digits can be a twentieth less.
    let or_ask = if told.as_f64() * 0.95 < found.period.as_f64() {
        String::new()
    } else {
        format!(
            ", or ask what this one can tell (`permitted = \"{}\"` in the task set)",
            two_digits(told)
        )
    };
    format!(
        "too short a recording to tell whether it misses once in {}: record for {}{or_ask}",
        time(found.permitted),
        mean_time(needed),
    )
}

fn time(time: Nanos) -> String {
    mean_time(time.as_f64())
}

fn bound(ns: f64) -> String {
    if ns.is_finite() {
        Unit::Auto.write(ns)
    } else {
        "no bound".into()
    }
}
