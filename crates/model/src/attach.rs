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

/// From what woke a thread until it slept by itself again. Instants of
/// `CLOCK_MONOTONIC`, in this order.
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
    /// For how long in between others had its CPU,
    pub preempted: Nanos,
    /// and for how long it waited without having chosen to.
    pub blocked: Nanos,
    /// How often others had its CPU, or it gave it away (`sched_yield`).
    pub preemptions: u32,
    /// How often it went on on another CPU.
    pub migrations: u32,
    /// How often it waited.
    pub blocks: u32,
    /// Where it ran last.
    pub cpu: Cpu,
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
        all.saturating_sub(self.preempted + self.blocked)
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
}

/// What happened to a thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ThreadHappening {
    /// It is watched from now on.
    Began,
    /// It slept again.
    Done(ThreadActivation),
    /// It ended, and was in this.
    Ended(Option<UnfinishedActivation>),
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
