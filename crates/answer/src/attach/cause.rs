//! Causes of the time of a cycle.

use laggard_model::{Because, CauseClass, Nanos, RecordedCause, SystemCall, WokenBy};
use schemars::JsonSchema;
use serde::Serialize;

use super::cycle::AttachSite;

/// Part of a cycle's time.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AttachTaken {
    #[serde(flatten)]
    pub cause: AttachCause,
    /// Length.
    pub time_ns: Nanos,
}

impl AttachTaken {
    /// Returns whether the trace data of a CPU do not show the cause.
    #[must_use]
    pub fn is_untraced(&self) -> bool {
        let kind = &self.cause.kind;
        matches!(
            kind,
            AttachCauseKind::PageFault | AttachCauseKind::Kernel { .. } | AttachCauseKind::Reclaim
        ) || self.cause.class == CauseClass::DeadlineThrottled
    }
}

/// Cause of a part of a cycle's time.
#[derive(Clone, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub struct AttachCause {
    /// Class, the same as in `laggard why`.
    pub class: CauseClass,
    /// Kind, with its names.
    #[serde(flatten)]
    pub kind: AttachCauseKind,
}

#[derive(Clone, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AttachCauseKind {
    /// Slack of the thread's timer.
    TimerSlack,
    /// Execution time that is not divided into user code and kernel.
    Execution,
    /// Execution time in user code, from stack samples.
    UserCode,
    /// Execution time in the kernel.
    Kernel {
        /// Whether stack samples show it. Without samples it may be any system call.
        is_sampled: bool,
    },
    /// Execution time in a system call, from stack samples.
    SystemCall {
        /// Name of the system call.
        call: String,
    },
    /// Execution time in page faults, from stack samples or their number.
    PageFault,
    /// The kernel reclaimed memory for the thread, or made it wait for memory.
    Reclaim,
    /// Execution time of an earlier cycle while this one was due.
    Overrun {
        /// Kind of execution time.
        of: Box<Self>,
    },
    /// Other threads ran while the thread moved between CPUs: their names are not known.
    OtherThreads,
    /// Move to another CPU.
    Move,
    /// Wait on a CPU where the thread did not run.
    OtherCpu,
    /// The control group was frozen.
    Frozen,
    /// The thread was stopped.
    Stopped {
        /// Whether a debugger stopped it; otherwise a signal did.
        is_traced: bool,
    },
    /// Wait for the next period of `SCHED_DEADLINE`.
    NextPeriod,
    /// Timed sleep within the cycle.
    Sleep {
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<String>,
    },
    /// Wait for a child process.
    Child {
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<String>,
    },
    /// Wait for room in a pipe, a socket or a file.
    Output {
        site: AttachSite,
        /// Source of the wakeup.
        #[serde(skip_serializing_if = "Option::is_none")]
        waker: Option<WaitEnd>,
    },
    /// Wait for another event.
    Wait {
        site: AttachSite,
        /// Source of the wakeup.
        #[serde(skip_serializing_if = "Option::is_none")]
        waker: Option<WaitEnd>,
    },
    /// Wait for a lock of the kernel.
    KernelLock {
        /// System call; absent: a page fault or other work of the kernel.
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        /// Whether the lock is the `mmap_lock` of the process.
        is_mmap: bool,
        /// Thread that released the lock.
        #[serde(skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
    },
    /// Uninterruptible wait for something other than a lock.
    Blocked {
        /// System call; absent: a page fault or other work of the kernel.
        #[serde(skip_serializing_if = "Option::is_none")]
        call: Option<String>,
        /// File of the system call.
        #[serde(skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        /// Source of the wakeup.
        #[serde(skip_serializing_if = "Option::is_none")]
        waker: Option<WaitEnd>,
    },
    /// Wait for a lock that the kernel does not hold: a mutex, a condition variable, a lock of a
    /// file, a semaphore.
    Lock {
        /// Whether it is a mutex; otherwise a condition variable is possible.
        is_mutex: bool,
        /// Site of the wait; absent: a futex.
        #[serde(skip_serializing_if = "Option::is_none")]
        site: Option<AttachSite>,
        /// Thread that released it; absent: not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        holder: Option<String>,
        /// State of the holder for the longest part of this time.
        #[serde(skip_serializing_if = "Option::is_none")]
        state: Option<HolderState>,
    },
    /// Another thread, an interrupt, the scheduler or the hypervisor.
    System {
        /// Name of the culprit; absent: the class says it all, or `because` does.
        #[serde(skip_serializing_if = "Option::is_none")]
        who: Option<String>,
        /// Reason for an unknown culprit, or an additional fact.
        #[serde(skip_serializing_if = "Option::is_none")]
        because: Option<Because>,
        /// Thread that took part without being the cause.
        #[serde(skip_serializing_if = "Option::is_none")]
        contender: Option<String>,
    },
}

/// State of a lock's holder while another thread waits.
#[derive(Clone, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderState {
    Ran,
    /// The thread with this name had preempted the holder.
    Preempted(String),
    /// The holder was off its CPU.
    OffCpu,
}

#[derive(Clone, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitEnd {
    /// The thread with this name woke the waiting thread.
    Thread(String),
    Timeout,
    /// The interrupt with this number.
    Irq(u32),
    Softirq,
}

impl AttachTaken {
    /// Converts the cause for a recording. `who` is the name of the culprit. An overrun by a
    /// system call or by page faults is recorded as that cause, because their removal also avoids it.
    pub(super) fn recorded(&self, who: Option<String>) -> RecordedCause {
        let source = self.cause.overrun_of().map(|source| source.class);
        let source = source.filter(|&class| class != CauseClass::OwnWork);
        let (because, contender) = match &self.cause.kind {
            AttachCauseKind::System {
                because, contender, ..
            } => (*because, contender.as_deref().map(Into::into)),
            _ => (None, None),
        };
        RecordedCause {
            class: source.unwrap_or(self.cause.class),
            who: who.map(Into::into),
            because,
            contender,
            time_ns: self.time_ns,
        }
    }
}

impl AttachCause {
    #[must_use]
    pub const fn new(kind: AttachCauseKind) -> Self {
        Self {
            class: kind.class(),
            kind,
        }
    }

    /// Returns whether the thread itself used this time: other threads have separate causes.
    pub(super) const fn is_internal(&self) -> bool {
        matches!(
            self.kind,
            AttachCauseKind::TimerSlack
                | AttachCauseKind::Execution
                | AttachCauseKind::UserCode
                | AttachCauseKind::Kernel { .. }
                | AttachCauseKind::SystemCall { .. }
                | AttachCauseKind::PageFault
                | AttachCauseKind::Reclaim
                | AttachCauseKind::Overrun { .. }
                | AttachCauseKind::Sleep { .. }
                | AttachCauseKind::NextPeriod
        )
    }

    /// Removes the state of a lock's holder, and returns it. A lock is one cause, whatever its
    /// holder did.
    pub(super) const fn take_holder_state(&mut self) -> Option<HolderState> {
        match &mut self.kind {
            AttachCauseKind::Lock { state, .. } => state.take(),
            _ => None,
        }
    }

    /// Returns the cause of an overrun: the kind of execution time of the earlier cycle. Without that
    /// time, both cycles end earlier. `None`: this cause is not an overrun.
    #[must_use]
    pub fn overrun_of(&self) -> Option<Self> {
        match &self.kind {
            AttachCauseKind::Overrun { of } => Some(Self::new((**of).clone())),
            _ => None,
        }
    }
}

impl AttachCauseKind {
    /// Class of the causes of this kind. [`AttachCauseKind::System`] has several; its
    /// constructor sets the class.
    const fn class(&self) -> CauseClass {
        match self {
            Self::TimerSlack | Self::Move => CauseClass::OwnPath,
            Self::Execution | Self::UserCode => CauseClass::OwnWork,
            Self::Kernel { .. } | Self::SystemCall { .. } => CauseClass::SystemCall,
            Self::PageFault => CauseClass::PageFault,
            Self::Reclaim => CauseClass::Reclaim,
            Self::Overrun { .. } => CauseClass::Overrun,
            Self::OtherThreads | Self::OtherCpu | Self::System { .. } => CauseClass::Unexplained,
            Self::Frozen => CauseClass::Frozen,
            Self::Stopped { .. } => CauseClass::Stopped,
            Self::NextPeriod
            | Self::Sleep { .. }
            | Self::Child { .. }
            | Self::Output { .. }
            | Self::Wait { .. } => CauseClass::Wait,
            Self::KernelLock { .. } => CauseClass::KernelLock,
            Self::Blocked { .. } => CauseClass::Blocked,
            Self::Lock { .. } => CauseClass::Lock,
        }
    }
}

impl WaitEnd {
    /// Returns the end of a wait that `woken` ended; `None`: its interrupt is not known.
    pub(super) fn from_wakeup(woken: WokenBy) -> Option<Self> {
        match woken {
            WokenBy::Thread(_, name) | WokenBy::Sender(_, name) => {
                Some(Self::Thread(name.to_string()))
            }
            WokenBy::Timer(_) | WokenBy::Wheel(_) => Some(Self::Timeout),
            WokenBy::Irq(number) => Some(Self::Irq(number)),
            WokenBy::Softirq(_) => Some(Self::Softirq),
            WokenBy::Vector | WokenBy::Interrupt => None,
        }
    }
}

/// Returns the name of a system call, or its number if the name is not known.
pub(super) fn call_name(call: SystemCall) -> String {
    if call.name.is_empty() {
        call.number.to_string()
    } else {
        call.name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrun_is_recorded_with_its_cause_unless_it_is_work() {
        let class = |of: AttachCauseKind| {
            let of = Box::new(of);
            let overrun = AttachTaken {
                cause: AttachCause::new(AttachCauseKind::Overrun { of }),
                time_ns: Nanos::from_us(1),
            };
            overrun.recorded(None).class
        };

        assert_eq!(class(AttachCauseKind::PageFault), CauseClass::PageFault);
        assert_eq!(class(AttachCauseKind::UserCode), CauseClass::Overrun);
    }
}
