//! The flight recorder: what each CPU did in the last moments, kept always,
//! copied out when something was late.
//!
//! Independent of any probe: it has maps and programs of its own.

mod outside;
mod perf;
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
pub use outside::Outside;
use record::{FlightRecord, GoingBack};
use ring::Rings;
use stacks::StackSampler;
pub use steal::StealClock;
use still::common_silences;

/// How many records all rings together may have: 128 MiB.
const ALL_RECORDS: usize = 1 << 22;
/// Bounds on a ring's records, as powers of two.
const RING_BITS: (u32, u32) = (10, 16);

/// How the flight recorder works.
#[derive(Clone, Copy, Debug)]
pub struct FlightOptions {
    /// Stack samples a second, 1 to 10,000; `None`: none.
    pub stacks_hz: Option<u32>,
}

impl Default for FlightOptions {
    fn default() -> Self {
        Self {
            stacks_hz: Some(1_000),
        }
    }
}

/// Why there is no flight recorder.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlightError {
    /// The kernel refused the programs.
    #[error(
        "the flight recorder cannot be loaded: {0}; record without episodes, or run as root on a kernel with BTF"
    )]
    Refused(String),
    /// The rate of stack samples is out of range.
    #[error("{0} stack samples a second are out of range; use 1 to 10000")]
    Rate(u32),
}

/// Records what each CPU does, in rings that are overwritten.
#[derive(Debug)]
pub struct FlightRecorder {
    loaded: LoadedObject,
    rings: Rings<FlightRecord>,
    stacks: Option<StackSampler>,
    steal: Option<StealClock>,
    outside: Outside,
    /// Whether the kernel shows which threads its fair server chose.
    sees_server: bool,
    cpus: CpuList,
}

impl FlightRecorder {
    /// Records `cpus` from now on. What an optional ability lacks is a caveat.
    /// `board` is the probe's ([`crate::Probe::board`]): with it, call chains
    /// are taken only while one of its expiries is overdue, which costs less.
    ///
    /// # Errors
    /// When the rate is out of range or the kernel refuses the programs.
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
        let bits = (ALL_RECORDS / cpus.len().max(1))
            .max(1)
            .ilog2()
            .clamp(RING_BITS.0, RING_BITS.1);
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
                format!("this kernel has no tracepoints {}", absent.join(", ")),
                "what they would show is counted to what went on around it",
            ));
        }
        let stacks = options
            .stacks_hz
            .and_then(|rate| start_stacks(cpus, rate, board, &mut caveats));
        let recorder = Self {
            loaded,
            rings,
            stacks,
            // Without it, what `outside` reads has to do, and on a machine
            // without a hypervisor there is nothing to read.
            steal: StealClock::new(cpus).ok(),
            outside: Outside::new(cpus),
            sees_server: objects::has_member("task_struct", "dl_server"),
            cpus: cpus.clone(),
        };
        Ok((recorder, caveats))
    }

    /// Spans in which this CPU was silent, longer than the sampler ever is,
    /// and every other one too.
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

    /// When a CPU did anything from `from` to the end of the evidence, in order; `None`:
    /// not known any more.
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
        let mut back = GoingBack::to(from);
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

    /// What each program has cost since the kernel timed them, while the probe
    /// warmed up: by what a run cost then, and by the records since.
    fn cost(&self) -> Vec<ProgramCost> {
        let stacks = self.stacks.as_ref().map(StackSampler::cost);
        let mut timed = cost_of(&self.loaded);
        let runs = timed.iter().map(|one| one.runs).sum();
        let since = self.rings.written().saturating_sub(runs);
        // The steal clock is read in the same activities.
        timed.extend(self.steal.iter().flat_map(StealClock::cost));
        timed
            .iter()
            .map(|one| scaled(one, since, runs))
            .chain(stacks.into_iter().flatten())
            .map(ProgramCost::of_flight_recorder)
            .collect()
    }
}

/// Whether time that the hypervisor takes can be told to the nanosecond.
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
                caveats.push(Caveat::new(
                    CaveatKind::NoPmu,
                    "no performance counters, so code with interrupts disabled is sampled only when it enables them",
                    "pass the counters through to the virtual machine, if this is one",
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
