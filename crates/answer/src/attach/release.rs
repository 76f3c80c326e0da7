//! Threads that end the waits of other threads at a lock or a condition variable: a wait that a timeout
//! ended may be for the same lock.

use std::collections::BTreeMap;

use laggard_model::{Cpu, ThreadActivation, ThreadName, Tid, WokenBy};

use super::AttachCollector;
use super::cycle::{SiteKey, WaitKind};

/// Maximum number of sites of a thread.
const MAX_SITES: usize = 64;
/// Minimum part of the waits that a thread ends where it is the usual end: one of 5.
const MIN_SHARE: u64 = 5;

/// Thread that ended a wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Releaser {
    pub(super) tid: Tid,
    pub(super) name: ThreadName,
    /// CPU where it ran.
    pub(super) cpu: Cpu,
}

/// Threads that usually end the waits at these sites.
pub(super) type Releasers = BTreeMap<SiteKey, Releaser>;

/// Ends of the waits of a thread.
#[derive(Debug, Default)]
pub(super) struct WaitEnds {
    /// Site and CPU of the last wait.
    last: Option<(SiteKey, Cpu)>,
    sites: BTreeMap<SiteKey, Ends>,
}

/// Ends of the waits at a site.
#[derive(Debug, Default)]
struct Ends {
    waits: u64,
    /// Number of waits that another thread ended, and the newest of these threads.
    released: u64,
    newest: Option<Releaser>,
}

impl Releaser {
    /// Returns the thread that caused a wakeup on this CPU; `None`: no thread did.
    pub(super) const fn new(woken: WokenBy, cpu: Cpu) -> Option<Self> {
        match woken {
            WokenBy::Thread(tid, name) => Some(Self { tid, name, cpu }),
            WokenBy::Timer(_)
            | WokenBy::Wheel(_)
            | WokenBy::Irq(_)
            | WokenBy::Vector
            | WokenBy::Softirq(_)
            | WokenBy::Sender(..)
            | WokenBy::Interrupt => None,
        }
    }
}

impl Ends {
    /// Returns the thread that usually ends the waits.
    fn releaser(&self) -> Option<Releaser> {
        self.newest
            .filter(|_| MIN_SHARE * self.released >= self.waits)
    }
}

impl WaitEnds {
    /// Adds the next activation of the thread.
    pub(super) fn add(&mut self, activation: &ThreadActivation) {
        if let Some((site, _)) = self.last
            && (self.sites.len() < MAX_SITES || self.sites.contains_key(&site))
        {
            let ends = self.sites.entry(site).or_default();
            ends.waits += 1;
            if let Some(releaser) = Releaser::new(activation.woken, activation.waker_cpu) {
                ends.released += 1;
                ends.newest = Some(releaser);
            }
        }
        let site = SiteKey::new(activation);
        let site = site.filter(|site| matches!(site.kind, WaitKind::Lock | WaitKind::Condition));
        self.last = site.map(|site| (site, activation.cpu));
    }
}

impl AttachCollector {
    /// Returns the threads that usually end the waits of a thread. A thread that this one releases at a
    /// site holds the lock there in its turn.
    pub(super) fn releasers(&self, number: u32) -> Releasers {
        let Some(state) = self.threads.get(&number) else {
            return Releasers::new();
        };
        let mut releasers = Releasers::new();
        for (&site, ends) in &state.wait_ends.sites {
            if let Some(releaser) = ends.releaser() {
                releasers.insert(site, releaser);
            }
        }
        let process = state.thread.process;
        let unknown = state.wait_ends.sites.keys();
        let unknown: Vec<SiteKey> = unknown
            .filter(|site| site.has_object() && !releasers.contains_key(site))
            .copied()
            .collect();
        if unknown.is_empty() {
            return releasers;
        }
        let others = self.threads.values();
        for other in others.filter(|other| other.thread.process == process) {
            for &site in &unknown {
                let ends = other.wait_ends.sites.get(&site);
                let releaser = ends.and_then(Ends::releaser);
                if releaser.is_some_and(|releaser| releaser.tid == state.thread.tid)
                    && let Some((_, cpu)) = other.wait_ends.last
                {
                    let (tid, name) = (other.thread.tid, other.thread.name);
                    releasers.insert(site, Releaser { tid, name, cpu });
                }
            }
        }
        releasers
    }
}
