//! BPF objects of the faults, and the data that they exchange with the program.

use std::io;

use laggard_bpf::object;
use laggard_model::{Cpu, Nanos};

laggard_bpf::sources! {
    SOFTIRQ = "softirq";
    SOFT_TIMER = "soft_timer";
    IRQ = "irq";
    IRQS_OFF = "irqs_off";
}

/// Loaded and attached object.
#[derive(Debug)]
pub(super) struct LoadedFault(object::LoadedObject);

#[allow(
    dead_code,
    unreachable_pub,
    reason = "generated; the programs use some fields alone"
)]
mod shared {
    include!(concat!(env!("OUT_DIR"), "/fault.rs"));
}

pub(super) use shared::Fault;

/// Only key of a map with one entry.
const FIRST: u32 = 0;

impl Fault {
    /// Creates a hit of this length, caused by the timer that expires at `mark`.
    pub(super) fn due(mark: Nanos, length: Nanos) -> Self {
        Self {
            mark_ns: mark.ns(),
            length_ns: length.ns(),
            ..Self::default()
        }
    }

    /// Returns start, length and CPU of the hit; `None` until it is over.
    pub(super) fn outcome(self) -> Option<(Nanos, Nanos, Cpu)> {
        let start = Nanos::from_ns(self.start_ns);
        let length = Nanos::between(start, Nanos::from_ns(self.end_ns))?;
        (self.end_ns > 0).then_some((start, length, Cpu(self.cpu)))
    }
}

impl LoadedFault {
    /// Loads an object and attaches every program of a tracepoint.
    pub(super) fn new(source: object::ObjectFile) -> io::Result<Self> {
        let mut loaded = source
            .load(&[], &[], |_| Ok(()))
            .map_err(io::Error::other)?;
        loaded.attach().map_err(io::Error::other)?;
        Ok(Self(loaded))
    }

    /// Passes the next hit to the kernel.
    pub(super) fn set(&self, fault: Fault) -> io::Result<()> {
        let set = self.0.set_value("faults", FIRST, &fault);
        set.map_err(io::Error::other)
    }

    /// Reads the data of the hit from the kernel.
    pub(super) fn fault(&self) -> io::Result<Fault> {
        self.0.value("faults", FIRST).map_err(io::Error::other)
    }

    /// Runs a program of section `syscall` on this CPU.
    pub(super) fn call(&self, name: &str) -> io::Result<()> {
        self.0.call(name, &mut []).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_has_an_outcome_only_when_it_is_over() {
        let due = Fault::due(Nanos::from_ms(1), Nanos::from_us(5));
        let begun = Fault {
            start_ns: 70,
            cpu: 3,
            ..due
        };
        let over = Fault {
            end_ns: 90,
            ..begun
        };

        assert_eq!(due.outcome(), None);
        assert_eq!(begun.outcome(), None);
        assert_eq!(
            over.outcome(),
            Some((Nanos::from_ns(70), Nanos::from_ns(20), Cpu(3)))
        );
    }
}
