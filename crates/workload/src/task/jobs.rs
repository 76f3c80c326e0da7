//! Counts from the starts and ends of jobs: one definition for every level.

use laggard_model::{ModelledTask, Nanos, TaskCount};

/// Measured job; both times are zero if it has not been served.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Job {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
}

impl Job {
    fn is_served(self) -> bool {
        self.end_ns != 0
    }
}

/// Returns the number of jobs that are due in `duration`.
pub(super) fn jobs_in(task: &ModelledTask, duration: Nanos) -> u64 {
    duration.ns() / task.period_ns.ns().max(1)
}

/// Returns the due time of job `index`.
pub(super) fn due(task: &ModelledTask, first: Nanos, index: u64) -> Nanos {
    first + task.period_ns * index
}

/// Counts the jobs that were due between `first` and `now`. A job that was not served
/// counts as skipped if its deadline has passed. The count ends before the first job
/// whose outcome is unknown.
pub(super) fn count(task: &ModelledTask, jobs: &[Job], first: Nanos, now: Nanos) -> TaskCount {
    let last_served = jobs.iter().rposition(|job| job.is_served());
    let due_by = |index: u64| due(task, first, index) + task.deadline_ns <= now;
    let complete = (0_u64..)
        .zip(jobs)
        .take_while(|&(index, job)| {
            let passed_over = last_served.is_some_and(|last| index < last as u64);
            job.is_served() || passed_over || due_by(index)
        })
        .count();
    let mut tally = Tally::default();
    for (index, job) in (0_u64..).zip(&jobs[..complete]) {
        tally.add(*job, due(task, first, index), task.deadline_ns);
    }
    tally.finish(task, first, complete as u64)
}

#[derive(Default)]
struct Tally {
    responses: Vec<Nanos>,
    works: Vec<Nanos>,
    skipped: u64,
    late: u64,
    underruns: u64,
    run: u64,
    longest_run: u64,
}

impl Tally {
    fn add(&mut self, job: Job, due: Nanos, deadline: Nanos) {
        let is_late = if job.is_served() {
            let end = Nanos::from_ns(job.end_ns);
            let response = end.saturating_sub(due);
            self.responses.push(response);
            self.works
                .push(end.saturating_sub(Nanos::from_ns(job.start_ns)));
            response > deadline
        } else {
            self.skipped += 1;
            true
        };
        if !is_late {
            self.run = 0;
            return;
        }
        self.late += 1;
        self.underruns += u64::from(self.run == 0);
        self.run += 1;
        self.longest_run = self.longest_run.max(self.run);
    }

    fn finish(mut self, task: &ModelledTask, first: Nanos, jobs: u64) -> TaskCount {
        self.responses.sort_unstable();
        self.works.sort_unstable();
        TaskCount {
            task: task.clone(),
            first_ns: first,
            elapsed_ns: task.period_ns * jobs,
            jobs,
            skipped: self.skipped,
            late: self.late,
            underruns: self.underruns,
            longest_run: self.longest_run,
            median_response_ns: percentile(&self.responses, 50),
            p99_response_ns: percentile(&self.responses, 99),
            largest_response_ns: percentile(&self.responses, 100),
            least_work_ns: percentile(&self.works, 0),
            median_work_ns: percentile(&self.works, 50),
            cpu_per_job_ns: None,
            page_faults: 0,
        }
    }
}

/// Returns the percentile `percent` of the sorted `sorted`.
fn percentile(sorted: &[Nanos], percent: usize) -> Nanos {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_model::{Cpu, Service};

    const FIRST: Nanos = Nanos::from_ms(1_000);

    fn task() -> ModelledTask {
        ModelledTask {
            name: "t".into(),
            service: Service::Other,
            cpu: Cpu(0),
            period_ns: Nanos::from_ms(10),
            compute_ns: Nanos::from_ms(2),
            deadline_ns: Nanos::from_ms(10),
        }
    }

    /// Returns jobs with these response times, ms; `None` for a job that was not
    /// served.
    fn jobs(responses: &[Option<u64>]) -> Vec<Job> {
        (0_u64..)
            .zip(responses)
            .map(|(index, response)| match response {
                None => Job::default(),
                Some(ms) => {
                    let end = due(&task(), FIRST, index) + Nanos::from_ms(*ms);
                    Job {
                        start_ns: end.saturating_sub(Nanos::from_ms(2)).ns(),
                        end_ns: end.ns(),
                    }
                }
            })
            .collect()
    }

    const LONG_AFTER: Nanos = Nanos::from_secs(100);

    #[test]
    fn job_after_its_deadline_is_late_and_a_run_is_one_underrun() {
        let jobs = jobs(&[2, 10, 11, 25, 16, 4, 30, 3].map(Some));

        let count = count(&task(), &jobs, FIRST, LONG_AFTER);

        assert_eq!((count.jobs, count.late, count.underruns), (8, 4, 2));
        assert_eq!((count.longest_run, count.skipped), (3, 0));
        assert_eq!(count.largest_response_ns, Nanos::from_ms(30));
        assert_eq!(count.median_response_ns, Nanos::from_ms(10));
        assert_eq!(count.median_work_ns, Nanos::from_ms(2));
        assert_eq!(count.elapsed_ns, Nanos::from_ms(80));
    }

    #[test]
    fn skipped_job_is_late_and_part_of_its_run() {
        let jobs = jobs(&[Some(2), Some(30), None, None, Some(2)]);

        let count = count(&task(), &jobs, FIRST, LONG_AFTER);

        assert_eq!((count.jobs, count.skipped), (5, 2));
        assert_eq!((count.late, count.underruns, count.longest_run), (3, 1, 3));
    }

    #[test]
    fn unknown_jobs_at_the_end_do_not_count() {
        let jobs = jobs(&[Some(2), Some(2), None, None]);
        // The third was due after 20 ms with a deadline at 30; the fourth at 40.
        let now = FIRST + Nanos::from_ms(35);

        let count = count(&task(), &jobs, FIRST, now);

        assert_eq!((count.jobs, count.late, count.skipped), (3, 1, 1));
    }

    #[test]
    fn counts_without_jobs_are_zero() {
        let count = count(&task(), &[], FIRST, LONG_AFTER);

        assert_eq!((count.jobs, count.late), (0, 0));
        assert_eq!(count.largest_response_ns, Nanos::ZERO);
    }
}
