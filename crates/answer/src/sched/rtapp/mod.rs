//! rt-app's JSON: tasks that run for a time and wait for a timer.
//!
//! The grammar follows rt-app's `doc/tutorial.txt` and its parser. Times are whole microseconds.
//! Unsupported features are refused with their line: tasks that wait for other threads or that
//! sleep, work that is given in bytes, policies that laggard cannot record. Keys that rt-app does
//! not have are ignored, as rt-app ignores them.

#![allow(
    clippy::disallowed_macros,
    reason = "an error has a text, and an instance a name"
)]

mod error;
mod fields;
mod jobs;
mod json;
mod policy;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use laggard_model::{Cpu, Nanos};

use super::rank::{TaskRank, TaskRemark};
use super::{SchedQuestion, TaskAsked};
use error::Problem;
pub use error::RtAppError;
use fields::{Fields, MAX_INTEGER, type_error};
use jobs::{JobWaker, MutexUse, Phase, TimerJobs, jobs};
use json::{JsonEntry, JsonValue};
use policy::{DeadlineKeys, TaskPolicy, TaskScheduling};

/// Threads that are analysed; its time grows with their square.
const MAX_THREADS: usize = 1_000;
/// The range of `util_min` and `util_max`; -1 leaves them as they are.
const UTILIZATION_CLAMP: (i64, i64) = (-1, 1_024);
/// rt-app's default policy.
const DEFAULT_POLICY: &str = "SCHED_OTHER";

/// A task of the file, which stands for `instances` threads.
struct FileTask {
    name: String,
    line: u32,
    instances: usize,
    scheduling: TaskScheduling,
    jobs: TimerJobs,
    has_delay: bool,
    cpus: Option<Vec<u16>>,
    cpus_line: u32,
    mutexes: Vec<MutexUse>,
    remarks: Vec<TaskRemark>,
}

/// Reads a task set.
///
/// # Errors
/// When the text is not a task set of rt-app, or one that cannot be analysed.
pub(super) fn parse(text: &str) -> Result<SchedQuestion, RtAppError> {
    let root = json::parse(text)?;
    let no_tasks = || Problem::NoTasks.on_line(1);
    let root = Fields::from_node("tasks", &root).map_err(|_| no_tasks())?;
    let tasks = root.object("tasks")?.ok_or_else(no_tasks)?;
    let default_policy = default_policy(root)?;
    let mut read = Vec::new();
    let mut threads = 0_usize;
    for entry in tasks.entries {
        // Two tasks of one name are an error.
        let of_task = |error: RtAppError| error.of_task(&entry.key);
        tasks.get(&entry.key).map_err(of_task)?;
        if let Some(task) = task(entry, default_policy).map_err(of_task)? {
            threads = threads.saturating_add(task.instances);
            if threads > MAX_THREADS {
                let problem = Problem::Instances {
                    threads,
                    most: MAX_THREADS,
                };
                return Err(of_task(problem.on_line(task.line)));
            }
            read.push(task);
        }
    }
    check_mutexes(&read)?;
    let cpus = common_cpus(&read)?;
    let remarks = read
        .iter()
        .flat_map(|task| task.remarks.clone())
        .chain(shared_timers(&read))
        .collect();
    // The most urgent first, and of normal threads the least nice.
    read.sort_by_key(|task| {
        let nice = match task.scheduling.policy {
            TaskPolicy::Other => task.scheduling.priority,
            TaskPolicy::Fixed | TaskPolicy::Deadline => 0,
        };
        (Reverse(task.scheduling.level()), nice)
    });
    let shared = |task: &FileTask| match &task.jobs.waker {
        JobWaker::Timer(timer) => threads_of_timer(&read, task, timer) > 1,
        JobWaker::Yield => false,
    };
    let mut asked_tasks = Vec::new();
    for task in &read {
        let is_shared = shared(task);
        asked_tasks.extend(task.threads(is_shared)?);
    }
    Ok(SchedQuestion {
        tasks: asked_tasks,
        cpus: cpus.into_iter().map(|cpu| Cpu(cpu.into())).collect(),
        overhead: Nanos::ZERO,
        permitted: Nanos::from_secs(3_600),
        remarks,
    })
}

fn default_policy(root: Fields<'_>) -> Result<&str, RtAppError> {
    let Some(global) = root.object("global")? else {
        return Ok(DEFAULT_POLICY);
    };
    let Some(name) = global.text("default_policy")? else {
        return Ok(DEFAULT_POLICY);
    };
    // One that is not supported matters only to a task that has it.
    match TaskPolicy::from_name(name) {
        Err(problem @ Problem::UnknownPolicy(_)) => {
            Err(problem.on_line(global.line_of("default_policy")))
        }
        Ok(_) | Err(_) => Ok(name),
    }
}

/// Reads a task; `None` if rt-app starts without a thread of it.
fn task(entry: &JsonEntry, default_policy: &str) -> Result<Option<FileTask>, RtAppError> {
    let fields = Fields::from_node(&entry.key, &entry.node)?;
    let instances = fields.integer("instance", (0, MAX_INTEGER))?.unwrap_or(1);
    let scheduling = TaskScheduling::of_task(fields, default_policy)?;
    let delay = fields.integer("delay", (0, MAX_INTEGER))?;
    let (phases, loops) = phases(fields)?;
    // Threads of rt-app without instances run only when another thread forks them.
    if instances == 0 || loops == Some(0) {
        return Ok(None);
    }
    let scheduling = unchanged(&phases, scheduling, |before, phase| match phase.name {
        Some(_) => before.changed_by(phase.fields),
        // Its keys belong to the task. They give defaults, and are not changes.
        None => Ok(before),
    })?
    .ok_or_else(|| {
        let keys = "`policy`, `priority` or the times of SCHED_DEADLINE";
        Problem::Changes { keys }.on_line(fields.line)
    })?;
    let at_policy = |problem: Problem| problem.on_line(fields.line_of("policy"));
    let of_phases: Vec<Fields<'_>> = phases.iter().map(|phase| phase.fields).collect();
    let keys = DeadlineKeys::new(fields, &of_phases);
    scheduling.check(keys).map_err(at_policy)?;
    scheduling.service().map_err(at_policy)?;
    let task_cpus = cpus(fields)?;
    let cpus = unchanged(&phases, None, |_, phase| {
        Ok(cpus(phase.fields)?.or_else(|| task_cpus.clone()))
    })?
    .ok_or_else(|| Problem::Changes { keys: "`cpus`" }.on_line(fields.line))?;
    let mut group = None;
    for fields in of_phases.into_iter().chain([fields]) {
        check_clamps(fields)?;
        group = taskgroup(fields, scheduling)?.or(group);
    }
    let deadline_period = match scheduling.policy {
        TaskPolicy::Deadline => Some(scheduling.times.period),
        TaskPolicy::Other | TaskPolicy::Fixed => None,
    };
    let jobs = jobs(&phases, loops, deadline_period, entry.line)?;
    if scheduling.policy == TaskPolicy::Deadline {
        check_budget(scheduling, &jobs, keys).map_err(|problem| problem.on_line(entry.line))?;
    }
    let repeated = phases.iter().flat_map(|phase| &phase.repeated);
    let mut remarks: Vec<TaskRemark> = repeated
        .map(|(key, line)| TaskRemark::Repeated {
            task: entry.key.clone(),
            key: key.clone(),
            line: *line,
        })
        .collect();
    if !jobs.are_alike {
        let phase = phases.get(jobs.largest.phase).and_then(|phase| phase.name);
        remarks.push(TaskRemark::LargestJob {
            task: entry.key.clone(),
            phase: phase.map(Into::into),
        });
    }
    remarks.extend(group.map(|group| TaskRemark::Taskgroup {
        task: entry.key.clone(),
        group: group.into(),
    }));
    Ok(Some(FileTask {
        name: entry.key.clone(),
        line: entry.line,
        instances: usize::try_from(instances).unwrap_or(usize::MAX),
        scheduling,
        jobs,
        has_delay: delay.is_some_and(|delay| delay > 0),
        cpus,
        cpus_line: fields.line_of("cpus"),
        mutexes: phases.into_iter().flat_map(|phase| phase.mutexes).collect(),
        remarks,
    }))
}

/// The phases of a task, and how often it goes through them (`None`: for ever).
fn phases<'a>(fields: Fields<'a>) -> Result<(Vec<Phase<'a>>, Option<i64>), RtAppError> {
    let loops = fields.integer("loop", (-MAX_INTEGER, MAX_INTEGER))?;
    let Some(listed) = fields.object("phases")? else {
        // The loop belongs to its only phase, which follows itself.
        let phase = Phase::new(None, fields)?;
        return Ok((vec![phase], loops.map(|_| 1)));
    };
    let mut phases = Vec::new();
    for entry in listed.entries {
        let phase = Fields::from_node(&entry.key, &entry.node)?;
        phases.push(Phase::new(Some(&entry.key), phase)?);
    }
    if phases.is_empty() {
        Err(Problem::NoEvents.on_line(listed.line))
    } else {
        Ok((phases, loops.filter(|&loops| loops >= 0)))
    }
}

/// Returns the value that holds in every phase, although each phase can change it; `None` if it
/// differs. Two rounds are needed, because a change lasts until the next.
fn unchanged<'a, T: Clone + PartialEq>(
    phases: &[Phase<'a>],
    start: T,
    change: impl Fn(T, &Phase<'a>) -> Result<T, RtAppError>,
) -> Result<Option<T>, RtAppError> {
    let mut current = start;
    let mut first: Option<T> = None;
    for phase in phases.iter().chain(phases) {
        current = change(current, phase)?;
        if *first.get_or_insert_with(|| current.clone()) != current {
            return Ok(None);
        }
    }
    Ok(first)
}

fn cpus(fields: Fields<'_>) -> Result<Option<Vec<u16>>, RtAppError> {
    let Some(entry) = fields.get("cpus")? else {
        return Ok(None);
    };
    let wrong = || type_error("cpus", "a list of CPU numbers", entry.line);
    let JsonValue::List(nodes) = &entry.node.value else {
        return Err(wrong());
    };
    let number = |value: &JsonValue| {
        if let JsonValue::Integer(number) = value {
            return u16::try_from(*number).map_err(|_| wrong());
        }
        Err(wrong())
    };
    let cpus: Vec<u16> = nodes
        .iter()
        .map(|node| number(&node.value))
        .collect::<Result<_, _>>()?;
    if cpus.is_empty() {
        Err(wrong())
    } else {
        Ok(Some(cpus))
    }
}

/// Utilization clamps choose the frequency of a CPU, which the analysis takes as it is.
fn check_clamps(fields: Fields<'_>) -> Result<(), RtAppError> {
    fields.integer("util_min", UTILIZATION_CLAMP)?;
    fields.integer("util_max", UTILIZATION_CLAMP)?;
    Ok(())
}

/// Returns the control group of a task or phase.
fn taskgroup(fields: Fields<'_>, scheduling: TaskScheduling) -> Result<Option<&str>, RtAppError> {
    let Some(group) = fields.text("taskgroup")?.filter(|group| !group.is_empty()) else {
        return Ok(None);
    };
    let line = fields.line_of("taskgroup");
    if !group.starts_with('/') {
        Err(Problem::Taskgroup(group.into()).on_line(line))
    } else if scheduling.policy == TaskPolicy::Other {
        Ok(Some(group))
    } else {
        Err(Problem::TaskgroupPolicy(scheduling.name()).on_line(line))
    }
}

/// A `SCHED_DEADLINE` task that takes more than it has reserved waits for its
/// next period.
fn check_budget(
    scheduling: TaskScheduling,
    jobs: &TimerJobs,
    keys: DeadlineKeys,
) -> Result<(), Problem> {
    let (times, job) = (scheduling.times, jobs.largest);
    if job.work > times.runtime {
        return Err(Problem::Budget {
            key: keys.runtime,
            work: job.work,
            budget: times.runtime,
        });
    }
    if job.period < times.period {
        return Err(Problem::Throttled {
            key: keys.period,
            timer: job.period,
            period: times.period,
        });
    }
    Ok(())
}

fn check_mutexes(tasks: &[FileTask]) -> Result<(), RtAppError> {
    for (index, task) in tasks.iter().enumerate() {
        for used in &task.mutexes {
            let takes = |other: &&FileTask| {
                let mut mutexes = other.mutexes.iter();
                mutexes.any(|mutex| mutex.mutex == used.mutex)
            };
            let others = tasks[..index].iter().chain(&tasks[index + 1..]);
            let other = match others.clone().find(takes) {
                Some(other) => format!("task {}", other.name),
                None if task.instances > 1 => "another instance".into(),
                None => continue,
            };
            let problem = Problem::SharedMutex {
                event: used.event.clone(),
                mutex: used.mutex.clone(),
                other,
            };
            return Err(problem.on_line(used.line).of_task(&task.name));
        }
    }
    Ok(())
}

/// Returns the CPUs that are in the `cpus` of all tasks. Empty: no task has any.
///
/// # Errors
/// When no single CPU can run the tasks.
fn common_cpus(tasks: &[FileTask]) -> Result<Vec<u16>, RtAppError> {
    let mut common: Option<Vec<u16>> = None;
    for task in tasks {
        let Some(cpus) = &task.cpus else { continue };
        let before = common.get_or_insert_with(|| cpus.clone());
        before.retain(|cpu| cpus.contains(cpu));
        if before.is_empty() {
            return Err(Problem::OtherCpus
                .on_line(task.cpus_line)
                .of_task(&task.name));
        }
    }
    Ok(common.unwrap_or_default())
}

/// Returns the number of threads that wait for the timer `timer` of `task`. A timer whose name
/// starts with `unique` belongs to a single thread.
fn threads_of_timer(tasks: &[FileTask], task: &FileTask, timer: &str) -> usize {
    if timer.starts_with("unique") {
        return 1;
    }
    let is_same = |other: &&FileTask| other.jobs.waker == task.jobs.waker;
    let sharing = tasks.iter().filter(is_same);
    sharing.map(|task| task.instances).sum()
}

fn shared_timers(tasks: &[FileTask]) -> Vec<TaskRemark> {
    let mut remarks = Vec::new();
    for task in tasks {
        let JobWaker::Timer(timer) = &task.jobs.waker else {
            continue;
        };
        let threads = threads_of_timer(tasks, task, timer);
        let remark = TaskRemark::SharedTimer {
            timer: timer.clone(),
            threads,
        };
        if threads > 1 && !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    remarks
}

impl FileTask {
    /// Returns the threads of the task. `is_shared` is set if others wait for its timer.
    fn threads(&self, is_shared: bool) -> Result<Vec<TaskAsked>, RtAppError> {
        let error = |problem: Problem| problem.on_line(self.line).of_task(&self.name);
        let time = |us: i64| {
            let ns = us.unsigned_abs().checked_mul(1_000);
            ns.map(Nanos::from_ns)
                .ok_or_else(|| error(Problem::TooLong))
        };
        let deadline = match self.scheduling.policy {
            TaskPolicy::Deadline => self.scheduling.times.deadline,
            TaskPolicy::Other | TaskPolicy::Fixed => self.jobs.largest.period,
        };
        let mut cpus = self.cpus.clone().unwrap_or_default();
        cpus.sort_unstable();
        cpus.dedup();
        let cpu = match *cpus {
            [cpu] => Some(Cpu(cpu.into())),
            _ => None,
        };
        let thread = TaskAsked {
            name: self.name.clone(),
            compute_ns: time(self.jobs.largest.work)?,
            period_ns: time(self.jobs.largest.period)?,
            deadline_ns: time(deadline)?,
            blocking_ns: Nanos::ZERO,
            service: self.scheduling.service().map_err(error)?,
            cpu,
            buffers: None,
            rank: TaskRank {
                level: Some(self.scheduling.level()),
                is_at_most: is_shared || self.has_delay || !self.jobs.are_alike,
                may_move: cpu.is_none(),
                stand_in: None,
            },
        };
        let name = |instance| match self.instances {
            1 => self.name.clone(),
            _ => format!("{}-{instance}", self.name),
        };
        let threads = (0..self.instances).map(|instance| TaskAsked {
            name: name(instance),
            ..thread.clone()
        });
        Ok(threads.collect())
    }
}
