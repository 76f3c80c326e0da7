//! Events of one CPU.

use std::cmp::Reverse;
use std::collections::VecDeque;

use laggard_model::{
    Activity, Address, FlightEvent, Happening, Nanos, StackSample, Tid, windows_priority,
};

/// Maximum number of frames of a call chain.
const MOST_FRAMES: usize = 32;
/// Maximum time between the end of a window and the end of a handler that belongs to it.
const LATER: Nanos = Nanos::from_ms(100);
/// Start of the kernel's half of the addresses.
const KERNEL: u64 = 0x8000_0000_0000_0000;

/// Context switch.
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
        /// Innermost first.
        frames: Vec<u64>,
    },
}

impl Entry {
    /// Returns the timestamp.
    const fn at(&self) -> Nanos {
        match self {
            Self::Switch(LoggedSwitch { at, .. }) | Self::Sample { at, .. } => *at,
            Self::Handler { ended, .. } => *ended,
        }
    }
}

/// Newest entries of one CPU.
#[derive(Debug)]
pub(super) struct CpuLog {
    /// In time order.
    entries: VecDeque<Entry>,
    most: usize,
    gone_to: Nanos,
    /// Thread of the newest switch.
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

    /// Returns the end of the time whose entries were dropped.
    pub(super) const fn gone_to(&self) -> Nanos {
        self.gone_to
    }

    /// Returns the minimum number of missing switches: another thread was switched out
    /// than the recorded one.
    pub(super) const fn unseen(&self) -> u64 {
        self.unseen
    }

    pub(super) fn switched(&mut self, switch: LoggedSwitch) {
        let last = self.last.replace(switch.to);
        self.unseen += u64::from(last.is_some_and(|last| last != switch.from));
        self.add(Entry::Switch(switch));
    }

    /// Adds a handler that ended. The duration of a handler within one tick of the clock is zero.
    pub(super) fn ran(&mut self, activity: Activity, begun: Nanos, ended: Nanos) {
        if begun < ended {
            self.add(Entry::Handler {
                activity,
                begun,
                ended,
            });
        }
    }

    pub(super) fn sampled(&mut self, time: Nanos, thread: Tid, address: u64) {
        self.add(Entry::Sample {
            at: time,
            thread,
            frames: vec![address],
        });
    }

    /// Adds the call chain of an earlier sample: its kernel part, or the following user
    /// part.
    pub(super) fn called(&mut self, time: Nanos, thread: Tid, chain: &[u64]) {
        let first = self.entries.partition_point(|entry| entry.at() < time);
        let same = self.entries.range_mut(first..);
        let mut same = same.take_while(|entry| entry.at() == time);
        let sample = same.find_map(|entry| match entry {
            Entry::Sample {
                thread: its,
                frames,
                ..
            } if *its == thread => Some(frames),
            Entry::Sample { .. } | Entry::Switch(_) | Entry::Handler { .. } => None,
        });
        if let Some(frames) = sample {
            // The first frame of a chain is the address of the sample.
            let kept = usize::from(frames.len() == 1 && frames.first() == chain.first());
            let room = MOST_FRAMES.saturating_sub(frames.len());
            frames.extend(chain.iter().skip(kept).take(room));
        }
    }

    /// Returns the time of the next switch to a thread, from `from`.
    pub(super) fn next_switch(&self, from: Nanos) -> Option<Nanos> {
        let first = self.entries.partition_point(|entry| entry.at() < from);
        let mut later = self.entries.range(first..);
        later.find_map(|entry| match entry {
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
        let time = entry.at();
        let is_newest = self.entries.back().is_none_or(|last| last.at() <= time);
        if is_newest {
            self.entries.push_back(entry)
        } else {
            let place = self.entries.partition_point(|entry| entry.at() <= time);
            self.entries.insert(place, entry);
        }
    }

    /// Returns the events from `from` to `to`, after the switch to the thread that ran
    /// at the start.
    pub(super) fn events(&self, from: Nanos, to: Nanos) -> Vec<FlightEvent> {
        let begin = self.entries.partition_point(|entry| entry.at() <= from);
        let before = self.entries.range(..begin).rev();
        let before = before
            .filter(|entry| matches!(entry, Entry::Switch(_)))
            .take(1);
        let within = self.entries.range(begin..);
        let within = within.take_while(|entry| entry.at() <= to + LATER);
        let mut events: Vec<OrderedEvent> = Vec::new();
        let mut last = None;
        for entry in before.chain(within) {
            match entry {
                Entry::Switch(switch) if switch.at <= to => {
                    events.push(OrderedEvent::switch(switch, last));
                    last = Some(switch.to);
                }
                Entry::Handler {
                    activity,
                    begun,
                    ended,
                } if *begun <= to => events.extend(OrderedEvent::both(*activity, *begun, *ended)),
                Entry::Switch(_) | Entry::Handler { .. } | Entry::Sample { .. } => {}
            }
        }
        events.sort_by_key(|ordered| (ordered.event.at_ns, ordered.rank, ordered.within));
        events.into_iter().map(|ordered| ordered.event).collect()
    }

    /// Returns the samples from `from` to `to`; `process` returns the process of a
    /// thread.
    pub(super) fn samples(
        &self,
        from: Nanos,
        to: Nanos,
        process: impl Fn(Tid) -> u32,
    ) -> Vec<StackSample> {
        let begin = self.entries.partition_point(|entry| entry.at() < from);
        let within = self.entries.range(begin..);
        let within = within.take_while(|entry| entry.at() <= to);
        let sample = |entry: &Entry| match entry {
            Entry::Sample { at, thread, frames } => {
                let is_kernel = |address: &&u64| **address >= KERNEL;
                let (kernel, user): (Vec<&u64>, Vec<&u64>) = frames.iter().partition(is_kernel);
                let addresses =
                    |frames: Vec<&u64>| frames.into_iter().copied().map(Address).collect();
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

/// Event with its order among events of the same time. Ends precede the next switch,
/// which precedes starts. If several handlers end at the same time, the inner one ends first. If
/// several start, the outer one starts first.
#[derive(Debug)]
struct OrderedEvent {
    event: FlightEvent,
    rank: u8,
    within: Reverse<Nanos>,
}

impl OrderedEvent {
    /// Converts a switch. `last` is the thread of the previous switch, if known.
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
