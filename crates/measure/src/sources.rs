//! Sources of one probe, combined: their lines in sequence.

use std::time::Duration;

use laggard_model::{Account, Backend, Batch, Line, LineId, Losses, Nanos, Tid};

use crate::probe::{Pace, ProbeError, Request, check_number};
use crate::source::Source;

/// Time from the call of `start` to the first expiry.
const LEAD: Nanos = Nanos::from_ms(50);
/// Maximum wait at the end for services that have not run. A service that runs in this time has a
/// latency; otherwise this time is a lower bound.
const MAX_STOP_WAIT: Duration = Duration::from_secs(3);
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub struct Sources {
    /// Sources in the order of their lines.
    all: Vec<Box<dyn Source>>,
    lines: Vec<Line>,
    pace: Pace,
    /// Losses before the last restart of the recording.
    earlier: Losses,
    /// Clock of this system.
    now: fn() -> Nanos,
}

impl Sources {
    /// Combines the sources of a request with this pace.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of lines is zero or too large.
    pub fn new(
        all: Vec<Box<dyn Source>>,
        mut pace: Pace,
        now: fn() -> Nanos,
    ) -> Result<Self, ProbeError> {
        let lines: Vec<Line> = all
            .iter()
            .flat_map(|source| source.lines().iter().copied())
            .collect();
        if lines.is_empty() {
            return Err(ProbeError::NoService);
        }
        check_number(lines.len())?;
        pace.every
            .keep(|service| lines.iter().any(|line| line.service == service));
        Ok(Self {
            all,
            lines,
            pace,
            earlier: Losses::default(),
            now,
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = &dyn Source> {
        self.all.iter().map(AsRef::as_ref)
    }

    /// Makes the BPF programs of a source record the activity of these CPUs, too.
    #[cfg(target_os = "linux")]
    pub fn join_flight(
        &mut self,
        cpus: &laggard_model::CpuList,
    ) -> Option<crate::linux::FlightRings> {
        let mut sources = self.all.iter_mut();
        sources.find_map(|source| source.join_flight(cpus))
    }

    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    pub fn pace(&self) -> Pace {
        self.pace.clone()
    }

    /// Returns the backend of the first source with lines.
    pub fn backend(&self) -> Backend {
        let first = self.iter().find(|source| !source.lines().is_empty());
        first.map_or(Backend::User, Source::backend)
    }

    pub fn thread_of(&self, line: LineId) -> Option<Tid> {
        let mut place = usize::from(line.0);
        for source in self.iter() {
            if place < source.lines().len() {
                return source.thread_of(place);
            }
            place -= source.lines().len();
        }
        None
    }

    /// Starts all sources, and records from `rest` after the end of their warm-up. Returns the
    /// start of the recording.
    pub fn start(&mut self, rest: Nanos) -> Result<Nanos, ProbeError> {
        let start = (self.now)() + LEAD;
        let mut place = 0;
        for source in self
            .all
            .iter_mut()
            .filter(|source| !source.lines().is_empty())
        {
            let first = LineId::at(place).expect("more lines are refused before");
            source.start(start, first)?;
            place += source.lines().len();
        }
        for source in &mut self.all {
            source.warm_up(start);
        }
        let begin = (self.now)().max(start) + rest;
        self.begin(begin);
        Ok(begin)
    }

    fn begin(&mut self, now: Nanos) {
        for source in &mut self.all {
            source.begin(now);
        }
    }

    pub fn begin_anew(&mut self) -> Nanos {
        let start = (self.now)();
        self.earlier = self.losses(false);
        self.begin(start);
        start
    }

    pub fn drain(&mut self, into: &mut Batch) {
        for source in &mut self.all {
            source.drain(into);
        }
    }

    /// Returns when the first source gave up.
    pub fn given_up(&self) -> Option<Nanos> {
        self.iter().find_map(Source::given_up)
    }

    /// Returns why a source gave up for a reason other than its cost.
    pub fn failure(&self) -> Option<String> {
        self.iter().find_map(Source::failure)
    }

    /// Ends all sources at `ended`, and waits until each has served what was due before, up to a
    /// limit.
    pub fn end_at(&mut self, ended: Nanos) {
        for source in &mut self.all {
            source.end_at(ended);
        }
        let patience = ended + MAX_STOP_WAIT.into() + self.pace.period * 2;
        loop {
            // Every source is polled at every check.
            let rests = self.all.iter_mut().map(|source| source.is_at_rest());
            let restless = rests.filter(|is_at_rest| !is_at_rest).count();
            if restless == 0 || (self.now)() >= patience {
                break;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        let given_up = (self.now)();
        for source in &mut self.all {
            source.settle(given_up);
        }
    }

    pub fn accounts(&self) -> Vec<Account> {
        self.iter().flat_map(Source::accounts).collect()
    }

    /// Returns all losses since the start of the measurement, including unsettled ones if it has
    /// not ended.
    pub fn losses(&self, has_ended: bool) -> Losses {
        let mut losses = self.earlier;
        for account in self.accounts() {
            losses.merge(&account.losses);
        }
        if !has_ended {
            for source in self.iter() {
                losses.merge(&source.unsettled());
            }
        }
        losses
    }
}

impl Pace {
    pub fn new(request: &Request) -> Self {
        Self {
            period: request.period,
            every: request.every.clone(),
            dither: request.dither,
            seed: request.seed,
        }
    }
}
