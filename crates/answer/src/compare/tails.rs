//! Comparison of the tails of two sides: the latency of late wakeups.

use laggard_analyze::InputError;
use laggard_analyze::compare::{TailsCompared, TailsRefused, compare_tails, holm};
use laggard_analyze::forecast::{Observation, Peaks, Reason, peaks_of};
use laggard_model::{Nanos, Route, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ServiceComparison, TailComparison, TailView};
use crate::load::Load;

/// Horizon of the declustering: an hour, as for a forecast. A shorter horizon keeps more peaks.
const HORIZON_NS: f64 = 3.6e12;
/// Minimum number of peaks per lost wakeup.
const PEAKS_PER_LOST: f64 = 10.0;

/// Reasons why the tails of a series are not compared.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct TailUnknown {
    /// Reason on side A.
    pub first: Option<TailDoubt>,
    /// Reason on side B.
    pub second: Option<TailDoubt>,
}

/// Reason why a tail lacks a model.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TailDoubt {
    /// Wakeups were lost.
    Lost {
        /// Their number.
        wakeups: u64,
    },
    /// The peaks cannot be modelled.
    Peaks(Reason),
}

/// Compares the tails of a series, or returns the reasons against it.
pub(super) fn tail(
    line: (Service, Route),
    loads: [&Load; 2],
) -> Result<Result<TailComparison, TailUnknown>, InputError> {
    let [first, second] = [peaks(loads[0], line)?, peaks(loads[1], line)?];
    let refused = [
        against(loads[0], line, &first),
        against(loads[1], line, &second),
    ];
    if let [None, None] = refused {
        return Ok(compare_tails(&first, &second)
            .map(view)
            .map_err(|TailsRefused(reasons)| {
                unknown(reasons.map(|reasons| reasons.first().copied().map(TailDoubt::Peaks)))
            }));
    }
    Ok(Err(unknown(refused)))
}

/// Returns the peaks of all recordings of a side.
fn peaks(load: &Load, (service, route): (Service, Route)) -> Result<Peaks, InputError> {
    let runs = load.runs.iter();
    let mut observations: Vec<Observation<'_>> = runs
        .map(|run| Observation {
            start: run.start,
            duration: run.duration,
            streams: run
                .streams
                .iter()
                .filter(|stream| (stream.service, stream.route) == (service, route))
                .collect(),
        })
        .collect();
    observations.retain(|observation| !observation.streams.is_empty());
    peaks_of(&observations, HORIZON_NS)
}

/// Returns the reason against a model that the peaks themselves do not show: waits that had
/// not ended, and lost wakeups.
fn against(load: &Load, (service, route): (Service, Route), peaks: &Peaks) -> Option<TailDoubt> {
    let waiting = load.runs.iter().flat_map(|run| &run.waiting);
    let longest = waiting
        .filter(|wait| (wait.service, wait.route) == (service, route))
        .map(|wait| wait.at_least_ns.as_f64())
        .filter(|&waited| waited > peaks.threshold())
        .reduce(f64::max);
    if let Some(at_least) = longest {
        return Some(TailDoubt::Peaks(Reason::StillWaiting { at_least }));
    }
    let groups = load.runs.iter().flat_map(|run| &run.groups);
    let lost: u64 = groups
        .filter(|group| (group.key.service, group.key.route) == (service, route))
        .map(|group| group.lost)
        .sum();
    let is_much = lost as f64 * PEAKS_PER_LOST > peaks.sizes().len() as f64;
    (lost > 0 && is_much).then_some(TailDoubt::Lost { wakeups: lost })
}

fn view(tails: TailsCompared) -> TailComparison {
    let tail = |side: usize| TailView {
        peaks: tails.peaks[side],
        shape: tails.forms[side].shape,
        scale_ns: tails.forms[side].scale,
    };
    TailComparison {
        threshold_ns: Nanos::from_f64(tails.threshold),
        first: tail(0),
        second: tail(1),
        statistic: tails.statistic,
        p: tails.p,
        p_adjusted: tails.p,
    }
}

const fn unknown([first, second]: [Option<TailDoubt>; 2]) -> TailUnknown {
    TailUnknown { first, second }
}

/// Adjusts the p-values for the number of compared tails.
pub(super) fn adjust(services: &mut [ServiceComparison]) -> Result<(), InputError> {
    let tails = services
        .iter_mut()
        .filter_map(|service| service.tail.as_mut());
    let mut tested: Vec<&mut TailComparison> = tails.collect();
    let p: Vec<f64> = tested.iter().map(|tail| tail.p).collect();
    for (tail, p) in tested.iter_mut().zip(holm(&p)?) {
        tail.p_adjusted = p;
    }
    Ok(())
}
