//! Threads in the form of the kernel's tracer. Perfetto fills its thread states and its table
//! `sched` from `sched_switch` and `sched_waking`.
//!
//! Only the windows around late wakeups are known. Between two of them a CPU runs [`UNSEEN`], which
//! is not a thread of the kernel. A thread stays in its last known state, and the last running
//! thread is shown asleep, because as runnable it would seem to wait. Wakeups are known only for
//! services that were late. For a thread that went to sleep, it is unknown if a signal could have
//! woken it.

use std::collections::{BTreeMap, HashMap};

use laggard_answer::why::{CpuTimeline, ExplainedEpisode, Slice, Thread};
use laggard_model::{Cpu, Nanos, Stage, Tid, printable};

use super::wire::{FtraceEvent, FtraceEventBundle, SchedSwitch, SchedWaking};

/// Name of a thread at unknown times.
const UNSEEN: &str = "not recorded";
/// Above every thread ID of the kernel (`PID_MAX_LIMIT`). Each CPU has one of the following
/// numbers.
const UNSEEN_TID: u32 = 4 << 20;
/// `prev_state` of a thread that was preempted, and of one that sleeps: `TASK_RUNNING` and
/// `TASK_INTERRUPTIBLE` of `linux/sched.h`.
const RUNNABLE: i64 = 0;
const SLEEPING: i64 = 1;

/// Returns the events of all CPUs in time order.
pub(super) fn bundles(
    spans: &[CpuTimeline],
    late: &[ExplainedEpisode<'_>],
) -> Vec<FtraceEventBundle> {
    let mut by_cpu: BTreeMap<Cpu, Vec<&CpuTimeline>> = BTreeMap::new();
    for span in spans {
        by_cpu.entry(span.cpu).or_default().push(span);
    }
    let mut late_by_cpu: BTreeMap<Cpu, Vec<&ExplainedEpisode<'_>>> = BTreeMap::new();
    for explained in late {
        late_by_cpu
            .entry(explained.episode.cpu)
            .or_default()
            .push(explained);
    }
    by_cpu
        .into_iter()
        .map(|(cpu, spans)| {
            let mut event = switches(cpu, &spans);
            let runs = Runs::new(&spans);
            let late = late_by_cpu.get(&cpu).into_iter().flatten();
            event.extend(late.filter_map(|explained| waking(explained, &runs)));
            // Events with the same timestamp stay in their order.
            event.sort_by_key(|event| event.timestamp);
            FtraceEventBundle {
                cpu: Some(cpu.0),
                event,
            }
        })
        .collect()
}

/// Returns the thread of a CPU before the first known one.
fn unseen(cpu: Cpu) -> Thread {
    Thread {
        tid: Tid(UNSEEN_TID + cpu.0),
        name: UNSEEN.into(),
        priority: 0,
    }
}

/// Returns the switches between consecutive threads, and to an unknown thread at the end of each
/// span.
fn switches(cpu: Cpu, spans: &[&CpuTimeline]) -> Vec<FtraceEvent> {
    let nobody = unseen(cpu);
    let mut events = Vec::new();
    for span in spans {
        let mut running = &nobody;
        let end = span.slices.last().map(|last| (last.to, None));
        let slices = span.slices.iter();
        let slices = slices.map(|slice| (slice.from, slice.context.thread.as_ref()));
        for (at, thread) in slices.chain(end) {
            let next = thread.unwrap_or(&nobody);
            if next.tid == running.tid {
                continue;
            }
            let could_go_on = running.tid == nobody.tid || span.preemptions.contains(&at);
            events.push(switch(at, running, next, could_go_on));
            running = next;
        }
    }
    events
}

fn switch(at: Nanos, from: &Thread, to: &Thread, could_go_on: bool) -> FtraceEvent {
    FtraceEvent {
        timestamp: Some(at.ns()),
        pid: Some(from.tid.0),
        sched_switch: Some(SchedSwitch {
            prev_comm: Some(name(from)),
            prev_pid: number(from.tid),
            prev_prio: Some(from.priority.into()),
            prev_state: Some(if could_go_on { RUNNABLE } else { SLEEPING }),
            next_comm: Some(name(to)),
            next_pid: number(to.tid),
            next_prio: Some(to.priority.into()),
        }),
        sched_waking: None,
    }
}

/// Slices of a CPU, indexed once for all its late wakeups.
struct Runs<'a> {
    /// In time order, without overlaps.
    slices: Vec<&'a Slice>,
    /// First observation of each thread.
    threads: HashMap<Tid, &'a Thread>,
}

impl<'a> Runs<'a> {
    fn new(spans: &[&'a CpuTimeline]) -> Self {
        let slices: Vec<&Slice> = spans.iter().flat_map(|span| &span.slices).collect();
        let mut threads = HashMap::new();
        for thread in slices
            .iter()
            .filter_map(|slice| slice.context.thread.as_ref())
        {
            threads.entry(thread.tid).or_insert(thread);
        }
        Self { slices, threads }
    }

    /// Returns the thread that ran at `time`.
    fn thread_at(&self, time: Nanos) -> Option<&'a Thread> {
        let next = self.slices.partition_point(|slice| slice.from <= time);
        let slice = self.slices.get(next.checked_sub(1)?)?;
        let thread = slice.context.thread.as_ref();
        thread.filter(|_| time < slice.to)
    }
}

/// Returns the wakeup of the late service's thread, with its time and its CPU.
fn waking(one: &ExplainedEpisode<'_>, runs: &Runs<'_>) -> Option<FtraceEvent> {
    let episode = one.episode;
    let (at, tid) = (episode.at(Stage::Waking)?, episode.thread?);
    let waker = runs.thread_at(at);
    let woken = runs.threads.get(&tid).copied();
    Some(FtraceEvent {
        timestamp: Some(at.ns()),
        pid: Some(waker.map_or(UNSEEN_TID + episode.cpu.0, |thread| thread.tid.0)),
        sched_switch: None,
        sched_waking: Some(SchedWaking {
            comm: woken.map(name),
            pid: number(tid),
            prio: woken.map(|thread| thread.priority.into()),
            target_cpu: i32::try_from(episode.cpu.0).ok(),
        }),
    })
}

/// Returns the kernel's name of the thread: `swapper` is the idle thread.
fn name(thread: &Thread) -> String {
    match thread.tid.0 {
        0 => "swapper".into(),
        _ => printable(&thread.name).to_string(),
    }
}

fn number(tid: Tid) -> Option<i32> {
    i32::try_from(tid.0).ok()
}
