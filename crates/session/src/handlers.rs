//! Counting what the kernel runs beside threads, while recording.

use laggard_measure::linux::{HandlerCounter, HandlersRefused};
use laggard_model::{CpuList, HandlerCounts, Nanos, ProgramCost};

/// How often the counts are read: a kill costs what came after. It takes a call
/// for each sort of handler.
const READ_EVERY: Nanos = Nanos::from_secs(5);

/// The counter of a recording.
#[derive(Debug)]
pub(crate) struct HandlerWatch {
    counter: HandlerCounter,
    /// As last read; `None`: it does not count yet.
    counts: Option<HandlerCounts>,
}

impl HandlerWatch {
    pub(crate) fn new(cpus: &CpuList) -> Result<Self, HandlersRefused> {
        Ok(Self {
            counter: HandlerCounter::new(cpus)?,
            counts: None,
        })
    }

    /// Counts from now on.
    pub(crate) fn begin(&mut self) -> Result<(), HandlersRefused> {
        self.counter.start()?;
        self.counts = Some(self.counter.read()?);
        Ok(())
    }

    /// What is counted, at most some seconds old at `now`.
    pub(crate) fn recent(&mut self, now: Nanos) -> Result<Option<HandlerCounts>, HandlersRefused> {
        let is_due = |counts: &HandlerCounts| now >= counts.to_ns + READ_EVERY;
        if self.counts.as_ref().is_some_and(is_due) {
            self.counts = Some(self.counter.read()?);
        }
        Ok(self.counts.clone())
    }

    /// What is counted now.
    pub(crate) fn last(&self) -> Result<Option<HandlerCounts>, HandlersRefused> {
        match self.counts {
            Some(_) => self.counter.read().map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn cost(&self) -> Vec<ProgramCost> {
        let counts = self.counts.iter();
        let cost = counts.flat_map(|counts| self.counter.cost(counts));
        cost.map(ProgramCost::of_handler_counter).collect()
    }
}
