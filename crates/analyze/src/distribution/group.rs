//! Statistics of a service with its route.

use laggard_model::{Cpu, Histogram, Nanos, Route, STAGES, Service};

use super::line::LineTally;
use super::quantile::{Quantile, bounded, bucket_at, without};
use super::tally::Tally;

/// Identity of a group. The order is the order of display: part of the time, CPU, then
/// the most direct service first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Key {
    /// Part of the time (minute), if divided.
    pub part: Option<u64>,
    /// CPU, if divided.
    pub cpu: Option<Cpu>,
    /// Service that ran.
    pub service: Service,
    /// Route to the service.
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

/// Counts of a service and route.
#[derive(Clone, Debug)]
pub struct Group {
    /// Service and route.
    pub key: Key,
    /// Latency from the expiry to the service's first instruction. A missed activation
    /// counts with the time until the service next ran, so a long stall has its full
    /// weight (docs/method.md 1.2).
    pub latency: Tally,
    /// Smallest latency of served activations. The wait of a missed activation until
    /// the service next ran can be arbitrarily short.
    pub least: Option<Nanos>,
    /// Number of missed activations.
    pub missed: u64,
    /// Waiting times of missed activations that were still waiting at the end. The true
    /// latency is at least that.
    pub censored: Tally,
    /// Number of lost activations. If the line of a loss is unknown, the maximum that
    /// this group can have lost.
    pub lost: u64,
    /// Time since the previous stage, by [`laggard_model::Stage::index`].
    pub steps: [Tally; STAGES.len()],
    /// Time from the wakeup to the first instruction: waking to user.
    pub thread: Tally,
    /// Time from the softirq to the first instruction of the woken thread or work item (the thread
    /// latency of OSDI'99). Recordings of the tail have it for the kept samples alone.
    pub after_softirq: Tally,
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
            after_softirq: Tally::default(),
        }
    }

    pub(super) fn add(&mut self, line: &LineTally, lost: u64) {
        self.latency.merge(&line.latency);
        self.keep_least(line.least);
        self.missed += line.missed;
        self.lost += lost;
        self.censored.merge(&line.censored);
        self.thread.merge(&line.thread);
        self.after_softirq.merge(&line.after_softirq);
        for (mine, theirs) in self.steps.iter_mut().zip(&line.steps) {
            mine.merge(theirs);
        }
    }

    /// Adds the interrupts of a line that lost `lost` activations.
    pub(super) fn add_interrupts(&mut self, irq: &Tally, lost: u64) {
        self.latency.merge(irq);
        self.keep_least(irq.histogram().min());
        self.lost += lost;
    }

    fn keep_least(&mut self, other: Option<Nanos>) {
        self.least = [self.least, other].into_iter().flatten().min();
    }

    /// Returns the quantile `q` (0 to 1) of the latency, if known.
    pub fn quantile(&self, q: f64) -> Quantile {
        let (latency, censored) = (self.latency.histogram(), self.censored.histogram());
        bounded(latency, censored, self.lost, q)
    }

    /// Returns the median latency of activations that ended (at most 1.09 % high);
    /// `None` without any.
    pub fn ordinary(&self) -> Option<Nanos> {
        let (latency, censored) = (self.latency.histogram(), self.censored.histogram());
        let ended = latency.count().saturating_sub(censored.count());
        let bucket = bucket_at(without(latency, censored), ended.div_ceil(2).max(1))?;
        let edge = Histogram::upper_edge(bucket);
        latency.max().map(|max| edge.min(max))
    }
}
