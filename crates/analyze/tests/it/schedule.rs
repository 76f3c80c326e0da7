//! Response-time analysis compared with a discrete-event simulation of the same tasks,
//! which does not use the theory.

use laggard_analyze::sched::{Supply, Task, response_times};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Task in integer ticks.
#[derive(Clone, Copy, Debug)]
struct Spec {
    cost: u32,
    period: u32,
    jitter: u32,
}

impl Spec {
    fn task(self) -> Task {
        Task {
            jitter: f64::from(self.jitter),
            ..Task::new(f64::from(self.cost), f64::from(self.period))
        }
    }
}

/// Job in the simulation.
struct Job {
    released: i64,
    arrived: i64,
    task: usize,
    left: u32,
}

/// Returns the longest response of each task if all are released together after their
/// longest jitter, and later jobs as early as possible.
fn simulated(specs: &[Spec], until: i64) -> Vec<f64> {
    let mut jobs: Vec<Job> = Vec::new();
    for (task, spec) in specs.iter().enumerate() {
        let arrivals = (0..).map(|index| index * i64::from(spec.period) - i64::from(spec.jitter));
        // The first job is released late by its jitter (at 0).
        jobs.extend(
            arrivals
                .take_while(|&arrived| arrived < until)
                .map(|arrived| Job {
                    released: arrived.max(0),
                    arrived,
                    task,
                    left: spec.cost,
                }),
        );
    }
    let mut worst = vec![0.0_f64; specs.len()];
    for now in 0..until * 4 {
        // A lower index has a higher priority; jobs of one task run in order.
        let ready = jobs
            .iter_mut()
            .filter(|job| job.left > 0 && job.released <= now);
        let Some(job) = ready.min_by_key(|job| (job.task, job.arrived)) else {
            if now >= until {
                break;
            }
            continue;
        };
        job.left -= 1;
        if job.left == 0 {
            worst[job.task] = worst[job.task].max((now + 1 - job.arrived) as f64);
        }
    }
    worst
}

fn random_specs(random: &mut Pcg64Mcg) -> Vec<Spec> {
    let count = random.random_range(1..=4);
    (0..count)
        .map(|_| {
            let period = random.random_range(4..=24);
            Spec {
                cost: random.random_range(1..=1 + period / 3),
                period,
                jitter: random.random_range(0..=period / 2),
            }
        })
        .collect()
}

#[test]
fn analysis_equals_the_simulated_responses() {
    let mut random = Pcg64Mcg::seed_from_u64(1994);
    let mut compared = 0;
    while compared < 300 {
        let specs = random_specs(&mut random);
        let tasks: Vec<Task> = specs.iter().map(|spec| spec.task()).collect();
        let load: f64 = tasks.iter().map(|task| task.utilization()).sum();
        // Closer to 1, a busy period can outlast the simulation.
        if load > 0.95 {
            continue;
        }
        let analysed = response_times(&tasks, Supply::default()).unwrap();

        let simulated = simulated(&specs, 1_000);

        for (task, (analysed, simulated)) in analysed.iter().zip(simulated).enumerate() {
            assert!(
                (analysed.time - simulated).abs() < 1e-9,
                "task {task} of {tasks:?}: {} analysed, {simulated} simulated",
                analysed.time
            );
        }
        compared += 1;
    }
}
