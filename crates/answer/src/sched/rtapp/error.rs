//! Reasons why a file of rt-app cannot be analysed.

use std::fmt::{self, Display, Formatter};

use super::policy::DeadlineKeys;

/// Element of rt-app's file that cannot be analysed, and its line.
#[derive(Debug)]
pub struct RtAppError {
    line: u32,
    task: Option<String>,
    problem: Problem,
}

/// Fault in a file of rt-app, or feature that is not supported.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("{0}")]
    Syntax(String),
    #[error("no `tasks`; is this a file of rt-app?")]
    NoTasks,
    #[error("`{key}` is not {expected}, as rt-app requires")]
    Type { key: String, expected: &'static str },
    #[error("`{0}` occurs twice, and rt-app and workgen take different ones; keep one")]
    Repeated(String),
    #[error("`{key}` is {value}; rt-app takes {low} to {high}")]
    Range {
        key: String,
        value: i64,
        low: i64,
        high: i64,
    },
    #[error("{threads} threads are more than the {most} that laggard analyses; reduce `instance`")]
    Instances { threads: usize, most: usize },
    #[error("the policy `{0}` is not one that rt-app has")]
    UnknownPolicy(String),
    #[error(
        "the policy `{0}` is not supported: laggard cannot record its latency; use SCHED_OTHER, SCHED_FIFO, SCHED_RR or SCHED_DEADLINE"
    )]
    TaskPolicy(String),
    #[error(
        "`dl-runtime` asks for a slice, and `priority` for a nice value; laggard records threads with one of these"
    )]
    SliceAndNice,
    #[error(
        "a SCHED_DEADLINE task needs 0 < `{}` <= `{}` <= `{}`; these are {runtime}, {deadline} and {period} us",
        keys.runtime, keys.deadline, keys.period
    )]
    DeadlineParameters {
        keys: DeadlineKeys,
        runtime: i64,
        deadline: i64,
        period: i64,
    },
    #[error(
        "a job of {work} us is longer than its budget `{key}` of {budget} us, so the kernel throttles it and it misses its deadline"
    )]
    Budget {
        key: &'static str,
        work: i64,
        budget: i64,
    },
    #[error(
        "a timer of {timer} us is shorter than `{key}` ({period} us), so the kernel throttles the task and it misses its deadline"
    )]
    Throttled {
        key: &'static str,
        timer: i64,
        period: i64,
    },
    #[error("`taskgroup` with the policy `{0}`; rt-app takes it with SCHED_OTHER only")]
    TaskgroupPolicy(&'static str),
    #[error("the `taskgroup` `{0}` does not start with `/`")]
    Taskgroup(String),
    #[error("{keys} differ between phases; write each phase as a task")]
    Changes { keys: &'static str },
    #[error(
        "`{0}` is of the grammar that rt-app had before its version 1.0; write `run`, `timer` and the like, as its tutorial.txt describes"
    )]
    OldGrammar(String),
    #[error("no event (`run`, `timer` ...), so rt-app refuses the task")]
    NoEvents,
    #[error(
        "`{0}` waits for another thread, so the task has no period; laggard analyses tasks that a `timer` wakes"
    )]
    Waits(String),
    #[error(
        "`{0}` starts another thread at a time that the file does not give; list the thread as a task with its own `timer`"
    )]
    Fork(String),
    #[error(
        "`{0}` gives an amount of data, not a time; replace it by `runtime` with the time that it takes"
    )]
    Amount(String),
    #[error(
        "`{0}` makes the time between two jobs depend on when the task runs; laggard analyses tasks that a `timer` wakes"
    )]
    Sleeps(String),
    #[error(
        "`{0}` makes a SCHED_DEADLINE task wait for its next period, in addition to its timer; keep one of these"
    )]
    YieldAndTimer(String),
    #[error(
        "no `timer` with a period above 0, so the task never waits or has no period; laggard analyses tasks that a `timer` wakes"
    )]
    NoTimer,
    #[error("the task ends with {0} us of work after its last `timer`, which no timer bounds")]
    Trailing(i64),
    #[error("no `run` or `runtime` above 0, so there is no work to analyse")]
    NoWork,
    #[error(
        "`{second}` waits for the timer `{reference}`, and an earlier event for another; laggard analyses tasks with one timer"
    )]
    SecondTimer { second: String, reference: String },
    #[error(
        "its jobs differ: up to {work} us of work, and as little as {period} us between two, but no job has both; write each phase as a task"
    )]
    JobsDiffer { work: i64, period: i64 },
    #[error(
        "`{event}` takes the mutex `{mutex}`, which `{other}` takes, too; how long it waits for that is not analysed. Write a TOML task set with `blocking`"
    )]
    SharedMutex {
        event: String,
        mutex: String,
        other: String,
    },
    #[error(
        "no CPU is in its `cpus` and in those of all tasks before it; laggard analyses one CPU, so write a file for each"
    )]
    OtherCpus,
    #[error("its times add up to more than laggard can represent")]
    TooLong,
}

impl Problem {
    pub(super) const fn on_line(self, line: u32) -> RtAppError {
        RtAppError {
            line,
            task: None,
            problem: self,
        }
    }
}

impl RtAppError {
    /// Adds the task in whose description it is.
    pub(super) fn of_task(self, name: &str) -> Self {
        Self {
            task: Some(name.into()),
            ..self
        }
    }
}

impl Display for RtAppError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        if let Some(task) = &self.task {
            write!(f, "task `{task}`: ")?;
        }
        self.problem.fmt(f)
    }
}

impl std::error::Error for RtAppError {}
