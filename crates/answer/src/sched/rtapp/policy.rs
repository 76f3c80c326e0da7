//! Scheduling parameters of rt-app's tasks and phases, with its defaults.

use laggard_model::{Nanos, Service};

use super::error::{Problem, RtAppError};
use super::fields::{Fields, MAX_INTEGER};

/// The priority of `SCHED_FIFO` and `SCHED_RR` without a `priority`.
const DEFAULT_PRIORITY: i64 = 10;
const NO_PARAMETERS: DeadlineParameters = DeadlineParameters {
    runtime: 0,
    period: 0,
    deadline: 0,
};
/// The level of a `SCHED_DEADLINE` task: above all priorities.
pub(super) const DEADLINE_LEVEL: i16 = 100;

/// A policy that laggard can record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum TaskPolicy {
    Other,
    /// `SCHED_FIFO` or `SCHED_RR`: both have the same wakeup latency.
    Fixed,
    Deadline,
}

/// Times of `SCHED_DEADLINE`, in microseconds; 0: not given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct DeadlineParameters {
    pub(super) runtime: i64,
    pub(super) period: i64,
    pub(super) deadline: i64,
}

/// Keys that a file uses for the times of `SCHED_DEADLINE`: rt-app's, or the keys of its
/// earlier versions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct DeadlineKeys {
    pub(super) runtime: &'static str,
    pub(super) period: &'static str,
    pub(super) deadline: &'static str,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct TaskScheduling {
    pub(super) policy: TaskPolicy,
    /// The priority, or of `SCHED_OTHER` the nice value.
    pub(super) priority: i64,
    pub(super) times: DeadlineParameters,
}

impl TaskPolicy {
    /// # Errors
    /// If rt-app does not know the policy, or if laggard cannot record its latency.
    pub(super) fn from_name(name: &str) -> Result<Self, Problem> {
        match name {
            "SCHED_OTHER" => Ok(Self::Other),
            "SCHED_FIFO" | "SCHED_RR" => Ok(Self::Fixed),
            "SCHED_DEADLINE" => Ok(Self::Deadline),
            "SCHED_BATCH" | "SCHED_IDLE" => Err(Problem::TaskPolicy(name.into())),
            _ => Err(Problem::UnknownPolicy(name.into())),
        }
    }

    const fn priorities(self) -> (i64, i64) {
        match self {
            Self::Other => (-20, 19),
            Self::Fixed => (1, 99),
            // The kernel does not have a priority for it.
            Self::Deadline => (0, 0),
        }
    }

    const fn default_priority(self) -> i64 {
        match self {
            Self::Other | Self::Deadline => 0,
            Self::Fixed => DEFAULT_PRIORITY,
        }
    }
}

fn policy_of(fields: Fields<'_>) -> Result<Option<TaskPolicy>, RtAppError> {
    let Some(name) = fields.text("policy")? else {
        return Ok(None);
    };
    let policy = TaskPolicy::from_name(name);
    policy
        .map(Some)
        .map_err(|problem| problem.on_line(fields.line_of("policy")))
}

fn times(fields: Fields<'_>) -> Result<DeadlineParameters, RtAppError> {
    let time = |key| fields.integer(key, (0, MAX_INTEGER));
    let runtime = time("dl-runtime")?.unwrap_or_default();
    let period = time("dl-period")?.unwrap_or(runtime);
    Ok(DeadlineParameters {
        runtime,
        period,
        deadline: time("dl-deadline")?.unwrap_or(period),
    })
}

impl DeadlineKeys {
    /// Finds the keys of a task and its phases. The task alone can have the old ones.
    pub(super) fn new(task: Fields<'_>, phases: &[Fields<'_>]) -> Self {
        let has = |fields: &Fields<'_>, key| fields.entries.iter().any(|entry| entry.key == key);
        // A time of rt-app's keys is the default of the times after it.
        let mut has_new = false;
        let mut used = |key, old_key| {
            has_new |= has(&task, key) || phases.iter().any(|fields| has(fields, key));
            if !has_new && has(&task, old_key) {
                old_key
            } else {
                key
            }
        };
        Self {
            runtime: used("dl-runtime", "runtime"),
            period: used("dl-period", "period"),
            deadline: used("dl-deadline", "deadline"),
        }
    }
}

impl TaskScheduling {
    /// Reads the scheduling of a task.
    ///
    /// # Errors
    /// If rt-app refuses it, or laggard cannot record a thread with this policy.
    pub(super) fn of_task(fields: Fields<'_>, default: &str) -> Result<Self, RtAppError> {
        let policy = match policy_of(fields)? {
            Some(policy) => policy,
            None => {
                TaskPolicy::from_name(default).map_err(|problem| problem.on_line(fields.line))?
            }
        };
        let priority = fields.integer("priority", policy.priorities())?;
        let mut times = times(fields)?;
        if policy == TaskPolicy::Deadline {
            // Keys of earlier versions, used if the others are absent.
            let time = |key| fields.integer(key, (0, MAX_INTEGER));
            if times.runtime == 0 {
                times.runtime = time("runtime")?.unwrap_or_default();
            }
            if times.period == 0 {
                times.period = time("period")?.unwrap_or(times.runtime);
            }
            if times.deadline == 0 {
                times.deadline = time("deadline")?.unwrap_or(times.period);
            }
        }
        Ok(Self {
            policy,
            priority: priority.unwrap_or(policy.default_priority()),
            times,
        })
    }

    /// The scheduling from a phase that can change some of it.
    ///
    /// # Errors
    /// As [`Self::of_task`].
    pub(super) fn changed_by(self, fields: Fields<'_>) -> Result<Self, RtAppError> {
        let policy = policy_of(fields)?;
        let before = match policy {
            None => self,
            Some(policy) => Self {
                policy,
                priority: policy.default_priority(),
                times: NO_PARAMETERS,
            },
        };
        let priority = fields.integer("priority", before.policy.priorities())?;
        let times = times(fields)?;
        Ok(Self {
            priority: priority.unwrap_or(before.priority),
            times: if times == NO_PARAMETERS {
                before.times
            } else {
                times
            },
            ..before
        })
    }

    /// Returns whether the `SCHED_DEADLINE` parameters are what the kernel accepts.
    ///
    /// # Errors
    /// When they are not.
    pub(super) fn check(self, keys: DeadlineKeys) -> Result<(), Problem> {
        let DeadlineParameters {
            runtime,
            period,
            deadline,
        } = self.times;
        let is_valid = 0 < runtime && runtime <= deadline && deadline <= period;
        if self.policy == TaskPolicy::Deadline && !is_valid {
            return Err(Problem::DeadlineParameters {
                keys,
                runtime,
                deadline,
                period,
            });
        }
        Ok(())
    }

    /// Returns the service whose recorded latency applies to a thread with this policy.
    ///
    /// # Errors
    /// If laggard does not record a service with this policy.
    pub(super) fn service(self) -> Result<Service, Problem> {
        let nice = i8::try_from(self.priority).unwrap_or_default();
        Ok(match self.policy {
            TaskPolicy::Deadline => Service::Deadline,
            TaskPolicy::Fixed => Service::Fifo(u8::try_from(self.priority).unwrap_or_default()),
            TaskPolicy::Other if self.times.runtime > 0 && nice != 0 => {
                return Err(Problem::SliceAndNice);
            }
            TaskPolicy::Other if self.times.runtime > 0 => {
                let (shortest, longest) = Service::SLICES;
                let slice = Nanos::from_us(self.times.runtime.unsigned_abs());
                Service::Slice(slice.clamp(shortest, longest))
            }
            TaskPolicy::Other if nice != 0 => Service::Nice(nice),
            TaskPolicy::Other => Service::Other,
        })
    }

    /// The level of its priority: the kernel runs a higher one first.
    pub(super) fn level(self) -> i16 {
        match self.policy {
            TaskPolicy::Deadline => DEADLINE_LEVEL,
            TaskPolicy::Fixed => i16::try_from(self.priority).unwrap_or_default(),
            TaskPolicy::Other => 0,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self.policy {
            TaskPolicy::Other => "SCHED_OTHER",
            TaskPolicy::Fixed => "SCHED_FIFO or SCHED_RR",
            TaskPolicy::Deadline => "SCHED_DEADLINE",
        }
    }
}
