//! What the kernel of a Windows that runs tells, kept for some seconds: what each CPU
//! did, and when the threads that measure could run and did.

mod cpu;
mod names;
mod way;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use laggard_model::{Activity, Address, Evidence, Nanos, Sampler, Span, Symbol, Tid};

use crate::event::TraceEvent;
use crate::kernel::{KernelEvent, RoutineSort, decode};
use cpu::{CpuLog, LoggedSwitch};
use names::ThreadNames;
pub use way::Way;
use way::Ways;

use crate::tally::Drivers;

/// Most spans in which events were lost that are kept, the newest.
const MOST_GAPS: usize = 64;
/// Most CPUs: what says that it is another's is not believed.
const MOST_CPUS: u16 = 2_048;

/// How much is kept, and by which clock.
#[derive(Clone, Copy, Debug)]
pub struct LogPlan {
    /// Entries of each CPU at most: the oldest go first.
    pub entries: usize,
    /// How far apart samples are; `None`: none are taken.
    pub sampled: Option<Nanos>,
    /// From the ticks of the performance counter to the clock of activations.
    pub clock: fn(u64) -> Nanos,
}

/// The newest of what the kernel told.
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
    /// With nothing in it.
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

    /// Keeps the way of these threads from now on.
    pub fn watch(&mut self, threads: impl IntoIterator<Item = Tid>) {
        self.ways.watch(threads);
    }

    /// Takes in an event; those of a CPU may come a little out of order.
    pub fn add(&mut self, event: &TraceEvent<'_>) {
        let Some(told) = decode(event).known(&mut self.unreadable) else {
            return;
        };
        let Some(at) = self.time(event) else {
            self.unreadable += 1;
            return;
        };
        self.newest = self.newest.max(at);
        match told {
            KernelEvent::Handler {
                sort,
                begun,
                routine,
                vector: _,
            } => {
                let begun = (self.plan.clock)(begun);
                if let Some(log) = self.cpu(event.cpu) {
                    log.ran(activity(sort, routine), begun, at);
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
                        at,
                        to: Tid(to),
                        name,
                        from: Tid(from),
                        priority,
                        left,
                        preempts,
                    });
                }
                self.ways.ran(to, at);
            }
            KernelEvent::Ready { thread } => self.ways.ready(thread, at, event.cpu),
            KernelEvent::Sample {
                address, thread, ..
            } => {
                if let Some(log) = self.cpu(event.cpu) {
                    log.sampled(at, Tid(thread), address);
                }
            }
            KernelEvent::Stack { of, thread, frames } => {
                let of = (self.plan.clock)(of);
                if let Some(log) = self.cpu(event.cpu) {
                    log.called(of, Tid(thread), &frames);
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

    /// Events were lost between these instants.
    pub fn lost(&mut self, gap: Span) {
        if self.gaps.len() == MOST_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back(gap);
    }

    /// When the newest event was.
    pub const fn newest(&self) -> Nanos {
        self.newest
    }

    /// Events that could not be read: of a version before Windows 7, or damaged.
    pub const fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Switches that were not told, at least.
    pub fn unseen_switches(&self) -> u64 {
        self.cpus.values().map(CpuLog::unseen).sum()
    }

    /// When `thread`, which is watched, could run and ran, of what it waited for from
    /// `from` on and got by `to`. What was before is forgotten.
    pub fn way(&mut self, thread: Tid, from: Nanos, to: Nanos) -> Way {
        self.ways.way(thread, from, to)
    }

    /// What is known of a CPU from `from` to `to`.
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

    /// When nothing is known of a CPU: where events were lost, up to the switch that says
    /// who runs, and where they have not come yet.
    fn gaps(&self, log: &CpuLog, from: Nanos, to: Nanos) -> Vec<Span> {
        let lost = self.gaps.iter().map(|gap| Span {
            to_ns: log.next_switch(gap.to_ns).unwrap_or(Nanos::MAX),
            ..*gap
        });
        let unborn = Span {
            from_ns: self.newest,
            to_ns: Nanos::MAX,
        };
        let within = |gap: Span| Span {
            from_ns: gap.from_ns.max(from),
            to_ns: gap.to_ns.min(to),
        };
        let all = lost.chain([unborn]).map(within);
        all.filter(|gap| gap.from_ns < gap.to_ns).collect()
    }

    /// The driver and the place in it at an address of the kernel.
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

    /// The threads that a process has, or had.
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

const fn activity(sort: RoutineSort, routine: u64) -> Activity {
    match sort {
        RoutineSort::Isr => Activity::Isr(Address(routine)),
        RoutineSort::Dpc | RoutineSort::TimerDpc | RoutineSort::ThreadedDpc => {
            Activity::Dpc(Address(routine))
        }
    }
}
