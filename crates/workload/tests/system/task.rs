//! Modelled tasks in real execution. Levels that this machine refuses to the user of
//! the tests are skipped with a message.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use laggard_model::{Cpu, ModelledTask, Nanos, Service, TaskCount};
use laggard_workload::task::{TaskError, TaskSet};

fn task(service: Service) -> ModelledTask {
    ModelledTask {
        name: format!("a {service} task"),
        service,
        cpu: Cpu(0),
        period_ns: Nanos::from_ms(5),
        compute_ns: Nanos::from_us(200),
        deadline_ns: Nanos::from_ms(5),
    }
}

fn run(tasks: Vec<ModelledTask>, stop: &AtomicBool) -> Result<Vec<TaskCount>, TaskError> {
    let duration = Nanos::from_ms(500);
    TaskSet { tasks, duration }.ready()?.run(stop)
}

/// Returns the count of one task; `None` if the machine refuses it.
fn counted(task: ModelledTask) -> Option<TaskCount> {
    match run(vec![task], &AtomicBool::new(false)) {
        Ok(mut counts) => counts.pop(),
        Err(err @ (TaskError::Placement { .. } | TaskError::Needs { .. })) => {
            eprintln!("skipped: {err}");
            None
        }
        Err(err) => panic!("{err}"),
    }
}

const LEVELS: [Service; 4] = [
    Service::Other,
    Service::Fifo(10),
    Service::Softirq,
    Service::Worker,
];

#[test]
fn jobs_are_accounted_for_and_do_their_work_at_every_level() {
    for level in LEVELS {
        let Some(count) = counted(task(level)) else {
            continue;
        };

        // Jobs due in the last 5 ms may be unknown.
        assert!((99..=100).contains(&count.jobs), "{level}: {count:?}");
        assert!(count.skipped <= count.late && count.late <= count.jobs);
        assert!(count.underruns <= count.late, "{level}: {count:?}");
        // A busy processor's clock frequency may change after the calibration.
        assert!(
            count.least_work_ns > Nanos::from_us(100),
            "{level}: {count:?}"
        );
        assert!(count.median_response_ns >= count.median_work_ns);
        assert!(count.largest_response_ns >= count.p99_response_ns);
    }
}

#[test]
fn thread_reports_its_real_cpu_time() {
    let count = counted(task(Service::Other)).expect("normal threads are always available");

    assert!(
        count.cpu_per_job_ns > Some(Nanos::from_us(100)),
        "{count:?}"
    );
}

#[test]
fn unreachable_deadline_is_one_long_underrun() {
    for level in LEVELS {
        let hopeless = ModelledTask {
            deadline_ns: Nanos::from_us(200),
            compute_ns: Nanos::from_us(200),
            ..task(level)
        };
        let Some(count) = counted(hopeless) else {
            continue;
        };

        // A busy processor's clock can be faster than during the calibration.
        if count.median_work_ns <= count.task.deadline_ns {
            let work = count.median_work_ns;
            eprintln!("skipped: {level}: half of the jobs took {work} of work or less");
            continue;
        }
        // The wakeup time adds to the work.
        assert!(count.late * 2 > count.jobs, "{level}: {count:?}");
        assert!(count.underruns >= 1, "{level}: {count:?}");
    }
}

#[test]
fn tasks_of_several_levels_run_at_the_same_time() {
    let counts = match run(LEVELS.map(task).to_vec(), &AtomicBool::new(false)) {
        Ok(counts) => counts,
        Err(err) => return eprintln!("skipped: {err}"),
    };

    let services: Vec<Service> = counts.iter().map(|count| count.task.service).collect();
    assert_eq!(services, LEVELS);
    assert!(
        counts
            .iter()
            .all(|count| count.first_ns == counts[0].first_ns)
    );
}

#[test]
fn stopped_run_counts_the_jobs_due_by_then() {
    let stop = AtomicBool::new(false);
    let long = TaskSet {
        tasks: vec![task(Service::Other)],
        duration: Nanos::from_secs(3_000),
    };
    let ready = long.ready().unwrap();
    let start = Instant::now();

    let counts = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(1));
            stop.store(true, Ordering::Relaxed);
        });
        ready.run(&stop).unwrap()
    });

    let elapsed = Nanos::from(start.elapsed());
    assert!(counts[0].jobs > 0, "{counts:?}");
    assert!(counts[0].elapsed_ns <= elapsed, "{counts:?} in {elapsed}");
}
