//! Stack samples: the code that each CPU executes, at a steady rate.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

use laggard_bpf::object::{LoadedObject, ObjectRefused};
use laggard_model::{CpuList, Nanos, ProgramCost, Sampler, StackSample};
use libbpf_rs::Link;

use super::super::statistics::{cost_of, scaled};
use super::super::{objects, perf, possible_cpus};
use super::record::{self, Sample};
use super::ring::Rings;
use crate::board::BoardMaps;

/// Minimum time that a ring holds: longer than the collector's absence.
const MIN_RING_TIME: Nanos = Nanos::from_secs(1);

/// Running sampler.
#[derive(Debug)]
pub(super) struct StackSampler {
    rings: Rings<Sample>,
    loaded: LoadedObject,
    pub(super) sampler: Sampler,
    pub(super) period: Nanos,
    /// Each link owns its event.
    _links: Vec<Link>,
}

impl StackSampler {
    /// Starts to sample `cpus`, by NMI if the machine supports it. With a `board`, whole call
    /// chains are taken only while an expiry on the board is overdue; other samples have only
    /// their innermost frame.
    pub(super) fn new(
        cpus: &CpuList,
        frequency_hz: u32,
        board: Option<&BoardMaps>,
    ) -> Result<Self, ObjectRefused> {
        let period = Nanos::from_ns(1_000_000_000 / u64::from(frequency_hz.max(1)));
        let bits = (MIN_RING_TIME.ns() / period.ns().max(1))
            .next_power_of_two()
            .ilog2();
        let nr_heads = possible_cpus();
        let sizes = [("heads", nr_heads), ("samples", cpus.len() << bits)];
        let shared: Vec<(&str, BorrowedFd<'_>)> = board
            .iter()
            .flat_map(|board| [("cpus", board.cpus.as_fd()), ("slots", board.slots.as_fd())])
            .collect();
        let loaded = objects::STACKS.load(&shared, &sizes, |open| {
            let always_walk = u32::from(board.is_none());
            objects::STACKS.set_input(open, "ring_bits", &bits.to_ne_bytes())?;
            objects::STACKS.set_input(open, "always_walk", &always_walk.to_ne_bytes())
        })?;
        let rings = {
            let (heads, samples) = (loaded.map("heads")?, loaded.map("samples")?);
            Rings::new((heads.as_fd(), nr_heads), samples.as_fd(), bits, cpus)
        }
        .map_err(|err| ObjectRefused::because(format!("cannot map the samples: {err}")))?;
        let (sampler, events) = open_events(cpus, frequency_hz)?;
        let mut links = Vec::new();
        for event in events {
            let program = loaded
                .object
                .progs_mut()
                .next()
                .ok_or_else(|| ObjectRefused::because("the object has no program"))?;
            let link = program
                .attach_perf_event(event.as_raw_fd())
                .map_err(|err| ObjectRefused::because(err.to_string()))?;
            // The link closes it.
            let _ = event.into_raw_fd();
            links.push(link);
        }
        Ok(Self {
            rings,
            loaded,
            sampler,
            period,
            _links: links,
        })
    }

    /// Returns the samples of a CPU from `from`, and whether earlier samples of the window were
    /// overwritten.
    pub(super) fn samples(&self, cpu: u32, from: Nanos, to: Nanos) -> (Vec<StackSample>, bool) {
        let read = self
            .rings
            .newest(cpu, to, |sample| sample.time_ns >= from.ns());
        let samples = read.records.iter().map(record::sample).collect();
        (samples, read.overwritten)
    }

    /// Estimates the cost from the samples since programs were timed.
    pub(super) fn cost(&self) -> Vec<ProgramCost> {
        let timed = cost_of(&self.loaded);
        let runs = timed.iter().map(|cost| cost.runs).sum();
        let since = self.rings.written().saturating_sub(runs);
        timed.iter().map(|cost| scaled(cost, since, runs)).collect()
    }
}

/// Opens an event on each CPU: performance counters if all CPUs have them, otherwise clocks.
fn open_events(
    cpus: &CpuList,
    frequency_hz: u32,
) -> Result<(Sampler, Vec<OwnedFd>), ObjectRefused> {
    let mut reason = String::new();
    for &sampler in perf::samplers() {
        let events: std::io::Result<Vec<OwnedFd>> = cpus
            .as_slice()
            .iter()
            .map(|&cpu| perf::open_sampler(sampler, cpu, Some(frequency_hz)))
            .collect();
        match events {
            Ok(events) => return Ok((sampler, events)),
            Err(err) => reason = format!("cannot open a sampling event: {err}"),
        }
    }
    Err(ObjectRefused::because(reason))
}
