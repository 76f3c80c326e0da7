//! Modelled tasks: periodic work at any level at which an application can have
//! its code run, so that deadline misses can be counted instead of predicted
//! (OSDI'99 6.1).
//!
//! Open loop: job k is due at `first + k * period`, whenever the ones before
//! were served. A task serves its jobs in order; one that is behind goes on at
//! once. Every job computes a calibrated number of rounds, so that whatever
//! takes the processor away makes it longer. Whether a job was late is decided
//! afterwards from its written start and end, for every level alike, by the
//! definition that the prediction uses: late is what ends more than the
//! deadline after it was due.

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

/// From the word to begin to the first job, so that every thread sleeps then.
const LEAD: Nanos = Nanos::from_ms(20);

/// A real-time thread that computes so long without a pause leaves out what is
/// due by then.
const MOST_AWAKE: Nanos = Nanos::from_ms(400);

/// Tasks that run side by side.
#[derive(Clone, Debug)]
pub struct TaskSet {
    /// The tasks.
    pub tasks: Vec<ModelledTask>,
    /// How long jobs are due.
    pub duration: Nanos,
}

/// Why tasks could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// It would be dangerous, or makes no sense.
    #[error(transparent)]
    Refused(#[from] TaskRefused),
    /// The thread could not be placed or given its priority.
    #[error(
        "task `{task}`: cannot run as {service} on CPU {cpu}; run as root, on a CPU that is online, in a control group that has time for real-time threads"
    )]
    Placement {
        /// The task.
        task: String,
        /// What was to run it.
        service: Service,
        /// The CPU that the task was to run on.
        cpu: Cpu,
        /// What the system said.
        source: io::Error,
    },
    /// Something that the task needs is refused.
    #[error("task `{task}`: cannot {act}")]
    Needs {
        /// The task.
        task: String,
        /// What was tried.
        act: String,
        /// What the system said.
        source: io::Error,
    },
}

impl TaskError {
    /// Whether this machine cannot do what was asked, rather than that anything
    /// went wrong.
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

/// Tasks that are ready to begin: calibrated, placed, asleep.
#[derive(Debug)]
pub struct ReadyTasks {
    duration: Nanos,
    tasks: Vec<Ready>,
    // After the threads, so that they are watched to their end.
    _watchdog: Watchdog,
    _memory: LockedMemory,
}

#[derive(Debug)]
enum Ready {
    Thread(ThreadTask),
    Kernel(KernelTask),
}

impl TaskSet {
    /// Gets the tasks ready. That takes some tenths of a second of computing
    /// for each, so it is best done while the machine is quiet.
    ///
    /// # Errors
    /// When the set is refused, or the system refuses what a task needs.
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
                Service::Irq
                | Service::Softirq
                | Service::Worker
                | Service::Kthread
                | Service::Task(_)
                | Service::Traced(_)
                | Service::Deadline
                | Service::Nice(_)
                | Service::Slice(_)
                | Service::Lent(_)
                | Service::Realtime(_)
                | Service::Mmcss
                | Service::Dpc
                | Service::SystemThread(_) => {
                    KernelTask::ready(task, self.duration).map(Ready::Kernel)
                }
            })
            .collect::<Result<_, _>>()?;
        Ok(ReadyTasks {
            duration: self.duration,
            tasks,
            _watchdog: watchdog,
            _memory: memory,
        })
    }

    /// Should a real-time thread run on in spite of all, the kernel ends the
    /// process.
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
    /// When the system refuses something late, as a timer inside the kernel.
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

/// Every page of the program in memory, while this value lives. Without the
/// right to it the tasks run all the same; their page faults are counted.
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
