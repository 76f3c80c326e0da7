//! The BPF objects of the faults, and what is passed to and fro.

use std::io;

use laggard_bpf::object;
use laggard_model::{Cpu, Nanos};
use libbpf_rs::{MapCore, MapFlags};

laggard_bpf::sources! {
    SOFTIRQ = "softirq";
    SOFT_TIMER = "soft_timer";
    IRQ = "irq";
    IRQS_OFF = "irqs_off";
}

/// An object in the kernel, attached.
#[derive(Debug)]
pub(super) struct Loaded(object::Loaded);

/// The only key of a map with one entry.
const FIRST: [u8; 4] = [0; 4];

/// `struct fault` of `fault.h`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Fault {
    mark_ns: u64,
    length_ns: u64,
    start_ns: u64,
    end_ns: u64,
    cpu: u32,
}

impl Fault {
    const BYTES: usize = 40;

    /// A hit of this length, brought by the timer that expires at `mark`.
    pub(super) fn due(mark: Nanos, length: Nanos) -> Self {
        Self {
            mark_ns: mark.ns(),
            length_ns: length.ns(),
            ..Self::default()
        }
    }

    /// When it began, how long it was, and where; `None` until it is over.
    pub(super) fn outcome(self) -> Option<(Nanos, Nanos, Cpu)> {
        let start = Nanos::from_ns(self.start_ns);
        let length = Nanos::between(start, Nanos::from_ns(self.end_ns))?;
        (self.end_ns > 0).then_some((start, length, Cpu(self.cpu)))
    }

    fn to_bytes(self) -> Vec<u8> {
        let times = [self.mark_ns, self.length_ns, self.start_ns, self.end_ns];
        let mut bytes: Vec<u8> = times.into_iter().flat_map(u64::to_ne_bytes).collect();
        bytes.extend(self.cpu.to_ne_bytes());
        bytes.resize(Self::BYTES, 0);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let time = |index: usize| {
            let bytes = bytes.get(index * 8..index * 8 + 8)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        Some(Self {
            mark_ns: time(0)?,
            length_ns: time(1)?,
            start_ns: time(2)?,
            end_ns: time(3)?,
            cpu: u32::from_ne_bytes(bytes.get(32..36)?.try_into().ok()?),
        })
    }
}

impl Loaded {
    /// Loads an object, and attaches every program that a tracepoint calls.
    pub(super) fn new(source: object::Source) -> io::Result<Self> {
        let mut loaded = source
            .load(&[], &[], |_| Ok(()))
            .map_err(io::Error::other)?;
        loaded.attach().map_err(io::Error::other)?;
        Ok(Self(loaded))
    }

    /// Tells the kernel what hit is due.
    pub(super) fn set(&self, fault: Fault) -> io::Result<()> {
        let faults = self.0.map("faults").map_err(io::Error::other)?;
        faults
            .update(&FIRST, &fault.to_bytes(), MapFlags::ANY)
            .map_err(io::Error::other)
    }

    /// What the kernel has written down so far.
    pub(super) fn fault(&self) -> io::Result<Fault> {
        let faults = self.0.map("faults").map_err(io::Error::other)?;
        let bytes = faults
            .lookup(&FIRST, MapFlags::ANY)
            .map_err(io::Error::other)?;
        bytes
            .as_deref()
            .and_then(Fault::from_bytes)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Runs a program of section `syscall`, on this CPU.
    pub(super) fn call(&self, name: &str) -> io::Result<()> {
        self.0.call(name, &mut []).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_an_outcome_only_when_it_is_over() {
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

    #[test]
    fn a_fault_is_read_back_from_its_bytes() {
        let fault = Fault {
            mark_ns: 1,
            length_ns: 2,
            start_ns: 3,
            end_ns: 4,
            cpu: 5,
        };

        assert_eq!(Fault::from_bytes(&fault.to_bytes()), Some(fault));
        assert_eq!(Fault::from_bytes(&[0; 8]), None);
    }
}
