//! What is seen of threads that are not ours, which somebody attached to.

use std::fmt;

use crate::{Address, Cpu, Nanos, ThreadName, Tid, WokenWay};

/// What woke a thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WokenBy {
    /// A high-resolution timer's callback. Sleeps and timeouts of the thread itself
    /// have the function `hrtimer_wakeup`.
    Timer(Address),
    /// A callback of the timer wheel, which expires with the tick.
    Wheel(Address),
    /// The handler of this interrupt.
    Irq(u32),
    /// An interrupt of the CPU itself, without a number.
    Vector,
    /// The softirq of this number.
    Softirq(u32),
    /// An interrupt or softirq that no tracepoint told of.
    Interrupt,
    /// Another thread, or itself.
    Thread(Tid, ThreadName),
}

impl WokenBy {
    /// What is told apart of it.
    #[must_use]
    pub const fn way(self) -> WokenWay {
        match self {
            Self::Timer(_) => WokenWay::Timer,
            Self::Wheel(_) => WokenWay::Wheel,
            Self::Irq(number) => WokenWay::Irq(number),
            Self::Vector => WokenWay::Vector,
            Self::Softirq(vector) => WokenWay::Softirq(vector),
            Self::Interrupt => WokenWay::Interrupt,
            Self::Thread(..) => WokenWay::Thread,
        }
    }
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ThreadPolicy {
    /// `SCHED_DEADLINE`
    Deadline,
    /// `SCHED_FIFO` of this priority.
    Fifo(u8),
    /// `SCHED_RR` of this priority.
    RoundRobin(u8),
    /// `SCHED_OTHER` of this nice value.
    Other(i8),
    /// `SCHED_BATCH` of this nice value.
    Batch(i8),
    /// `SCHED_IDLE`
    Idle,
    /// One that this program does not know.
    Unknown(u8),
}

impl ThreadPolicy {
    /// Whether it is served before all normal threads.
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

/// A thread, as it was when something was told of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WatchedThread {
    /// Our number of it, which no other has: the kernel may give `tid` again.
    pub number: u32,
    /// The kernel's number.
    pub tid: Tid,
    /// That of its process.
    pub process: u32,
    /// Its name.
    pub name: ThreadName,
    /// How it is scheduled.
    pub policy: ThreadPolicy,
    /// How often so far a wake met it before it slept, so that it did not sleep:
    /// what it did then is in the activation before.
    pub merged: u32,
    /// How often so far it ran without a wake that was seen.
    pub unseen: u32,
    /// How many activations so far a stop fell into (a signal, a debugger, a frozen
    /// cgroup), or were due meanwhile: they are not told.
    pub stopped: u32,
}

/// System call of this machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SystemCall {
    /// Its number on this architecture.
    pub number: u32,
    /// The kernel's name of it; empty: not known.
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

/// Wait of a thread: the system call that it was in, and what it waited for.
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
    /// Where it lies.
    pub address: Address,
    /// Whether it is the `mmap_lock` of the thread's process.
    pub is_mmap: bool,
}

/// Why a thread left its CPU at the end of an activation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ActivationEnd {
    /// It waits to be woken.
    #[default]
    Slept,
    /// It waits for its next period (`SCHED_DEADLINE`).
    Period,
    /// It waits uninterruptibly: for a page, a lock of the kernel, a disk.
    Blocked,
    /// A signal stopped it.
    Stopped,
    /// A debugger stopped it.
    Traced,
    /// Its control group is frozen.
    Frozen,
}

impl ActivationEnd {
    /// Whether somebody stopped the thread.
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
}

/// Waits between the activations that are joined to one cycle.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CycleWaits {
    /// How often the thread slept in the cycle.
    pub sleeps: u32,
    /// Total length of those sleeps.
    pub slept: Nanos,
    /// How often it was stopped or frozen.
    pub stops: u32,
    /// Total length of those stops.
    pub stopped: Nanos,
}

/// From what woke a thread until it waited again; joined, from the wake that starts a cycle
/// until the thread waits for the next. Times of `CLOCK_MONOTONIC`, in this order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThreadActivation {
    /// What woke it.
    pub woken: WokenBy,
    /// Whether that was seen; else the sleep that it had begun was over, and `waking` is
    /// `running`.
    pub wake_seen: bool,
    /// Whether it was seen when it ran; else `running` is the latest that it can have
    /// been.
    pub run_seen: bool,
    /// Whether it was seen each time that it went on after others had its CPU, or after
    /// a wait; else `preempted` and `blocked` may have some of its own work.
    pub back_seen: bool,
    /// A timer's programmed expiry; else when the interrupt or softirq that woke it
    /// began; else the wakeup.
    pub origin: Nanos,
    /// By when it was to be woken: the origin, and the slack that a timer was given as
    /// far as it was used.
    pub due: Nanos,
    /// It became runnable,
    pub waking: Nanos,
    /// by what ran on this CPU.
    pub waker_cpu: Cpu,
    /// When it came, the last time before it ran, to another CPU than it had been on;
    /// `None`: it did not, or nothing tells.
    pub arrived: Option<Nanos>,
    /// The CPU that it came from then, where it had waited since it was woken; `None`:
    /// on several.
    pub left_cpu: Option<Cpu>,
    /// It ran,
    pub running: Nanos,
    /// on this CPU first.
    pub first_cpu: Cpu,
    /// It slept again.
    pub done: Nanos,
    /// How long it waited for a CPU after it first ran.
    pub preempted: Nanos,
    /// How long it waited uninterruptibly.
    pub blocked: Nanos,
    /// How often others had its CPU, or it gave it away (`sched_yield`).
    pub preemptions: u32,
    /// How often it went on on another CPU.
    pub migrations: u32,
    /// How often it waited.
    pub blocks: u32,
    /// Where it ran last.
    pub cpu: Cpu,
    /// Whether it was seen to start; else it ran already when it was first watched.
    pub start_seen: bool,
    /// Whether its control group was frozen from when it was due until it was woken.
    pub was_frozen: bool,
    /// Why it left its CPU at the end.
    pub end: ActivationEnd,
    /// The wait that ended it.
    pub site: WaitSite,
    /// The kernel lock that it then waited for.
    pub lock: Option<KernelLock>,
    /// The kernel's accounting of it.
    pub usage: ThreadUsage,
    /// Waits within it, if it is joined from several.
    pub waits: CycleWaits,
}

impl ThreadActivation {
    /// From the origin until it ran.
    pub fn latency(&self) -> Nanos {
        self.running.saturating_sub(self.origin)
    }

    /// From the origin until it was done.
    pub fn response(&self) -> Nanos {
        self.done.saturating_sub(self.origin)
    }

    /// How long it ran itself, interrupts included.
    pub fn execution(&self) -> Nanos {
        let all = self.done.saturating_sub(self.running);
        let waits = self.waits.slept + self.waits.stopped;
        all.saturating_sub(self.preempted + self.blocked + waits)
    }
}

/// What a thread was in, and did not end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnfinishedActivation {
    /// What woke it.
    pub woken: WokenBy,
    /// From when on it counts.
    pub origin: Nanos,
    /// When it ran; `None`: it still waited for a CPU.
    pub running: Option<Nanos>,
    /// Where it ran last.
    pub cpu: Cpu,
    /// Whether it was seen to start; else the thread has not slept since `origin`.
    pub start_seen: bool,
}

/// How a thread ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ThreadExit {
    /// The signal that killed it; 0: none.
    pub signal: u32,
    /// `RLIMIT_RTTIME`: how long it may run at a real-time priority without sleeping.
    pub rt_limit: Option<Nanos>,
}

/// What happened to a thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ThreadHappening {
    /// It is watched from now on.
    Began,
    /// It slept again.
    Done(ThreadActivation),
    /// It ended, and was in this.
    Ended(Option<UnfinishedActivation>, ThreadExit),
    /// It is watched no more, and was in this.
    Left(Option<UnfinishedActivation>),
}

/// What is told of a thread that somebody attached to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThreadTold {
    /// The thread.
    pub thread: WatchedThread,
    /// The number of what is told of this thread, from 0: one that is missing was
    /// lost.
    pub sequence: u32,
    /// When.
    pub at: Nanos,
    /// What happened.
    pub what: ThreadHappening,
}

/// What a program marks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MarkKind {
    /// A cycle begins.
    Begin,
    /// It ends.
    End,
}

/// What a program says of itself: a thread begins or ends a cycle.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ThreadMark {
    /// The process; `None`: its thread has ended, and whose it was is not known.
    pub process: Option<u32>,
    /// The thread.
    pub thread: Tid,
    /// When, `CLOCK_MONOTONIC`; the program's word.
    pub at: Nanos,
    /// The cycle's number; the same.
    pub number: u64,
    /// Which.
    pub kind: MarkKind,
    /// How many marks of its program, of whatever thread, were lost before it.
    pub lost_before: u64,
}
