//! The flight recorder: recent activity of each CPU, always recorded, and copied when a wakeup
//! was late.
//!
//! It is independent of any probe and has separate maps and programs.

mod outside;
pub(super) mod record;
mod ring;
mod stacks;
mod steal;
mod still;

use std::os::fd::AsFd;

use laggard_bpf::object::{LoadedObject, ObjectRefused};
use laggard_model::{
    Caveat, CaveatKind, Cpu, CpuList, Evidence, Nanos, ProgramCost, Sampler, Span,
};

use super::objects;
use super::possible_cpus;
use super::statistics::{cost_of, scaled};
use crate::board::BoardMaps;
use crate::flight::Flight;
pub use outside::OutsideCounters;
use record::{BackwardSearch, FlightRecord};
use ring::Rings;
use stacks::StackSampler;
pub use steal::StealClock;
use still::common_silences;

/// Maximum number of records in all rings together: 128 MiB.
const MAX_RECORDS: usize = 1 << 22;
/// Minimum and maximum number of a ring's records, as powers of two.
const MIN_MAX_RING_BITS: (u32, u32) = (10, 16);

/// Options of the flight recorder.
#[derive(Clone, Copy, Debug)]
pub struct FlightOptions {
    /// Stack samples per second, 1 to 10,000; `None` disables them.
    pub stacks_hz: Option<u32>,
}

impl Default for FlightOptions {
    fn default() -> Self {
        Self {
            stacks_hz: Some(1_000),
        }
    }
}

/// Reason why the flight recorder is missing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlightError {
    #[error(
        "cannot load the flight recorder: {0}; record without episodes, or run as root on a kernel with BTF"
    )]
    Refused(String),
    /// The rate of stack samples is out of range.
    #[error("stack samples per second must be 1 to 10000, not {0}")]
    Rate(u32),
}

/// Recorder of the activity of each CPU, in rings that are overwritten.
#[derive(Debug)]
pub struct FlightRecorder {
    loaded: LoadedObject,
    rings: Rings<FlightRecord>,
    stacks: Option<StackSampler>,
    steal: Option<StealClock>,
    outside: OutsideCounters,
    /// Whether the kernel shows which threads its fair server chose.
    sees_server: bool,
    cpus: CpuList,
}

impl FlightRecorder {
    /// Starts to record `cpus`. Each absent optional ability gives a warning. `board` is the
    /// probe's ([`crate::Probe::board`]). With it, call chains are taken only while one of its
    /// expiries is overdue, which costs less.
    ///
    /// # Errors
    ///
    /// Returns an error if the rate is out of range or the kernel refuses the programs.
    pub fn new(
        cpus: &CpuList,
        options: FlightOptions,
        board: Option<&BoardMaps>,
    ) -> Result<(Self, Vec<Caveat>), FlightError> {
        if let Some(rate) = options
            .stacks_hz
            .filter(|rate| !(1..=10_000).contains(rate))
        {
            return Err(FlightError::Rate(rate));
        }
        let refused = |refused: ObjectRefused| FlightError::Refused(refused.reason);
        let mut caveats = Vec::new();
        let bits = (MAX_RECORDS / cpus.len().max(1))
            .max(1)
            .ilog2()
            .clamp(MIN_MAX_RING_BITS.0, MIN_MAX_RING_BITS.1);
        let nr_heads = possible_cpus();
        let sizes = [("heads", nr_heads), ("records", cpus.len() << bits)];
        let mut absent = Vec::new();
        let mut loaded = objects::FLIGHT
            .load(&[], &sizes, |open| {
                absent = objects::leave_out_absent(open)?;
                objects::FLIGHT.set_input(open, "ring_bits", &bits.to_ne_bytes())
            })
            .map_err(refused)?;
        let rings = {
            let heads = loaded.map("heads").map_err(refused)?;
            let records = loaded.map("records").map_err(refused)?;
            Rings::new((heads.as_fd(), nr_heads), records.as_fd(), bits, cpus)
        }
        .map_err(|err| FlightError::Refused(format!("cannot map the rings: {err}")))?;
        loaded.attach().map_err(refused)?;
        if !absent.is_empty() {
            caveats.push(Caveat::new(
                CaveatKind::AbilityAbsent,
                format!("this kernel lacks the tracepoints {}", absent.join(", ")),
                "their activity is attributed to the surrounding activity",
            ));
        }
        let stacks = options
            .stacks_hz
            .and_then(|rate| start_stacks(cpus, rate, board, &mut caveats));
        // Without it the counter of `outside` is used.
        let steal = StealClock::new(cpus).ok();
        let outside = match &steal {
            Some(_) => OutsideCounters::without_steal(cpus),
            None => OutsideCounters::new(cpus),
        };
        let recorder = Self {
            loaded,
            rings,
            stacks,
            steal,
            outside,
            sees_server: objects::has_member("task_struct", "dl_server"),
            cpus: cpus.clone(),
        };
        Ok((recorder, caveats))
    }

    /// Returns spans without activity on any CPU that are longer than the sampling interval.
    fn still(&self, cpu: Cpu, evidence: &Evidence, stacks: &StackSampler) -> Vec<Span> {
        if self.cpus.len() < 2 || stacks.sampler == Sampler::Nmi {
            return Vec::new();
        }
        let mut signs: Vec<Nanos> = evidence.events.iter().map(|event| event.at_ns).collect();
        signs.extend(evidence.samples.iter().map(|sample| sample.at_ns));
        signs.sort_unstable();
        let least = stacks.period * 3;
        let alone = common_silences(&signs, &[], evidence.from_ns, least);
        let Some(first) = alone.first() else {
            return alone;
        };
        let others = self.cpus.as_slice().iter().filter(|other| **other != cpu);
        let others: Option<Vec<Vec<Nanos>>> = others
            .map(|other| self.signs_of_life(other.0, first.from_ns, evidence, stacks))
            .collect();
        match others {
            Some(others) => common_silences(&signs, &others, evidence.from_ns, least),
            None => Vec::new(),
        }
    }

    /// Returns the times of activity on a CPU from `from` to the end of the evidence, in order;
    /// `None` if they were already discarded.
    fn signs_of_life(
        &self,
        cpu: u32,
        from: Nanos,
        evidence: &Evidence,
        stacks: &StackSampler,
    ) -> Option<Vec<Nanos>> {
        let to = evidence.to_ns + stacks.period * 2;
        let events = self.rings.newest(cpu, to, |record| record.time() > from);
        let (samples, _) = stacks.samples(cpu, from, to);
        let mut signs: Vec<Nanos> = samples.iter().map(|sample| sample.at_ns).collect();
        signs.extend(events.records.iter().map(FlightRecord::time));
        signs.sort_unstable();
        (!events.overwritten).then_some(signs)
    }
}

impl Flight for FlightRecorder {
    fn poll(&mut self) {
        self.outside.read();
    }

    fn evidence(&self, cpu: Cpu, from: Nanos, to: Nanos) -> Evidence {
        let mut back = BackwardSearch::to(from);
        let mut read = self.rings.newest(cpu.0, to, |record| back.wants(record));
        read.records.sort_by_key(FlightRecord::time);
        let oldest = read.records.first().map(FlightRecord::time);
        record::forget_old(&mut read.records, from);
        record::give_newest_names(&mut read.records);
        let mut evidence = Evidence {
            from_ns: from,
            to_ns: to,
            overwritten: read.overwritten && oldest.is_none_or(|oldest| oldest > from),
            events: record::events(&read.records),
            throttles: record::throttles(&read.records),
            served: self.sees_server.then(|| record::served(&read.records)),
            stolen: self.outside.stolen(cpu, from, to),
            steals: self
                .steal
                .as_ref()
                .map(|clock| clock.steals(cpu.0, from, to)),
            smis: self.outside.smis(cpu, from, to),
            ..Evidence::default()
        };
        if let Some(stacks) = &self.stacks {
            let margin = stacks.period * 2;
            let (from, to) = (from.saturating_sub(margin), to + margin);
            let (samples, overwritten) = stacks.samples(cpu.0, from, to);
            evidence.samples = samples;
            evidence.overwritten |= overwritten;
            evidence.sampler = Some((stacks.sampler, stacks.period));
            evidence.still = self.still(cpu, &evidence, stacks);
        }
        evidence
    }

    fn unseen_switches(&self) -> u64 {
        self.rings.unseen()
    }

    /// Estimates the cost of each program: the cost per run, measured while the kernel timed the
    /// programs during the probe's warm-up, times the records since then.
    fn cost(&self) -> Vec<ProgramCost> {
        let stacks = self.stacks.as_ref().map(StackSampler::cost);
        let mut timed = cost_of(&self.loaded);
        let runs = timed.iter().map(|cost| cost.runs).sum();
        let since = self.rings.written().saturating_sub(runs);
        // The steal clock is read at the same events.
        timed.extend(self.steal.iter().flat_map(StealClock::cost));
        timed
            .iter()
            .map(|cost| scaled(cost, since, runs))
            .chain(stacks.into_iter().flatten())
            .map(ProgramCost::of_flight_recorder)
            .collect()
    }
}

/// Checks whether steal time is available to the nanosecond.
pub fn try_steal_clock() -> Result<(), ObjectRefused> {
    StealClock::new(&super::online_cpus()).map(|_| ())
}

fn start_stacks(
    cpus: &CpuList,
    rate: u32,
    board: Option<&BoardMaps>,
    caveats: &mut Vec<Caveat>,
) -> Option<StackSampler> {
    match StackSampler::new(cpus, rate, board) {
        Ok(stacks) => {
            if stacks.sampler == Sampler::CpuClock {
                let (reason, advice) = if super::perf::counters_are_nmi() {
                    (
                        "no performance counters",
                        "on a virtual machine, pass the counters through",
                    )
                } else {
                    (
                        "performance counters do not interrupt such code",
                        crate::host::NMI_REMEDY,
                    )
                };
                caveats.push(Caveat::new(
                    CaveatKind::NoPmu,
                    format!(
                        "code that disables interrupts is sampled only when it enables them again: {reason}"
                    ),
                    advice,
                ));
            }
            Some(stacks)
        }
        Err(refused) => {
            caveats.push(Caveat::new(
                CaveatKind::AbilityAbsent,
                format!("there are no stack samples: {}", refused.reason),
                "run as root on a kernel with perf events",
            ));
            None
        }
    }
}
