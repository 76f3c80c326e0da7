//! BPF objects of tasks, and the data that they exchange with the program.

use std::io;

use laggard_bpf::object::{self, ObjectFile};

use crate::task::jobs::Job;

laggard_bpf::sources! {
    SOFTIRQ = "task_softirq";
    WORKER = "task_worker";
    WORKER_IMPLICIT = "task_worker_implicit";
}

#[derive(Debug)]
pub(super) struct LoadedTask(object::LoadedObject);

#[allow(
    dead_code,
    unreachable_pub,
    reason = "generated; the programs use some fields alone"
)]
mod shared {
    include!(concat!(env!("OUT_DIR"), "/task.rs"));
}

pub(super) use shared::Plan;

/// Only key of a map with one entry.
const FIRST: u32 = 0;

impl LoadedTask {
    /// Loads an object with room for this number of jobs.
    pub(super) fn new(source: ObjectFile, jobs: usize) -> io::Result<Self> {
        source
            .load(&[], &[("jobs", jobs)], |_| Ok(()))
            .map(Self)
            .map_err(io::Error::other)
    }

    /// Runs a program of section `syscall` on this CPU.
    pub(super) fn call(&self, name: &str) -> io::Result<()> {
        self.0.call(name, &mut []).map_err(io::Error::other)
    }

    /// Passes the plan to the kernel.
    pub(super) fn set_plan(&self, plan: &Plan) -> io::Result<()> {
        let set = self.0.set_value("plans", FIRST, plan);
        set.map_err(io::Error::other)
    }

    /// Reads the progress from the kernel.
    pub(super) fn plan(&self) -> io::Result<Plan> {
        self.0.value("plans", FIRST).map_err(io::Error::other)
    }

    /// Makes the kernel stop.
    pub(super) fn stop(&self) -> io::Result<()> {
        let plan = self.plan()?;
        self.set_plan(&Plan { stop: 1, ..plan })
    }

    /// Reads the records of the first `count` jobs.
    pub(super) fn jobs(&self, count: u64) -> io::Result<Vec<Job>> {
        (0..count)
            .map(|index| {
                let key = u32::try_from(index).map_err(io::Error::other)?;
                let job: shared::Job = self.0.value("jobs", key).map_err(io::Error::other)?;
                Ok(Job {
                    start_ns: job.start_ns,
                    end_ns: job.end_ns,
                })
            })
            .collect()
    }
}
