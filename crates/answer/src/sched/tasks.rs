//! A task set as a user writes it.

#![allow(clippy::disallowed_macros, reason = "an error has a text")]

use std::cmp::Reverse;
use std::path::PathBuf;

use laggard_model::{Cpu, CpuList, Nanos, ParseNanosError, Service};
use serde::Deserialize;

use super::rank::TaskRank;
use super::rtapp::RtAppError;
use super::{SchedQuestion, TaskAsked};

/// Service that runs a task by default.
const SERVICE: Service = Service::Fifo(90);
/// Level of all normal threads, below every priority.
const NORMAL_LEVEL: i16 = -1;

/// Reason why a file is not a task set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TasksError {
    /// The file cannot be read.
    #[error("cannot read `{}`", file.display())]
    Read {
        file: PathBuf,
        /// Reason.
        source: std::io::Error,
    },
    /// The content is not a task set.
    #[error("cannot use the tasks of `{}`", file.display())]
    File {
        file: PathBuf,
        /// The fault.
        source: Box<Self>,
    },
    /// An entry is not a task.
    #[error("task `{name}`")]
    Task {
        name: String,
        /// The fault.
        source: Box<Self>,
    },
    /// The file lacks a task.
    #[error("`{}` has no task; write at least one", .0.display())]
    Empty(PathBuf),
    /// The TOML has other keys or types.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// A file of rt-app that cannot be analysed.
    #[error(transparent)]
    RtApp(#[from] RtAppError),
    /// A time cannot be parsed.
    #[error(transparent)]
    Time(#[from] ParseNanosError),
    /// Some tasks have a priority and some do not.
    #[error(
        "only {given} of {all} tasks have a priority; give it to all, or to none for rate-monotonic ones"
    )]
    SomePriorities {
        /// Number of tasks with a priority.
        given: usize,
        all: usize,
    },
    /// A time is 0.
    #[error("task `{0}` needs a period and a compute time above 0")]
    Zero(String),
    /// The deadline is not later than the execution time.
    #[error(
        "task `{name}` computes for {compute} and has a deadline of {deadline}; no system can meet it"
    )]
    Impossible {
        name: String,
        /// Its execution time.
        compute: Nanos,
        deadline: Nanos,
    },
    /// The permitted time between two misses is shorter than a period.
    #[error(
        "`permitted` is {permitted}, and task `{name}` has a period of {period}, so it could miss every time; set {period} or more"
    )]
    Permitted {
        name: String,
        /// Permitted time between two misses.
        permitted: Nanos,
        /// The task's period.
        period: Nanos,
    },
    /// Two tasks have the same name.
    #[error("two tasks are called `{0}`; give each task its own name")]
    SameName(String),
    /// One buffer tolerates no latency.
    #[error("task `{0}` has one buffer; write 2 or more, or none")]
    OneBuffer(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    overhead: Option<String>,
    permitted: Option<String>,
    service: Option<Service>,
    cpu: Option<Cpu>,
    task: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    period: String,
    compute: String,
    deadline: Option<String>,
    blocking: Option<String>,
    priority: Option<u8>,
    service: Option<Service>,
    cpu: Option<Cpu>,
    buffers: Option<u32>,
}

impl TasksError {
    /// As what is wrong with the task `name`.
    pub(super) fn of_task(self, name: &str) -> Self {
        Self::Task {
            name: name.into(),
            source: self.into(),
        }
    }
}

pub(super) fn parse(text: &str) -> Result<SchedQuestion, TasksError> {
    let file: File = toml::from_str(text)?;
    let time = |text: &Option<String>, default: Nanos| -> Result<Nanos, TasksError> {
        match text {
            Some(text) => Ok(text.parse()?),
            None => Ok(default),
        }
    };
    let default = file.service.unwrap_or(SERVICE);
    let mut tasks: Vec<(Option<u8>, TaskAsked)> = Vec::new();
    for entry in file.task {
        if tasks.iter().any(|(_, task)| task.name == entry.name) {
            return Err(TasksError::SameName(entry.name));
        }
        let read = || -> Result<TaskAsked, TasksError> {
            let period: Nanos = entry.period.parse()?;
            let tolerance = period * u64::from(entry.buffers.unwrap_or(2).saturating_sub(1));
            Ok(TaskAsked {
                compute_ns: entry.compute.parse()?,
                period_ns: period,
                deadline_ns: time(&entry.deadline, tolerance)?,
                blocking_ns: time(&entry.blocking, Nanos::ZERO)?,
                service: entry.service.unwrap_or(default),
                cpu: entry.cpu.or(file.cpu),
                buffers: entry.buffers,
                rank: TaskRank::default(),
                name: entry.name.clone(),
            })
        };
        let task = read().map_err(|error| error.of_task(&entry.name))?;
        tasks.push((entry.priority, task));
    }
    Ok(SchedQuestion {
        tasks: by_priority(tasks)?,
        cpus: CpuList::default(),
        overhead: time(&file.overhead, Nanos::ZERO)?,
        permitted: time(&file.permitted, Nanos::from_secs(3_600))?,
        remarks: Vec::new(),
    })
}

/// Orders the tasks: by priority if all tasks have one, otherwise by service and then by the
/// shorter period. Normal threads come last and share one level, because the kernel lets none of
/// them run before another for long.
fn by_priority(mut tasks: Vec<(Option<u8>, TaskAsked)>) -> Result<Vec<TaskAsked>, TasksError> {
    let given = tasks
        .iter()
        .filter(|(priority, _)| priority.is_some())
        .count();
    if given != 0 && given != tasks.len() {
        return Err(TasksError::SomePriorities {
            given,
            all: tasks.len(),
        });
    }
    tasks.sort_by_key(|(priority, task)| {
        let is_normal = task.service.is_normal_thread();
        let urgency = priority.unwrap_or(task.service.urgency());
        let period = match priority {
            Some(_) if !is_normal => Nanos::ZERO,
            _ => task.period_ns,
        };
        (is_normal, Reverse(urgency), period)
    });
    let ranked = tasks.into_iter().map(|(priority, mut task)| {
        task.rank.level = if task.service.is_normal_thread() {
            Some(NORMAL_LEVEL)
        } else {
            priority.map(i16::from)
        };
        task
    });
    Ok(ranked.collect())
}

pub(super) fn check(task: &TaskAsked, permitted: Nanos) -> Result<(), TasksError> {
    let name = || task.name.clone();
    if task.period_ns > permitted {
        return Err(TasksError::Permitted {
            name: name(),
            permitted,
            period: task.period_ns,
        });
    }
    if task.period_ns == Nanos::ZERO || task.compute_ns == Nanos::ZERO {
        return Err(TasksError::Zero(name()));
    }
    if task.deadline_ns <= task.compute_ns {
        return Err(TasksError::Impossible {
            name: name(),
            compute: task.compute_ns,
            deadline: task.deadline_ns,
        });
    }
    if task.buffers.is_some_and(|buffers| buffers < 2) {
        return Err(TasksError::OneBuffer(name()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    /// Returns the message of an error with its sources.
    fn message(error: &TasksError) -> String {
        let mut messages = vec![error.to_string()];
        let mut below = error.source();
        while let Some(cause) = below {
            messages.push(cause.to_string());
            below = cause.source();
        }
        messages.join(": ")
    }

    #[test]
    fn tasks_without_priorities_are_ordered_by_their_rate() {
        let question = parse(
            "service = \"fifo:50\"\n\
             [[task]]\nname = \"slow\"\nperiod = \"10ms\"\ncompute = \"2ms\"\n\
             [[task]]\nname = \"fast\"\nperiod = \"1ms\"\ncompute = \"200us\"\nbuffers = 3\n",
        )
        .unwrap();

        assert_eq!(question.tasks[0].name, "fast");
        assert_eq!(question.tasks[0].deadline_ns, Nanos::from_ms(2));
        assert_eq!(question.tasks[1].deadline_ns, Nanos::from_ms(10));
        assert_eq!(question.tasks[1].service, Service::Fifo(50));
    }

    #[test]
    fn errors_name_the_task_and_its_fault() {
        for (text, expected) in [
            (
                "[[task]]\nname = \"a\"\nperiod = \"1\"\ncompute = \"1ms\"",
                "`1` has no unit",
            ),
            (
                "[[task]]\nname = \"a\"\nperiod = \"1ms\"\ncompute = \"1us\"\npriority = 3\n\
                 [[task]]\nname = \"b\"\nperiod = \"1ms\"\ncompute = \"1us\"",
                "only 1 of 2 tasks have a priority",
            ),
            (
                "[[task]]\nname = \"a\"\nperiod = \"1ms\"\ncompute = \"1us\"\n\
                 [[task]]\nname = \"a\"\nperiod = \"2ms\"\ncompute = \"1us\"",
                "two tasks are called `a`",
            ),
        ] {
            let err = message(&parse(text).unwrap_err());
            assert!(err.contains(expected), "{err}");
        }
    }
}
