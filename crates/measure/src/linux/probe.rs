//! Probe of a real machine: the sources of a request, combined.

use std::time::Duration;

use laggard_model::{
    Account, Backend, Batch, Caveat, CaveatKind, CpuList, Every, Line, LineId, Losses, Nanos,
    OwnCost, Tid,
};

use super::boost::LateBoost;
use super::external::External;
use super::flight::FlightRings;
use super::threads::{self, BackendChoice, ThreadSource};
use super::timerlat::Timerlat;
use super::tracers::Tracers;
use super::usage::Usage;
use super::{clock, descriptors, policy, reason_of};
use crate::board::BoardMaps;
use crate::own::is_first_namespace;
use crate::probe::{Drive, Pace, Probe, ProbeError, Request};
use crate::source::{Source, SourcePlan, plan};
use crate::sources::Sources;

/// Time between the end of the warm-up, which may disturb the machine, and the recording.
const REST: Nanos = Nanos::from_ms(5);
/// Probe of a Linux machine.
#[derive(Debug)]
pub struct LinuxProbe {
    /// Sources in the order of their lines.
    sources: Sources,
    caveats: Vec<Caveat>,
    /// Other tracers when the probe was prepared.
    tracers: Tracers,
    boost: LateBoost,
    /// Usage before anything was loaded.
    opened: Usage,
    began: Option<Usage>,
    /// Usage at the end. Later work (such as looking up names) uses more.
    ended: Option<Usage>,
}

impl LinuxProbe {
    /// Loads everything and prepares the threads; the measurement does not start yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the request is out of range, or if a required service cannot be
    /// measured.
    pub fn new(mut request: Request, wanted: BackendChoice) -> Result<Self, ProbeError> {
        if request.drive != Drive::Timer {
            // A device has one line, and each of its interrupts counts.
            request.every = Every::default();
        }
        let opened = Usage::at(clock::now(), Nanos::ZERO, Nanos::ZERO);
        let pace = Pace::new(&request);
        let plans = plan(request)?;
        // Before laggard loads anything.
        let tracers = Tracers::look();
        let mut caveats = Vec::from_iter(tracers.caveat());
        descriptors::allow_all();
        if let Err(err) = policy::lock_memory() {
            caveats.push(Caveat::new(
                CaveatKind::MemoryLock,
                format!(
                    "cannot lock memory ({}), so page faults may be measured as latency",
                    reason_of(&err)
                ),
                "run as root, or raise the limit with `ulimit -l unlimited`",
            ));
        }
        // Reverse order: the tracer is refused more often, and there is only one.
        let sources = plans.into_iter().rev().map(|plan| open(plan, wanted));
        let mut sources = sources.collect::<Result<Vec<_>, _>>()?;
        sources.reverse();
        Ok(Self {
            sources: Sources::new(sources, pace, clock::now)?,
            caveats,
            tracers,
            boost: LateBoost::new(),
            opened,
            began: None,
            ended: None,
        })
    }

    fn usage(&self, now: Nanos) -> Usage {
        let (mut measuring, mut competing) = (Nanos::ZERO, Nanos::ZERO);
        for source in self.sources.iter() {
            measuring += source.measuring_cpu();
            competing += source.competing_cpu();
        }
        Usage::at(now, measuring, competing)
    }
}

/// Opens the planned source.
fn open(plan: SourcePlan, wanted: BackendChoice) -> Result<Box<dyn Source>, ProbeError> {
    Ok(match plan {
        SourcePlan::Timer(request) => Box::new(ThreadSource::new(request, None, wanted)?),
        SourcePlan::Uio(mut request, device) => {
            let device = External::open(&device, &mut request)?;
            Box::new(ThreadSource::new(request, Some(&device), wanted)?)
        }
        SourcePlan::Tracer {
            cpus,
            period,
            priority,
        } => {
            threads::check(&cpus, period)?;
            Box::new(Timerlat::new(&cpus, period, priority)?)
        }
    })
}

impl Probe for LinuxProbe {
    fn backend(&self) -> Backend {
        self.sources.backend()
    }

    fn pace(&self) -> Pace {
        self.sources.pace()
    }

    fn lines(&self) -> &[Line] {
        self.sources.lines()
    }

    fn thread_of(&self, line: LineId) -> Option<Tid> {
        // In another PID namespace, TIDs differ from those of the trace data.
        let thread = self.sources.thread_of(line);
        thread.filter(|_| is_first_namespace())
    }

    fn board(&self) -> Option<BoardMaps> {
        self.sources.iter().find_map(|source| source.board())
    }

    fn join_flight(&mut self, cpus: &CpuList) -> Option<FlightRings> {
        self.sources.join_flight(cpus)
    }

    fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = self.caveats.clone();
        caveats.extend(self.sources.iter().flat_map(|source| source.caveats()));
        if self.has_given_up() {
            caveats.push(Caveat::new(
                CaveatKind::Overload,
                "the measurement stopped early: measuring threads used most of their CPUs' time, and the collector did not run for 3 s",
                "record with a longer --period, fewer services or fewer CPUs",
            ));
        }
        let faults: u64 = self.sources.iter().map(|source| source.faults()).sum();
        if faults > 0
            && !caveats
                .iter()
                .any(|caveat| caveat.kind == CaveatKind::MemoryLock)
        {
            caveats.push(Caveat::new(
                CaveatKind::PageFaults,
                format!("measuring threads had {faults} page faults, whose time counts as latency"),
                "check that memory can be locked and that the machine does not swap",
            ));
        }
        caveats
    }

    fn start(&mut self) -> Result<Nanos, ProbeError> {
        let begin = self.sources.start(REST)?;
        self.began = Some(self.usage(begin));
        Ok(begin)
    }

    fn now(&self) -> Nanos {
        clock::now()
    }

    fn pause(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn drain(&mut self, into: &mut Batch) {
        self.boost.note();
        self.sources.drain(into);
    }

    fn price(&self) -> Option<f64> {
        self.sources.iter().find_map(|source| source.price())
    }

    fn has_given_up(&self) -> bool {
        self.sources.given_up().is_some()
    }

    fn failure(&self) -> Option<String> {
        self.sources.failure()
    }

    fn begin_anew(&mut self) -> Nanos {
        self.sources.begin_anew()
    }

    /// Stops recording expiries and waits for the expiries that were requested before.
    fn stop(&mut self) -> Nanos {
        if let Some(ended) = &self.ended {
            return ended.at;
        }
        // Expiries that were due after the threads gave up were not requested.
        let ended = self.sources.given_up().unwrap_or_else(clock::now);
        self.ended = Some(self.usage(ended));
        self.sources.end_at(ended);
        if self.began.is_some() {
            let later = self.tracers.caveat_of_later(&Tracers::look());
            self.caveats.extend(later);
        }
        // Later work (symbols, the last segment) need not stay in memory.
        policy::unlock_memory();
        ended
    }

    fn accounts(&self) -> Vec<Account> {
        self.sources.accounts()
    }

    /// Returns all losses since the start of the measurement, including unsettled ones.
    fn losses(&self) -> Losses {
        self.sources.losses(self.ended.is_some())
    }

    /// Returns the overhead of the measurement until its end. CPU time before and after is
    /// reported separately.
    fn cost(&self) -> OwnCost {
        let now = self.usage(clock::now());
        let ended = self.ended.unwrap_or(now);
        let began = self.began.unwrap_or(ended);
        let before = began.cpu.saturating_sub(self.opened.cpu);
        // Measuring threads have ended by then and can no longer be distinguished.
        let after = match self.ended {
            Some(ended) => now.whole_cpu.saturating_sub(ended.whole_cpu),
            None => Nanos::ZERO,
        };
        let measuring = ended.measuring_cpu.saturating_sub(began.measuring_cpu);
        let total = ended.cpu.saturating_sub(began.cpu);
        let wall = ended.at.saturating_sub(began.at);
        OwnCost {
            wall_ns: wall,
            measuring_cpu_ns: measuring,
            other_cpu_ns: total.saturating_sub(measuring),
            programs: self
                .sources
                .iter()
                .flat_map(|source| source.programs(wall))
                .collect(),
            written_bytes: 0,
            resident_bytes: ended.resident_bytes,
            measuring_faults: self.sources.iter().map(|source| source.faults()).sum(),
            outside_cpu_ns: before + after,
            competing_cpu_ns: ended.competing_cpu,
        }
    }
}

impl Drop for LinuxProbe {
    fn drop(&mut self) {
        self.stop();
    }
}
