//! From the late activations of recordings to return levels.

use laggard_analyze::InputError;
use laggard_analyze::forecast::{
    Method, Observation, Peaks, Reason, Refusal, Settings, peaks_of, periodic_share, return_level,
};
use laggard_model::{Route, Service, UsagePattern};

use super::{Cell, Horizon, Level, LoadForecast, Outcome, Periodic, Refused, ServiceForecast};
use crate::duration::Unit;
use crate::qos::{HOUR_NS, LoadSeen, Seen};

/// From this share of the largest peaks on, a periodic source spoils a
/// forecast whose horizon is compressed (METHODS 2.6).
const PERIODIC_SHARE: f64 = 0.2;

/// The forecasts of every service under `seen`.
///
/// # Errors
/// When a usage pattern's numbers are not positive.
pub fn predict(
    seen: &LoadSeen,
    usage: UsagePattern,
    usage_from: String,
    horizons: &[Horizon],
) -> Result<LoadForecast, InputError> {
    let mut lines: Vec<(Service, Route)> = Vec::new();
    for group in seen.recordings.iter().flat_map(|one| &one.groups) {
        let line = (group.key.service, group.key.route);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let services = lines
        .into_iter()
        .map(|line| of_service(seen, usage, horizons, line))
        .collect::<Result<_, _>>()?;
    let notes = seen
        .recordings
        .iter()
        .flat_map(|one| one.notes.iter().map(|note| format!("{}: {note}", one.path)))
        .collect();
    Ok(LoadForecast {
        load: seen.load.clone(),
        recordings: seen.recordings.iter().map(|one| one.path.clone()).collect(),
        observed_ns: seen
            .recordings
            .iter()
            .map(|one| one.duration.as_secs_f64() * 1e9)
            .sum(),
        usage,
        usage_from,
        services,
        notes,
    })
}

fn observation(seen: &Seen, (service, route): (Service, Route)) -> Observation<'_> {
    let is_of = |one: &&_| {
        let one: &laggard_analyze::exceedance::Stream = one;
        (one.service, one.route) == (service, route)
    };
    Observation {
        start: seen.start,
        duration: seen.duration,
        streams: seen.streams.iter().filter(is_of).collect(),
    }
}

fn of_service(
    seen: &LoadSeen,
    usage: UsagePattern,
    horizons: &[Horizon],
    line: (Service, Route),
) -> Result<ServiceForecast, InputError> {
    let observations: Vec<Observation<'_>> = seen
        .recordings
        .iter()
        .map(|one| observation(one, line))
        .filter(|one| !one.streams.is_empty())
        .collect();
    let measured = |horizon: Horizon| horizon.hours(usage) * HOUR_NS / usage.compression;
    let shortest = horizons
        .iter()
        .copied()
        .map(measured)
        .fold(HOUR_NS, f64::min);
    let peaks = peaks_of(&observations, shortest)?;
    let (sources, share) = periodic_share(&observations, &peaks)?;
    let cells = horizons
        .iter()
        .map(|&horizon| Cell {
            horizon,
            measured_ns: measured(horizon),
            outcome: outcome(&peaks, measured(horizon), share, usage.compression),
        })
        .collect();
    let histograms = || {
        let groups = seen.recordings.iter().flat_map(|one| &one.groups);
        groups
            .filter(|one| (one.key.service, one.key.route) == line)
            .map(|one| one.latency.histogram())
    };
    Ok(ServiceForecast {
        service: line.0,
        route: line.1,
        samples: histograms().map(|one| one.count()).sum(),
        largest_ns: histograms()
            .filter_map(|one| one.max())
            .max()
            .map(|max| max.ns()),
        peaks: peaks.sizes().len(),
        threshold_ns: peaks.threshold(),
        periodic: sources
            .iter()
            .map(|source| Periodic {
                period_ns: source.comb.period,
                hits: source.comb.hits,
                p: source.p,
            })
            .collect(),
        cells,
    })
}

fn outcome(peaks: &Peaks, horizon: f64, share: f64, compression: f64) -> Outcome {
    let settings = Settings {
        periodic_share: share,
        ..Settings::default()
    };
    let found = match return_level(peaks, horizon, &settings) {
        // What comes by the clock on the wall comes more often in an hour of
        // use than in the shorter time that a faster load makes of it.
        Ok(_) if compression > 1.0 && share > PERIODIC_SHARE => Err(Refusal {
            reasons: vec![Reason::Periodic { share }],
            exposure_for_model: None,
            exposure_without_model: horizon * compression,
        }),
        found => found,
    };
    match found {
        Err(refusal) => Outcome::Refused(refused(&refusal)),
        Ok(estimate) => {
            let level = Level {
                level_ns: estimate.value,
                low_ns: estimate.interval.low,
                high_ns: estimate.interval.high,
                doubts: estimate.doubts.iter().map(words).collect(),
            };
            match estimate.method {
                Method::OrderStatistics => Outcome::OrderStatistics(level),
                Method::PeaksOverThreshold { .. } => Outcome::PeaksOverThreshold(level),
            }
        }
    }
}

fn refused(refusal: &Refusal) -> Refused {
    let at_most = refusal.reasons.iter().find_map(|reason| match reason {
        Reason::BelowThreshold { at_most } => Some(*at_most),
        _ => None,
    });
    Refused {
        reasons: refusal.reasons.iter().map(words).collect(),
        at_most_ns: at_most,
        record_for_model_ns: refusal.exposure_for_model,
        record_without_model_ns: refusal.exposure_without_model,
    }
}

/// A reason with its times in units.
fn words(reason: &Reason) -> String {
    let time = |ns: &f64| Unit::Auto.write(*ns);
    match reason {
        Reason::BelowThreshold { at_most } => {
            format!(
                "the level lies below the threshold; it is at most {}",
                time(at_most)
            )
        }
        Reason::Uncertain { value, high } => format!(
            "the upper limit {} is more than 3 times the estimate {}",
            time(high),
            time(value)
        ),
        other => other.to_string(),
    }
}
