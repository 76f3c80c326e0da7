//! Modelled tasks: periodic work at any level where an application can run code, so that deadline
//! misses can be counted instead of predicted (OSDI'99 6.1).
//!
//! Open loop: job k is due at `first + k * period`, independent of the jobs before. A
//! task serves its jobs in order; if it is behind, it continues at once. Every job
//! computes a calibrated number of rounds, so any loss of processor time makes it
//! longer. Its recorded start and end decide afterwards whether a job was late. All
//! levels, and the prediction, use one definition: a job is late if it ends more than
//! the deadline after it was due.

mod calibration;
mod jobs;
mod kernel;
mod refusal;
mod thread;

use std::io;
use std::sync::atomic::AtomicBool;

use laggard_model::{Cpu, ModelledTask, Nanos, Service, TaskCount};
use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};

use crate::clock;
use crate::watchdog::Watchdog;
use kernel::KernelTask;
use thread::ThreadTask;

pub use refusal::TaskRefused;

/// Time from the start signal to the first job, so that every thread sleeps then.
const LEAD: Nanos = Nanos::from_ms(20);

/// Maximum time that a real-time thread computes without a pause before it skips the
/// jobs that are due.
const MOST_AWAKE: Nanos = Nanos::from_ms(400);

/// Tasks that run at the same time.
#[derive(Clone, Debug)]
pub struct TaskSet {
    pub tasks: Vec<ModelledTask>,
    /// Interval when jobs are due.
    pub duration: Nanos,
}

/// Reason why tasks could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The set would be dangerous or ineffective.
    #[error(transparent)]
    Refused(#[from] TaskRefused),
    /// The thread could not be placed or given its priority.
    #[error(
        "task `{task}`: cannot run as {service} on CPU {cpu}; run as root, on a CPU that is online, in a control group that has time for real-time threads"
    )]
    Placement {
        task: String,
        service: Service,
        cpu: Cpu,
        source: io::Error,
    },
    /// The system refuses a prerequisite of the task.
    #[error("task `{task}`: cannot {act}")]
    Needs {
        task: String,
        /// Refused operation.
        act: String,
        source: io::Error,
    },
}

impl TaskError {
    /// Returns whether this machine lacks a prerequisite, as opposed to a failure.
    #[must_use]
    pub const fn is_unmet(&self) -> bool {
        matches!(self, Self::Placement { .. } | Self::Needs { .. })
    }
}

fn needs<E: Into<io::Error>>(task: &ModelledTask, act: &str) -> impl FnOnce(E) -> TaskError {
    let (task, act) = (task.name.clone(), act.to_owned());
    move |source| TaskError::Needs {
        task,
        act,
        source: source.into(),
    }
}

/// Tasks that are ready to start: calibrated, placed, asleep.
#[derive(Debug)]
pub struct ReadyTasks {
    duration: Nanos,
    tasks: Vec<Ready>,
    // Dropped after the threads, so that they are guarded to their end.
    _watchdog: Watchdog,
    _memory: LockedMemory,
}

#[derive(Debug)]
enum Ready {
    Thread(ThreadTask),
    Kernel(KernelTask),
}

impl TaskSet {
    /// Prepares the tasks. This computes for some tenths of a second per task, so the
    /// machine should be quiet.
    ///
    /// # Errors
    /// If the set or the system refuses a task.
    pub fn ready(&self) -> Result<ReadyTasks, TaskError> {
        self.check()?;
        let memory = LockedMemory::new();
        let watchdog = self.watch()?;
        let rounds_per_ms = calibration::rounds_per_ms();
        let tasks = self
            .tasks
            .iter()
            .map(|task| match task.service {
                Service::Fifo(_) | Service::Other => {
                    ThreadTask::ready(task, self.duration, rounds_per_ms).map(Ready::Thread)
                }
                _ => KernelTask::ready(task, self.duration).map(Ready::Kernel),
            })
            .collect::<Result<_, _>>()?;
        Ok(ReadyTasks {
            duration: self.duration,
            tasks,
            _watchdog: watchdog,
            _memory: memory,
        })
    }

    /// Makes the kernel end the process if a real-time thread does not stop.
    fn watch(&self) -> Result<Watchdog, TaskError> {
        let longest = self.tasks.iter().map(|task| task.compute_ns).max();
        Watchdog::new(MOST_AWAKE + longest.unwrap_or_default()).map_err(|errno| TaskError::Needs {
            task: self
                .tasks
                .first()
                .map(|task| task.name.clone())
                .unwrap_or_default(),
            act: "set RLIMIT_RTTIME, the watchdog".into(),
            source: errno.into(),
        })
    }
}

impl ReadyTasks {
    /// Runs the tasks until the duration is over or `stop` is set, and counts.
    ///
    /// # Errors
    /// If the system refuses a late operation, such as a timer inside the kernel.
    pub fn run(self, stop: &AtomicBool) -> Result<Vec<TaskCount>, TaskError> {
        let first = clock::now() + LEAD;
        let end = first + self.duration;
        for task in &self.tasks {
            if let Ready::Kernel(task) = task {
                task.begin(first)?;
            }
        }
        let threads: Vec<_> = self
            .tasks
            .iter()
            .filter_map(|task| match task {
                Ready::Thread(task) => Some(task),
                Ready::Kernel(_) => None,
            })
            .collect();
        for task in &threads {
            task.begin(first);
        }
        clock::sleep_unless(stop, end);
        self.tasks
            .into_iter()
            .map(|task| match task {
                Ready::Thread(task) => Ok(task.end(first)),
                Ready::Kernel(task) => task.end(first),
            })
            .collect()
    }
}

/// Lock on every page of the program, held while this value lives. Without the right to
/// lock memory the tasks still run, and their page faults are counted.
#[derive(Debug)]
struct LockedMemory;

impl LockedMemory {
    fn new() -> Self {
        let _ = mlockall(MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE);
        Self
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        let _ = munlockall();
    }
}
