//! Observations of another program's threads, after attaching to it.

use std::fmt;

use crate::{Address, Cpu, Nanos, ThreadName, Tid, WokenWay};

/// Cause of a wakeup.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WokenBy {
    /// Callback of a high-resolution timer. Sleeps and timeouts of the thread itself
    /// have the function `hrtimer_wakeup`.
    Timer(Address),
    /// Callback of the timer wheel, which expires with the tick.
    Wheel(Address),
    /// Handler of this interrupt.
    Irq(u32),
    /// Interrupt of the CPU itself, without a number.
    Vector,
    /// Softirq of this number.
    Softirq(u32),
    /// Softirq of this number that a thread caused and ran: it sent a packet to this machine.
    Sender(u32, ThreadName),
    /// Interrupt or softirq without a tracepoint.
    Interrupt,
    /// Another thread, or the thread itself.
    Thread(Tid, ThreadName),
}

impl WokenBy {
    /// Returns the kind of the cause.
    #[must_use]
    pub const fn way(self) -> WokenWay {
        match self {
            Self::Timer(_) => WokenWay::Timer,
            Self::Wheel(_) => WokenWay::Wheel,
            Self::Irq(number) => WokenWay::Irq(number),
            Self::Vector => WokenWay::Vector,
            Self::Softirq(vector) | Self::Sender(vector, _) => WokenWay::Softirq(vector),
            Self::Interrupt => WokenWay::Interrupt,
            Self::Thread(..) => WokenWay::Thread,
        }
    }
}

/// Scheduling policy of a thread.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ThreadPolicy {
    /// `SCHED_DEADLINE`.
    Deadline,
    /// `SCHED_FIFO` of this priority.
    Fifo(u8),
    /// `SCHED_RR` of this priority.
    RoundRobin(u8),
    /// `SCHED_OTHER` of this nice value.
    Other(i8),
    /// `SCHED_BATCH` of this nice value.
    Batch(i8),
    /// `SCHED_IDLE`.
    Idle,
    /// Policy that this program does not know.
    Unknown(u8),
}

impl ThreadPolicy {
    /// Returns whether the thread runs before all normal threads.
    pub const fn is_real_time(self) -> bool {
        matches!(self, Self::Deadline | Self::Fifo(_) | Self::RoundRobin(_))
    }
}

impl fmt::Display for ThreadPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str("deadline"),
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::RoundRobin(priority) => write!(f, "rr:{priority}"),
            Self::Other(0) => f.write_str("other"),
            Self::Other(nice) => write!(f, "nice:{nice}"),
            Self::Batch(0) => f.write_str("batch"),
            Self::Batch(nice) => write!(f, "batch, nice:{nice}"),
            Self::Idle => f.write_str("idle"),
            Self::Unknown(number) => write!(f, "policy {number}"),
        }
    }
}

/// Thread at the time of a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WatchedThread {
    /// laggard's unique number of the thread; the kernel may reuse `tid`.
    pub number: u32,
    /// The kernel's number.
    pub tid: Tid,
    /// Process ID.
    pub process: u32,
    /// Name of the thread.
    pub name: ThreadName,
    /// Scheduling policy.
    pub policy: ThreadPolicy,
    /// Number of wakeups so far that preceded the sleep, so that the thread did not
    /// sleep. Its execution after them is part of the previous activation.
    pub merged: u32,
    /// Number of runs so far without an observed wakeup.
    pub unseen: u32,
    /// Number of activations so far that contain a stop (a signal, a debugger, a frozen
    /// cgroup), or were due during one: they are not reported.
    pub stopped: u32,
}

/// System call of this machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SystemCall {
    /// Number of the call on this architecture.
    pub number: u32,
    /// Name in the kernel; empty if unknown.
    pub name: &'static str,
}

impl fmt::Display for SystemCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            "" => write!(f, "system call {}", self.number),
            name => write!(f, "{name}()"),
        }
    }
}

/// Wait of a thread: its system call, and the object of the wait.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WaitSite {
    /// `None`: a kernel thread, a page fault, or not known.
    pub call: Option<SystemCall>,
    /// First argument of the system call: a file descriptor, a clock, an address.
    pub object: u64,
    /// Second argument.
    pub argument: u64,
    /// Lower half of the third argument.
    pub value: u32,
}

/// Kernel lock that a thread waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KernelLock {
    /// Address of the lock.
    pub address: Address,
    /// Whether it is the `mmap_lock` of the thread's process.
    pub is_mmap: bool,
}

/// Reason why a thread left its CPU at the end of an activation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ActivationEnd {
    /// The thread waits for a wakeup.
    #[default]
    Slept,
    /// The thread waits for its next period (`SCHED_DEADLINE`).
    Period,
    /// The thread waits uninterruptibly: for a page, a lock of the kernel, a disk.
    Blocked,
    /// A signal stopped the thread.
    Stopped,
    /// A debugger stopped the thread.
    Traced,
    /// The control group of the thread is frozen.
    Frozen,
}

impl ActivationEnd {
    /// Returns whether the thread was stopped from outside.
    pub const fn is_stop(self) -> bool {
        matches!(self, Self::Stopped | Self::Traced | Self::Frozen)
    }
}

/// Kernel's accounting of a thread during an activation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ThreadUsage {
    /// Time in the kernel, in steps of the scheduler tick on most kernels.
    pub system: Nanos,
    /// Page faults that needed no disk.
    pub minor_faults: u32,
    /// Page faults that waited for a disk.
    pub major_faults: u32,
    /// Part of the time off the CPU when the budget of `SCHED_DEADLINE` was used up.
    pub throttled: Nanos,
    /// Part of the execution time when the thread reclaimed memory.
    pub reclaim: Nanos,
    /// Whether the wait at the end is for memory: reclaim, or the limit of a control group.
    pub waits_for_memory: bool,
    /// Thread that released a mutex with priority inheritance while this thread spun on it in the
    /// kernel.
    pub spun_for: Option<(Tid, ThreadName)>,
}

/// Move of a waiting thread to another CPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThreadMove {
    /// Time of the move, `CLOCK_MONOTONIC`.
    pub at: Nanos,
    /// CPU that the thread left.
    pub left: Cpu,
}

/// Moves of a thread while it waited for a CPU, in one activation. The first few are known, and
/// the last one before it ran.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThreadMoves {
    known: [ThreadMove; Self::MAX_KNOWN],
    before_run: u32,
    preempted: u32,
}

impl ThreadMoves {
    /// Maximum number of known moves.
    pub const MAX_KNOWN: usize = 4;
    /// No moves.
    pub const NONE: Self = {
        let none = ThreadMove {
            at: Nanos::ZERO,
            left: Cpu(0),
        };
        Self::new([none; Self::MAX_KNOWN], 0, 0)
    };

    /// Creates the moves from the known ones, and the numbers of moves before the thread ran and
    /// while it was preempted.
    pub const fn new(
        known: [ThreadMove; Self::MAX_KNOWN],
        before_run: u32,
        preempted: u32,
    ) -> Self {
        Self {
            known,
            before_run,
            preempted,
        }
    }

    fn known_before_run(&self) -> usize {
        (self.before_run as usize).min(Self::MAX_KNOWN)
    }

    /// Known moves before the thread ran; the last one is the last before it ran.
    pub fn before_run(&self) -> &[ThreadMove] {
        &self.known[..self.known_before_run()]
    }

    /// Returns whether all moves before it ran are known; otherwise some before the last one are
    /// not.
    pub const fn are_known_before_run(&self) -> bool {
        self.before_run as usize <= Self::MAX_KNOWN
    }

    /// Known moves while it was preempted.
    pub fn preempted(&self) -> &[ThreadMove] {
        let from = self.known_before_run();
        let to = (from + self.preempted as usize).min(Self::MAX_KNOWN);
        &self.known[from..to]
    }
}

/// Waits between the activations that are joined to one cycle.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CycleWaits {
    /// Number of sleeps in the cycle.
    pub sleeps: u32,
    /// Total length of these sleeps.
    pub slept: Nanos,
    /// Number of stops and freezes.
    pub stops: u32,
    /// Total length of these stops.
    pub stopped: Nanos,
}

/// Activation of a thread: from its wakeup until it waited again. If joined: from the
/// wakeup that starts a cycle until the thread waits for the next. Times of
/// `CLOCK_MONOTONIC`, in this order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThreadActivation {
    /// Cause of the wakeup.
    pub woken: WokenBy,
    /// Number of the timer that woke the thread: a timer descriptor or a POSIX timer. `None`:
    /// a sleep of the thread, or not a timer.
    pub timer: Option<u32>,
    /// Whether the wakeup was observed. If not, the previous sleep had ended, and
    /// `waking` is `running`.
    pub wake_seen: bool,
    /// Whether the start of the run was observed; if not, `running` is its latest
    /// possible time.
    pub run_seen: bool,
    /// Whether every return to the CPU after a preemption or a wait was observed; if
    /// not, `preempted` and `blocked` may include execution time.
    pub back_seen: bool,
    /// Programmed expiry of a timer; otherwise the start of the interrupt or softirq
    /// that woke the thread; otherwise the wakeup.
    pub origin: Nanos,
    /// Due time of the wakeup: the origin plus the used part of the timer's slack.
    pub due: Nanos,
    /// Time when the thread became runnable.
    pub waking: Nanos,
    /// CPU of the code that woke the thread.
    pub waker_cpu: Cpu,
    /// Moves to another CPU while the thread waited for a CPU.
    pub moves: ThreadMoves,
    /// Time when the thread ran.
    pub running: Nanos,
    /// CPU where it ran first.
    pub first_cpu: Cpu,
    /// Time when it slept again.
    pub done: Nanos,
    /// Time spent waiting for a CPU after it first ran.
    pub preempted: Nanos,
    /// Time spent waiting uninterruptibly.
    pub blocked: Nanos,
    /// Number of times that other threads got its CPU, or that it gave it away
    /// (`sched_yield`).
    pub preemptions: u32,
    /// Number of migrations while it was running.
    pub migrations: u32,
    /// Number of uninterruptible waits.
    pub blocks: u32,
    /// CPU where it ran last.
    pub cpu: Cpu,
    /// Whether its start was observed; if not, it ran already when the observation
    /// started, or the thread was just started.
    pub start_seen: bool,
    /// Whether its control group was frozen from the due time until the wakeup.
    pub was_frozen: bool,
    /// Reason why it left its CPU at the end.
    pub end: ActivationEnd,
    /// Wait that ended the activation.
    pub site: WaitSite,
    /// Kernel lock of that wait.
    pub lock: Option<KernelLock>,
    /// Accounting of the kernel.
    pub usage: ThreadUsage,
    /// Waits within it, if it is joined from several activations.
    pub waits: CycleWaits,
}

impl ThreadActivation {
    /// Creates an activation on one CPU without waits, all of which was seen: when it was due, when
    /// the thread ran, and when it slept again.
    pub fn new(woken: WokenBy, cpu: Cpu, [origin, running, done]: [Nanos; 3]) -> Self {
        Self {
            woken,
            timer: None,
            wake_seen: true,
            run_seen: true,
            back_seen: true,
            origin,
            due: origin,
            waking: origin,
            waker_cpu: cpu,
            moves: ThreadMoves::NONE,
            running,
            first_cpu: cpu,
            done,
            preempted: Nanos::ZERO,
            blocked: Nanos::ZERO,
            preemptions: 0,
            migrations: 0,
            blocks: 0,
            cpu,
            start_seen: true,
            was_frozen: false,
            end: ActivationEnd::Slept,
            site: WaitSite::default(),
            lock: None,
            usage: ThreadUsage::default(),
            waits: CycleWaits::default(),
        }
    }

    /// Returns the time from the origin until the thread ran.
    pub fn latency(&self) -> Nanos {
        self.running.saturating_sub(self.origin)
    }

    /// Returns the time from the origin until the thread was done.
    pub fn response(&self) -> Nanos {
        self.done.saturating_sub(self.origin)
    }

    /// Returns the execution time, interrupts included.
    pub fn execution(&self) -> Nanos {
        let elapsed = self.done.saturating_sub(self.running);
        let waits = self.waits.slept + self.waits.stopped;
        elapsed.saturating_sub(self.preempted + self.blocked + waits)
    }
}

/// Activation of a thread that has not ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnfinishedActivation {
    /// Cause of the wakeup.
    pub woken: WokenBy,
    /// Start of the latency.
    pub origin: Nanos,
    /// Time when it ran; `None` if it still waited for a CPU.
    pub running: Option<Nanos>,
    /// CPU where it ran last.
    pub cpu: Cpu,
    /// Whether its start was observed; if not, the thread has not slept since `origin`.
    pub start_seen: bool,
}

/// End of a thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ThreadExit {
    /// Signal that killed it; 0 if none.
    pub signal: u32,
    /// `RLIMIT_RTTIME`: maximum run time at a real-time priority without a sleep.
    pub rt_limit: Option<Nanos>,
    /// Last activation, up to the end of the thread.
    pub activation: Option<ThreadActivation>,
}

/// Event of a thread.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all values are of the largest variant"
)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ThreadHappening {
    /// The observation starts. The value is the number of the watched thread that started this
    /// one.
    Began(Option<u32>),
    /// The thread slept again.
    Done(ThreadActivation),
    /// The thread ended during this activation.
    Ended(Option<UnfinishedActivation>, ThreadExit),
    /// The observation ended during this activation.
    Left(Option<UnfinishedActivation>),
}

/// Report about an observed thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThreadTold {
    /// Observed thread.
    pub thread: WatchedThread,
    /// Sequence number of the reports of this thread, from 0. A gap is a loss.
    pub sequence: u32,
    /// Time of the event.
    pub at: Nanos,
    /// Event.
    pub what: ThreadHappening,
}

/// Kind of a mark.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MarkKind {
    /// Start of a cycle.
    Begin,
    /// End of a cycle.
    End,
}

/// Mark that a program sets at the start or end of a cycle of a thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThreadMark {
    /// Process; `None` if its thread has ended and the process is unknown.
    pub process: Option<u32>,
    /// Thread.
    pub thread: Tid,
    /// Time, `CLOCK_MONOTONIC`, as the program reports it.
    pub at: Nanos,
    /// Number of the cycle, as the program reports it.
    pub number: u64,
    /// Kind of the mark.
    pub kind: MarkKind,
    /// Number of lost marks of the program's threads before this one.
    pub lost_before: u64,
}
