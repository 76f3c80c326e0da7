//! Modelled tasks inside the kernel, as BPF programs: a timer callback in a softirq, or
//! a work item. The kernel removes programs and timers when the process ends in any
//! way. A task that falls too far behind skips jobs instead of occupying its CPU.

mod object;

use laggard_bpf::object::ObjectFile;
use laggard_model::{ModelledTask, Nanos, Service, TaskCount};

use super::calibration::{TRIAL, TRIALS, per_ms, rounds_in};
use super::jobs::{count, jobs_in};
use super::{TaskError, needs};
use crate::{clock, scheduling};
use object::{LoadedTask, Plan};

/// Maximum lag of a job; later jobs are skipped.
const MOST_LAG: Nanos = Nanos::from_ms(200);
/// Maximum lag of a work item, which waits its turn among normal threads.
const MOST_LAG_OF_WORKER: Nanos = Nanos::from_secs(2);
/// Time for the last jobs after the end.
const PATIENCE: Nanos = Nanos::from_secs(2);
/// Interval of the checks for the last jobs.
const POLL: Nanos = Nanos::from_ms(5);

/// Task that waits for its timer to be armed.
#[derive(Debug)]
pub(super) struct KernelTask {
    task: ModelledTask,
    loaded: LoadedTask,
    jobs: u64,
    rounds: u64,
}

impl KernelTask {
    pub(super) fn ready(task: &ModelledTask, duration: Nanos) -> Result<Self, TaskError> {
        let jobs = jobs_in(task, duration);
        let loaded = load(task, usize::try_from(jobs).unwrap_or(usize::MAX))?;
        let ready = Self {
            task: task.clone(),
            loaded,
            jobs,
            rounds: 0,
        };
        let rounds_per_ms = ready.on_its_cpu("calibrate its BPF program", |loaded| {
            loaded.set_plan(&Plan {
                rounds: TRIAL,
                ..Plan::default()
            })?;
            let mut quickest = u64::MAX;
            for _ in 0..TRIALS {
                loaded.call("calibrate")?;
                quickest = quickest.min(loaded.plan()?.trial_ns);
            }
            Ok(per_ms(TRIAL, quickest))
        })?;
        Ok(Self {
            rounds: rounds_in(task.compute_ns, rounds_per_ms),
            ..ready
        })
    }

    /// Arms the timer: job 0 is due at `first`.
    pub(super) fn begin(&self, first: Nanos) -> Result<(), TaskError> {
        let is_worker = self.task.service == Service::Worker;
        let plan = Plan {
            first_ns: first.ns(),
            period_ns: self.task.period_ns.ns(),
            jobs: self.jobs,
            most_lag_ns: if is_worker {
                MOST_LAG_OF_WORKER
            } else {
                MOST_LAG
            }
            .ns(),
            rounds: self.rounds,
            ..Plan::default()
        };
        self.on_its_cpu("arm its BPF timer", |loaded| {
            loaded.set_plan(&plan)?;
            loaded.call("begin")
        })
    }

    /// Waits until all due jobs are served, ends the task, and counts.
    pub(super) fn end(self, first: Nanos) -> Result<TaskCount, TaskError> {
        let now = clock::now();
        let due = (now.saturating_sub(first).ns() / self.task.period_ns.ns()).min(self.jobs);
        let patience = now + PATIENCE;
        let refused = |err| needs(&self.task, "read what its BPF program did")(err);
        while self.loaded.plan().map_err(refused)?.next < due && clock::now() < patience {
            clock::sleep_until(clock::now() + POLL);
        }
        self.loaded
            .call("end")
            .and_then(|()| self.loaded.stop())
            .map_err(needs(&self.task, "cancel its BPF timer"))?;
        let jobs = self.loaded.jobs(self.jobs).map_err(refused)?;
        Ok(count(&self.task, &jobs, first, now))
    }

    /// Calls `work` on the task's CPU.
    fn on_its_cpu<T>(
        &self,
        act: &str,
        work: impl FnOnce(&LoadedTask) -> std::io::Result<T>,
    ) -> Result<T, TaskError> {
        scheduling::on_cpu(self.task.cpu, || work(&self.loaded))
            .and_then(|done| done)
            .map_err(needs(&self.task, act))
    }
}

fn load(task: &ModelledTask, jobs: usize) -> Result<LoadedTask, TaskError> {
    let sources: &[ObjectFile] = match task.service {
        Service::Worker => &[object::WORKER, object::WORKER_IMPLICIT],
        _ => &[object::SOFTIRQ],
    };
    let mut first_refusal = None;
    for &source in sources {
        match LoadedTask::new(source, jobs) {
            Ok(loaded) => return Ok(loaded),
            Err(err) => {
                first_refusal.get_or_insert(err);
            }
        }
    }
    let err = first_refusal.unwrap_or_else(|| std::io::ErrorKind::Unsupported.into());
    let act = match task.service {
        Service::Worker => {
            "use a BPF work item; run as root on Linux 6.10 or later without PREEMPT_RT"
        }
        _ => "use a BPF timer; run as root on Linux 6.7 or later without PREEMPT_RT",
    };
    Err(needs(task, act)(err))
}
