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
use crate::probe::{Drive, Pace, Probe, ProbeError, Request, check_number};
use crate::source::{Source, SourcePlan, plan};

/// From the call of `start` to the first expiry.
const LEAD: Nanos = Nanos::from_ms(50);
/// From the end of the warm-up, whatever it disturbed, to the recording.
const REST: Nanos = Nanos::from_ms(5);
/// How long the end waits for services that do not get to run: what comes
/// meanwhile has a latency, what does not has at least this one.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(2);

/// Measures a Linux machine.
#[derive(Debug)]
pub struct LinuxProbe {
    /// In the order of their lines.
    sources: Vec<Box<dyn Source>>,
    lines: Vec<Line>,
    pace: Pace,
    caveats: Vec<Caveat>,
    /// Who else traced when measuring was made ready.
    tracers: Tracers,
    boost: LateBoost,
    /// What was lost before the lines were last begun anew.
    earlier: Losses,
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
        let mut pace = Pace {
            period: request.period,
            every: request.every.clone(),
            dither: request.dither,
            seed: request.seed,
        };
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
        let lines: Vec<Line> = sources
            .iter()
            .flat_map(|one| one.lines().iter().copied())
            .collect();
        if lines.is_empty() {
            return Err(ProbeError::NoService);
        }
        check_number(lines.len())?;
        pace.every
            .keep(|service| lines.iter().any(|line| line.service == service));
        Ok(Self {
            sources,
            lines,
            pace,
            caveats,
            tracers,
            boost: LateBoost::new(),
            earlier: Losses::default(),
            began: None,
            ended: None,
        })
    }

    fn usage(&self, at: Nanos) -> Usage {
        let (mut measuring, mut competing) = (Nanos::ZERO, Nanos::ZERO);
        for source in &self.sources {
            measuring += source.measuring_cpu();
            competing += source.competing_cpu();
        }
        Usage::at(at, measuring, competing)
    }

    /// Waits until every source has served what was due before the end, or for as
    /// long as that is worth it.
    fn wait_for_rest(&mut self, ended: Nanos) {
        let patience = ended + STOP_PATIENCE.into() + self.pace.period * 2;
        loop {
            // All are asked, at every look.
            let rests = self.sources.iter_mut().map(|one| one.is_at_rest());
            let restless = rests.filter(|is_at_rest| !is_at_rest).count();
            if restless == 0 || clock::now() >= patience {
                return;
            }
            std::thread::sleep(LOOK);
        }
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
        let mut sources = self.sources.iter();
        let first = sources.find(|one| !one.lines().is_empty());
        first.map_or(Backend::User, |one| one.backend())
    }

    fn pace(&self) -> Pace {
        self.pace.clone()
    }

    fn lines(&self) -> &[Line] {
        &self.lines
    }

    fn thread_of(&self, line: LineId) -> Option<Tid> {
        let mut place = usize::from(line.0);
        for source in &self.sources {
            if place < source.lines().len() {
                return source.thread_of(place);
            }
            place -= source.lines().len();
        }
        None
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
        let start = clock::now() + LEAD;
        let mut place = 0;
        for source in self
            .sources
            .iter_mut()
            .filter(|one| !one.lines().is_empty())
        {
            let first = LineId::at(place).expect("more lines are refused before");
            source.start(start, first)?;
            place += source.lines().len();
        }
        for source in &mut self.sources {
            source.warm_up(start);
        }
        let begin = clock::now().max(start) + REST;
        for source in &mut self.sources {
            source.begin(begin);
        }
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
        for source in &mut self.sources {
            source.drain(into);
        }
    }

    fn price(&self) -> Option<f64> {
        self.sources.iter().find_map(|one| one.price())
    }

    fn has_given_up(&self) -> bool {
        self.sources.iter().any(|one| one.given_up().is_some())
    }

    fn begin_anew(&mut self) -> Nanos {
        let start = clock::now();
        self.earlier = self.losses();
        for source in &mut self.sources {
            source.begin(start);
        }
        start
    }

    /// Records no expiry from now on, and waits for what was asked before.
    fn stop(&mut self) -> Nanos {
        if let Some(ended) = &self.ended {
            return ended.at;
        }
        // What was due after the threads gave up nobody asked for.
        let given_up = self.sources.iter().find_map(|one| one.given_up());
        let ended = given_up.unwrap_or_else(clock::now);
        self.ended = Some(self.usage(ended));
        for source in &mut self.sources {
            source.end_at(ended);
        }
        self.wait_for_rest(ended);
        let given_up = clock::now();
        for source in &mut self.sources {
            source.settle(given_up);
        }
        if self.began.is_some() {
            let later = self.tracers.caveat_of_later(&Tracers::look());
            self.caveats.extend(later);
        }
        // What follows (symbols, the last segment) need not stay in memory.
        policy::unlock_memory();
        ended
    }

    fn accounts(&self) -> Vec<Account> {
        self.sources.iter().flat_map(|one| one.accounts()).collect()
    }

    /// All losses since measuring began, also those not yet settled.
    fn losses(&self) -> Losses {
        let mut losses = self.earlier;
        for account in self.accounts() {
            losses.merge(&account.losses);
        }
        if self.ended.is_none() {
            for source in &self.sources {
                losses.merge(&source.unsettled());
            }
        }
        losses
    }

    /// What measuring has cost: until its end, without what was done before
    /// and afterwards.
    fn cost(&self) -> OwnCost {
        let ended = self.ended.unwrap_or_else(|| self.usage(clock::now()));
        let began = self.began.unwrap_or(ended);
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
        }
    }
}

impl Drop for LinuxProbe {
    fn drop(&mut self) {
        self.stop();
    }
}
