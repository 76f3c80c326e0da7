//! The sources of one probe, together: their lines one behind the other.

use std::time::Duration;

use laggard_model::{Account, Backend, Batch, Line, LineId, Losses, Nanos, Tid};

use crate::probe::{Pace, ProbeError, Request, check_number};
use crate::source::Source;

/// From the call of `start` to the first expiry.
const LEAD: Nanos = Nanos::from_ms(50);
/// How long the end waits for services that do not get to run: what comes
/// meanwhile has a latency, what does not has at least this one.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(2);

/// All sources of a probe.
#[derive(Debug)]
pub struct Sources {
    /// In the order of their lines.
    all: Vec<Box<dyn Source>>,
    lines: Vec<Line>,
    pace: Pace,
    /// What was lost before the lines were last begun anew.
    earlier: Losses,
    /// Of this system.
    now: fn() -> Nanos,
}

impl Sources {
    /// Those of a request with this pace.
    ///
    /// # Errors
    /// When they have no line, or too many.
    pub fn new(
        all: Vec<Box<dyn Source>>,
        mut pace: Pace,
        now: fn() -> Nanos,
    ) -> Result<Self, ProbeError> {
        let lines: Vec<Line> = all
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

    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    pub fn pace(&self) -> Pace {
        self.pace.clone()
    }

    /// That of the first that has lines.
    pub fn backend(&self) -> Backend {
        let first = self.iter().find(|one| !one.lines().is_empty());
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

    /// Has them all run, and record from `rest` after the end of their warm-up on;
    /// returns from when.
    pub fn start(&mut self, rest: Nanos) -> Result<Nanos, ProbeError> {
        let start = (self.now)() + LEAD;
        let mut place = 0;
        for source in self.all.iter_mut().filter(|one| !one.lines().is_empty()) {
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

    fn begin(&mut self, at: Nanos) {
        for source in &mut self.all {
            source.begin(at);
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

    /// When the first ended itself.
    pub fn given_up(&self) -> Option<Nanos> {
        self.iter().find_map(Source::given_up)
    }

    /// Why one gave up, where it did not take too much.
    pub fn failure(&self) -> Option<String> {
        self.iter().find_map(Source::failure)
    }

    /// Ends them all at `ended`, and waits until each has served what was due before, or
    /// for as long as that is worth it.
    pub fn end_at(&mut self, ended: Nanos) {
        for source in &mut self.all {
            source.end_at(ended);
        }
        let patience = ended + STOP_PATIENCE.into() + self.pace.period * 2;
        loop {
            // All are asked, at every look.
            let rests = self.all.iter_mut().map(|one| one.is_at_rest());
            let restless = rests.filter(|is_at_rest| !is_at_rest).count();
            if restless == 0 || (self.now)() >= patience {
                break;
            }
            std::thread::sleep(LOOK);
        }
        let given_up = (self.now)();
        for source in &mut self.all {
            source.settle(given_up);
        }
    }

    pub fn accounts(&self) -> Vec<Account> {
        self.iter().flat_map(Source::accounts).collect()
    }

    /// All losses since measuring began, also those not yet settled where it has not
    /// ended.
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
    /// That of what is asked for.
    pub fn of(request: &Request) -> Self {
        Self {
            period: request.period,
            every: request.every.clone(),
            dither: request.dither,
            seed: request.seed,
        }
    }
}
