//! Refusal of task sets that would hang a machine or be ineffective.

use std::collections::BTreeMap;

use laggard_model::{Cpu, ModelledTask, Nanos, Service};

use super::TaskSet;

/// Maximum part of a CPU for tasks above normal threads.
const MAX_SHARE: f64 = 0.8;
/// Maximum part for tasks inside the kernel, which only interrupts preempt.
const MAX_SHARE_IN_KERNEL: f64 = 0.5;
/// Longest job of a real-time thread.
const MAX_COST: Nanos = Nanos::from_ms(200);
/// Longest job inside the kernel.
const MAX_COST_IN_KERNEL: Nanos = Nanos::from_ms(50);
/// Shortest job that is distinguishable from its wakeup.
const MIN_COST: Nanos = Nanos::from_us(5);
/// Shortest period.
const MIN_PERIOD: Nanos = Nanos::from_us(100);
/// Maximum number of jobs, at 16 bytes each.
const MAX_JOBS: u64 = 4_000_000;

/// Reason for refusing a task set.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskRefused {
    /// The set does not contain a task.
    #[error("the set has no task; add at least one `[[task]]`")]
    Empty,
    /// No modelled task can run as this service.
    #[error(
        "task `{0}`: no task can run as `{1}`; use softirq, worker, fifo:1 to fifo:98, or other"
    )]
    Level(String, Service),
    /// A time is out of its range.
    #[error("task `{task}`: {what} of {time} is out of range; use {least} to {most}")]
    Time {
        task: String,
        /// Name of the time: period, deadline, cost.
        what: &'static str,
        /// Requested time.
        time: Nanos,
        /// Minimum.
        least: Nanos,
        /// Maximum.
        most: Nanos,
    },
    /// The tasks would leave too little time to others.
    #[error(
        "tasks {level} would use {} % of CPU {cpu}, which could hang it; use at most {} %: compute less, or less often",
        (share * 100.0).ceil(),
        (most * 100.0).floor()
    )]
    Share {
        level: &'static str,
        cpu: Cpu,
        /// Part of the CPU's time that all of them use.
        share: f64,
        /// Maximum.
        most: f64,
    },
    /// Too many jobs to record.
    #[error("task `{0}`: {1} jobs are too many to record; run for a shorter time (at most {2})")]
    Jobs(String, u64, Nanos),
    /// The run is too short for a job.
    #[error("task `{0}`: no job ends within {1}; run for longer than its period and deadline")]
    TooBrief(String, Nanos),
}

impl TaskSet {
    /// Checks that the set is safe on this machine and has an effect;
    /// [`TaskSet::ready`] checks it too.
    ///
    /// # Errors
    /// If it is not; the text has the limit.
    pub fn check(&self) -> Result<(), TaskRefused> {
        if self.tasks.is_empty() {
            return Err(TaskRefused::Empty);
        }
        for task in &self.tasks {
            check_times(task)?;
            self.check_jobs(task)?;
        }
        self.check_shares()
    }

    fn check_jobs(&self, task: &ModelledTask) -> Result<(), TaskRefused> {
        let jobs = self.duration.ns() / task.period_ns.ns();
        if jobs > MAX_JOBS {
            return Err(TaskRefused::Jobs(
                task.name.clone(),
                jobs,
                task.period_ns * MAX_JOBS,
            ));
        }
        if self.duration <= task.period_ns + task.deadline_ns {
            Err(TaskRefused::TooBrief(task.name.clone(), self.duration))
        } else {
            Ok(())
        }
    }

    fn check_shares(&self) -> Result<(), TaskRefused> {
        let mut shares: BTreeMap<Cpu, [f64; 2]> = BTreeMap::new();
        for task in &self.tasks {
            let share = task.compute_ns.as_secs_f64() / task.period_ns.as_secs_f64();
            let [above, kernel] = shares.entry(task.cpu).or_default();
            if is_in_kernel(task.service) {
                *kernel += share;
            }
            if task.service != Service::Other {
                *above += share;
            }
        }
        for (cpu, [above, kernel]) in shares {
            for (level, share, most) in [
                ("inside the kernel", kernel, MAX_SHARE_IN_KERNEL),
                ("above normal threads", above, MAX_SHARE),
            ] {
                if share > most {
                    return Err(TaskRefused::Share {
                        level,
                        cpu,
                        share,
                        most,
                    });
                }
            }
        }
        Ok(())
    }
}

fn is_in_kernel(service: Service) -> bool {
    matches!(service, Service::Softirq | Service::Worker)
}

fn check_times(task: &ModelledTask) -> Result<(), TaskRefused> {
    let longest = match task.service {
        Service::Softirq | Service::Worker => MAX_COST_IN_KERNEL,
        Service::Fifo(1..=98) => MAX_COST,
        Service::Other => task.period_ns,
        level => {
            return Err(TaskRefused::Level(task.name.clone(), level));
        }
    };
    let out_of_range = |what, time, least, most| TaskRefused::Time {
        task: task.name.clone(),
        what,
        time,
        least,
        most,
    };
    let within = |what, time: Nanos, least: Nanos, most: Nanos| {
        if time < least || time > most {
            Err(out_of_range(what, time, least, most))
        } else {
            Ok(())
        }
    };
    within("a period", task.period_ns, MIN_PERIOD, Nanos::from_secs(10))?;
    let most = longest.min(task.period_ns);
    within("a compute time", task.compute_ns, MIN_COST, most)?;
    within(
        "a deadline",
        task.deadline_ns,
        task.compute_ns,
        Nanos::from_secs(60),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(service: Service, period_us: u64, compute_us: u64) -> ModelledTask {
        ModelledTask {
            name: "t".into(),
            service,
            cpu: Cpu(1),
            period_ns: Nanos::from_us(period_us),
            compute_ns: Nanos::from_us(compute_us),
            deadline_ns: Nanos::from_us(period_us),
        }
    }

    fn check(tasks: Vec<ModelledTask>, seconds: u64) -> Result<(), String> {
        let duration = Nanos::from_secs(seconds);
        TaskSet { tasks, duration }
            .check()
            .map_err(|err| err.to_string())
    }

    #[test]
    fn share_that_would_hang_the_cpu_is_refused_with_the_limit() {
        let half = || task(Service::Fifo(80), 1_000, 500);

        assert_eq!(check(vec![half()], 30), Ok(()));
        assert_eq!(
            check(vec![half(), half()], 30).unwrap_err(),
            "tasks above normal threads would use 100 % of CPU 1, which could hang it; use at most 80 %: compute less, or less often"
        );
        let kernel = task(Service::Softirq, 1_000, 600);
        assert!(
            check(vec![kernel], 30)
                .unwrap_err()
                .contains("inside the kernel")
        );
        let elsewhere = ModelledTask {
            cpu: Cpu(0),
            ..half()
        };
        assert_eq!(check(vec![half(), elsewhere], 30), Ok(()));
    }

    #[test]
    fn normal_threads_may_use_their_whole_cpu() {
        assert_eq!(check(vec![task(Service::Other, 1_000, 950)], 30), Ok(()));
    }

    #[test]
    fn times_out_of_range_are_refused_with_the_range() {
        for (service, period, compute, expected) in [
            (
                Service::Fifo(80),
                50,
                10,
                "a period of 50us is out of range; use 100us to 10s",
            ),
            (
                Service::Softirq,
                1_000_000,
                51_000,
                "a compute time of 51ms is out of range; use 5us to 50ms",
            ),
            (
                Service::Fifo(80),
                1_000,
                1_100,
                "a compute time of 1100us is out of range; use 5us to 1ms",
            ),
            (
                Service::Fifo(99),
                1_000,
                100,
                "no task can run as `fifo:99`",
            ),
            (Service::Irq, 1_000, 100, "no task can run as `irq`"),
        ] {
            let err = check(vec![task(service, period, compute)], 30).unwrap_err();
            assert!(err.contains(expected), "{err}");
        }
    }

    #[test]
    fn runs_with_no_job_or_too_many_are_refused() {
        let slow = task(Service::Fifo(80), 1_000_000, 1_000);
        let fast = task(Service::Fifo(80), 100, 10);

        assert!(
            check(vec![slow], 2)
                .unwrap_err()
                .contains("no job ends within 2s")
        );
        assert!(
            check(vec![fast], 3_600)
                .unwrap_err()
                .contains("at most 400s")
        );
        assert!(check(vec![], 1).unwrap_err().contains("has no task"));
    }
}
