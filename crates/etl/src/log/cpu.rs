//! What one CPU did.

use std::cmp::Reverse;
use std::collections::VecDeque;

use laggard_model::{
    Activity, Address, FlightEvent, Happening, Nanos, StackSample, Tid, windows_priority,
};

/// Most of a call chain that is kept.
const MOST_FRAMES: usize = 32;
/// Handlers that ended so long after a window may have begun in it.
const LATER: Nanos = Nanos::from_ms(100);
/// Where the kernel's half of the addresses begins.
const KERNEL: u64 = 0x8000_0000_0000_0000;

/// A switch from one thread to another.
#[derive(Clone, Debug)]
pub(super) struct LoggedSwitch {
    pub(super) at: Nanos,
    pub(super) to: Tid,
    pub(super) name: String,
    pub(super) from: Tid,
    /// 0 to 31.
    pub(super) priority: u8,
    pub(super) left: Option<u8>,
    pub(super) preempts: bool,
}

#[derive(Debug)]
enum Entry {
    Switch(LoggedSwitch),
    Handler {
        activity: Activity,
        begun: Nanos,
        ended: Nanos,
    },
    Sample {
        at: Nanos,
        thread: Tid,
        /// The innermost first.
        frames: Vec<u64>,
    },
}

impl Entry {
    /// When it was told.
    const fn at(&self) -> Nanos {
        match self {
            Self::Switch(LoggedSwitch { at, .. }) | Self::Sample { at, .. } => *at,
            Self::Handler { ended, .. } => *ended,
        }
    }
}

/// The newest entries of one CPU.
#[derive(Debug)]
pub(super) struct CpuLog {
    /// In order of time.
    entries: VecDeque<Entry>,
    most: usize,
    gone_to: Nanos,
    /// Who came with the newest switch.
    last: Option<Tid>,
    unseen: u64,
}

impl CpuLog {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            most,
            gone_to: Nanos::ZERO,
            last: None,
            unseen: 0,
        }
    }

    /// Up to when entries have gone.
    pub(super) const fn gone_to(&self) -> Nanos {
        self.gone_to
    }

    /// Switches that were not told, at least: another left than had come.
    pub(super) const fn unseen(&self) -> u64 {
        self.unseen
    }

    pub(super) fn switched(&mut self, switch: LoggedSwitch) {
        let last = self.last.replace(switch.to);
        self.unseen += u64::from(last.is_some_and(|last| last != switch.from));
        self.add(Entry::Switch(switch));
    }

    /// A handler ended. One that took no tick of the clock took nothing.
    pub(super) fn ran(&mut self, activity: Activity, begun: Nanos, ended: Nanos) {
        if begun < ended {
            self.add(Entry::Handler {
                activity,
                begun,
                ended,
            });
        }
    }

    pub(super) fn sampled(&mut self, at: Nanos, thread: Tid, address: u64) {
        self.add(Entry::Sample {
            at,
            thread,
            frames: vec![address],
        });
    }

    /// The call chain of a sample that was told before: its kernel part, or the user part
    /// that follows.
    pub(super) fn called(&mut self, of: Nanos, thread: Tid, chain: &[u64]) {
        let first = self.entries.partition_point(|one| one.at() < of);
        let same = self.entries.range_mut(first..);
        let mut same = same.take_while(|one| one.at() == of);
        let found = same.find_map(|one| match one {
            Entry::Sample {
                thread: its,
                frames,
                ..
            } if *its == thread => Some(frames),
            Entry::Sample { .. } | Entry::Switch(_) | Entry::Handler { .. } => None,
        });
        if let Some(frames) = found {
            // The first of a chain is where the sample was.
            let known = usize::from(frames.len() == 1 && frames.first() == chain.first());
            let room = MOST_FRAMES.saturating_sub(frames.len());
            frames.extend(chain.iter().skip(known).take(room));
        }
    }

    /// When a thread was switched in the next time, from `from` on.
    pub(super) fn next_switch(&self, from: Nanos) -> Option<Nanos> {
        let first = self.entries.partition_point(|one| one.at() < from);
        let mut later = self.entries.range(first..);
        later.find_map(|one| match one {
            Entry::Switch(switch) => Some(switch.at),
            Entry::Handler { .. } | Entry::Sample { .. } => None,
        })
    }

    fn add(&mut self, entry: Entry) {
        if self.most == 0 {
            return;
        }
        if self.entries.len() >= self.most
            && let Some(oldest) = self.entries.pop_front()
        {
            self.gone_to = self.gone_to.max(oldest.at());
        }
        let at = entry.at();
        let is_newest = self.entries.back().is_none_or(|last| last.at() <= at);
        if is_newest {
            self.entries.push_back(entry)
        } else {
            let place = self.entries.partition_point(|one| one.at() <= at);
            self.entries.insert(place, entry);
        }
    }

    /// What happened from `from` to `to`, after the switch to who ran as that began.
    pub(super) fn events(&self, from: Nanos, to: Nanos) -> Vec<FlightEvent> {
        let begin = self.entries.partition_point(|one| one.at() <= from);
        let before = self.entries.range(..begin).rev();
        let before = before.filter(|one| matches!(one, Entry::Switch(_))).take(1);
        let within = self.entries.range(begin..);
        let within = within.take_while(|one| one.at() <= to + LATER);
        let mut events: Vec<Ordered> = Vec::new();
        let mut last = None;
        for entry in before.chain(within) {
            match entry {
                Entry::Switch(switch) if switch.at <= to => {
                    events.push(Ordered::switch(switch, last));
                    last = Some(switch.to);
                }
                Entry::Handler {
                    activity,
                    begun,
                    ended,
                } if *begun <= to => events.extend(Ordered::both(*activity, *begun, *ended)),
                Entry::Switch(_) | Entry::Handler { .. } | Entry::Sample { .. } => {}
            }
        }
        events.sort_by_key(|one| (one.event.at_ns, one.rank, one.within));
        events.into_iter().map(|one| one.event).collect()
    }

    /// The samples from `from` to `to`; `process` says whose a thread is.
    pub(super) fn samples(
        &self,
        from: Nanos,
        to: Nanos,
        process: impl Fn(Tid) -> u32,
    ) -> Vec<StackSample> {
        let begin = self.entries.partition_point(|one| one.at() < from);
        let within = self.entries.range(begin..);
        let within = within.take_while(|one| one.at() <= to);
        let sample = |entry: &Entry| match entry {
            Entry::Sample { at, thread, frames } => {
                let is_kernel = |address: &&u64| **address >= KERNEL;
                let (kernel, user): (Vec<&u64>, Vec<&u64>) = frames.iter().partition(is_kernel);
                let addresses = |all: Vec<&u64>| all.into_iter().copied().map(Address).collect();
                Some(StackSample {
                    at_ns: *at,
                    tid: *thread,
                    process: process(*thread),
                    priority: None,
                    kernel: addresses(kernel),
                    user: addresses(user),
                })
            }
            Entry::Switch(_) | Entry::Handler { .. } => None,
        };
        within.filter_map(sample).collect()
    }
}

/// An event with its place among those of the same instant: what ends does so before
/// another thread comes, and that one before what begins; within the same sort the inner
/// one ends first and the outer one begins first.
#[derive(Debug)]
struct Ordered {
    event: FlightEvent,
    rank: u8,
    within: Reverse<Nanos>,
}

impl Ordered {
    /// `last`: who came with the switch before, where that is known.
    fn switch(switch: &LoggedSwitch, last: Option<Tid>) -> Self {
        let what = Happening::Switch {
            tid: switch.to,
            name: switch.name.clone(),
            priority: windows_priority(switch.priority),
            priority_before: switch.left.map(windows_priority),
            before: last
                .filter(|last| *last != switch.from)
                .map(|_| switch.from),
            preempted: switch.preempts,
        };
        Self {
            event: FlightEvent {
                at_ns: switch.at,
                what,
            },
            rank: 1,
            within: Reverse(Nanos::ZERO),
        }
    }

    fn both(activity: Activity, begun: Nanos, ended: Nanos) -> [Self; 2] {
        let event = |at_ns, what| FlightEvent { at_ns, what };
        [
            Self {
                event: event(begun, Happening::Begin(activity)),
                rank: 2,
                within: Reverse(ended),
            },
            Self {
                event: event(ended, Happening::End(activity)),
                rank: 0,
                within: Reverse(begun),
            },
        ]
    }
}
