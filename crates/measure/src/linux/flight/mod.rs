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

use laggard_bpf::object::{LoadedObject, ObjectFile, ObjectRefused};
use laggard_model::{
    Caveat, CaveatKind, Cpu, CpuList, Evidence, Nanos, ProgramCost, Sampler, Span,
};

use libbpf_rs::OpenObject;

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

impl FlightOptions {
    fn check(self) -> Result<(), FlightError> {
        match self.stacks_hz {
            Some(rate) if !(1..=10_000).contains(&rate) => Err(FlightError::Rate(rate)),
            _ => Ok(()),
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

/// Records of an object whose programs record the activity of each CPU.
#[derive(Debug)]
pub struct FlightRings {
    rings: Rings<FlightRecord>,
    cpus: CpuList,
    /// Tracepoints of the flight recorder that the kernel lacks.
    absent: Vec<String>,
}

impl FlightRings {
    /// Log2 of the records of a CPU.
    fn bits(cpus: &CpuList) -> u32 {
        (MAX_RECORDS / cpus.len().max(1))
            .max(1)
            .ilog2()
            .clamp(MIN_MAX_RING_BITS.0, MIN_MAX_RING_BITS.1)
    }

    /// Returns the sizes of the maps.
    pub(super) fn sizes(cpus: &CpuList) -> [(&'static str, usize); 2] {
        let records = cpus.len() << Self::bits(cpus);
        [("heads", possible_cpus()), ("records", records)]
    }

    /// Sets the size of the rings in the programs.
    pub(super) fn set_size(
        object: ObjectFile,
        open: &mut OpenObject,
        cpus: &CpuList,
    ) -> libbpf_rs::Result<()> {
        object.set_input(open, "ring_bits", &Self::bits(cpus).to_ne_bytes())
    }

    /// Maps the rings and opens them. `absent` are the tracepoints of the object that the kernel
    /// lacks.
    pub(super) fn open(
        loaded: &LoadedObject,
        cpus: &CpuList,
        absent: &[String],
    ) -> Result<Self, ObjectRefused> {
        let (heads, records) = (loaded.map("heads")?, loaded.map("records")?);
        let heads = (heads.as_fd(), possible_cpus());
        let rings = Rings::new(heads, records.as_fd(), Self::bits(cpus), cpus)
            .map_err(|err| ObjectRefused::because(format!("cannot map the rings: {err}")))?;
        let recorded = objects::FLIGHT.tracepoints()?;
        let absent = absent.iter().filter(|absent| recorded.contains(*absent));
        Ok(Self {
            rings,
            cpus: cpus.clone(),
            absent: absent.cloned().collect(),
        })
    }
}

/// Recorder of the activity of each CPU, in rings that are overwritten.
#[derive(Debug)]
pub struct FlightRecorder {
    /// `None` if other programs record.
    loaded: Option<LoadedObject>,
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
        options.check()?;
        let refused = |refused: ObjectRefused| FlightError::Refused(refused.reason);
        let mut absent = Vec::new();
        let sizes = FlightRings::sizes(cpus);
        let mut loaded = objects::FLIGHT
            .load(&[], &sizes, |open| {
                absent = objects::leave_out_absent(open)?;
                FlightRings::set_size(objects::FLIGHT, open, cpus)
            })
            .map_err(refused)?;
        let rings = FlightRings::open(&loaded, cpus, &absent).map_err(refused)?;
        loaded.attach().map_err(refused)?;
        Ok(Self::over(rings, Some(loaded), options, board))
    }

    /// Starts to record with other programs, which keep `rings`: those of
    /// [`super::AttachProbe::take_flight`] or [`crate::Probe::join_flight`]. Each absent optional
    /// ability gives a warning. For `board` see [`FlightRecorder::new`].
    ///
    /// # Errors
    ///
    /// Returns an error if the rate is out of range.
    pub fn joined(
        rings: FlightRings,
        options: FlightOptions,
        board: Option<&BoardMaps>,
    ) -> Result<(Self, Vec<Caveat>), FlightError> {
        options.check()?;
        Ok(Self::over(rings, None, options, board))
    }

    fn over(
        rings: FlightRings,
        loaded: Option<LoadedObject>,
        options: FlightOptions,
        board: Option<&BoardMaps>,
    ) -> (Self, Vec<Caveat>) {
        let FlightRings {
            rings,
            cpus,
            absent,
        } = rings;
        let mut caveats = Vec::new();
        if !absent.is_empty() {
            caveats.push(Caveat::new(
                CaveatKind::AbilityAbsent,
                format!("this kernel lacks the tracepoints {}", absent.join(", ")),
                "their activity is attributed to the surrounding activity",
            ));
        }
        let stacks = options
            .stacks_hz
            .and_then(|rate| start_stacks(&cpus, rate, board, &mut caveats));
        // Without it the counter of `outside` is used.
        let steal = StealClock::new(&cpus).ok();
        let outside = match &steal {
            Some(_) => OutsideCounters::without_steal(&cpus),
            None => OutsideCounters::new(&cpus),
        };
        let recorder = Self {
            loaded,
            rings,
            stacks,
            steal,
            outside,
            sees_server: objects::has_member("task_struct", "dl_server"),
            cpus,
        };
        (recorder, caveats)
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
    /// programs during the probe's warm-up, times the records since then. Excludes programs that
    /// are joined with others.
    fn cost(&self) -> Vec<ProgramCost> {
        let timed: Vec<ProgramCost> = self.loaded.iter().flat_map(cost_of).collect();
        let runs = timed.iter().map(|cost| cost.runs).sum();
        let since = self.rings.written().saturating_sub(runs);
        let scaled = timed.iter().map(|cost| scaled(cost, since, runs));
        let stacks = self.stacks.iter().flat_map(StackSampler::cost);
        let steal = self.steal.iter().flat_map(StealClock::cost);
        let costs = scaled.chain(steal).chain(stacks);
        costs.map(ProgramCost::of_flight_recorder).collect()
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
