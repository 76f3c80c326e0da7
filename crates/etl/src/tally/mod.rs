//! Latency statistics of a trace: durations of handlers, waits of ready threads for a
//! CPU, and waits for pages. Memory is bounded for any trace.

mod drivers;
mod threads;

use std::collections::BTreeMap;
use std::collections::HashMap;

use laggard_model::{Histogram, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use crate::event::TraceEvent;
use crate::header::TraceHeader;
use crate::kernel::{HandlerKind, KernelEvent, decode};
pub(crate) use drivers::Drivers;
pub use drivers::ImageEpoch;
pub use threads::{ThreadTallies, ThreadTally};

/// Maximum number of separate routines.
const MOST_ROUTINES: usize = 16_384;
/// Maximum plausible duration of a handler or a fault: a longer one would have stopped
/// the machine, so its start is outside the trace's time.
const IMPLAUSIBLE: Nanos = Nanos::from_secs(60);

impl HandlerKind {
    /// Returns Microsoft's recommended maximum: 25 us for an ISR, 100 us for a DPC
    /// (Windows driver documentation, "Example 15: Measuring DPC/ISR Time").
    pub const fn limit(self) -> Nanos {
        match self {
            Self::Isr => Nanos::from_us(25),
            Self::Dpc | Self::TimerDpc | Self::ThreadedDpc => Nanos::from_us(100),
        }
    }
}

/// Statistics of a handler's routine.
#[derive(Clone, Debug, Default)]
pub struct HandlerTally {
    /// Durations, including interruptions.
    pub times: Histogram,
    /// Number of runs longer than [`HandlerKind::limit`].
    pub over_limit: u64,
}

impl HandlerTally {
    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.times.merge(&other.times);
        self.over_limit += other.over_limit;
    }
}

/// Statistics of CPU samples.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
pub struct TraceSamples {
    /// Number of samples.
    pub total: u64,
    /// Samples in a DPC.
    pub in_dpc: u64,
    /// Samples in an ISR.
    pub in_isr: u64,
    /// Samples of an idle CPU.
    pub idle: u64,
}

/// Subject of a duration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ToldOf {
    /// A handler ran.
    Handler {
        sort: HandlerKind,
        /// Address of the routine.
        routine: u64,
        /// Time of its image in memory, for [`TraceTally::driver`].
        epoch: ImageEpoch,
    },
    /// A thread waited for a CPU and then ran with this priority.
    Ready(u8),
    /// A thread waited for a page.
    HardFault,
}

/// Single duration in a trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeTold {
    pub of: ToldOf,
    /// CPU where it ended.
    pub cpu: u16,
    /// Start, ticks of the trace's clock.
    pub begun: i64,
    /// End, ticks of the trace's clock.
    pub ended: i64,
    pub took: Nanos,
}

/// Latency statistics of a trace.
#[derive(Debug)]
pub struct TraceTally {
    header: TraceHeader,
    pub events: u64,
    /// Times of the first and last event counted below, ticks.
    span: Option<(i64, i64)>,
    handlers: HashMap<(HandlerKind, u64, ImageEpoch), HandlerTally>,
    /// Time of the first event, ticks.
    first: Option<i64>,
    /// Number of runs of routines beyond the separate ones.
    pub crowded: u64,
    drivers: Drivers,
    pub threads: ThreadTallies,
    pub samples: TraceSamples,
    /// Number of known events that could not be decoded.
    pub unreadable: u64,
    /// Number of handlers and faults that start outside the trace's time.
    pub implausible: u64,
    /// Number of handlers and faults that started before the first event and ended
    /// after it.
    pub early: u64,
    /// Number of batches of switches, which are not decoded.
    pub batches: u64,
}

impl TraceTally {
    /// Creates empty statistics for a trace with this header.
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
            samples: TraceSamples::default(),
            unreadable: 0,
            implausible: 0,
            early: 0,
            batches: 0,
        }
    }

    /// Adds an event, in time order.
    pub fn add(&mut self, event: &TraceEvent<'_>) {
        self.add_and_tell(event, |_| ());
    }

    /// Adds an event and passes each duration to `tell` when it ends. The histograms and
    /// [`Self::crowded`] count the same durations.
    pub fn add_and_tell(&mut self, event: &TraceEvent<'_>, mut tell: impl FnMut(TimeTold)) {
        self.events += 1;
        if event.ticks != 0 {
            self.first.get_or_insert(event.ticks);
        }
        let Some(decoded) = decode(event).known(&mut self.unreadable) else {
            return;
        };
        match decoded {
            KernelEvent::Handler {
                sort,
                begun,
                routine,
                vector: _,
            } => {
                let epoch = self.drivers.epoch(routine);
                let handler = (sort, routine, epoch);
                if let Some((begun, took)) = self.ran(event.ticks, begun, handler) {
                    let subject = ToldOf::Handler {
                        sort,
                        routine,
                        epoch,
                    };
                    tell(Self::told(subject, event, (begun, took)));
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
                    let subject = ToldOf::Ready(priority);
                    tell(Self::told(subject, event, (wait.since, wait.took)));
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
                self.samples.total += 1;
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

    /// Returns the time that the counted events cover; `None` without any.
    pub fn span(&self) -> Option<Nanos> {
        let (first, last) = self.span?;
        self.header.between(first, last)
    }

    /// Returns handlers by kind and routine, such as `ndis.sys+0x1234`.
    pub fn routines(&self) -> BTreeMap<(HandlerKind, String), HandlerTally> {
        self.by(Drivers::routine)
    }

    /// Returns handlers by kind and driver, such as `ndis.sys`.
    pub fn drivers(&self) -> BTreeMap<(HandlerKind, String), HandlerTally> {
        self.by(Drivers::driver)
    }

    fn by(
        &self,
        name: impl Fn(&Drivers, (u64, ImageEpoch)) -> String,
    ) -> BTreeMap<(HandlerKind, String), HandlerTally> {
        let mut handlers: BTreeMap<_, HandlerTally> = BTreeMap::new();
        for ((sort, routine, epoch), tally) in &self.handlers {
            let key = (*sort, name(&self.drivers, (*routine, *epoch)));
            handlers.entry(key).or_default().merge(tally);
        }
        handlers
    }

    const fn told(
        subject: ToldOf,
        event: &TraceEvent<'_>,
        (begun, took): (i64, Nanos),
    ) -> TimeTold {
        TimeTold {
            of: subject,
            cpu: event.cpu,
            begun,
            ended: event.ticks,
            took,
        }
    }

    /// Returns the driver whose image contained `address` at that time, such as
    /// `ndis.sys`, or `unknown`.
    pub fn driver(&self, address: u64, epoch: ImageEpoch) -> String {
        self.drivers.driver((address, epoch))
    }

    fn lasts(&mut self, ticks: i64) {
        let (first, _) = *self.span.get_or_insert((ticks, ticks));
        self.span = Some((first, ticks));
    }

    /// Extends the covered time to this start and end.
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
        handler: (HandlerKind, u64, ImageEpoch),
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
