//! Windows does not have BPF programs that observe interruptions between threads.

use std::sync::Arc;

use laggard_model::{Absence, Cpu, Nanos, SwitchSums};

use crate::system::only_linux;

/// Observer that does not exist on this system.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) seen: Arc<WatchMemory>,
}

#[derive(Debug)]
pub(super) enum WatchMemory {}

/// Time, and the interruptions so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WatchReading {
    pub(super) at: Nanos,
    pub(super) taken_ns: u64,
    pub(super) stolen_ns: u64,
}

impl Watch {
    pub(super) fn load(_: Cpu, _: &str) -> Result<Self, Absence> {
        Err(only_linux("tracing of interruptions"))
    }

    pub(super) fn attach(&mut self) -> Result<(), Absence> {
        match *self.seen {}
    }
}

impl WatchMemory {
    pub(super) const fn read(&self) -> (Nanos, WatchReading) {
        match *self {}
    }

    pub(super) const fn sums(&self) -> SwitchSums {
        match *self {}
    }
}
