//! Compares counted misses with predictions from recordings.

use laggard_analyze::InputError;
use laggard_analyze::distribution::{Group, Quantile};
use laggard_analyze::qos::{
    Buffering, PredictedCount, expectation, failures_of_counts, paper_mean_time,
};
use laggard_model::{Nanos, Route, Service, TaskCount};

use super::{
    Effect, Inside, Predicted, REHEARSAL_SCHEMA, RehearsalReport, Remark, Summary, TaskRehearsal,
};
use crate::load::{Load, Run};
use crate::qos::{CONFIDENCE, Resolution};
use crate::sched::{SchedQuestion, analyse};
use crate::selection::Selection;

/// Results of a rehearsal.
#[derive(Clone, Debug)]
pub struct Rehearsed {
    pub file: String,
    /// Tasks of the file, in the order of the counts.
    pub asked: SchedQuestion,
    pub counts: Vec<TaskCount>,
    /// Path of the recording of the run.
    pub recorded_in: String,
    /// Content of that recording.
    pub meanwhile: Option<Load>,
}

/// Predicts from the earlier recordings in `load`, and compares with the counts.
///
/// # Errors
/// When a figure is out of its range, or no recorded service fits a task.
pub fn compare(load: &Load, rehearsed: &Rehearsed) -> Result<RehearsalReport, InputError> {
    let ways: Vec<(Service, Route)> = rehearsed
        .counts
        .iter()
        .map(|count| way_of(load, count.task.service))
        .collect();
    let mut question = rehearsed.asked.clone();
    for (task, &(service, _)) in question.tasks.iter_mut().zip(&ways) {
        task.service = service;
    }
    let analysis = analyse(load, &question)?;
    let tasks = rehearsed
        .counts
        .iter()
        .zip(&ways)
        .zip(analysis.tasks)
        .map(|((count, &series), analysis)| {
            let mut rehearsal = task(load, count, series, analysis)?;
            rehearsal
                .remarks
                .extend(Remark::beside(&count.task, &rehearsed.counts));
            Ok(rehearsal)
        })
        .collect::<Result<_, InputError>>()?;
    let meanwhile = rehearsed.meanwhile.as_ref();
    Ok(RehearsalReport {
        schema: REHEARSAL_SCHEMA,
        file: rehearsed.file.clone(),
        load: load.label.clone(),
        predicted_from: load.paths(),
        observed_ns: load
            .runs
            .iter()
            .fold(Nanos::ZERO, |sum, run| sum + run.duration),
        recorded_in: rehearsed.recorded_in.clone(),
        tasks,
        others: meanwhile.map_or_else(Vec::new, |meanwhile| effects(load, meanwhile)),
        notes: std::iter::once(load)
            .chain(meanwhile)
            .flat_map(|load| &load.runs)
            .flat_map(Run::notes)
            .collect(),
    })
}

/// Returns the recorded service and route that predict a task of `service`: the same, or
/// for real-time threads the nearest priority.
fn way_of(load: &Load, service: Service) -> (Service, Route) {
    let recorded = || {
        let groups = load.runs.iter().flat_map(|run| &run.groups);
        groups.map(|group| (group.key.service, group.key.route))
    };
    let distance = |recorded: Service| match (recorded, service) {
        (recorded, service) if recorded == service => Some(0),
        (Service::Fifo(recorded), Service::Fifo(wanted)) => Some(recorded.abs_diff(wanted)),
        _ => None,
    };
    recorded()
        .filter_map(|series| Some((distance(series.0)?, series.1, series)))
        .min()
        .map_or((service, Route::Direct), |(.., nearest)| nearest)
}

fn task(
    load: &Load,
    count: &TaskCount,
    (by, route): (Service, Route),
    analysis: crate::sched::TaskVerdict,
) -> Result<TaskRehearsal, InputError> {
    let task = &count.task;
    let ns = |time: Nanos| time.as_f64();
    let buffering = Buffering::with_deadline(
        ns(task.period_ns),
        ns(task.compute_ns),
        ns(task.deadline_ns),
    )?;
    let slack = task.deadline_ns.saturating_sub(task.compute_ns);
    let selection = Selection::new(load, (by, route), Some(task.cpu));
    let horizon = ns(count.elapsed_ns);
    let expected = expectation(&selection.observed(slack), buffering, horizon, CONFIDENCE)?;
    let failures = failures(count);
    let predicted_failures = Predicted::new(expected.failures, count.jobs);
    let predicted_late = Predicted::new(expected.misses, count.jobs);
    let paper_failures = horizon / paper_mean_time(buffering, selection.share_above(slack))?;
    let mut remarks = Vec::new();
    if by != task.service {
        remarks.push(Remark::OtherService {
            by,
            service: task.service,
        });
    }
    let resolution = selection.resolution(slack);
    if resolution != Resolution::Full {
        remarks.push(Remark::Coarse {
            slack_ns: slack,
            resolution,
        });
    }
    let waited = selection.waited();
    remarks.extend(waited.map(|waited_ns| Remark::Waiting { by, waited_ns }));
    remarks.extend(Remark::unlike(count));
    Ok(TaskRehearsal {
        count: count.clone(),
        failures,
        mttf_ns: mttf(count),
        by,
        route,
        predicted_failures,
        predicted_late,
        verdict: Inside::new(failures, predicted_failures),
        late_verdict: Inside::new(count.late as f64, predicted_late),
        factor: ratio(failures, predicted_failures.mean),
        paper_failures,
        paper_factor: ratio(failures, paper_failures),
        analysis,
        remarks,
    })
}

fn failures(count: &TaskCount) -> f64 {
    failures_of_counts(count.underruns as f64, count.late as f64)
}

/// Returns the mean time between the failures of a task, ns; `None` without failures.
pub fn mttf(count: &TaskCount) -> Option<f64> {
    let failures = failures(count);
    (failures > 0.0).then(|| count.elapsed_ns.as_f64() / failures)
}

fn ratio(counted: f64, predicted: f64) -> Option<f64> {
    (counted > 0.0 && predicted > 0.0).then(|| counted / predicted)
}

impl Predicted {
    /// Limits a prediction to `jobs`, because at most all jobs can miss.
    fn new(expected: PredictedCount, jobs: u64) -> Self {
        let most = jobs as f64;
        Self {
            mean: expected.mean.min(most),
            low: expected.interval.low.min(most),
            high: expected.interval.high.min(most),
        }
    }
}

impl Inside {
    fn new(counted: f64, predicted: Predicted) -> Self {
        if counted < predicted.low {
            Self::Fewer
        } else if counted > predicted.high {
            Self::More
        } else {
            Self::Inside
        }
    }
}

fn effects(before: &Load, meanwhile: &Load) -> Vec<Effect> {
    let groups = |load: &Load| -> Vec<Group> {
        load.runs
            .iter()
            .flat_map(|run| run.groups.clone())
            .collect()
    };
    let before = groups(before);
    groups(meanwhile)
        .iter()
        .filter_map(|now| {
            let same = before.iter().find(|group| {
                (group.key.service, group.key.route) == (now.key.service, now.key.route)
            })?;
            Some(Effect {
                service: now.key.service,
                route: now.key.route,
                before: summary(same)?,
                meanwhile: summary(now)?,
            })
        })
        .collect()
}

fn summary(group: &Group) -> Option<Summary> {
    let histogram = group.latency.histogram();
    let is_open = group.censored.histogram().count() > 0;
    Some(Summary {
        samples: histogram.count(),
        median_ns: group.ordinary().or(histogram.max())?,
        p99_ns: match group.quantile(0.99) {
            Quantile::Is(p99) | Quantile::Between(_, p99) => Some(p99),
            Quantile::AtLeast(_) | Quantile::Unknown | Quantile::Needs(_) => None,
        },
        largest_ns: histogram.max()?,
        largest_is_at_least: is_open,
    })
}
