//! Steal time, read when the scheduler reads it; `bpf/steal.bpf.c`.

use std::os::fd::AsFd;

use laggard_bpf::object::{LoadedObject, ObjectRefused};
use laggard_model::{CpuList, Nanos, ProgramCost, Steal};

use super::super::statistics::{cost_of, scaled};
use super::super::{objects, possible_cpus};
use super::record::FlightRecord;
use super::ring::Rings;

/// Number of readings per CPU that are kept, as a power of two: at most about one per
/// millisecond.
const RING_BITS: u32 = 10;
/// Maximum delay of a reading: the next tick, of 100 Hz.
const MAX_READING_DELAY: Nanos = Nanos::from_ms(10);

/// Recorder of the readings of the hypervisor's steal clock.
#[derive(Debug)]
pub struct StealClock {
    rings: Rings<FlightRecord>,
    loaded: LoadedObject,
}

impl StealClock {
    /// Starts to read for `cpus`.
    pub fn new(cpus: &CpuList) -> Result<Self, ObjectRefused> {
        let nr_heads = possible_cpus();
        let sizes = [("heads", nr_heads), ("records", cpus.len() << RING_BITS)];
        let mut loaded = objects::STEAL.load(&[], &sizes, |open| {
            objects::STEAL.set_input(open, "ring_bits", &RING_BITS.to_ne_bytes())
        })?;
        let rings = {
            let (heads, records) = (loaded.map("heads")?, loaded.map("records")?);
            Rings::new((heads.as_fd(), nr_heads), records.as_fd(), RING_BITS, cpus)
        }
        .map_err(|err| ObjectRefused::because(format!("cannot map the readings: {err}")))?;
        loaded.attach()?;
        Ok(Self { rings, loaded })
    }

    /// Returns the steal time of `cpu` in the window, per reading.
    pub fn steals(&self, cpu: u32, from: Nanos, to: Nanos) -> Vec<Steal> {
        let mut has_first = false;
        // Includes one reading before the window, because the clock is cumulative.
        let read = self.rings.newest(cpu, to + MAX_READING_DELAY, |record| {
            let wanted = !has_first;
            has_first |= record.time() < from;
            wanted
        });
        let readings = read.records.iter();
        let mut readings: Vec<(Nanos, u64)> = readings
            .map(|record| (record.time(), record.what[0]))
            .collect();
        readings.sort_unstable();
        readings
            .windows(2)
            .filter(|two| two[1].0 >= from)
            .map(|two| Steal {
                since_ns: two[0].0,
                at_ns: two[1].0,
                time_ns: Nanos::from_ns(two[1].1.saturating_sub(two[0].1)),
            })
            .filter(|steal| steal.time_ns > Nanos::ZERO)
            .collect()
    }

    /// Estimates the cost from the readings since programs were timed.
    pub(super) fn cost(&self) -> Vec<ProgramCost> {
        let timed = cost_of(&self.loaded);
        let runs = timed.iter().map(|cost| cost.runs).sum();
        let since = self.rings.written().saturating_sub(runs);
        timed.iter().map(|cost| scaled(cost, since, runs)).collect()
    }
}
