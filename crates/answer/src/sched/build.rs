//! Computes verdicts on a task set from a recording (docs/method.md 9).

use laggard_analyze::InputError;
use laggard_analyze::forecast::{LevelSettings, peaks_of, return_level};
use laggard_analyze::sched::{
    LatencyBudget, Supply, Task, amortized_test, breakdown_utilization, edf_demand, exact_test,
    hyperbolic_product, response_time, utilization, utilization_bound,
};
use laggard_model::{CpuList, Nanos};

use super::doubt::{Found, doubts};
use super::limit::ResponseLimit;
use super::rank::stand_in;
use super::runner::{Runner, ns, released_late};
use super::waiting::{held, longest};
use super::{
    Pseudo, RareFrom, SCHED_SCHEMA, SchedQuestion, SchedReport, SetVerdict, TaskAsked, TaskRemark,
    TaskVerdict, Verdict,
};
use crate::error::{AnswerError, OtherCpus};
use crate::load::Load;
use crate::note::Note;

/// Period without a second job, ns: 31 years.
const RARE_PERIOD: f64 = 1e18;

/// Returns the verdicts on the tasks of `question` on the machine and load of `load`.
///
/// # Errors
/// When a task is not valid.
pub fn analyse(load: &Load, question: &SchedQuestion) -> Result<SchedReport, InputError> {
    let plain: Vec<Task> = question
        .tasks
        .iter()
        .map(|task| plain(task, question))
        .collect();
    let mut ways: Vec<Runner<'_>> = Vec::new();
    for task in &question.tasks {
        if !ways.iter().any(|runner| runner.runs(task)) {
            ways.push(Runner::new(load, task, &plain, question.permitted)?);
        }
    }
    let mut verdicts = Vec::new();
    for (index, task) in question.tasks.iter().enumerate() {
        let last: Option<&TaskVerdict> = verdicts.last();
        if let Some(last) = last.filter(|last| is_instance(&last.task, task)) {
            verdicts.push(TaskVerdict {
                task: task.clone(),
                ..last.clone()
            });
            continue;
        }
        if let Some(runner) = ways.iter().find(|runner| runner.runs(task)) {
            let order = Order::new(&plain, question, index);
            let analysed = verdict(&order, task, runner, question)?;
            verdicts.push(held(analysed, longest(load, task)));
        }
    }
    let is_held = verdicts.iter().any(|verdict| verdict.waited_ns.is_some());
    let mut set = set(&plain, &ways)?;
    let are_apart = (0..question.tasks.len()).any(|index| is_apart(question, 0, index));
    // These bounds assume different priorities on one CPU.
    set.bounds_apply &= !are_apart
        && (0..question.tasks.len()).all(|index| equals(question, index).next().is_none());
    // Tasks that miss on one CPU may fit on several.
    let may_move = question.tasks.len() > 1 && question.tasks.iter().any(|task| task.rank.may_move);
    let is_certain = |meets: &bool| *meets || !(may_move || are_apart);
    Ok(SchedReport {
        schema: SCHED_SCHEMA,
        load: load.label.clone(),
        observed_ns: load.runs.iter().map(|run| ns(run.duration)).sum(),
        tasks: verdicts,
        permitted_ns: question.permitted,
        set: SetVerdict {
            // The longest stall is at least that long.
            edf: set
                .edf
                .filter(|meets| !meets || !is_held)
                .filter(is_certain),
            edf_ideal: set.edf_ideal.filter(is_certain),
            ..set
        },
        remarks: question.remarks.clone(),
        notes: load
            .runs
            .iter()
            .flat_map(|run| &run.doubts)
            .map(|doubt| Note {
                recording: None,
                doubt: doubt.clone(),
            })
            .collect(),
    })
}

/// Returns the verdicts on the tasks of `question`. If `load` did not measure the service of a
/// task, the nearest service that bounds its latency replaces it, with a remark.
///
/// # Errors
/// When no measured service can stand in, a task runs on a CPU that was not measured, or a task
/// is not valid.
pub fn analysed(load: &Load, question: &SchedQuestion) -> Result<SchedReport, AnswerError> {
    let measured = load.lines();
    let measured = || measured.iter().map(|line| line.0);
    let mut question = question.clone();
    let mut remarks = Vec::new();
    for task in &mut question.tasks {
        let wanted = task.service;
        if measured().any(|service| service == wanted) {
            continue;
        }
        let Some((service, bounds)) = stand_in(wanted, measured()) else {
            return Err(AnswerError::NotMeasured {
                task: task.name.clone(),
                service: wanted,
                recordings: load.paths().join("`, `"),
            });
        };
        task.service = service;
        task.rank.stand_in = Some(bounds);
        remarks.push(TaskRemark::StandIn {
            task: task.name.clone(),
            wanted,
            measured: service,
        });
    }
    question.remarks.extend(remarks);
    check_cpus(load, &question)?;
    Ok(analyse(load, &question)?)
}

/// # Errors
/// If the service of a task was not measured on any CPU that the task may run on.
fn check_cpus(load: &Load, question: &SchedQuestion) -> Result<(), AnswerError> {
    for task in &question.tasks {
        let allowed = match task.cpu {
            Some(cpu) => std::iter::once(cpu).collect(),
            None => question.cpus.clone(),
        };
        let streams = load.runs.iter().flat_map(|run| &run.streams);
        let measured: CpuList = streams
            .filter(|stream| stream.service == task.service)
            .map(|stream| stream.cpu)
            .collect();
        let mut cpus = allowed.as_slice().iter();
        if !allowed.as_slice().is_empty() && !cpus.any(|&cpu| measured.contains(cpu)) {
            return Err(AnswerError::OtherCpus(Box::new(OtherCpus {
                task: task.name.clone(),
                service: task.service,
                allowed,
                measured,
                recordings: load.paths().join("`, `"),
            })));
        }
    }
    Ok(())
}

/// Three orders of the tasks, with the analysed task last. Its response lies between its
/// responses in `earliest` and `latest`.
struct Order {
    /// It runs after all tasks of its level.
    latest: Vec<Task>,
    /// Tasks that run before it, and that are analysed with at least their execution time, on the
    /// same CPU.
    earliest: Vec<Task>,
    /// It runs after all tasks of its level and above that surely share its CPU and take at least
    /// the analysed time. Time that these do not explain is not attributed to a culprit.
    certain: Vec<Task>,
    /// Whether it may run on another CPU than tasks that it is analysed with.
    may_be_apart: bool,
}

impl Order {
    fn new(plain: &[Task], question: &SchedQuestion, index: usize) -> Self {
        let rank = |place: usize| question.tasks[place].rank;
        let own = plain[index];
        let shares_cpu = |&place: &usize| !is_apart(question, place, index);
        let equals: Vec<usize> = equals(question, index).filter(shares_cpu).collect();
        let above = (0..index).filter(|place| !equals.contains(place) && shares_cpu(place));
        let may_move = |place: usize| rank(place).may_move;
        let may_be_apart = |&place: &usize| may_move(place) || may_move(index);
        let is_certain = |place: &usize| !rank(*place).is_at_most && !may_be_apart(place);
        let certain_above = above.clone().filter(is_certain);
        let certain_equals = equals.iter().copied().filter(is_certain);
        let mut least = own;
        if rank(index).is_at_most {
            // Its next job may come later.
            least.period = least.period.max(RARE_PERIOD);
        }
        let tasks = |places: &mut dyn Iterator<Item = usize>, last| {
            let mut tasks: Vec<Task> = places.map(|place| plain[place]).collect();
            tasks.push(last);
            tasks
        };
        Self {
            may_be_apart: above
                .clone()
                .chain(equals.iter().copied())
                .any(|place| may_be_apart(&place)),
            certain: tasks(&mut certain_above.clone().chain(certain_equals), own),
            earliest: tasks(&mut certain_above.into_iter(), least),
            latest: tasks(&mut above.chain(equals.iter().copied()), own),
        }
    }
}

/// Returns whether the two tasks of a set differ only in their names. Tasks of one level
/// are neighbours and are analysed with the same other tasks, so they have the same
/// verdict.
fn is_instance(task: &TaskAsked, other: &TaskAsked) -> bool {
    let parameters = |task: &TaskAsked| {
        (
            (task.compute_ns, task.period_ns),
            (task.deadline_ns, task.blocking_ns),
            (task.service, task.cpu, task.buffers),
            task.rank,
        )
    };
    task.rank.level.is_some() && parameters(task) == parameters(other)
}

/// Returns the other tasks of the level of task `index`.
fn equals(question: &SchedQuestion, index: usize) -> impl Iterator<Item = usize> + '_ {
    let level = |place: usize| question.tasks[place].rank.level;
    let is_equal = move |&place: &usize| {
        place != index && level(place).is_some() && level(place) == level(index)
    };
    (0..question.tasks.len()).filter(is_equal)
}

/// Returns whether the two tasks run on different CPUs.
fn is_apart(question: &SchedQuestion, place: usize, other: usize) -> bool {
    let cpu = |place: usize| question.tasks[place].cpu;
    cpu(place).is_some_and(|own| cpu(other).is_some_and(|other| other != own))
}

fn plain(task: &TaskAsked, question: &SchedQuestion) -> Task {
    Task {
        cost: ns(task.compute_ns + question.overhead),
        period: ns(task.period_ns),
        deadline: ns(task.deadline_ns),
        jitter: 0.0,
        blocking: ns(task.blocking_ns),
    }
}

fn verdict(
    order: &Order,
    task: &TaskAsked,
    runner: &Runner<'_>,
    question: &SchedQuestion,
) -> Result<TaskVerdict, InputError> {
    let plain = order.latest.as_slice();
    let index = plain.len() - 1;
    let deadline = plain[index].deadline;
    let ideal = response_time(plain, index, Supply::default())?.time;
    let jittered: Vec<Task> = plain
        .iter()
        .map(|plain_task| Task {
            jitter: runner.parts.0,
            blocking: plain_task.blocking + runner.parts.1,
            ..*plain_task
        })
        .collect();
    let by_jitter = response_time(&jittered, index, Supply::default())?.time;
    let (behind_equals, _) = runner.response(plain, index, &runner.least, (runner.median, 0.0))?;
    let earliest = order.earliest.as_slice();
    let first = earliest.len() - 1;
    let (before_equals, _) =
        runner.response(earliest, first, &runner.least, (runner.median, 0.0))?;
    // The latency of a less urgent service does not show a miss.
    let least = match task.rank.stand_in {
        Some(bounds) if !bounds.is_lower_bound => {
            response_time(earliest, first, Supply::default())?.time
        }
        Some(_) | None => before_equals,
    };
    let at_most = (runner.ordinary, runner.unseen);
    let (mut most, _) = runner.response(plain, index, &runner.most, at_most)?;
    let (mut rated, until) = runner.response(plain, index, &runner.rated.envelope, at_most)?;
    if runner.not_kept.is_some() || runner.is_all_zero {
        (most, rated) = (f64::INFINITY, f64::INFINITY);
    }
    let doubts = doubts(&Found {
        way: runner,
        permitted: question.permitted,
        period: task.period_ns,
        deadline,
        may_be_apart: order.may_be_apart,
        before_equals,
        least: behind_equals,
        most,
        rated,
        is_rated: until < runner.rated.told_below,
        late: runner
            .seen
            .share_above(task.deadline_ns.saturating_sub(task.compute_ns)),
        stand_in: task.rank.stand_in,
    });
    let verdict = if least > deadline {
        Verdict::Misses
    } else if doubts.is_empty() {
        Verdict::Meets
    } else {
        Verdict::Unknown
    };
    let bounded = |time: f64| time.is_finite().then_some(time);
    Ok(TaskVerdict {
        ideal_ns: bounded(ideal),
        jitter_ns: bounded(by_jitter),
        least_ns: bounded(least),
        most_ns: bounded(most),
        rated_ns: bounded(rated),
        rated_as_seen: runner.rated.as_seen as f64 / runner.rated.windows.max(1) as f64,
        slack_ns: bounded(deadline - most),
        verdict,
        waited_ns: None,
        doubts: if verdict == Verdict::Unknown {
            doubts
        } else {
            Vec::new()
        },
        limit: limit(order, (ideal, behind_equals), most, runner)?,
        pseudo: pseudo(plain, index, task, runner, question.permitted)?,
        task: task.clone(),
    })
}

/// Names the largest part of the response, which is `ideal` without latency and `least`
/// with it if all tasks of `order.latest` delay the task.
fn limit(
    order: &Order,
    (ideal, least): (f64, f64),
    most: f64,
    runner: &Runner<'_>,
) -> Result<ResponseLimit, InputError> {
    let certain = order.certain.as_slice();
    let index = certain.len() - 1;
    let (ideal, least) = if certain.len() == order.latest.len() {
        (ideal, least)
    } else {
        let (least, _) = runner.response(certain, index, &runner.least, (runner.median, 0.0))?;
        (
            response_time(certain, index, Supply::default())?.time,
            least,
        )
    };
    Ok(ResponseLimit::new(
        &certain[index],
        ideal,
        (least, most),
        runner,
    ))
}

fn pseudo(
    plain: &[Task],
    index: usize,
    task: &TaskAsked,
    runner: &Runner<'_>,
    permitted: Nanos,
) -> Result<Option<Pseudo>, InputError> {
    let Some(buffers) = task.buffers else {
        return Ok(None);
    };
    let horizon = ns(permitted);
    let histograms = || runner.seen.histograms();
    let largest = histograms()
        .filter_map(|histogram| histogram.max())
        .max()
        .map_or(0.0, ns);
    let ordinary = histograms()
        .filter_map(|histogram| histogram.quantile(0.99))
        .max()
        .map_or(0.0, ns);
    let peaks = peaks_of(&runner.observations(), horizon)?;
    let (rare, rare_from) = match return_level(&peaks, horizon, &LevelSettings::default()) {
        _ if runner.is_all_zero => (0.0, RareFrom::AllZero),
        Ok(level) => (level.interval.high, RareFrom::Level { per_ns: permitted }),
        Err(_) => (largest, RareFrom::LargestSeen { per_ns: permitted }),
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
        amortised_passes: !runner.is_all_zero && amortized_test(plain, index, budget)?.passes(),
        exact_passes: !runner.is_all_zero && exact_test(plain, index, budget)?.passes(),
    }))
}

fn set(plain: &[Task], ways: &[Runner<'_>]) -> Result<SetVerdict, InputError> {
    let longest = ways.iter().map(|runner| runner.longest).fold(0.0, f64::max);
    let ordinary = ways
        .iter()
        .map(|runner| runner.ordinary)
        .fold(0.0, f64::max);
    let blocking = plain.iter().map(|task| task.blocking).fold(0.0, f64::max);
    let edf = |tasks: &[Task], blocking| {
        edf_demand(tasks, blocking)
            .ok()
            .map(|verdict| verdict.is_schedulable())
    };
    let most = |window| {
        ways.iter()
            .map(|runner| runner.most.at(window))
            .fold(0.0, f64::max)
    };
    let supply = Supply {
        envelope: Some(&most),
        ..Supply::default()
    };
    let late = released_late(plain, ordinary);
    let is_bounded = |runner: &Runner<'_>| runner.not_kept.is_none() && !runner.is_all_zero;
    let all_kept = ways.iter().all(is_bounded);
    Ok(SetVerdict {
        utilization: utilization(plain),
        utilization_bound: utilization_bound(plain.len()),
        hyperbolic_product: hyperbolic_product(plain),
        bounds_apply: plain.is_sorted_by(|a, b| a.period <= b.period)
            && plain
                .iter()
                .all(|task| task.deadline >= task.period && task.blocking == 0.0),
        edf_ideal: edf(plain, blocking),
        edf: edf(&late, blocking + longest).filter(|_| all_kept),
        breakdown_ideal: breakdown_utilization(plain, Supply::default())?,
        breakdown: breakdown_utilization(&late, supply)?,
        all_kept,
    })
}
