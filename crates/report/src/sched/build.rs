//! From a recording and a task set to verdicts (METHODS 5).

use laggard_analyze::InputError;
use laggard_analyze::distribution::Group;
use laggard_analyze::exceedance::Stream;
use laggard_analyze::forecast::{Observation, Settings, peaks_of, return_level};
use laggard_analyze::qos::Blackout;
use laggard_analyze::sched::{
    CpuBlackouts, Envelope, LatencyBudget, RatedEnvelope, Supply, Task, amortized_test,
    breakdown_utilization, edf_demand, exact_test, hyperbolic_product, rated_envelope,
    response_time, utilization, utilization_bound,
};
use laggard_model::{Nanos, Route, STAGES, Service, Stage};

use super::{
    Asked, Pseudo, SCHED_SCHEMA, SchedReport, SetVerdict, TaskAsked, TaskVerdict, Verdict,
};
use crate::duration::mean_time;
use crate::qos::{LoadSeen, Seen};

/// Windows reach this many times beyond the longest deadline or period.
const BEYOND: f64 = 50.0;
/// Latencies up to this part of the least slack are ordinary: release jitter.
const ORDINARY_PART: f64 = 20.0;

/// The verdicts on the tasks of `asked` on the machine and load of `seen`.
///
/// # Errors
/// When a task is not valid.
pub fn analyse(seen: &LoadSeen, asked: &Asked) -> Result<SchedReport, InputError> {
    let plain: Vec<Task> = asked.tasks.iter().map(|task| plain(task, asked)).collect();
    let mut ways: Vec<Way<'_>> = Vec::new();
    for task in &asked.tasks {
        if !ways.iter().any(|way| way.service == task.service) {
            ways.push(Way::new(seen, task.service, &plain, asked.permitted)?);
        }
    }
    let mut verdicts = Vec::new();
    for (index, task) in asked.tasks.iter().enumerate() {
        if let Some(way) = ways.iter().find(|way| way.service == task.service) {
            verdicts.push(verdict(&plain, index, task, way, asked)?);
        }
    }
    Ok(SchedReport {
        schema: SCHED_SCHEMA,
        load: seen.load.clone(),
        observed_ns: seen.recordings.iter().map(|one| ns(one.duration)).sum(),
        tasks: verdicts,
        permitted_ns: asked.permitted,
        set: set(&plain, &ways)?,
        notes: seen
            .recordings
            .iter()
            .flat_map(|one| one.notes.clone())
            .collect(),
    })
}

#[allow(clippy::cast_precision_loss)]
fn ns(time: Nanos) -> f64 {
    time.ns() as f64
}

fn plain(task: &TaskAsked, asked: &Asked) -> Task {
    Task {
        cost: ns(task.compute_ns + asked.overhead),
        period: ns(task.period_ns),
        deadline: ns(task.deadline_ns),
        jitter: 0.0,
        blocking: ns(task.blocking_ns),
    }
}

/// What was measured of one service that runs tasks.
struct Way<'a> {
    service: Service,
    streams: Vec<(&'a Seen, &'a Stream)>,
    groups: Vec<&'a Group>,
    /// Up to this, latencies are release jitter; above, blackouts.
    ordinary: f64,
    least: Envelope,
    most: Envelope,
    /// As `most`, at the permitted rate.
    rated: RatedEnvelope,
    longest: f64,
    /// The largest interrupt latency, and of each later stage, added up.
    parts: (f64, f64),
}

impl<'a> Way<'a> {
    fn new(
        seen: &'a LoadSeen,
        service: Service,
        tasks: &[Task],
        permitted: Nanos,
    ) -> Result<Self, InputError> {
        // A thread that is reached both ways is a task's by its own timer.
        let route = seen
            .recordings
            .iter()
            .flat_map(|one| &one.streams)
            .filter(|one| one.service == service)
            .map(|one| one.route)
            .min()
            .unwrap_or(Route::Direct);
        let is_of = |of: (Service, Route)| of == (service, route);
        let streams: Vec<(&Seen, &Stream)> = seen
            .recordings
            .iter()
            .flat_map(|one| one.streams.iter().map(move |stream| (one, stream)))
            .filter(|(_, one)| is_of((one.service, one.route)))
            .collect();
        let groups: Vec<&Group> = seen
            .recordings
            .iter()
            .flat_map(|one| &one.groups)
            .filter(|one| is_of((one.key.service, one.key.route)))
            .collect();
        let slack = tasks
            .iter()
            .map(|task| task.deadline - task.cost)
            .fold(f64::INFINITY, f64::min);
        let known = streams
            .iter()
            .map(|(_, one)| one.floor)
            .max()
            .unwrap_or_default();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let wanted = Nanos::from_ns((slack / ORDINARY_PART).max(0.0) as u64);
        let ordinary = wanted.max(known);
        let blackouts: Vec<_> = streams
            .iter()
            .map(|(seen, one)| one.blackouts(seen.start, ordinary))
            .collect();
        let inner: Vec<Vec<Blackout>> = blackouts.iter().map(|one| one.inner.clone()).collect();
        let outer: Vec<Vec<Blackout>> = blackouts.into_iter().map(|one| one.outer).collect();
        let longest = outer
            .iter()
            .flatten()
            .map(|one| one.end - one.start)
            .fold(0.0, f64::max);
        let windows = (
            tasks
                .iter()
                .map(|one| one.cost)
                .fold(f64::INFINITY, f64::min),
            tasks
                .iter()
                .map(|one| one.period.max(one.deadline))
                .fold(0.0, f64::max)
                * BEYOND,
        );
        let parts = parts(&groups, seen);
        let cpus: Vec<CpuBlackouts<'_>> = streams
            .iter()
            .zip(&outer)
            .map(|((seen, _), blackouts)| CpuBlackouts {
                exposure: ns(seen.duration),
                blackouts,
            })
            .collect();
        Ok(Self {
            service,
            rated: rated_envelope(&cpus, windows, ns(permitted))?,
            least: Envelope::new(&inner, windows)?,
            most: Envelope::new(&outer, windows)?,
            ordinary: ns(ordinary),
            longest,
            parts,
            streams,
            groups,
        })
    }

    fn observations(&self) -> Vec<Observation<'a>> {
        let mut all: Vec<Observation<'a>> = Vec::new();
        for (seen, stream) in &self.streams {
            match all.iter_mut().find(|one| one.start == seen.start) {
                Some(one) => one.streams.push(stream),
                None => all.push(Observation {
                    start: seen.start,
                    duration: seen.duration,
                    streams: vec![stream],
                }),
            }
        }
        all
    }
}

/// The largest interrupt latency, and the sum of the largest of later stages.
fn parts(groups: &[&Group], seen: &LoadSeen) -> (f64, f64) {
    let largest =
        |group: &Group, stage: Stage| group.steps[stage.index()].histogram().max().map_or(0.0, ns);
    let all = || seen.recordings.iter().flat_map(|one| &one.groups);
    let irq = all()
        .filter(|group| group.key.service == Service::Irq)
        .filter_map(|group| group.latency.histogram().max())
        .max()
        .map_or(0.0, ns);
    let later = groups
        .iter()
        .map(|group| {
            let stages = STAGES.into_iter().filter(|stage| *stage != Stage::Irq);
            stages.map(|stage| largest(group, stage)).sum()
        })
        .fold(0.0, f64::max);
    (irq, later)
}

fn verdict(
    plain: &[Task],
    index: usize,
    task: &TaskAsked,
    way: &Way<'_>,
    asked: &Asked,
) -> Result<TaskVerdict, InputError> {
    let deadline = plain[index].deadline;
    let ideal = response_time(plain, index, Supply::default())?.time;
    let jittered: Vec<Task> = plain
        .iter()
        .map(|one| Task {
            jitter: way.parts.0,
            blocking: one.blocking + way.parts.1,
            ..*one
        })
        .collect();
    let by_jitter = response_time(&jittered, index, Supply::default())?.time;
    let with = |envelope: &Envelope| -> Result<f64, InputError> {
        let at = |window| envelope.at(window);
        let supply = Supply {
            envelope: Some(&at),
            ..Supply::default()
        };
        Ok(response_time(&released_late(plain, way.ordinary), index, supply)?.time)
    };
    let (least, most) = (with(&way.least)?, with(&way.most)?);
    let rated = with(&way.rated.envelope)?;
    let verdict = match (most <= deadline, least <= deadline) {
        (true, _) => Verdict::Meets,
        (false, true) => Verdict::Unclear,
        (false, false) => Verdict::Misses,
    };
    let bounded = |time: f64| time.is_finite().then_some(time);
    Ok(TaskVerdict {
        ideal_ns: bounded(ideal),
        jitter_ns: bounded(by_jitter),
        least_ns: bounded(least),
        most_ns: bounded(most),
        rated_ns: bounded(rated),
        rated_as_seen: way.rated.as_seen as f64 / way.rated.windows.max(1) as f64,
        slack_ns: bounded(deadline - most),
        verdict,
        limit: limit(&plain[index], ideal, most, way),
        pseudo: pseudo(plain, index, task, way, asked.permitted)?,
        task: task.clone(),
    })
}

fn released_late(plain: &[Task], jitter: f64) -> Vec<Task> {
    plain.iter().map(|task| Task { jitter, ..*task }).collect()
}

/// The largest part of the worst response, in words.
fn limit(task: &Task, ideal: f64, most: f64, way: &Way<'_>) -> String {
    if !ideal.is_finite() {
        return "the processor is overloaded".into();
    }
    if !most.is_finite() {
        return format!(
            "blackouts leave too little of the processor (the longest seen: {})",
            mean_time(way.longest)
        );
    }
    let parts = [
        ("its own work", task.cost),
        ("blocking", task.blocking),
        (
            "tasks of higher priority",
            ideal - task.cost - task.blocking,
        ),
        ("latency", most - ideal),
    ];
    let largest = parts
        .into_iter()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or(parts[0]);
    format!("{}, {}", largest.0, mean_time(largest.1))
}

fn pseudo(
    plain: &[Task],
    index: usize,
    task: &TaskAsked,
    way: &Way<'_>,
    permitted: Nanos,
) -> Result<Option<Pseudo>, InputError> {
    let Some(buffers) = task.buffers else {
        return Ok(None);
    };
    let horizon = ns(permitted);
    let histograms = || way.groups.iter().map(|one| one.latency.histogram());
    let largest = histograms()
        .filter_map(|one| one.max())
        .max()
        .map_or(0.0, ns);
    let ordinary = histograms()
        .filter_map(|one| one.quantile(0.99))
        .max()
        .map_or(0.0, ns);
    let peaks = peaks_of(&way.observations(), horizon)?;
    let (rare, rare_from) = match return_level(&peaks, horizon, &Settings::default()) {
        Ok(level) => (
            level.interval.high,
            format!(
                "upper limit of the level exceeded once per {}",
                mean_time(horizon)
            ),
        ),
        Err(_) => (
            largest,
            format!(
                "largest seen: the recording supports no forecast of {}, so the failure rate is not known",
                mean_time(horizon)
            ),
        ),
    };
    let budget = LatencyBudget {
        buffers,
        rare: rare.max(ordinary),
        ordinary,
    };
    Ok(Some(Pseudo {
        rare_ns: budget.rare,
        rare_from,
        ordinary_ns: ordinary,
        pseudo_worst_case_ns: budget.pseudo_worst_case()?,
        amortised_passes: amortized_test(plain, index, budget)?.passes(),
        exact_passes: exact_test(plain, index, budget)?.passes(),
    }))
}

fn set(plain: &[Task], ways: &[Way<'_>]) -> Result<SetVerdict, InputError> {
    let longest = ways.iter().map(|way| way.longest).fold(0.0, f64::max);
    let ordinary = ways.iter().map(|way| way.ordinary).fold(0.0, f64::max);
    let blocking = plain.iter().map(|task| task.blocking).fold(0.0, f64::max);
    let edf = |tasks: &[Task], blocking| {
        edf_demand(tasks, blocking)
            .ok()
            .map(|found| found.is_schedulable())
    };
    let at = |window| {
        ways.iter()
            .map(|way| way.most.at(window))
            .fold(0.0, f64::max)
    };
    let supply = Supply {
        envelope: Some(&at),
        ..Supply::default()
    };
    let late = released_late(plain, ordinary);
    Ok(SetVerdict {
        utilization: utilization(plain),
        utilization_bound: utilization_bound(plain.len()),
        hyperbolic_product: hyperbolic_product(plain),
        bounds_apply: plain.is_sorted_by(|a, b| a.period <= b.period)
            && plain
                .iter()
                .all(|task| task.deadline >= task.period && task.blocking == 0.0),
        edf_ideal: edf(plain, blocking),
        edf: edf(&late, blocking + longest),
        breakdown_ideal: breakdown_utilization(plain, Supply::default())?,
        breakdown: breakdown_utilization(&late, supply)?,
    })
}
