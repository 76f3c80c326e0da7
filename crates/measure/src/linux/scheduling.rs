//! Scheduling of a thread: its policy and its share.

use std::fmt;

use laggard_model::Tid;

use crate::board::BOARD_SHARE_BITS;

/// TID that the kernel takes for the calling thread.
pub const OWN: Tid = Tid(0);

/// Kernel priority of a `SCHED_OTHER` thread at nice 0.
const NICE_0: i32 = 120;

/// Policy of a thread, with its priority within the policy.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SchedulingPolicy {
    #[default]
    Other,
    Batch,
    Idle,
    Fifo(i32),
    RoundRobin(i32),
    Deadline,
    /// Policy with a number that laggard does not know.
    Unknown(i32),
}

/// Policy, and the nice value if it applies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Scheduling {
    policy: SchedulingPolicy,
    nice: i32,
}

impl SchedulingPolicy {
    /// Returns the policy of a thread of this process, or an unknown policy if the thread is
    /// gone.
    pub fn read(tid: Tid) -> Self {
        let tid = tid.0.cast_signed();
        // SAFETY: the arguments are integers.
        let number = unsafe { libc::sched_getscheduler(tid) };
        let mut param = libc::sched_param { sched_priority: 0 };
        // SAFETY: `param` is valid for writes.
        unsafe { libc::sched_getparam(tid, &raw mut param) };
        match number {
            ..0 => Self::Unknown(number),
            _ => Self::new(number & !libc::SCHED_RESET_ON_FORK, param.sched_priority),
        }
    }

    pub const fn new(number: i32, priority: i32) -> Self {
        match number {
            libc::SCHED_OTHER => Self::Other,
            libc::SCHED_BATCH => Self::Batch,
            libc::SCHED_IDLE => Self::Idle,
            libc::SCHED_FIFO => Self::Fifo(priority),
            libc::SCHED_RR => Self::RoundRobin(priority),
            libc::SCHED_DEADLINE => Self::Deadline,
            _ => Self::Unknown(number),
        }
    }

    /// Returns whether the nice value applies.
    const fn has_nice(self) -> bool {
        matches!(self, Self::Other | Self::Batch)
    }

    /// Returns the name of the policy, or `None` for `SCHED_OTHER`.
    pub fn name(self) -> Option<String> {
        Some(match self {
            Self::Other => return None,
            Self::Batch => "SCHED_BATCH".into(),
            Self::Idle => "SCHED_IDLE".into(),
            Self::Fifo(priority) => format!("SCHED_FIFO with priority {priority}"),
            Self::RoundRobin(priority) => format!("SCHED_RR with priority {priority}"),
            Self::Deadline => "SCHED_DEADLINE".into(),
            Self::Unknown(number) => format!("scheduling policy {number}"),
        })
    }
}

/// Returns a thread's nice value, or 0 if the thread is gone.
pub fn nice_of(tid: Tid) -> i32 {
    nix::errno::Errno::clear();
    // SAFETY: the arguments are integers; on Linux the number is a TID.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, tid.0) };
    match nix::errno::Errno::last_raw() {
        0 => nice,
        _ => 0,
    }
}

impl Scheduling {
    /// Returns the scheduling of a thread of this process, or `None` if the thread is gone.
    pub fn read(tid: Tid) -> Option<Self> {
        let policy = SchedulingPolicy::read(tid);
        let nice = if policy.has_nice() { nice_of(tid) } else { 0 };
        (!matches!(policy, SchedulingPolicy::Unknown(..0))).then_some(Self { policy, nice })
    }
}

impl Scheduling {
    /// Decodes a number that a program has stored on the board (`board.h`).
    pub fn from_board(number: u32) -> Self {
        let share = (number & ((1 << BOARD_SHARE_BITS) - 1)).cast_signed();
        let policy = SchedulingPolicy::new((number >> BOARD_SHARE_BITS).cast_signed(), share);
        let nice = if policy.has_nice() { share - NICE_0 } else { 0 };
        Self { policy, nice }
    }
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.policy.name();
        f.write_str(name.as_deref().unwrap_or("SCHED_OTHER"))?;
        if self.policy.has_nice() {
            write!(f, " at nice {}", self.nice)
        } else {
            Ok(())
        }
    }
}
