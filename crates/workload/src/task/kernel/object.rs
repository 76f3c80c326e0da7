//! The BPF objects of tasks, and what passes between them and us.

use std::io;

use laggard_bpf::object::{self, Source};
use libbpf_rs::{MapCore, MapFlags};

use crate::task::jobs::Job;

laggard_bpf::sources! {
    SOFTIRQ = "task_softirq";
    WORKER = "task_worker";
    WORKER_IMPLICIT = "task_worker_implicit";
}

/// An object in the kernel.
#[derive(Debug)]
pub(super) struct Loaded(object::Loaded);

/// The only key of a map with one entry.
const FIRST: [u8; 4] = [0; 4];

/// `struct plan` of `task.h`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Plan {
    pub(super) first_ns: u64,
    pub(super) period_ns: u64,
    pub(super) jobs: u64,
    pub(super) most_lag_ns: u64,
    pub(super) next: u64,
    pub(super) rounds: u64,
    pub(super) sum: u64,
    pub(super) trial_ns: u64,
    pub(super) stop: u32,
}

impl Plan {
    const BYTES: usize = 72;

    fn to_bytes(self) -> Vec<u8> {
        let words = [
            self.first_ns,
            self.period_ns,
            self.jobs,
            self.most_lag_ns,
            self.next,
            self.rounds,
            self.sum,
            self.trial_ns,
        ];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        bytes.extend(self.stop.to_ne_bytes());
        bytes.resize(Self::BYTES, 0);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |index| word(bytes, index);
        Some(Self {
            first_ns: word(0)?,
            period_ns: word(1)?,
            jobs: word(2)?,
            most_lag_ns: word(3)?,
            next: word(4)?,
            rounds: word(5)?,
            sum: word(6)?,
            trial_ns: word(7)?,
            stop: u32::from_ne_bytes(bytes.get(64..68)?.try_into().ok()?),
        })
    }
}

fn word(bytes: &[u8], index: usize) -> Option<u64> {
    let bytes = bytes.get(index * 8..index * 8 + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

impl Loaded {
    /// Loads an object, with room for so many jobs.
    pub(super) fn new(source: Source, jobs: usize) -> io::Result<Self> {
        source
            .load(&[], &[("jobs", jobs)], |_| Ok(()))
            .map(Self)
            .map_err(io::Error::other)
    }

    /// Runs a program of section `syscall`, on this CPU.
    pub(super) fn call(&self, name: &str) -> io::Result<()> {
        self.0.call(name, &mut []).map_err(io::Error::other)
    }

    fn map(&self, name: &str) -> io::Result<libbpf_rs::Map<'_>> {
        self.0.map(name).map_err(io::Error::other)
    }

    /// Tells the kernel what is to be done.
    pub(super) fn set_plan(&self, plan: &Plan) -> io::Result<()> {
        self.map("plans")?
            .update(&FIRST, &plan.to_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)
    }

    /// How far the kernel is.
    pub(super) fn plan(&self) -> io::Result<Plan> {
        let bytes = self
            .map("plans")?
            .lookup(&FIRST, MapFlags::ANY)
            .map_err(io::Error::other)?;
        bytes
            .as_deref()
            .and_then(Plan::from_bytes)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Tells the kernel to do no more.
    pub(super) fn stop(&self) -> io::Result<()> {
        let plan = self.plan()?;
        self.set_plan(&Plan { stop: 1, ..plan })
    }

    /// What was written down of the first `count` jobs.
    pub(super) fn jobs(&self, count: u64) -> io::Result<Vec<Job>> {
        let map = self.map("jobs")?;
        (0..count)
            .map(|index| {
                let key = u32::try_from(index).map_err(io::Error::other)?;
                let bytes = map
                    .lookup(&key.to_ne_bytes(), MapFlags::ANY)
                    .map_err(io::Error::other)?;
                let job = bytes.as_deref().and_then(|bytes| {
                    Some(Job {
                        start_ns: word(bytes, 0)?,
                        end_ns: word(bytes, 1)?,
                    })
                });
                job.ok_or_else(|| io::ErrorKind::InvalidData.into())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_back_from_its_bytes() {
        let plan = Plan {
            first_ns: 1,
            period_ns: 2,
            jobs: 3,
            most_lag_ns: 4,
            next: 5,
            rounds: 6,
            sum: 7,
            trial_ns: 8,
            stop: 9,
        };

        assert_eq!(plan.to_bytes().len(), Plan::BYTES);
        assert_eq!(Plan::from_bytes(&plan.to_bytes()), Some(plan));
        assert_eq!(Plan::from_bytes(&[0; 8]), None);
    }
}
