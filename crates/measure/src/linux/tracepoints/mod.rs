//! Stages of threads without BPF: from the kernel's tracepoints as performance events, or without
//! rights from the context switches of the measuring threads ([`switches`]).
//!
//! The kernel writes a record per event into a ring of each CPU. The collector reads the rings,
//! finds the events of each wakeup ([`stamper`]), and writes their times to the slots of the
//! board before the slots are read. Measuring threads do nothing in addition.

mod ring;
mod stamper;
mod switches;

use std::fs;
use std::io::{self, ErrorKind};

use laggard_model::{Caveat, CaveatKind, Cpu, EventField, EventFormat, Nanos, Stage};

use super::interrupts::timer_without_tracepoint;
use super::{clock, online_cpus, policy, softirqs_are_preempted, tracefs};
use crate::board::{BoardSlot, Stamps};
use ring::{EventRing, RingRecord};
pub(crate) use stamper::StampedThread;
use stamper::{EventKind, KernelEvent, Stamper};
pub(crate) use switches::{SwitchReader, try_switches};

/// Link of `/proc/self/ns/pid` outside containers (`PROC_PID_INIT_INO` of the kernel).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";
/// Flag of an `hrtimer_start`: the timer expires in an interrupt (`HRTIMER_MODE_HARD`).
const MODE_HARD: u64 = 8;
/// Filter of softirq events: timers (`HRTIMER_SOFTIRQ`).
const SOFTIRQ_OF_TIMERS: &str = "vec == 8";
/// Time that a ring holds: a collector that does not run for this time loses nothing.
const RING_TIME: Nanos = Nanos::from_secs(8);
/// Bytes of the records of one wakeup, and records of other timers per second. Measured: 390 bytes.
const WAKEUP_BYTES: u64 = 480;
const OTHER_BYTES_PER_SECOND: u64 = 100_000;
/// Sleep of the trial.
const TRIAL_TIME: Nanos = Nanos::from_us(200);
/// Maximum size of a ring in bytes.
const MAX_RING_BYTES: u64 = 16 << 20;
/// Maximum number of threads in a filter, whose text the kernel limits to a page.
const MAX_FILTERED: usize = 150;

/// Fields of a tracepoint's records that become an event.
#[derive(Clone, Debug)]
enum Layout {
    InterruptEntry,
    InterruptExit,
    Armed {
        tid: EventField,
        timer: EventField,
        expiry: EventField,
        mode: EventField,
    },
    Expired {
        timer: EventField,
    },
    SoftirqRaised,
    SoftirqEntry,
    Waking {
        tid: EventField,
    },
    SwitchIn {
        tid: EventField,
    },
}

/// Tracepoints that this kernel has and this process may record.
#[derive(Debug)]
pub(crate) struct Tracepoints {
    events: Vec<(EventFormat, Layout)>,
    /// Address of the kernel's function that a sleeping thread's timer calls.
    function: u64,
    /// Whether timers of some threads expire in softirq context (`PREEMPT_RT`).
    has_soft_timers: bool,
    pub(crate) stamps: Stamps,
}

impl Tracepoints {
    /// Finds the tracepoints for these stages and tries to record them.
    ///
    /// # Errors
    ///
    /// Returns the reason why they are not available.
    pub(crate) fn new(stamps: Stamps) -> io::Result<Self> {
        let namespace = fs::read_link("/proc/self/ns/pid")?;
        if namespace.to_str() != Some(INITIAL_PID_NAMESPACE) {
            return Err(io::Error::new(
                ErrorKind::Unsupported,
                "tracepoints show the thread IDs outside the PID namespace of this process (a container)",
            ));
        }
        let root = tracefs::root()?;
        let format = |event: &str| {
            let path = root.join("events").join(event).join("format");
            EventFormat::parse(&tracefs::read(&path)?)
                .map_err(|err| io::Error::new(ErrorKind::InvalidData, err))
        };
        let integer = |format: &EventFormat, name| {
            let field = format.integer(name);
            field.map_err(|err| io::Error::new(ErrorKind::InvalidData, err))
        };
        let armed = format("timer/hrtimer_start")?;
        let function = integer(&armed, "function")?;
        let layout = Layout::Armed {
            tid: integer(&armed, "common_pid")?,
            timer: integer(&armed, "hrtimer")?,
            // Without the slack of the timer.
            expiry: integer(&armed, "softexpires")?,
            mode: integer(&armed, "mode")?,
        };
        let function = function_of_sleeper(&armed, &layout, &function)?;
        let mut events = vec![(armed, layout)];
        let has_soft_timers = softirqs_are_preempted();
        if stamps.need_expire() {
            let expired = format("timer/hrtimer_expire_entry")?;
            let timer = integer(&expired, "hrtimer")?;
            events.push((expired, Layout::Expired { timer }));
        }
        if stamps.has(Stage::Irq) && timer_without_tracepoint().is_none() {
            let interrupts = match format("irq_vectors/local_timer_entry") {
                // x86: the timer's interrupt does not have a device handler.
                Ok(entry) => vec![(entry, Layout::InterruptEntry)],
                Err(_) => vec![
                    (format("irq/irq_handler_entry")?, Layout::InterruptEntry),
                    (format("irq/irq_handler_exit")?, Layout::InterruptExit),
                ],
            };
            events.extend(interrupts);
        }
        if has_soft_timers && stamps.need_raise() {
            events.push((format("irq/softirq_raise")?, Layout::SoftirqRaised));
            events.push((format("irq/softirq_entry")?, Layout::SoftirqEntry));
        }
        if stamps.has(Stage::Waking) {
            let waking = format("sched/sched_waking")?;
            let tid = integer(&waking, "pid")?;
            events.push((waking, Layout::Waking { tid }));
        }
        if stamps.has(Stage::Running) {
            let switch = format("sched/sched_switch")?;
            let tid = integer(&switch, "next_pid")?;
            events.push((switch, Layout::SwitchIn { tid }));
        }
        let tracepoints = Self {
            events,
            function,
            has_soft_timers,
            stamps,
        };
        // A trial of the filters, which records nothing.
        if let Some(&cpu) = super::allowed_cpus().as_slice().first() {
            EventRing::of_cpu(cpu, &tracepoints.filtered(&[0]), 0)?;
        }
        Ok(tracepoints)
    }

    /// Returns whether stage `irq` is stamped.
    pub(crate) fn has_irq(&self) -> bool {
        self.stamps.has(Stage::Irq)
    }

    /// Starts to record the wakeups of `threads`, each line with one wakeup per `period`.
    /// `may_leave`: their timers may expire on every CPU.
    pub(crate) fn start(
        self,
        threads: &[StampedThread],
        period: Nanos,
        may_leave: bool,
    ) -> io::Result<TracepointReader> {
        let mut cpus: Vec<Cpu> = threads.iter().map(|thread| Cpu(thread.cpu)).collect();
        if may_leave {
            cpus.extend(online_cpus().as_slice());
        }
        cpus.sort_unstable();
        cpus.dedup();
        let ring = |cpu: Cpu| {
            let on_cpu = threads
                .iter()
                .filter(|thread| may_leave || thread.cpu == cpu.0);
            let tids: Vec<u32> = on_cpu.map(|thread| thread.tid).collect();
            let wakeups = RING_TIME.ns() / period.ns().max(1) * tids.len() as u64;
            let other = OTHER_BYTES_PER_SECOND * (RING_TIME.ns() / Nanos::from_secs(1).ns());
            let bytes = (wakeups * WAKEUP_BYTES + other).min(MAX_RING_BYTES);
            let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
            Ok((cpu, EventRing::of_cpu(cpu, &self.filtered(&tids), bytes)?))
        };
        let rings = cpus.into_iter().map(ring).collect::<io::Result<Vec<_>>>()?;
        rings.iter().try_for_each(|(_, ring)| ring.enable())?;
        let has_waking = self.stamps.has(Stage::Waking);
        Ok(TracepointReader {
            stamper: Stamper::new(threads, has_waking, may_leave),
            tracepoints: self,
            rings,
            buffer: Vec::new(),
            pending: Vec::new(),
            lost: 0,
        })
    }

    /// Returns the number and filter of each tracepoint for these threads.
    fn filtered(&self, tids: &[u32]) -> Vec<(u16, String)> {
        let filter = |layout: &Layout| match layout {
            // An interrupt arms the timer of the tick, as the thread that it interrupts.
            Layout::Armed { tid, .. } => {
                format!(
                    "function == {:#x} && ({})",
                    self.function,
                    any_of(&tid.name, tids)
                )
            }
            Layout::Expired { .. } => format!("function == {:#x}", self.function),
            Layout::Waking { tid } | Layout::SwitchIn { tid } => any_of(&tid.name, tids),
            Layout::SoftirqRaised | Layout::SoftirqEntry => SOFTIRQ_OF_TIMERS.into(),
            Layout::InterruptEntry | Layout::InterruptExit => String::new(),
        };
        let events = self.events.iter();
        events
            .map(|(format, layout)| (format.id, filter(layout)))
            .collect()
    }

    /// Returns the event in a record. `None`: it is of another tracepoint, or too short.
    fn event(&self, record: &[u8]) -> Option<EventKind> {
        let id = EventFormat::id_of(record)?;
        let (_, layout) = self.events.iter().find(|(format, _)| format.id == id)?;
        layout.event(record, self.has_soft_timers)
    }
}

impl Layout {
    fn event(&self, record: &[u8], has_soft_timers: bool) -> Option<EventKind> {
        let tid = |field: &EventField| u32::try_from(field.value(record)?).ok();
        Some(match self {
            Self::InterruptEntry => EventKind::InterruptEntry,
            Self::InterruptExit => EventKind::InterruptExit,
            Self::Armed {
                tid: thread,
                timer,
                expiry,
                mode,
            } => EventKind::Armed {
                tid: tid(thread)?,
                timer: timer.value(record)?,
                expiry: Nanos::from_ns(expiry.value(record)?),
                is_soft: has_soft_timers && mode.value(record)? & MODE_HARD == 0,
            },
            Self::Expired { timer } => EventKind::Expired {
                timer: timer.value(record)?,
            },
            Self::SoftirqRaised => EventKind::SoftirqRaised,
            Self::SoftirqEntry => EventKind::SoftirqEntry,
            Self::Waking { tid: thread } => EventKind::Waking { tid: tid(thread)? },
            Self::SwitchIn { tid: thread } => EventKind::SwitchIn { tid: tid(thread)? },
        })
    }
}

/// Returns the address of the function that the timer of a sleeping thread calls, from a trial.
fn function_of_sleeper(
    format: &EventFormat,
    layout: &Layout,
    function: &EventField,
) -> io::Result<u64> {
    let cpu = *super::allowed_cpus()
        .as_slice()
        .first()
        .ok_or(ErrorKind::NotFound)?;
    let trial = || {
        policy::pin(cpu)?;
        // SAFETY: without arguments; cannot fail.
        let tid = unsafe { libc::gettid() };
        let filter = format!("common_pid == {tid}");
        let ring = EventRing::of_cpu(cpu, &[(format.id, filter)], 0)?;
        ring.enable()?;
        let expiry = clock::now() + TRIAL_TIME;
        clock::sleep_until(expiry);
        let mut expired = None;
        ring.read(&mut Vec::new(), |record| {
            if let RingRecord::Event(_, data) = record
                && let Some(EventKind::Armed { expiry: armed, .. }) = layout.event(data, false)
                && armed == expiry
            {
                expired = function.value(data);
            }
        });
        expired.ok_or_else(|| io::Error::other("a trial of timer/hrtimer_start recorded no event"))
    };
    std::thread::scope(|scope| {
        policy::trial()
            .spawn_scoped(scope, trial)?
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the trial thread panicked")))
    })
}

/// Returns the filter for events whose `field` is one of `tids`, or lies between the smallest and
/// the largest if there are many.
fn any_of(field: &str, tids: &[u32]) -> String {
    if tids.len() <= MAX_FILTERED {
        let tids: Vec<String> = tids.iter().map(|tid| format!("{field} == {tid}")).collect();
        return tids.join(" || ");
    }
    let first = tids.iter().min().copied().unwrap_or(0);
    let last = tids.iter().max().copied().unwrap_or(0);
    format!("{field} >= {first} && {field} <= {last}")
}

/// Reader of the events that stamp the stages of threads.
#[derive(Debug)]
pub(crate) enum StageReader {
    Tracepoints(Box<TracepointReader>),
    Switches(SwitchReader),
}

impl StageReader {
    /// Reads the events up to `until`, which is not in the future. A thread that ran before it
    /// has all its events in the rings.
    pub(crate) fn read(&mut self, until: Nanos) {
        match self {
            Self::Tracepoints(reader) => reader.read(until),
            Self::Switches(reader) => reader.read(),
        }
    }

    /// Writes the times of the wakeup in a slot of the line at `place` of `cpu`.
    pub(crate) fn stamp(&mut self, cpu: u32, place: usize, slot: &BoardSlot) {
        match self {
            Self::Tracepoints(reader) => reader.stamper.stamp(cpu, place, slot),
            Self::Switches(reader) => reader.stamp(cpu, place, slot),
        }
    }

    /// Returns the warning about events that were lost.
    pub(crate) fn lost_caveat(&self) -> Option<Caveat> {
        let lost = match self {
            Self::Tracepoints(reader) => reader.lost,
            Self::Switches(reader) => reader.lost(),
        };
        (lost > 0).then(|| {
            Caveat::new(
                CaveatKind::StageUnseen,
                format!(
                    "the kernel dropped {lost} tracepoint events because laggard read them too late; the wakeups at these times have no stages"
                ),
                "record with a longer --period, or fewer services",
            )
        })
    }
}

/// Recording tracepoints.
#[derive(Debug)]
pub(crate) struct TracepointReader {
    tracepoints: Tracepoints,
    rings: Vec<(Cpu, EventRing)>,
    stamper: Stamper,
    buffer: Vec<u8>,
    /// Events that are later than the last pass.
    pending: Vec<KernelEvent>,
    /// Number of events that found no room in a ring.
    lost: u64,
}

impl TracepointReader {
    fn read(&mut self, until: Nanos) {
        for (cpu, ring) in &self.rings {
            let cpu = cpu.0;
            ring.read(&mut self.buffer, |record| {
                let (time, kind) = match record {
                    RingRecord::Event(time, data) => (time, self.tracepoints.event(data)),
                    RingRecord::SwitchIn(time) => (time, None),
                    RingRecord::Lost(time, count) => {
                        self.lost += count;
                        (time, Some(EventKind::Lost))
                    }
                };
                if let Some(kind) = kind {
                    self.pending.push(KernelEvent {
                        at: time,
                        cpu,
                        kind,
                    });
                }
            });
        }
        self.pending.sort_by_key(|event| event.at);
        let ready = self.pending.partition_point(|event| event.at <= until);
        for event in self.pending.drain(..ready) {
            self.stamper.take(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_names_each_thread_up_to_the_limit_of_its_text() {
        assert_eq!(any_of("pid", &[7]), "pid == 7");
        assert_eq!(any_of("pid", &[7, 8]), "pid == 7 || pid == 8");
        let tids: Vec<u32> = (4_194_000..4_194_304).collect();
        let most = any_of("common_pid", &tids[..MAX_FILTERED]);
        assert!((3_000..4_096).contains(&most.len()), "{}", most.len());
        let range = "pid >= 4194000 && pid <= 4194303";
        assert_eq!(any_of("pid", &tids), range);
    }
}
