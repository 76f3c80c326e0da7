//! Causes: the attribution of the time of a late wakeup.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Activity, Address, Because, Nanos, Symbols};

/// Class of a cause.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CauseClass {
    /// The CPU was idle and had to leave the idle state.
    IdleExit,
    /// The hypervisor ran something else.
    Stolen,
    /// All CPUs stood still: a system management interrupt, the hardware, or a
    /// hypervisor that does not report it.
    Stall,
    /// Code had interrupts disabled.
    InterruptsOff,
    /// Another interrupt was served.
    Interrupt,
    /// Another softirq or softirq callback ran.
    Softirq,
    /// A deferred procedure call of Windows ran.
    Dpc,
    /// Code could not be preempted, or had softirqs disabled.
    PreemptionOff,
    /// A more urgent thread ran.
    HigherPriority,
    /// A thread of equal priority had its turn.
    Equal,
    /// A thread of another control group (or autogroup) ran: the groups' weights decide
    /// between them, not the nice values.
    GroupWeight,
    /// The CPU quota of a control group was exhausted.
    Throttled,
    /// Real-time throttling stopped all real-time threads of the CPU.
    RtThrottled,
    /// The kernel's fair server ran normal threads above every real-time priority,
    /// because real-time threads had occupied the CPU.
    FairServer,
    /// A `SCHED_DEADLINE` thread had exhausted its budget.
    DeadlineThrottled,
    /// The CPU's migration thread ran.
    Migration,
    /// The scheduler switched threads.
    ContextSwitch,
    /// The service's thread was returning to user code: a page fault or other kernel
    /// work.
    ReturnToUser,
    /// Execution time of the thread itself, in an activation that lasts until it is
    /// done.
    OwnWork,
    /// Work of an earlier cycle of the thread, after the next was due.
    Overrun,
    /// The thread was in a system call, or elsewhere in the kernel, on its own behalf.
    SystemCall,
    /// The thread handled page faults.
    PageFault,
    /// Memory was short, or the control group was at its limit: the thread reclaimed memory, or
    /// waited for it.
    Reclaim,
    /// The thread waited for a futex: a mutex, a condition variable.
    Lock,
    /// The thread waited for a lock of the kernel.
    KernelLock,
    /// The thread waited uninterruptibly for something other than a lock: a disk, a
    /// page.
    Blocked,
    /// The thread waited for an event in the middle of its cycle: a pipe, a socket, a child.
    Wait,
    /// The thread's control group was frozen.
    Frozen,
    /// A signal or a debugger had stopped the thread.
    Stopped,
    /// Interrupt, softirq and wakeup of the activation itself.
    OwnPath,
    /// The trace data is missing or does not show the cause.
    Unexplained,
}

impl CauseClass {
    /// All classes.
    pub const ALL: [Self; 31] = [
        Self::IdleExit,
        Self::Stolen,
        Self::Stall,
        Self::InterruptsOff,
        Self::Interrupt,
        Self::Softirq,
        Self::Dpc,
        Self::PreemptionOff,
        Self::HigherPriority,
        Self::Equal,
        Self::GroupWeight,
        Self::Throttled,
        Self::RtThrottled,
        Self::FairServer,
        Self::DeadlineThrottled,
        Self::Migration,
        Self::ContextSwitch,
        Self::ReturnToUser,
        Self::OwnWork,
        Self::Overrun,
        Self::SystemCall,
        Self::PageFault,
        Self::Reclaim,
        Self::Lock,
        Self::KernelLock,
        Self::Blocked,
        Self::Wait,
        Self::Frozen,
        Self::Stopped,
        Self::OwnPath,
        Self::Unexplained,
    ];

    /// Returns the class in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::IdleExit => "idle exit",
            Self::Stolen => "hypervisor steal",
            Self::Stall => "stall of all CPUs",
            Self::InterruptsOff => "interrupts disabled",
            Self::Interrupt => "interrupt",
            Self::Softirq => "softirq",
            Self::Dpc => "DPC",
            Self::PreemptionOff => "preemption disabled",
            Self::HigherPriority => "preempted by higher priority",
            Self::Equal => "CPU shared, same priority",
            Self::GroupWeight => "control group weight",
            Self::Throttled => "throttled",
            Self::RtThrottled => "real-time throttling",
            Self::FairServer => "fair server",
            Self::DeadlineThrottled => "deadline budget used up",
            Self::Migration => "migration",
            Self::ContextSwitch => "context switch",
            Self::ReturnToUser => "return to user code",
            Self::OwnWork => "execution time",
            Self::Overrun => "overrun",
            Self::SystemCall => "execution time in the kernel",
            Self::PageFault => "page fault",
            Self::Reclaim => "memory reclaim",
            Self::Lock => "lock",
            Self::KernelLock => "kernel lock",
            Self::Blocked => "uninterruptible wait",
            Self::Wait => "wait within the cycle",
            Self::Frozen => "frozen",
            Self::Stopped => "stopped",
            Self::OwnPath => "timer IRQ and wakeup path",
            Self::Unexplained => "unexplained",
        }
    }
}

impl fmt::Display for CauseClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// Culprit: the thread, interrupt or code that took the time. Threads are identified by
/// name, because the number of a program's thread differs in each run.
#[derive(Clone, Debug, Default, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Culprit {
    /// Thread that ran.
    pub thread: Option<Arc<str>>,
    /// Interrupt or softirq.
    pub activity: Option<Activity>,
    /// Function of the timer or work item within it.
    pub function: Option<Activity>,
    /// Innermost kernel address of the sample that shows it.
    pub frame: Option<Address>,
    /// System call in which that code runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_call: Option<Arc<str>>,
    /// Number of the control group whose quota was exhausted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    /// Control group whose weight decided, in words, with its setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<Arc<str>>,
    /// Culprit of a [`RecordedCause`](crate::RecordedCause), in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Arc<str>>,
    /// Thread that took part but does not identify the cause: the real-time thread that
    /// used up the CPU, or the thread that ran because of a group's weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contender: Option<Arc<str>>,
    /// Whether the thread belongs to the laggard that recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_ours: bool,
    /// Reason why no culprit is named, or an additional fact: a doubt, a lock.
    pub because: Option<Because>,
}

/// Cause with the name of its culprit. Equal values are the same cause in all episodes.
#[derive(
    Clone, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct NamedCause {
    /// Class of the cause.
    pub class: CauseClass,
    /// Name of the culprit: thread, interrupt, function, control group. `None`: the class
    /// does not have a culprit, or the culprit is unknown.
    pub who: Option<String>,
    /// Reason for an unknown culprit, or an additional fact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<Because>,
}

impl NamedCause {
    /// Returns a cause of this class whose culprit has this name.
    #[must_use]
    pub fn new(class: CauseClass, who: Option<&str>) -> Self {
        Self {
            class,
            who: who.map(str::to_owned),
            because: None,
        }
    }

    /// Returns a cause of this class with its culprit.
    #[must_use]
    pub fn from_culprit(class: CauseClass, culprit: &Culprit, symbols: &Symbols) -> Self {
        Self {
            class,
            who: crate::name::who(culprit, symbols),
            because: culprit.because,
        }
    }

    /// Returns the same cause without the code location, which varies between samples.
    #[must_use]
    pub fn without_place(class: CauseClass, culprit: &Culprit, symbols: &Symbols) -> Self {
        let culprit = Culprit {
            frame: None,
            system_call: None,
            ..culprit.clone()
        };
        Self::from_culprit(class, &culprit, symbols)
    }

    /// Returns the name of the culprit and the reason in words; `None`: the class says it
    /// all.
    #[must_use]
    pub fn culprit(&self) -> Option<String> {
        let reason = self.because.map(|because| because.to_string());
        let words: Vec<String> = self.who.clone().into_iter().chain(reason).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

impl fmt::Display for NamedCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.class.fmt(f)?;
        match self.culprit() {
            Some(culprit) => write!(f, ": {culprit}"),
            None => Ok(()),
        }
    }
}

/// Part of an episode's time.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Cause {
    /// Class of the cause.
    pub class: CauseClass,
    /// Culprit.
    pub culprit: Culprit,
    /// Part of the latency.
    pub time_ns: Nanos,
}
