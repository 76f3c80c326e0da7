//! Measuring threads: one per CPU and service.
//!
//! After its start a measuring thread does not lock, allocate or write files. It waits, reads the
//! clock and writes to the board.

use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle as _, BorrowedHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use laggard_model::{Cpu, Nanos, Service, Tid, TimerApi};
use windows_sys::Win32::System::Threading::{GetCurrentProcessorNumber, GetThreadId};

use super::stop::StopSignal;
use super::timers;
use super::{clock, memory, priority, processors};
use laggard_measure::TimedWait;
use laggard_measure::board::{Board, LineWriter, Timeline};
use laggard_measure::exhaustion::Exhaustion;

/// Maximum size in bytes of the stack that a thread uses.
const STACK_BYTES: usize = 16 << 10;

/// State that all threads of a run share.
#[derive(Debug)]
pub(super) struct ThreadsState {
    pub(super) board: Board,
    /// Given to end the measurement.
    pub(super) stop: StopSignal,
    /// Detects whether the measuring threads starve the collector.
    pub(super) exhaustion: Exhaustion,
    pub(super) early: EarlyWaits,
    /// Time in ns when a timer failed; 0 if none failed.
    pub(super) failed: AtomicU64,
}

/// Waits that ended early. The timer was then awaited again.
#[derive(Debug, Default)]
pub(super) struct EarlyWaits {
    count: AtomicU64,
    most_ns: AtomicU64,
}

impl EarlyWaits {
    /// Records a wait that ended early by `early`.
    pub(super) fn note(&self, early: Nanos) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.most_ns.fetch_max(early.ns(), Ordering::Relaxed);
    }

    /// Resets the counts.
    pub(super) fn begin(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.most_ns.store(0, Ordering::Relaxed);
    }

    /// Returns the number of early waits, and the maximum advance of an early wait.
    pub(super) fn seen(&self) -> (u64, Nanos) {
        let most = self.most_ns.load(Ordering::Relaxed);
        (self.count.load(Ordering::Relaxed), Nanos::from_ns(most))
    }
}

/// Timeline, and the line's expiries on it: every `stride`-th, starting at `first`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedLine {
    pub(super) timeline: Timeline,
    pub(super) first: u64,
    pub(super) stride: u64,
}

/// Thread that is ready to measure.
#[derive(Debug)]
pub(super) struct TimerThread {
    /// CPU and place of its line.
    pub(super) line: (Cpu, usize),
    /// Whether its timer has high resolution.
    pub(super) is_fine: bool,
    /// Whether its used stack is locked in memory.
    pub(super) is_locked: bool,
    start: Sender<TimedLine>,
    handle: JoinHandle<()>,
}

/// Timer that a thread waits for.
struct ThreadTimer {
    wait: Box<dyn TimedWait>,
    /// The timer takes multiples of this time.
    unit: Nanos,
}

/// State of a thread that is ready.
struct ReadyThread {
    timer: ThreadTimer,
    is_fine: bool,
    is_locked: bool,
}

impl TimerThread {
    /// Prepares a thread for line `line` of `cpu` with its priority set. It sleeps until its
    /// start.
    pub(super) fn prepare(
        shared: Arc<ThreadsState>,
        cpu: Cpu,
        line: usize,
        service: Service,
        api: TimerApi,
    ) -> io::Result<Self> {
        let (start, started) = channel();
        let (sender, results) = channel();
        let handle = std::thread::Builder::new()
            .name(format!("lag/{cpu}/{service}"))
            .spawn(move || run(&shared, (cpu, line), (service, api), &sender, &started))?;
        let (is_fine, is_locked) = results
            .recv()
            .map_err(|_| io::Error::other("the measuring thread ended at its start"))??;
        Ok(Self {
            line: (cpu, line),
            is_fine,
            is_locked,
            start,
            handle,
        })
    }

    pub(super) fn start(&self, plan: TimedLine) {
        // A thread that has ended has reported the reason in `prepare`.
        let _ = self.start.send(plan);
    }

    pub(super) fn id(&self) -> Tid {
        // SAFETY: the handle is open while this value lives.
        Tid(unsafe { GetThreadId(self.handle.as_raw_handle()) })
    }

    pub(super) fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl AsHandle for TimerThread {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.handle.as_handle()
    }
}

fn run(
    shared: &ThreadsState,
    (cpu, line): (Cpu, usize),
    (service, api): (Service, TimerApi),
    tell: &Sender<io::Result<(bool, bool)>>,
    started: &Receiver<TimedLine>,
) {
    let mut ready = match ready(cpu, service, api, &shared.stop) {
        Ok(ready) => ready,
        Err(err) => {
            // The receiver waits for exactly this message.
            let _ = tell.send(Err(err));
            return;
        }
    };
    let _ = tell.send(Ok((ready.is_fine, ready.is_locked)));
    if let Ok(plan) = started.recv() {
        measure(
            shared,
            cpu,
            shared.board.writer(cpu.0, line),
            plan,
            &mut ready.timer,
        );
    }
}

/// Prepares the calling thread.
fn ready(cpu: Cpu, service: Service, api: TimerApi, stop: &StopSignal) -> io::Result<ReadyThread> {
    processors::pin(cpu)?;
    priority::schedule_as(service)?;
    let stopped = stop.event()?;
    let open = |api| timers::open(api, Some(&stopped));
    let (wait, is_fine) = match (open(api), api) {
        (Ok(wait), _) => (wait, true),
        // Before Windows 10 1803.
        (Err(_), TimerApi::HighResTimer) => (open(TimerApi::WaitableTimer)?, false),
        (Err(err), _) => return Err(err),
    };
    let unit = api.unit();
    Ok(ReadyThread {
        timer: ThreadTimer { wait, unit },
        is_fine,
        is_locked: keep_stack(),
    })
}

/// Locks the used stack in memory, and returns whether that succeeded.
#[inline(never)]
fn keep_stack() -> bool {
    let stack = [1_u8; STACK_BYTES];
    memory::lock(std::hint::black_box(&stack)).is_ok()
}

/// Waits for each expiry of the timeline that has not passed.
fn measure(
    shared: &ThreadsState,
    cpu: Cpu,
    line: LineWriter<'_>,
    plan: TimedLine,
    timer: &mut ThreadTimer,
) {
    let mut timeline = plan.timeline;
    timeline.advance_by(plan.first);
    while !shared.stop.is_given() {
        let expiry = timeline.expiry();
        let slot = line.claim(timeline.seq() / plan.stride, expiry);
        let armed = clock::now();
        let user = match wait_until(expiry, timer, &shared.early) {
            Ok(user) => user,
            // The measurement has ended: the slot stays awaited.
            Err(err) if err.kind() == io::ErrorKind::Interrupted => return,
            Err(_) => {
                // The timer failed, which is not a latency of the machine.
                line.give_up();
                let now = clock::now().ns();
                shared.failed.store(now, Ordering::Relaxed);
                shared.stop.give();
                return;
            }
        };
        if let Some(slot) = slot {
            if armed >= expiry {
                slot.set_armed_late();
            }
            line.publish(slot, user, current_cpu() != cpu);
        }
        if shared.exhaustion.is_hopeless(user) {
            shared.stop.give();
        }
        timeline.advance_by(plan.stride);
        while timeline.expiry() <= user {
            timeline.advance_by(plan.stride);
        }
    }
}

/// Waits until `time`, and returns when that was observed. A wait that ends early is counted and
/// continued, so that no latency is negative. No error allocates.
///
/// # Errors
///
/// Returns `Interrupted` at the end of the measurement; any other error means that the timer
/// cannot be awaited.
fn wait_until(time: Nanos, timer: &mut ThreadTimer, early: &EarlyWaits) -> io::Result<Nanos> {
    // The timer takes whole units. A time that is rounded down would cause a busy loop.
    let rest_of_unit = timer.unit.saturating_sub(Nanos::from_ns(1));
    let mut now = clock::now();
    while now < time {
        let left = time.saturating_sub(now) + rest_of_unit;
        timer.wait.once(left)?;
        now = clock::now();
        if now < time {
            early.note(time.saturating_sub(now));
        }
    }
    Ok(now)
}

fn current_cpu() -> Cpu {
    // SAFETY: the call does not take pointers.
    Cpu(unsafe { GetCurrentProcessorNumber() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_waits_are_counted_and_no_thread_starts_early() {
        let early = EarlyWaits::default();
        early.note(Nanos::from_us(300));
        early.note(Nanos::from_us(700));
        early.note(Nanos::from_us(500));
        let mut timer = ThreadTimer {
            wait: timers::open(TimerApi::WaitableTimer, None).unwrap(),
            unit: TimerApi::WaitableTimer.unit(),
        };
        let time = clock::now() + Nanos::from_ms(20);

        let counts = early.seen();
        let came = wait_until(time, &mut timer, &early).unwrap();

        assert_eq!(counts, (3, Nanos::from_us(700)));
        assert!(came >= time);
    }

    #[test]
    fn end_wakes_waiting_threads_and_earlier_expiries_count() {
        for api in [
            TimerApi::HighResTimer,
            TimerApi::WaitableTimer,
            TimerApi::TimeSetEvent,
            TimerApi::ThreadpoolTimer,
        ] {
            let stop = Arc::new(StopSignal::new().unwrap());
            let event = stop.event().unwrap();
            let mut timer = ThreadTimer {
                wait: timers::open(api, Some(&event)).unwrap(),
                unit: api.unit(),
            };
            let early = EarlyWaits::default();

            let begun = clock::now();
            let came = wait_until(begun + Nanos::from_ms(20), &mut timer, &early);
            let giver = Arc::clone(&stop);
            let giver = std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(50));
                giver.give();
            });
            let ended = wait_until(clock::now() + Nanos::from_secs(30), &mut timer, &early);
            giver.join().unwrap();

            assert!(came.is_ok(), "{api}: {came:?}");
            let kind = ended.unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::Interrupted, "{api}");
            // Half of the wait: a limit, not an expectation.
            assert!(clock::now() < begun + Nanos::from_secs(15), "{api}");
        }
    }
}
