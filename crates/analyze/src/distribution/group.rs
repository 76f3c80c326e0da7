//! What is shown together: a service reached by a route.

use laggard_model::{Cpu, Route, STAGES, Service};

use super::fold::LineTally;
use super::tally::Tally;

/// What a group is of. Ordered as it is shown: by part of the time, CPU,
/// then the most direct service first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Key {
    /// Which part of the time (minute), where these are kept apart.
    pub part: Option<u64>,
    /// Which CPU, where these are kept apart.
    pub cpu: Option<Cpu>,
    /// What ran.
    pub service: Service,
    /// How it was reached.
    pub route: Route,
}

/// From the interrupt outward: irq, softirq, threads by falling priority
/// (the direct route before the deferred), normal threads, work items.
const fn rank(service: Service) -> u8 {
    match service {
        Service::Irq => 0,
        Service::Softirq => 1,
        // A FIFO thread of priority 95, before the user's of that priority.
        Service::Kthread => 7,
        Service::Fifo(priority) if priority > 95 => 102 - priority,
        Service::Fifo(priority) => 103 - priority,
        Service::Other => 103,
        Service::Worker => 104,
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let order = |key: &Self| (key.part, key.cpu, key.route, rank(key.service));
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
    /// What it is of.
    pub key: Key,
    /// Expiry to the service's first instruction. Missed activations are in
    /// it with the time until the service next ran, so that a long stall
    /// weighs as long as it lasted (METHODS 7, coordinated omission).
    pub latency: Tally,
    /// How many of those were missed.
    pub missed: u64,
    /// Those of them that were still waiting at the end, with how long they had
    /// waited by then: their true latency is at least that.
    pub censored: Tally,
    /// From the stage before, by [`laggard_model::Stage::index`].
    pub steps: [Tally; STAGES.len()],
    /// Thread latency: waking to user.
    pub thread: Tally,
}

impl Group {
    pub(super) fn new(key: Key) -> Self {
        Self {
            key,
            latency: Tally::default(),
            missed: 0,
            censored: Tally::default(),
            steps: Default::default(),
            thread: Tally::default(),
        }
    }

    pub(super) fn add(&mut self, line: &LineTally) {
        self.latency.merge(&line.latency);
        self.missed += line.missed;
        self.censored.merge(&line.censored);
        self.thread.merge(&line.thread);
        for (mine, theirs) in self.steps.iter_mut().zip(&line.steps) {
            mine.merge(theirs);
        }
    }
}
