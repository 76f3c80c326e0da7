//! Measuring threads: one per CPU, thread service and route.
//!
//! After its start a measuring thread takes no lock, allocates nothing,
//! writes no file and, once its memory is locked, has no page fault. It
//! waits, reads the clock and writes to the board: its [`Duty`].

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use laggard_model::{Cpu, Nanos, Service, Tid};

use super::lines::Turn;
use super::passed::Passed;
use super::programs::Enlist;
use super::soft::SoftTimer;
use super::{clock, policy};
use crate::board::{Board, BoardCpu, BoardSlot, LineWriter, Timeline};
use crate::exhaustion::Exhaustion;

/// The kernel keeps this much of a thread's name.
const NAME_BYTES: usize = 15;

/// What all threads of a run share.
#[derive(Debug)]
pub(crate) struct RunState {
    pub(crate) board: Board,
    /// Where programs stamp: how a thread makes itself known to them.
    pub(crate) enlist: Option<Enlist>,
    /// Set when measuring is to end.
    pub(crate) stop: AtomicBool,
    /// Whether measuring takes the machine from its own collector.
    pub(crate) exhaustion: Exhaustion,
    /// Page faults of measuring threads that have ended, while they measured.
    pub(crate) faults: AtomicU64,
    /// What the carrying thread of a CPU did not come to arm, by the CPU.
    pub(crate) passed: BTreeMap<u32, Passed>,
}

/// What a measuring thread does.
pub(crate) trait Duty: Debug + Send {
    /// What its thread's name ends in, besides CPU and service.
    fn name_suffix(&self) -> &'static str;

    /// Whether the thread is its line's service, whose wakeups are stamped, or
    /// only arms the timer that leads to it; `None`: neither.
    fn serves(&self) -> Option<bool>;

    /// Whether the thread is its line's service itself.
    fn is_service(&self) -> bool {
        self.serves() == Some(true)
    }

    /// Whether it computes all the time, beside the load: what it takes is not the
    /// cost of measuring.
    fn competes(&self) -> bool {
        false
    }

    /// The timer descriptor that leads to the line, where one does: a sleeper's
    /// timer the programs know by its stack.
    fn descriptor(&self) -> Option<&SoftTimer> {
        None
    }

    /// What it does beforehand, on its own thread.
    fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    /// Measures until it is to stop. `plan`: the timeline that leads to the line,
    /// and which of its expiries are the line's; `None`: it is not timed.
    fn measure(&self, shared: &RunState, cpu: Cpu, line: LineWriter<'_>, plan: Option<LinePlan>);
}

/// A timeline, and which of its expiries are a line's.
pub(crate) type LinePlan = (Timeline, Turn);

/// A thread that is ready to measure.
#[derive(Debug)]
pub(crate) struct MeasuringThread {
    pub(crate) tid: Tid,
    /// The CPU and place of its line.
    pub(crate) line: (Cpu, usize),
    /// Whether it is that line's service itself.
    pub(crate) is_service: bool,
    /// Whether it computes all the time.
    pub(crate) competes: bool,
    start: Sender<Option<LinePlan>>,
    handle: JoinHandle<()>,
}

impl MeasuringThread {
    /// A thread for line `line` of `cpu`, with its policy set, asleep.
    pub(crate) fn prepare(
        shared: Arc<RunState>,
        cpu: Cpu,
        line: usize,
        service: Service,
        duty: Box<dyn Duty>,
    ) -> io::Result<Self> {
        let (start, started) = channel();
        let (ready, is_ready) = channel();
        let (is_service, competes) = (duty.is_service(), duty.competes());
        let handle = policy::thread(&name(cpu, service, duty.name_suffix()))?
            .spawn(move || run(&shared, (cpu, line), service, &*duty, &ready, &started))?;
        let tid = is_ready
            .recv()
            .map_err(|_| io::Error::other("the measuring thread ended at its start"))??;
        Ok(Self {
            tid,
            line: (cpu, line),
            is_service,
            competes,
            start,
            handle,
        })
    }

    /// Lets it measure; a thread that is woken by a doorbell needs no timeline.
    pub(crate) fn start(&self, plan: Option<LinePlan>) {
        // A thread that is gone has reported why when it was prepared.
        let _ = self.start.send(plan);
    }

    /// Whether it has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

/// What the system calls a measuring thread, as in `lag/1/fifo:90`.
fn name(cpu: Cpu, service: Service, suffix: &str) -> String {
    let name = format!("lag/{cpu}/{service}{suffix}");
    match name.len() {
        0..=NAME_BYTES => name,
        // Cut, `fifo:90` and `fifo:9` would look alike.
        _ => name.replace("fifo:", "f"),
    }
}

fn run(
    shared: &RunState,
    (cpu, line): (Cpu, usize),
    service: Service,
    duty: &dyn Duty,
    ready: &Sender<io::Result<Tid>>,
    started: &Receiver<Option<LinePlan>>,
) {
    let prepared = policy::block_signals()
        .and_then(|()| policy::pin(cpu))
        .and_then(|()| policy::schedule_as(service))
        // Before it is enlisted, with how it is scheduled.
        .and_then(|()| duty.prepare())
        .and_then(|()| {
            if let (Some(enlist), Some(serves)) = (&shared.enlist, duty.serves()) {
                if let Some(timer) = duty.descriptor() {
                    let_be_learnt(timer, shared.board.cpu(cpu.0), line);
                }
                enlist.enlist(cpu, line, serves)?;
            }
            Ok(())
        });
    policy::refuse_timer_slack();
    policy::touch_stack();
    // SAFETY: takes nothing; cannot fail.
    let tid = Tid(unsafe { libc::gettid() }.cast_unsigned());
    let is_prepared = prepared.is_ok();
    // The other end waits for exactly this message.
    let _ = ready.send(prepared.map(|()| tid));
    let Some(plan) = is_prepared.then(|| started.recv().ok()).flatten() else {
        return;
    };
    let faults = policy::faults_of_thread();
    duty.measure(shared, cpu, shared.board.writer(cpu.0, line), plan);
    let faults = policy::faults_of_thread() - faults;
    shared.faults.fetch_add(faults, Ordering::Relaxed);
}

/// Lets the programs know that this descriptor's timer leads to line `line`
/// (`learning.bpf.c`).
fn let_be_learnt(timer: &SoftTimer, cpu: &BoardCpu, line: usize) {
    let far = clock::now() + FAR;
    cpu.learnt_ns.store(far.ns(), Ordering::Relaxed);
    let learner = u32::try_from(line + 1).expect("a CPU has 16 places");
    cpu.learner.store(learner, Ordering::Relaxed);
    // The program runs on this CPU, in the call.
    compiler_fence(Ordering::SeqCst);
    timer.arm(far);
    compiler_fence(Ordering::SeqCst);
    cpu.learner.store(0, Ordering::Relaxed);
    // A descriptor is armed anew before anybody waits for it.
}

/// Further away than measuring begins.
const FAR: Nanos = Nanos::from_secs(3_600);

/// The service of `slot` ran here at `end`, just now.
pub(super) fn publish(line: LineWriter<'_>, cpu: Cpu, slot: &BoardSlot, end: Nanos) {
    line.publish(slot, end, policy::current_cpu() != Some(cpu));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_machine_differ_within_what_the_kernel_keeps_of_a_name() {
        for (cpu, service, suffix, called) in [
            (1, Service::Fifo(90), "", "lag/1/fifo:90"),
            (1, Service::Fifo(50), "d", "lag/1/fifo:50d"),
            (255, Service::Other, "d", "lag/255/otherd"),
            (255, Service::Fifo(90), "", "lag/255/fifo:90"),
            (255, Service::Fifo(90), "d", "lag/255/f90d"),
        ] {
            let name = name(Cpu(cpu), service, suffix);

            assert_eq!(name, called);
            assert!(name.len() <= NAME_BYTES, "{name}");
        }
    }
}
