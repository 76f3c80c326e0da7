//! Measuring threads: one per CPU, thread service and route.
//!
//! After its start a measuring thread does not lock, allocate or write files. Once its memory is
//! locked, it does not cause page faults. It waits, reads the clock and writes to the board: its
//! [`Duty`].

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use laggard_model::{Cpu, Nanos, Service, Tid};

use super::lines::Turn;
use super::passed::PassedExpiries;
use super::programs::Enlist;
use super::soft::SoftTimer;
use super::{clock, policy};
use crate::board::{Board, BoardCpu, BoardSlot, LineWriter, Timeline};
use crate::exhaustion::Exhaustion;

/// Length of a thread's name that the kernel keeps.
const MAX_NAME_BYTES: usize = 15;

/// State that all threads of a run share.
#[derive(Debug)]
pub(crate) struct RunState {
    pub(crate) board: Board,
    /// Registration with the programs, if there are programs that stamp.
    pub(crate) enlist: Option<Enlist>,
    /// Set to end the measurement.
    pub(crate) stop: AtomicBool,
    /// Detects whether the measuring threads starve the collector.
    pub(crate) exhaustion: Exhaustion,
    /// Page faults during the measurement of threads that have ended.
    pub(crate) faults: AtomicU64,
    /// Expiries that the carrying thread of a CPU did not arm, per CPU.
    pub(crate) passed: BTreeMap<u32, PassedExpiries>,
}

/// Work of a measuring thread.
pub(crate) trait Duty: Debug + Send {
    /// Returns the suffix of the thread's name after CPU and service.
    fn name_suffix(&self) -> &'static str;

    /// Returns whether the thread is its line's service, whose wakeups are stamped, or only arms
    /// the timer that leads to it; `None`: neither.
    fn serves(&self) -> Option<bool>;

    /// Returns whether the thread is its line's service.
    fn is_service(&self) -> bool {
        self.serves() == Some(true)
    }

    /// Returns whether it computes all the time, in addition to the load. Its CPU time is not
    /// overhead of the measurement.
    fn competes(&self) -> bool {
        false
    }

    /// Returns the timer descriptor that leads to the line, if there is one. The programs
    /// recognise a sleeper's timer by its stack.
    fn descriptor(&self) -> Option<&SoftTimer> {
        None
    }

    /// Prepares the work on the measuring thread.
    fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    /// Measures until the stop. `plan` is the timeline that leads to the line, and the line's
    /// expiries on it; `None` without a timer.
    fn measure(&self, shared: &RunState, cpu: Cpu, line: LineWriter<'_>, plan: Option<LinePlan>);
}

/// Timeline, and the line's expiries on it.
pub(crate) type LinePlan = (Timeline, Turn);

/// Thread that is ready to measure.
#[derive(Debug)]
pub(crate) struct MeasuringThread {
    pub(crate) tid: Tid,
    /// CPU and place of its line.
    pub(crate) line: (Cpu, usize),
    /// Whether it is the line's service.
    pub(crate) is_service: bool,
    pub(crate) competes: bool,
    start: Sender<Option<LinePlan>>,
    handle: JoinHandle<()>,
}

impl MeasuringThread {
    /// Prepares a thread for line `line` of `cpu` with its policy set. It sleeps until its start.
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

    /// Starts the measurement. A thread that a doorbell wakes does not need a timeline.
    pub(crate) fn start(&self, plan: Option<LinePlan>) {
        // A thread that has ended has reported the reason in `prepare`.
        let _ = self.start.send(plan);
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

/// Returns the name of a measuring thread, such as `lag/1/fifo:90`.
fn name(cpu: Cpu, service: Service, suffix: &str) -> String {
    let name = format!("lag/{cpu}/{service}{suffix}");
    match name.len() {
        0..=MAX_NAME_BYTES => name,
        // If the name were cut, `fifo:90` and `fifo:9` would be equal.
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
        // Before it is registered together with its scheduling.
        .and_then(|()| duty.prepare())
        .and_then(|()| {
            if let (Some(enlist), Some(serves)) = (&shared.enlist, duty.serves()) {
                if let Some(timer) = duty.descriptor() {
                    learn_timer(timer, shared.board.cpu(cpu.0), line);
                }
                enlist.enlist(cpu, line, serves)?;
            }
            Ok(())
        });
    policy::refuse_timer_slack();
    policy::touch_stack();
    // SAFETY: without arguments; cannot fail.
    let tid = Tid(unsafe { libc::gettid() }.cast_unsigned());
    let is_prepared = prepared.is_ok();
    // The receiver waits for exactly this message.
    let _ = ready.send(prepared.map(|()| tid));
    let Some(plan) = is_prepared.then(|| started.recv().ok()).flatten() else {
        return;
    };
    let faults = policy::faults_of_thread();
    duty.measure(shared, cpu, shared.board.writer(cpu.0, line), plan);
    let faults = policy::faults_of_thread() - faults;
    shared.faults.fetch_add(faults, Ordering::Relaxed);
}

/// Makes the programs learn that this descriptor's timer leads to line `line` (`learning.bpf.c`).
fn learn_timer(timer: &SoftTimer, cpu: &BoardCpu, line: usize) {
    let far = clock::now() + FAR;
    cpu.learnt_ns.store(far.ns(), Ordering::Relaxed);
    let learner = u32::try_from(line + 1).expect("a CPU has 16 places");
    cpu.learner.store(learner, Ordering::Relaxed);
    // The program runs on this CPU, during the call.
    compiler_fence(Ordering::SeqCst);
    timer.arm(far);
    compiler_fence(Ordering::SeqCst);
    cpu.learner.store(0, Ordering::Relaxed);
    // A descriptor is armed again before a thread waits for it.
}

/// Later than the start of the measurement.
const FAR: Nanos = Nanos::from_secs(3_600);

/// Publishes that the service of `slot` ran on this CPU at `end`, just now.
pub(super) fn publish(line: LineWriter<'_>, cpu: Cpu, slot: &BoardSlot, end: Nanos) {
    line.publish(slot, end, policy::current_cpu() != Some(cpu));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_names_differ_within_the_length_that_the_kernel_keeps() {
        for (cpu, service, suffix, called) in [
            (1, Service::Fifo(90), "", "lag/1/fifo:90"),
            (1, Service::Fifo(50), "d", "lag/1/fifo:50d"),
            (255, Service::Other, "d", "lag/255/otherd"),
            (255, Service::Fifo(90), "", "lag/255/fifo:90"),
            (255, Service::Fifo(90), "d", "lag/255/f90d"),
        ] {
            let name = name(Cpu(cpu), service, suffix);

            assert_eq!(name, called);
            assert!(name.len() <= MAX_NAME_BYTES, "{name}");
        }
    }
}
