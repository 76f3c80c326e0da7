//! Counts of kernel activity outside threads during a recording.

use laggard_measure::linux::{HandlerCounter, HandlersRefused};
use laggard_model::{CpuList, HandlerCounts, Nanos, ProgramCost};

/// Interval of reading the counts, which a kill can lose. A reading takes a system call per kind
/// of handler.
const READ_INTERVAL: Nanos = Nanos::from_secs(5);

/// Counter of a recording.
#[derive(Debug)]
pub(crate) struct HandlerWatch {
    counter: HandlerCounter,
    /// Counts at the last reading; `None` before the start.
    counts: Option<HandlerCounts>,
}

impl HandlerWatch {
    pub(crate) fn new(cpus: &CpuList, functions: &[String]) -> Result<Self, HandlersRefused> {
        Ok(Self {
            counter: HandlerCounter::new(cpus, functions)?,
            counts: None,
        })
    }

    /// Starts to count.
    pub(crate) fn begin(&mut self) -> Result<(), HandlersRefused> {
        self.counter.start()?;
        self.counts = Some(self.counter.read()?);
        Ok(())
    }

    /// Returns the counts, which are at most some seconds old at `now`.
    pub(crate) fn recent(&mut self, now: Nanos) -> Result<Option<HandlerCounts>, HandlersRefused> {
        let is_due = |counts: &HandlerCounts| now >= counts.to_ns + READ_INTERVAL;
        if self.counts.as_ref().is_some_and(is_due) {
            self.counts = Some(self.counter.read()?);
        }
        Ok(self.counts.clone())
    }

    /// Returns the current counts.
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
