//! Modelled tasks that are threads.
//!
//! After its first job is due, a thread does not lock, allocate or write files. If memory is
//! locked, it does not cause page faults. It sleeps, reads the clock, computes, and writes to
//! memory that it touched before.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use laggard_model::{CpuList, ModelledTask, Nanos, Service, TaskCount};
use nix::sys::resource::{UsageWho, getrusage};

use super::jobs::{Job, count, due, jobs_in};
use super::{MOST_AWAKE, TaskError, calibration};
use crate::clock;
use crate::scheduling::{self, Policy};

struct ThreadResult {
    jobs: Vec<Job>,
    cpu: Nanos,
    faults: u64,
}

/// Thread that waits for the start signal.
#[derive(Debug)]
pub(super) struct ThreadTask {
    task: ModelledTask,
    begin: Sender<Nanos>,
    stop: Arc<AtomicBool>,
    handle: JoinHandle<ThreadResult>,
}

impl std::fmt::Debug for ThreadResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} jobs", self.jobs.len())
    }
}

impl ThreadTask {
    pub(super) fn ready(
        task: &ModelledTask,
        duration: Nanos,
        rounds_per_ms: f64,
    ) -> Result<Self, TaskError> {
        let (begin, begun) = channel();
        let (ready, is_ready) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let refused = |source| TaskError::Placement {
            task: task.name.clone(),
            service: task.service,
            cpu: task.cpu,
            source,
        };
        let handle = std::thread::Builder::new()
            .name(format!("task/{}", task.service))
            .spawn({
                let (task, stop) = (task.clone(), stop.clone());
                move || run(&task, duration, rounds_per_ms, &stop, &ready, &begun)
            })
            .map_err(refused)?;
        is_ready
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the thread ended at its start")))
            .map_err(refused)?;
        Ok(Self {
            task: task.clone(),
            begin,
            stop,
            handle,
        })
    }

    /// Sends the start signal: job 0 is due at `first`.
    pub(super) fn begin(&self, first: Nanos) {
        // A thread that has ended reported the reason during preparation.
        let _ = self.begin.send(first);
    }

    /// Ends the task after its current job, and counts.
    pub(super) fn end(self, first: Nanos) -> TaskCount {
        let now = clock::now();
        self.stop.store(true, Ordering::Relaxed);
        drop(self.begin);
        let done = self
            .handle
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut counted = count(&self.task, &done.jobs, first, now);
        let served = counted.jobs - counted.skipped;
        counted.cpu_per_job_ns = (served > 0).then(|| Nanos::from_ns(done.cpu.ns() / served));
        counted.page_faults = done.faults;
        counted
    }
}

fn run(
    task: &ModelledTask,
    duration: Nanos,
    rounds_per_ms: f64,
    stop: &AtomicBool,
    ready: &Sender<io::Result<()>>,
    begun: &Receiver<Nanos>,
) -> ThreadResult {
    let room = usize::try_from(jobs_in(task, duration)).unwrap_or_default();
    // Written to, not only allocated, so that no page is missing later.
    let mut jobs = vec![
        Job {
            start_ns: 1,
            end_ns: 1
        };
        room
    ];
    jobs.fill(Job::default());
    let policy = match task.service {
        Service::Fifo(priority) => Policy::Fifo(priority),
        _ => Policy::Other,
    };
    let placed = scheduling::pin(&CpuList::from_iter([task.cpu]))
        .and_then(|()| scheduling::refuse_timer_slack())
        .and_then(|()| scheduling::set(policy));
    let is_placed = placed.is_ok();
    // The receiver waits for exactly this message.
    let _ = ready.send(placed);
    let mut done = ThreadResult {
        jobs,
        cpu: Nanos::ZERO,
        faults: 0,
    };
    let Ok(first) = begun.recv() else {
        return done;
    };
    if !is_placed {
        return done;
    }
    let (cpu, faults) = (clock::own_cpu_time(), own_faults());
    let rounds = calibration::rounds_in(task.compute_ns, rounds_per_ms);
    serve(task, first, rounds, &mut done.jobs, stop);
    done.cpu = clock::own_cpu_time().saturating_sub(cpu);
    done.faults = own_faults() - faults;
    done
}

/// Serves every job in order, each when it is due.
fn serve(task: &ModelledTask, first: Nanos, rounds: u64, jobs: &mut [Job], stop: &AtomicBool) {
    let is_real_time = task.service != Service::Other;
    let mut awake_since = first;
    let mut index = 0_u64;
    while let Some(job) = usize::try_from(index)
        .ok()
        .and_then(|position| jobs.get_mut(position))
    {
        let due = due(task, first, index);
        if clock::now() < due {
            clock::sleep_until(due);
            awake_since = due;
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let start = clock::now();
        calibration::compute(rounds);
        let end = clock::now();
        *job = Job {
            start_ns: start.ns(),
            end_ns: end.ns(),
        };
        index += 1;
        if is_real_time && end.saturating_sub(awake_since) > MOST_AWAKE {
            let now_due = end.saturating_sub(first).ns() / task.period_ns.ns() + 1;
            index = index.max(now_due);
        }
    }
}

fn own_faults() -> u64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| {
        (usage.minor_page_faults() + usage.major_page_faults()).cast_unsigned()
    })
}
