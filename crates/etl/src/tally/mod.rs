//! What a trace tells of latency, added up event by event: how long handlers
//! ran, how long threads that were ready waited for a CPU, and how long threads
//! waited for pages. Memory is bounded whatever the trace holds.

mod drivers;
mod threads;

use std::collections::BTreeMap;
use std::collections::HashMap;

use laggard_model::{Histogram, Nanos};

use crate::event::TraceEvent;
use crate::header::TraceHeader;
use crate::kernel::{KernelEvent, RoutineSort, decode};
pub(crate) use drivers::Drivers;
pub use drivers::ImageEpoch;
pub use threads::{ThreadTallies, ThreadTally};

/// Most routines that are told apart.
const MOST_ROUTINES: usize = 16_384;
/// A handler or a fault that took longer did not: it would have stopped the
/// machine. Its beginning is not in the trace's time.
const IMPLAUSIBLE: Nanos = Nanos::from_secs(60);

impl RoutineSort {
    /// What Microsoft recommends: an ISR runs 25 us at most, a DPC 100 us (Windows
    /// driver documentation, "Example 15: Measuring DPC/ISR Time").
    pub const fn limit(self) -> Nanos {
        match self {
            Self::Isr => Nanos::from_us(25),
            Self::Dpc | Self::TimerDpc | Self::ThreadedDpc => Nanos::from_us(100),
        }
    }
}

/// A routine that ran as a handler.
#[derive(Clone, Debug, Default)]
pub struct HandlerTally {
    /// How long it ran each time, with whatever interrupted it.
    pub times: Histogram,
    /// How often longer than [`RoutineSort::limit`].
    pub over_limit: u64,
}

impl HandlerTally {
    /// Adds all that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.over_limit += other.over_limit;
    }
}

/// Where a CPU was when it was looked at.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SampleTally {
    /// How often CPUs were looked at.
    pub all: u64,
    /// How often there was a DPC.
    pub in_dpc: u64,
    /// How often there was an ISR.
    pub in_isr: u64,
    /// How often there was nothing to do.
    pub idle: u64,
}

/// What a single time is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ToldOf {
    /// A handler ran.
    Handler {
        /// Which sort.
        sort: RoutineSort,
        /// Its address.
        routine: u64,
        /// When its image was in memory, for [`TraceTally::driver`].
        epoch: ImageEpoch,
    },
    /// A thread waited for a CPU and then ran with this priority.
    Ready(u8),
    /// A thread waited for a page.
    HardFault,
}

/// A single time that a trace tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeTold {
    /// Of what.
    pub of: ToldOf,
    /// The CPU on which it ended.
    pub cpu: u16,
    /// When it began, in ticks of the trace's clock.
    pub begun: i64,
    /// When it ended, in the same.
    pub ended: i64,
    /// How long it took.
    pub took: Nanos,
}

/// What a trace tells of latency.
#[derive(Debug)]
pub struct TraceTally {
    header: TraceHeader,
    /// Events of all sorts.
    pub events: u64,
    /// When the first and the last of those counted below were, in ticks.
    span: Option<(i64, i64)>,
    handlers: HashMap<(RoutineSort, u64, ImageEpoch), HandlerTally>,
    /// When the first event of all was, in ticks.
    first: Option<i64>,
    /// Runs of routines beyond those that are told apart.
    pub crowded: u64,
    drivers: Drivers,
    /// What is told of threads.
    pub threads: ThreadTallies,
    /// What samples tell.
    pub samples: SampleTally,
    /// Events that should have been read and could not be.
    pub unreadable: u64,
    /// Handlers and faults that begin outside of the trace's time.
    pub implausible: u64,
    /// Handlers and faults that began before the first event, and ended after it.
    pub early: u64,
    /// Batches of switches, which are not read.
    pub batches: u64,
}

impl TraceTally {
    /// Of a trace that says this of itself, and nothing counted yet.
    pub fn new(header: &TraceHeader) -> Self {
        Self {
            header: header.clone(),
            events: 0,
            span: None,
            handlers: HashMap::new(),
            first: None,
            crowded: 0,
            drivers: Drivers::default(),
            threads: ThreadTallies::default(),
            samples: SampleTally::default(),
            unreadable: 0,
            implausible: 0,
            early: 0,
            batches: 0,
        }
    }

    /// Adds an event; events come in the order of time.
    pub fn add(&mut self, event: &TraceEvent<'_>) {
        self.add_and_tell(event, |_| ());
    }

    /// The same, and hands each time that is counted to `tell`, when it ended: as many
    /// as histograms and [`Self::crowded`] count.
    pub fn add_and_tell(&mut self, event: &TraceEvent<'_>, mut tell: impl FnMut(TimeTold)) {
        self.events += 1;
        if event.ticks != 0 {
            self.first.get_or_insert(event.ticks);
        }
        let Some(told) = decode(event).known(&mut self.unreadable) else {
            return;
        };
        match told {
            KernelEvent::Handler {
                sort,
                begun,
                routine,
                vector: _,
            } => {
                let epoch = self.drivers.epoch(routine);
                let handler = (sort, routine, epoch);
                if let Some((begun, took)) = self.ran(event.ticks, begun, handler) {
                    let of = ToldOf::Handler {
                        sort,
                        routine,
                        epoch,
                    };
                    tell(Self::told(of, event, (begun, took)));
                }
            }
            KernelEvent::HardFault { begun, thread } => match self.took(begun, event.ticks) {
                Some((begun, took)) => {
                    self.lasted(begun, event.ticks);
                    self.threads.faulted(thread, took);
                    tell(Self::told(ToldOf::HardFault, event, (begun, took)));
                }
                None => self.implausible += 1,
            },
            KernelEvent::Switch {
                to,
                from,
                priority,
                left: _,
                preempts,
            } => {
                self.lasts(event.ticks);
                let header = &self.header;
                let ended = self.threads.switched(
                    (from, preempts),
                    (to, priority),
                    event.ticks,
                    |begin, end| header.between(begin, end),
                );
                if let Some(wait) = ended {
                    let of = ToldOf::Ready(priority);
                    tell(Self::told(of, event, (wait.since, wait.took)));
                }
            }
            KernelEvent::Ready { thread } => {
                self.lasts(event.ticks);
                self.threads.became_ready(thread, event.ticks);
            }
            KernelEvent::Sample {
                address: _,
                thread,
                in_dpc,
                in_isr,
            } => {
                self.lasts(event.ticks);
                self.samples.all += 1;
                self.samples.in_dpc += u64::from(in_dpc);
                self.samples.in_isr += u64::from(in_isr);
                self.samples.idle += u64::from(thread == 0 && !in_dpc && !in_isr);
            }
            KernelEvent::Image {
                change,
                base,
                size,
                path,
            } => self.drivers.add(change, (base, size), &path),
            KernelEvent::Process { process, is_new: _ } => self.threads.is_process(&process),
            KernelEvent::Thread { thread, is_new } => self.threads.is_thread(thread, is_new),
            KernelEvent::ThreadEnd(thread) => self.threads.ended(thread),
            KernelEvent::SwitchBatch => self.batches += 1,
            KernelEvent::Stack { .. } => {}
        }
    }

    /// How long the trace tells of what is counted here; `None`: it does not.
    pub fn span(&self) -> Option<Nanos> {
        let (first, last) = self.span?;
        self.header.between(first, last)
    }

    /// Handlers by sort and by routine, as `ndis.sys+0x1234`.
    pub fn routines(&self) -> BTreeMap<(RoutineSort, String), HandlerTally> {
        self.by(Drivers::routine)
    }

    /// Handlers by sort and by driver, as `ndis.sys`.
    pub fn drivers(&self) -> BTreeMap<(RoutineSort, String), HandlerTally> {
        self.by(Drivers::driver)
    }

    fn by(
        &self,
        name: impl Fn(&Drivers, (u64, ImageEpoch)) -> String,
    ) -> BTreeMap<(RoutineSort, String), HandlerTally> {
        let mut all: BTreeMap<_, HandlerTally> = BTreeMap::new();
        for ((sort, routine, epoch), tally) in &self.handlers {
            let key = (*sort, name(&self.drivers, (*routine, *epoch)));
            all.entry(key).or_default().merge(tally);
        }
        all
    }

    const fn told(of: ToldOf, event: &TraceEvent<'_>, (begun, took): (i64, Nanos)) -> TimeTold {
        TimeTold {
            of,
            cpu: event.cpu,
            begun,
            ended: event.ticks,
            took,
        }
    }

    /// The driver whose image held `address` then, as `ndis.sys`; `unknown` where none
    /// is known there.
    pub fn driver(&self, address: u64, epoch: ImageEpoch) -> String {
        self.drivers.driver((address, epoch))
    }

    fn lasts(&mut self, ticks: i64) {
        let (first, _) = *self.span.get_or_insert((ticks, ticks));
        self.span = Some((first, ticks));
    }

    /// Adds what began and ended then.
    fn lasted(&mut self, begun: i64, ended: i64) {
        self.lasts(ended);
        if let Some((first, _)) = &mut self.span {
            *first = begun.min(*first);
        }
        self.early += u64::from(self.first.is_some_and(|first| begun < first));
    }

    fn took(&self, begun: u64, ended: i64) -> Option<(i64, Nanos)> {
        let begun = i64::try_from(begun).ok()?;
        let took = self.header.between(begun, ended)?;
        (took <= IMPLAUSIBLE).then_some((begun, took))
    }

    fn ran(
        &mut self,
        ended: i64,
        begun: u64,
        handler: (RoutineSort, u64, ImageEpoch),
    ) -> Option<(i64, Nanos)> {
        let Some((begun, took)) = self.took(begun, ended) else {
            self.implausible += 1;
            return None;
        };
        self.lasted(begun, ended);
        let is_known = self.handlers.contains_key(&handler);
        if !is_known && self.handlers.len() >= MOST_ROUTINES {
            self.crowded += 1;
            return Some((begun, took));
        }
        let tally = self.handlers.entry(handler).or_default();
        tally.times.add(took);
        tally.over_limit += u64::from(took > handler.0.limit());
        Some((begun, took))
    }
}
