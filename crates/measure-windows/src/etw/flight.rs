//! What the kernel's events say of a late activation afterwards, and by which names.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use laggard_model::{
    Activity, Address, Cpu, Evidence, HandlerCounts, Happening, Nanos, ProgramCost, Symbols,
};

use laggard_measure::flight::{Flight, KernelRecord};

/// More addresses than this are not named; the count of those is bounded by the episodes,
/// which are.
const MOST: usize = 200_000;

/// The flight recorder of Windows: what its kernel told in the last moments.
#[derive(Debug)]
pub struct EventFlight(Arc<dyn KernelRecord>);

impl EventFlight {
    /// Of the events of a probe.
    pub const fn new(record: Arc<dyn KernelRecord>) -> Self {
        Self(record)
    }
}

impl Flight for EventFlight {
    /// The probe looks after the session.
    fn poll(&mut self) {}

    fn evidence(&self, cpu: Cpu, from: Nanos, to: Nanos) -> Evidence {
        self.0.evidence(cpu, from, to)
    }

    fn unseen_switches(&self) -> u64 {
        self.0.unseen_switches()
    }

    /// The kernel does it, and tells of no program.
    fn cost(&self) -> Vec<ProgramCost> {
        Vec::new()
    }
}

/// The addresses of a run.
#[derive(Debug)]
pub struct ImageBook {
    record: Arc<dyn KernelRecord>,
    kernel: BTreeSet<Address>,
}

impl ImageBook {
    /// Of the events of a probe.
    pub const fn new(record: Arc<dyn KernelRecord>) -> Self {
        Self {
            record,
            kernel: BTreeSet::new(),
        }
    }

    /// Notes every address of the kernel in an episode.
    pub fn note(&mut self, evidence: &Evidence) {
        for event in &evidence.events {
            if let Happening::Begin(Activity::Isr(routine) | Activity::Dpc(routine)) = event.what {
                self.note_kernel(routine);
            }
        }
        for sample in &evidence.samples {
            sample.kernel.iter().for_each(|&at| self.note_kernel(at));
        }
    }

    /// None are counted here.
    pub const fn note_handlers(&mut self, _: &HandlerCounts) {}

    fn note_kernel(&mut self, address: Address) {
        if self.kernel.len() < MOST {
            self.kernel.insert(address);
        }
    }

    /// The driver at each address, and the threads that are ours. Code of processes stays
    /// unnamed. Nothing of it waits, so that it need not be interrupted.
    pub fn resolve(&self, _interrupted: &AtomicBool) -> Symbols {
        let kernel = self.kernel.iter();
        Symbols {
            kernel: kernel.map(|&at| (at, self.record.symbol(at))).collect(),
            own_threads: self.record.own_threads(),
            ..Symbols::default()
        }
    }
}
