//! Computes return levels from the late wakeups of recordings.

use laggard_analyze::InputError;
use laggard_analyze::distribution::Group;
use laggard_analyze::forecast::{
    ByCause, Course, Estimate, ExplainedLatency, Labels, LevelSettings, Method, Observation,
    ObservedPeaks, Peaks, Reason, Refusal, exposure_without_model, level_by_cause, observe,
    periodic_share, shortest_block,
};
use laggard_analyze::period::PeriodicSource;
use laggard_model::{Route, Service, UsagePattern};

use super::ahead::Past;
use super::{
    Blocks, CauseLevel, Cell, ForecastLimit, Horizon, LatencyCourse, Level, LoadForecast,
    Objection, Outcome, Periodic, Refused, ServiceForecast, UsageSource,
};
use crate::causes::{CauseSet, KnownCauses};
use crate::load::{Load, Run};
use crate::qos::HOUR_NS;
use crate::selection::Selection;

/// A periodic source that causes a larger share of the largest peaks refuses a forecast with a
/// compressed horizon (docs/method.md 8.6).
const PERIODIC_SHARE: f64 = 0.2;

/// Forecasts every service under `load`. `causes` are the causes of the late wakeups with trace
/// data.
///
/// # Errors
/// When a usage pattern's numbers are not positive.
pub fn predict(
    load: &Load,
    causes: &KnownCauses,
    (usage, usage_from): (UsagePattern, UsageSource),
    horizons: &[Horizon],
) -> Result<LoadForecast, InputError> {
    let services: Vec<ServiceForecast> = load
        .lines()
        .into_iter()
        .map(|line| of_service(load, causes, usage, horizons, line))
        .collect::<Result<_, _>>()?;
    let waited = load
        .lines()
        .into_iter()
        .flat_map(|line| waits(load, line))
        .reduce(f64::max);
    let limits = ForecastLimit::list(load.is_trusted(), waited, &services);
    Ok(LoadForecast {
        load: load.label.clone(),
        recordings: load.paths(),
        observed_ns: load
            .runs
            .iter()
            .map(|run| run.duration.as_secs_f64() * 1e9)
            .sum(),
        usage,
        usage_from,
        services,
        notes: load.notes(),
        limits,
    })
}

/// Latencies up to this number of medians are ordinary, as in `sched`: jitter is not
/// searched for a period.
const ORDINARY: f64 = 2.0;

/// Returns the events (time and size) that are larger than `ordinary`.
fn late_events(events: &[(f64, f64)], ordinary: f64) -> Vec<(f64, f64)> {
    let late = events.iter().filter(|(_, size)| *size > ordinary);
    late.copied().collect()
}

fn observation(run: &Run, (service, route): (Service, Route)) -> Observation<'_> {
    let is_of = |stream: &&_| {
        let stream: &laggard_analyze::exceedance::Stream = stream;
        (stream.service, stream.route) == (service, route)
    };
    Observation {
        start: run.start,
        duration: run.duration,
        streams: run.streams.iter().filter(is_of).collect(),
    }
}

/// Peaks of one service with their causes: the input of levels.
#[derive(Debug)]
pub(crate) struct ExplainedPeaks<'a> {
    observations: Vec<Observation<'a>>,
    observed: ObservedPeaks,
    /// Course of the latencies. Levels are for its present state.
    course: Course,
    late: Vec<Vec<ExplainedLatency>>,
    periodic: Vec<PeriodicSource>,
    periodic_share: f64,
    /// Wakeups up to this latency are not searched for a period, ns.
    ordinary: f64,
    /// Number of services that are searched for a period.
    searched: usize,
    usage: UsagePattern,
    known: &'a KnownCauses,
    /// Smallest peak that had not ended when measuring ended, ns.
    unended: Option<f64>,
    /// Latency threshold of the trace data.
    kept_from: f64,
}

impl<'a> ExplainedPeaks<'a> {
    pub(crate) fn new(
        load: &'a Load,
        causes: &'a KnownCauses,
        usage: UsagePattern,
        horizons: &[Horizon],
        line: (Service, Route),
    ) -> Result<Self, InputError> {
        let (observations, late): (Vec<Observation<'_>>, Vec<Vec<ExplainedLatency>>) = load
            .runs
            .iter()
            .enumerate()
            .map(|(index, run)| (observation(run, line), index))
            .filter(|(observation, _)| !observation.streams.is_empty())
            .map(|(observation, index)| (observation, causes.of(line.0, line.1, index)))
            .unzip();
        let shortest = horizons
            .iter()
            .map(|&horizon| measured(horizon, usage))
            .fold(HOUR_NS, f64::min);
        let observed = observe(&observations, shortest)?;
        let searched = load.lines().len();
        let ordinary = ORDINARY * Selection::new(load, line, None).base.as_f64();
        let events = late_events(&observed.events, ordinary);
        let (periodic, periodic_share) = periodic_share(&observations, &events, searched)?;
        let unended = waits(load, line)
            .filter(|&waited| waited > observed.peaks.threshold())
            .reduce(f64::min);
        Ok(Self {
            ordinary,
            unended,
            observations,
            course: Course::of(&observed.peaks, shortest_block(&observed))?,
            observed,
            late,
            periodic,
            periodic_share,
            searched,
            usage,
            known: causes,
            kept_from: causes.threshold(line.0, line.1),
        })
    }

    /// Returns whether wall-clock sources are more frequent in an hour of use than in the
    /// shorter measured time.
    fn comes_by_the_clock(&self) -> bool {
        self.usage.compression > 1.0 && self.periodic_share > PERIODIC_SHARE
    }

    /// Returns the measured time of a horizon for bounds without a model, ns. It is not
    /// compressed if wall-clock sources make the peaks.
    fn exposure(&self, horizon: Horizon) -> f64 {
        let measured = measured(horizon, self.usage);
        if self.comes_by_the_clock() {
            measured * self.usage.compression
        } else {
            measured
        }
    }

    pub(crate) fn level(&self, horizon: Horizon) -> Outcome {
        let measured = measured(horizon, self.usage);
        let peaks = &self.observed.peaks;
        let estimate = self.single(peaks, measured, self.periodic_share);
        match (estimate, self.unended) {
            (Ok(estimate), unended) if is_known(&estimate, unended) => {
                outcome(&estimate, Vec::new())
            }
            (_, Some(at_least)) => Outcome::Refused(self.unended(at_least, measured)),
            (Ok(estimate), None) => outcome(&estimate, Vec::new()),
            // The peaks of a cause drift, too.
            (Err(refusal), None) if self.course != Course::Steady => {
                Outcome::Refused(refused(&refusal, None))
            }
            (Err(refusal), None) => self.level_by_cause(&refusal, measured),
        }
    }

    /// Refuses a level because a peak had not ended.
    fn unended(&self, at_least: f64, measured: f64) -> Refused {
        let refusal = Refusal {
            reasons: vec![Reason::StillWaiting { at_least }],
            exposure_for_model: None,
            exposure_without_model: exposure_without_model(
                measured,
                LevelSettings::default().confidence,
            )
            .unwrap_or(f64::INFINITY),
        };
        refused(&refusal, None)
    }

    /// Returns the level without the time of `cause`.
    pub(crate) fn level_without(
        &self,
        cause: usize,
        horizon: Horizon,
    ) -> Result<Outcome, InputError> {
        let labels = Labels::new(&self.observed, &self.late);
        let peaks = labels.without(&self.observed.peaks, cause)?;
        let events = peaks.times().iter().zip(peaks.sizes());
        let events: Vec<(f64, f64)> = events.map(|(&time, &size)| (time, size)).collect();
        let events = late_events(&events, self.ordinary);
        let (_, share) = periodic_share(&self.observations, &events, self.searched)?;
        let measured = measured(horizon, self.usage);
        if let Some(at_least) = self.unended {
            return Ok(Outcome::Refused(self.unended(at_least, measured)));
        }
        // The remaining time has other causes, which are not labelled.
        Ok(match self.single(&peaks, measured, share) {
            Ok(estimate) => outcome(&estimate, Vec::new()),
            Err(refusal) => Outcome::Refused(refused(&refusal, None)),
        })
    }

    /// Returns the level from the ranks, or from one tail.
    fn single(&self, peaks: &Peaks, horizon: f64, share: f64) -> Result<Estimate, Refusal> {
        let settings = LevelSettings {
            periodic_share: share,
            ..LevelSettings::default()
        };
        match self.course.level(peaks, horizon, &settings) {
            // Wall-clock sources are more frequent in an hour of use than in the shorter
            // measured time.
            Ok(_) if self.usage.compression > 1.0 && share > PERIODIC_SHARE => Err(Refusal {
                reasons: vec![Reason::Periodic { share }],
                exposure_for_model: None,
                exposure_without_model: horizon * self.usage.compression,
            }),
            result => result,
        }
    }

    /// Returns the level cause by cause, because all peaks together do not have one.
    fn level_by_cause(&self, refusal: &Refusal, measured: f64) -> Outcome {
        let labels = Labels::new(&self.observed, &self.late);
        let Ok((peaks, causes)) = labels.above(&self.observed.peaks, self.kept_from) else {
            return Outcome::Refused(refused(refusal, None));
        };
        if causes.iter().all(Option::is_none) {
            return Outcome::Refused(refused(refusal, None));
        }
        let culprits: Vec<Option<usize>> = causes
            .iter()
            .map(|cause| cause.and_then(|cause| self.known.culprit_of(cause)))
            .collect();
        let by_cause = ByCause {
            peaks: &peaks,
            observations: &self.observations,
            causes: &culprits,
            classes: &self.known.classes(),
            compression: self.usage.compression,
        };
        match level_by_cause(by_cause, measured, &LevelSettings::default()) {
            Ok((estimate, sources)) => {
                let causes = sources.into_iter().map(|source| self.known.set(source));
                outcome(&estimate, causes.collect())
            }
            Err(of_causes) => {
                let by_cause = Objection::by_cause(&of_causes, self.known);
                Outcome::Refused(refused(refusal, Some(by_cause)))
            }
        }
    }
}

/// Returns whether a level does not depend on the final length of peaks of at least
/// `unended`: ranks count the peaks above the upper limit, not their size.
fn is_known(estimate: &Estimate, unended: Option<f64>) -> bool {
    let is_by_rank = matches!(estimate.method, Method::OrderStatistics);
    unended.is_none_or(|unended| is_by_rank && estimate.interval.high < unended)
}

/// Returns the waits of a service that had not ended at the end of each recording and CPU,
/// ns.
fn waits(load: &Load, (service, route): (Service, Route)) -> impl Iterator<Item = f64> + '_ {
    load.runs
        .iter()
        .flat_map(|run| &run.waiting)
        .filter(move |waiting| (waiting.service, waiting.route) == (service, route))
        .map(|waiting| waiting.at_least_ns.as_secs_f64() * 1e9)
}

/// Returns a horizon in measured time.
fn measured(horizon: Horizon, usage: UsagePattern) -> f64 {
    horizon.hours(usage) * HOUR_NS / usage.compression
}

fn of_service(
    load: &Load,
    causes: &KnownCauses,
    usage: UsagePattern,
    horizons: &[Horizon],
    line: (Service, Route),
) -> Result<ServiceForecast, InputError> {
    let tails = ExplainedPeaks::new(load, causes, usage, horizons, line)?;
    let groups = || of_line(load, line);
    let past = past(load, &tails, line)?;
    let cells = horizons
        .iter()
        .map(|&horizon| {
            Ok(Cell {
                horizon,
                measured_ns: measured(horizon, usage),
                ahead: past.ahead(tails.exposure(horizon))?,
                outcome: tails.level(horizon),
            })
        })
        .collect::<Result<_, InputError>>()?;
    let peaks = &tails.observed.peaks;
    let histograms = || groups().map(|group| group.latency.histogram());
    Ok(ServiceForecast {
        service: line.0,
        route: line.1,
        observed_ns: peaks.exposure(),
        samples: histograms().map(|histogram| histogram.count()).sum(),
        largest_ns: histograms()
            .filter_map(|histogram| histogram.max())
            .max()
            .map(|max| max.ns()),
        largest_is_at_least: waits(load, line).next().is_some(),
        peaks: peaks.sizes().len(),
        threshold_ns: peaks.threshold(),
        lost: past.lost,
        blocks: past.blocks,
        course: LatencyCourse::new(&past.course, peaks.exposure()),
        periodic: tails
            .periodic
            .iter()
            .map(|source| Periodic {
                period_ns: source.comb.period,
                hits: source.comb.hits,
                p: source.p,
            })
            .collect(),
        composed: causes.composed(line.0, line.1),
        cells,
    })
}

fn of_line(load: &Load, line: (Service, Route)) -> impl Iterator<Item = &Group> {
    let groups = load.runs.iter().flat_map(|run| &run.groups);
    groups.filter(move |group| (group.key.service, group.key.route) == line)
}

fn past<'a>(
    load: &Load,
    tails: &'a ExplainedPeaks<'_>,
    line: (Service, Route),
) -> Result<Past<'a>, InputError> {
    let observed = &tails.observed;
    Ok(Past {
        blocks: Blocks::new(observed, &tails.course)?,
        course: tails.course.clone(),
        observed,
        waited: waits(load, line).reduce(f64::min),
        lost: of_line(load, line).map(|group| group.lost).sum(),
    })
}

fn outcome(estimate: &Estimate, causes: Vec<CauseSet>) -> Outcome {
    let doubts = estimate.doubts.iter().copied();
    let level = Level {
        level_ns: estimate.value,
        low_ns: estimate.interval.low,
        high_ns: estimate.interval.high,
        doubts: doubts.map(Objection::new).collect(),
    };
    match estimate.method {
        Method::OrderStatistics => Outcome::OrderStatistics(level),
        Method::PeaksOverThreshold { .. } => Outcome::PeaksOverThreshold(level),
        Method::ByCause { periodic, .. } => Outcome::ByCause(CauseLevel {
            level,
            causes,
            periodic,
        }),
    }
}

fn refused(refusal: &Refusal, by_cause: Option<Objection>) -> Refused {
    let reasons = refusal.reasons.iter().copied().map(Objection::new);
    Refused {
        reasons: reasons.chain(by_cause).collect(),
        at_most_ns: refusal.reasons.iter().find_map(Reason::at_most),
        record_for_model_ns: refusal.exposure_for_model,
        record_without_model_ns: refusal.exposure_without_model,
    }
}
