//! Kernel events of a running Windows, kept for some seconds: the activity of each CPU, and the
//! ready and run times of the measuring threads.

mod cpu;
mod names;
mod way;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use laggard_model::{Activity, Address, Evidence, Nanos, Sampler, Span, Symbol, Tid};

use crate::event::TraceEvent;
use crate::kernel::{HandlerKind, KernelEvent, decode};
use cpu::{CpuLog, LoggedSwitch};
use names::ThreadNames;
pub use way::Way;
use way::Ways;

use crate::tally::Drivers;

/// Maximum number of spans with lost events; the newest are kept.
const MOST_GAPS: usize = 64;
/// Maximum number of CPUs; events of others are ignored.
const MOST_CPUS: u16 = 2_048;

/// Size and clock of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogPlan {
    /// Maximum number of entries per CPU; the oldest are dropped.
    pub entries: usize,
    /// Sampling interval; `None` without samples.
    pub sampled: Option<Nanos>,
    /// Conversion from ticks of the performance counter to the clock of activations.
    pub clock: fn(u64) -> Nanos,
}

/// Newest kernel events.
#[derive(Debug)]
pub struct KernelLog {
    plan: LogPlan,
    cpus: BTreeMap<u16, CpuLog>,
    ways: Ways,
    names: ThreadNames,
    drivers: Drivers,
    newest: Nanos,
    gaps: VecDeque<Span>,
    unreadable: u64,
}

impl KernelLog {
    /// Creates an empty log.
    pub fn new(plan: LogPlan) -> Self {
        Self {
            plan,
            cpus: BTreeMap::new(),
            ways: Ways::default(),
            names: ThreadNames::default(),
            drivers: Drivers::default(),
            newest: Nanos::ZERO,
            gaps: VecDeque::new(),
            unreadable: 0,
        }
    }

    /// Records the wakeups of these threads from now.
    pub fn watch(&mut self, threads: impl IntoIterator<Item = Tid>) {
        self.ways.watch(threads);
    }

    /// Adds an event. Events of a CPU may be slightly out of order.
    pub fn add(&mut self, event: &TraceEvent<'_>) {
        let Some(decoded) = decode(event).known(&mut self.unreadable) else {
            return;
        };
        let Some(time) = self.time(event) else {
            self.unreadable += 1;
            return;
        };
        self.newest = self.newest.max(time);
        match decoded {
            KernelEvent::Handler {
                sort,
                begun,
                routine,
                vector: _,
            } => {
                let begun = (self.plan.clock)(begun);
                if let Some(log) = self.cpu(event.cpu) {
                    log.ran(activity(sort, routine), begun, time);
                }
            }
            KernelEvent::Switch {
                to,
                from,
                priority,
                left,
                preempts,
            } => {
                let name = self.names.of(to);
                if let Some(log) = self.cpu(event.cpu) {
                    log.switched(LoggedSwitch {
                        at: time,
                        to: Tid(to),
                        name,
                        from: Tid(from),
                        priority,
                        left,
                        preempts,
                    });
                }
                self.ways.ran(to, time);
            }
            KernelEvent::Ready { thread } => self.ways.ready(thread, time, event.cpu),
            KernelEvent::Sample {
                address, thread, ..
            } => {
                if let Some(log) = self.cpu(event.cpu) {
                    log.sampled(time, Tid(thread), address);
                }
            }
            KernelEvent::Stack { of, thread, frames } => {
                let sample_time = (self.plan.clock)(of);
                if let Some(log) = self.cpu(event.cpu) {
                    log.called(sample_time, Tid(thread), &frames);
                }
            }
            KernelEvent::Image {
                change,
                base,
                size,
                path,
            } => self.drivers.add(change, (base, size), &path),
            KernelEvent::Process { process, is_new: _ } => self.names.is_process(process),
            KernelEvent::Thread { thread, is_new: _ } => self.names.is_thread(thread),
            KernelEvent::ThreadEnd(thread) => self.names.ended(thread),
            KernelEvent::HardFault { .. } | KernelEvent::SwitchBatch => {}
        }
    }

    /// Records that events were lost in this span.
    pub fn lost(&mut self, gap: Span) {
        if self.gaps.len() == MOST_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back(gap);
    }

    /// Returns the time of the newest event.
    pub const fn newest(&self) -> Nanos {
        self.newest
    }

    /// Returns the number of unreadable events: of a version before Windows 7, or
    /// damaged.
    pub const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Returns the minimum number of missing switches.
    pub fn unseen_switches(&self) -> u64 {
        self.cpus.values().map(CpuLog::unseen).sum()
    }

    /// Returns the times when the watched `thread` became ready and ran, for a wait from `from`
    /// to `to` at the latest. Earlier times are dropped.
    pub fn way(&mut self, thread: Tid, from: Nanos, to: Nanos) -> Way {
        self.ways.way(thread, from, to)
    }

    /// Returns the trace data of a CPU from `from` to `to`.
    pub fn evidence(&self, cpu: u16, from: Nanos, to: Nanos) -> Evidence {
        let margin = self.plan.sampled.unwrap_or_default() * 2;
        let empty = CpuLog::new(0);
        let log = self.cpus.get(&cpu).unwrap_or(&empty);
        let gaps = self.gaps(log, from, to);
        let process = |thread: Tid| self.names.process_of(thread.0).unwrap_or_default();
        Evidence {
            from_ns: from,
            to_ns: to,
            overwritten: log.gone_to() > from || !gaps.is_empty(),
            events: log.events(from, to),
            samples: log.samples(from.saturating_sub(margin), to + margin, process),
            sampler: self.plan.sampled.map(|period| (Sampler::Profile, period)),
            gaps,
            ..Evidence::default()
        }
    }

    /// Returns the spans without trace data of a CPU: lost events, up to the switch
    /// that shows the running thread, and events that have not arrived.
    fn gaps(&self, log: &CpuLog, from: Nanos, to: Nanos) -> Vec<Span> {
        let lost = self.gaps.iter().map(|gap| Span {
            to_ns: log.next_switch(gap.to_ns).unwrap_or(Nanos::MAX),
            ..*gap
        });
        let unborn = Span::new(self.newest, Nanos::MAX);
        let within = |gap: Span| Span::new(gap.from_ns.max(from), gap.to_ns.min(to));
        let gaps = lost.chain([unborn]).map(within);
        gaps.filter(|gap| gap.from_ns < gap.to_ns).collect()
    }

    /// Returns the driver and the offset in it of a kernel address.
    pub fn symbol(&self, address: Address) -> Symbol {
        match self.drivers.current_place(address.0) {
            Some(name) => Symbol {
                name: Some(name),
                ..Symbol::default()
            },
            None => Symbol {
                unknown: Some("no driver is known to be there".into()),
                ..Symbol::default()
            },
        }
    }

    /// Returns the current and former threads of a process.
    pub fn threads_of(&self, process: u32) -> BTreeSet<Tid> {
        self.names.threads_of(process)
    }

    fn time(&self, event: &TraceEvent<'_>) -> Option<Nanos> {
        let ticks = u64::try_from(event.ticks).ok()?;
        Some((self.plan.clock)(ticks))
    }

    fn cpu(&mut self, cpu: u16) -> Option<&mut CpuLog> {
        let most = self.plan.entries;
        (cpu < MOST_CPUS).then(|| self.cpus.entry(cpu).or_insert_with(|| CpuLog::new(most)))
    }
}

const fn activity(sort: HandlerKind, routine: u64) -> Activity {
    match sort {
        HandlerKind::Isr => Activity::Isr(Address(routine)),
        HandlerKind::Dpc | HandlerKind::TimerDpc | HandlerKind::ThreadedDpc => {
            Activity::Dpc(Address(routine))
        }
    }
}
