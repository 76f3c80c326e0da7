//! The probe of a real machine: the sources that a request means, together.

use std::time::Duration;

use laggard_model::{
    Account, Backend, Batch, Caveat, CaveatKind, Every, Line, LineId, Losses, Nanos, OwnCost, Tid,
};

use super::boost::LateBoost;
use super::external::External;
use super::threads::{self, BackendChoice, ThreadSource};
use super::timerlat::Timerlat;
use super::tracers::Tracers;
use super::usage::Usage;
use super::{clock, descriptors, policy, reason_of};
use crate::board::BoardMaps;
use crate::probe::{Drive, Pace, Probe, ProbeError, Request};
use crate::source::{Source, SourcePlan, plan};
use crate::sources::Sources;

/// From the end of the warm-up, whatever it disturbed, to the recording.
const REST: Nanos = Nanos::from_ms(5);
/// Measures a Linux machine.
#[derive(Debug)]
pub struct LinuxProbe {
    /// In the order of their lines.
    sources: Sources,
    caveats: Vec<Caveat>,
    /// Who else traced when measuring was made ready.
    tracers: Tracers,
    boost: LateBoost,
    /// Before anything was loaded.
    opened: Usage,
    began: Option<Usage>,
    /// What is done afterwards (looking up names, say) takes more.
    ended: Option<Usage>,
}

impl LinuxProbe {
    /// Loads what is needed and readies the threads; nothing is measured yet.
    ///
    /// # Errors
    /// When the request is out of range, or a service that is not optional
    /// cannot be measured.
    pub fn new(mut request: Request, wanted: BackendChoice) -> Result<Self, ProbeError> {
        if request.drive != Drive::Timer {
            // A device has one line, whose every interrupt counts.
            request.every = Every::default();
        }
        let opened = Usage::at(clock::now(), Nanos::ZERO, Nanos::ZERO);
        let pace = Pace::of(&request);
        let plans = plan(request)?;
        // Before there is anything of ours.
        let tracers = Tracers::look();
        let mut caveats = Vec::from_iter(tracers.caveat());
        descriptors::allow_all();
        if let Err(err) = policy::lock_memory() {
            caveats.push(Caveat::new(
                CaveatKind::MemoryLock,
                format!(
                    "memory cannot be locked ({}), so page faults may be measured as latency",
                    reason_of(&err)
                ),
                "run as root, or raise the limit with `ulimit -l unlimited`",
            ));
        }
        // The tracer is sooner refused, and there is one of it.
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

    fn usage(&self, at: Nanos) -> Usage {
        let (mut measuring, mut competing) = (Nanos::ZERO, Nanos::ZERO);
        for source in self.sources.iter() {
            measuring += source.measuring_cpu();
            competing += source.competing_cpu();
        }
        Usage::at(at, measuring, competing)
    }
}

/// Opens what is planned.
fn open(plan: SourcePlan, wanted: BackendChoice) -> Result<Box<dyn Source>, ProbeError> {
    Ok(match plan {
        SourcePlan::Timer(request) => Box::new(ThreadSource::new(request, None, wanted)?),
        SourcePlan::Uio(mut request, device) => {
            let device = External::open(&device, &mut request)?;
            Box::new(ThreadSource::new(request, Some(&device), wanted)?)
        }
        SourcePlan::Tracer { cpus, period } => {
            threads::check(&cpus, period)?;
            Box::new(Timerlat::new(&cpus, period)?)
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
        self.sources.thread_of(line)
    }

    fn board(&self) -> Option<BoardMaps> {
        self.sources.iter().find_map(|one| one.board())
    }

    fn caveats(&self) -> Vec<Caveat> {
        let mut caveats = self.caveats.clone();
        caveats.extend(self.sources.iter().flat_map(|one| one.caveats()));
        if self.has_given_up() {
            caveats.push(Caveat::new(
                CaveatKind::Overload,
                "measuring took most of its CPUs' time and left its own collector none for 3 s, so it ended itself",
                "record with a longer --period, fewer services or fewer CPUs",
            ));
        }
        let faults: u64 = self.sources.iter().map(|one| one.faults()).sum();
        if faults > 0
            && !caveats
                .iter()
                .any(|caveat| caveat.kind == CaveatKind::MemoryLock)
        {
            caveats.push(Caveat::new(
                CaveatKind::PageFaults,
                format!("measuring threads had {faults} page faults, which count as latency"),
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
        self.sources.iter().find_map(|one| one.price())
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

    /// Records no expiry from now on, and waits for what was asked before.
    fn stop(&mut self) -> Nanos {
        if let Some(ended) = &self.ended {
            return ended.at;
        }
        // What was due after the threads gave up nobody asked for.
        let ended = self.sources.given_up().unwrap_or_else(clock::now);
        self.ended = Some(self.usage(ended));
        self.sources.end_at(ended);
        if self.began.is_some() {
            let later = self.tracers.caveat_of_later(&Tracers::look());
            self.caveats.extend(later);
        }
        // What follows (symbols, the last segment) need not stay in memory.
        policy::unlock_memory();
        ended
    }

    fn accounts(&self) -> Vec<Account> {
        self.sources.accounts()
    }

    /// All losses since measuring began, also those not yet settled.
    fn losses(&self) -> Losses {
        self.sources.losses(self.ended.is_some())
    }

    /// Overhead of measuring, until its end. CPU time before and after is a figure of its
    /// own.
    fn cost(&self) -> OwnCost {
        let now = self.usage(clock::now());
        let ended = self.ended.unwrap_or(now);
        let began = self.began.unwrap_or(ended);
        let before = began.cpu.saturating_sub(self.opened.cpu);
        // Threads that compute have ended by then, and are not distinguished any more.
        let after = match self.ended {
            Some(ended) => now.whole_cpu.saturating_sub(ended.whole_cpu),
            None => Nanos::ZERO,
        };
        let measuring = ended.measuring_cpu.saturating_sub(began.measuring_cpu);
        let all = ended.cpu.saturating_sub(began.cpu);
        let wall = ended.at.saturating_sub(began.at);
        OwnCost {
            wall_ns: wall,
            measuring_cpu_ns: measuring,
            other_cpu_ns: all.saturating_sub(measuring),
            programs: self
                .sources
                .iter()
                .flat_map(|one| one.programs(wall))
                .collect(),
            written_bytes: 0,
            resident_bytes: ended.resident_bytes,
            measuring_faults: self.sources.iter().map(|one| one.faults()).sum(),
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
