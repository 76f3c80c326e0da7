//! What is shown together: a service reached by a route.

use laggard_model::{Cpu, Histogram, Nanos, Route, STAGES, Service};

use super::line::LineTally;
use super::quantile::{Quantile, bounded, bucket_at, without};
use super::tally::Tally;

/// What tells one group from another. Ordered as it is shown: by part of the time, CPU,
/// then the most direct service first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Key {
    /// Which part of the time (minute), where these are kept apart.
    pub part: Option<u64>,
    /// Which CPU, where these are kept apart.
    pub cpu: Option<Cpu>,
    /// The service that ran.
    pub service: Service,
    /// How it was reached.
    pub route: Route,
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let order = |key: &Self| (key.part, key.cpu, key.route, key.service.rank());
        order(self).cmp(&order(other))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// All that was counted of a service reached by a route.
#[derive(Clone, Debug)]
pub struct Group {
    /// The service and route that were counted.
    pub key: Key,
    /// Expiry to the service's first instruction. Missed activations are in
    /// it with the time until the service next ran, so that a long stall
    /// weighs as long as it lasted (docs/method.md 1.2).
    pub latency: Tally,
    /// The smallest latency of those that were served. What a missed one had
    /// waited for when the service next ran can be any time down to nothing.
    pub least: Option<Nanos>,
    /// How many of those were missed.
    pub missed: u64,
    /// Those of them that were still waiting at the end, with how long they had
    /// waited by then: their true latency is at least that.
    pub censored: Tally,
    /// How many more were lost: where it is not known which line lost them,
    /// as many as this group can have lost.
    pub lost: u64,
    /// From the stage before, by [`laggard_model::Stage::index`].
    pub steps: [Tally; STAGES.len()],
    /// From the wakeup to the first instruction: waking to user.
    pub thread: Tally,
}

impl Group {
    pub(super) fn new(key: Key, lost: u64) -> Self {
        Self {
            key,
            latency: Tally::default(),
            least: None,
            missed: 0,
            censored: Tally::default(),
            lost,
            steps: Default::default(),
            thread: Tally::default(),
        }
    }

    pub(super) fn add(&mut self, line: &LineTally, lost: u64) {
        self.latency.merge(&line.latency);
        self.keep_least(line.least);
        self.missed += line.missed;
        self.lost += lost;
        self.censored.merge(&line.censored);
        self.thread.merge(&line.thread);
        for (mine, theirs) in self.steps.iter_mut().zip(&line.steps) {
            mine.merge(theirs);
        }
    }

    /// The interrupts of a line that lost so many activations.
    pub(super) fn add_interrupts(&mut self, irq: &Tally, lost: u64) {
        self.latency.merge(irq);
        self.keep_least(irq.histogram().min());
        self.lost += lost;
    }

    fn keep_least(&mut self, other: Option<Nanos>) {
        self.least = [self.least, other].into_iter().flatten().min();
    }

    /// The quantile `q` (0 to 1) of the latency, as far as it is known.
    pub fn quantile(&self, q: f64) -> Quantile {
        let (all, censored) = (self.latency.histogram(), self.censored.histogram());
        bounded(all, censored, self.lost, q)
    }

    /// The median latency of those that did not wait to the end, at most 1.09 %
    /// high: what is ordinary. `None` without any.
    pub fn ordinary(&self) -> Option<Nanos> {
        let (all, censored) = (self.latency.histogram(), self.censored.histogram());
        let known = all.count().saturating_sub(censored.count());
        let bucket = bucket_at(without(all, censored), known.div_ceil(2).max(1))?;
        let edge = Histogram::upper_edge(bucket);
        all.max().map(|max| edge.min(max))
    }
}
