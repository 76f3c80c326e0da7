//! How the tails of two sides compare: how late what is late is.

use laggard_analyze::InputError;
use laggard_analyze::compare::{TailsCompared, TailsRefused, compare_tails, holm};
use laggard_analyze::forecast::{Observation, Peaks, Reason, peaks_of};
use laggard_model::text::Unit;
use laggard_model::{Nanos, Route, Service};

use super::{ServiceComparison, TailComparison, TailView};
use crate::load::Load;

/// The shorter horizon, the more peaks are kept: as a forecast of an hour does.
const HORIZON_NS: f64 = 3.6e12;
/// Of so many peaks one activation may have been lost.
const PEAKS_PER_LOST: f64 = 10.0;

/// How the tails of a line compare, or why that cannot be told.
pub(super) fn tail(
    line: (Service, Route),
    loads: [&Load; 2],
) -> Result<Result<TailComparison, String>, InputError> {
    let [first, second] = [peaks(loads[0], line)?, peaks(loads[1], line)?];
    let refused = [
        against(loads[0], line, &first),
        against(loads[1], line, &second),
    ];
    if let [None, None] = refused {
        return Ok(compare_tails(&first, &second)
            .map(told)
            .map_err(|TailsRefused(reasons)| why(reasons.map(|all| all.first().map(words)))));
    }
    Ok(Err(why(refused)))
}

/// The peaks of all recordings of a side.
fn peaks(load: &Load, (service, route): (Service, Route)) -> Result<Peaks, InputError> {
    let runs = load.runs.iter();
    let mut observations: Vec<Observation<'_>> = runs
        .map(|run| Observation {
            start: run.start,
            duration: run.duration,
            streams: run
                .streams
                .iter()
                .filter(|one| (one.service, one.route) == (service, route))
                .collect(),
        })
        .collect();
    observations.retain(|one| !one.streams.is_empty());
    peaks_of(&observations, HORIZON_NS)
}

/// What the peaks themselves do not tell of: what had not ended, and what was
/// lost.
fn against(load: &Load, (service, route): (Service, Route), peaks: &Peaks) -> Option<String> {
    let waiting = load.runs.iter().flat_map(|run| &run.waiting);
    let longest = waiting
        .filter(|one| (one.service, one.route) == (service, route))
        .map(|one| one.at_least_ns.as_f64())
        .filter(|&waited| waited > peaks.threshold())
        .reduce(f64::max);
    if let Some(at_least) = longest {
        return Some(words(&Reason::StillWaiting { at_least }));
    }
    let groups = load.runs.iter().flat_map(|run| &run.groups);
    let lost: u64 = groups
        .filter(|one| (one.key.service, one.key.route) == (service, route))
        .map(|one| one.lost)
        .sum();
    let is_much = lost as f64 * PEAKS_PER_LOST > peaks.sizes().len() as f64;
    (lost > 0 && is_much).then(|| match lost {
        1 => "one activation was lost".into(),
        more => format!("{more} activations were lost"),
    })
}

fn told(found: TailsCompared) -> TailComparison {
    let view = |side: usize| TailView {
        peaks: found.peaks[side],
        shape: found.forms[side].shape,
        scale_ns: found.forms[side].scale,
    };
    TailComparison {
        threshold_ns: Nanos::from_f64(found.threshold),
        first: view(0),
        second: view(1),
        statistic: found.statistic,
        p: found.p,
        p_adjusted: found.p,
    }
}

fn words(reason: &Reason) -> String {
    let what = reason.words(|ns| Unit::Auto.write(ns)).what;
    if let Reason::TooFewPeaks { needed, .. } = reason {
        return format!("{what} of the {needed} that it takes");
    }
    what
}

fn why(sides: [Option<String>; 2]) -> String {
    match sides {
        [Some(one), Some(other)] if one == other => format!("of both, {one}"),
        [Some(one), Some(other)] => format!("of A, {one}; of B, {other}"),
        [Some(one), None] => format!("of A, {one}"),
        [None, Some(other)] => format!("of B, {other}"),
        [None, None] => "they cannot be used".into(),
    }
}

/// Pays for how many tails are compared.
pub(super) fn adjust(services: &mut [ServiceComparison]) -> Result<(), InputError> {
    let all = services.iter_mut().filter_map(|one| one.tail.as_mut());
    let mut tested: Vec<&mut TailComparison> = all.collect();
    let p: Vec<f64> = tested.iter().map(|one| one.p).collect();
    for (one, p) in tested.iter_mut().zip(holm(&p)?) {
        one.p_adjusted = p;
    }
    Ok(())
}
