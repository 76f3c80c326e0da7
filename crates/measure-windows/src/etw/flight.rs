//! Evidence of late wakeups from kernel events, and names.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use laggard_model::{
    Activity, Address, Cpu, Evidence, HandlerCounts, Happening, Nanos, ProgramCost, Symbols,
};

use laggard_measure::flight::{Flight, KernelRecord};

/// Maximum number of named addresses. Their number is also bounded by the number of episodes.
const MAX_ADDRESSES: usize = 200_000;

/// Flight recorder of Windows: recent kernel events.
#[derive(Debug)]
pub struct EventFlight(Arc<dyn KernelRecord>);

impl EventFlight {
    /// Creates the recorder for the events of a probe.
    pub const fn new(record: Arc<dyn KernelRecord>) -> Self {
        Self(record)
    }
}

impl Flight for EventFlight {
    /// The probe manages the session.
    fn poll(&mut self) {}

    fn evidence(&self, cpu: Cpu, from: Nanos, to: Nanos) -> Evidence {
        self.0.evidence(cpu, from, to)
    }

    fn unseen_switches(&self) -> u64 {
        self.0.unseen_switches()
    }

    /// The kernel records the events without a program.
    fn cost(&self) -> Vec<ProgramCost> {
        Vec::new()
    }
}

/// Addresses of a run.
#[derive(Debug)]
pub struct ImageBook {
    record: Arc<dyn KernelRecord>,
    kernel: BTreeSet<Address>,
}

impl ImageBook {
    /// Creates the book for the events of a probe.
    pub const fn new(record: Arc<dyn KernelRecord>) -> Self {
        Self {
            record,
            kernel: BTreeSet::new(),
        }
    }

    /// Records every kernel address of an episode.
    pub fn note(&mut self, evidence: &Evidence) {
        for event in &evidence.events {
            if let Happening::Begin(Activity::Isr(routine) | Activity::Dpc(routine)) = event.what {
                self.note_kernel(routine);
            }
        }
        for sample in &evidence.samples {
            sample
                .kernel
                .iter()
                .for_each(|&address| self.note_kernel(address));
        }
    }

    /// Handlers are not counted on Windows.
    pub const fn note_handlers(&mut self, _: &HandlerCounts) {}

    fn note_kernel(&mut self, address: Address) {
        if self.kernel.len() < MAX_ADDRESSES {
            self.kernel.insert(address);
        }
    }

    /// Returns the driver at each address, and laggard's threads. Code of processes is not named.
    /// It never blocks, so it ignores the interruption.
    pub fn resolve(&self, _interrupted: &AtomicBool) -> Symbols {
        let kernel = self.kernel.iter();
        Symbols {
            kernel: kernel
                .map(|&address| (address, self.record.symbol(address)))
                .collect(),
            own_threads: self.record.own_threads(),
            ..Symbols::default()
        }
    }
}
