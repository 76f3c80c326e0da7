//! Fixes against the cause of late wakeups on the machine that was recorded. A fix that is
//! already in effect there is not returned.

use laggard_model::{Because, CauseClass, GroupQuota, Host, OwnCost, ProbePlan, Remedy};
use schemars::JsonSchema;
use serde::Serialize;

use crate::show::RecordingReport;
use crate::why::CauseShare;

/// Fix against a cause of late wakeups.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fix {
    /// Reduce what laggard measures, because laggard's threads are the cause.
    MeasureLess,
    /// Keep CPUs out of deep idle states.
    HoldAwake,
    /// Boot the virtual machine with `idle=poll`.
    PollIdle,
    /// Have the hypervisor poll before it stops an idle CPU.
    HaltPoll,
    /// Give the virtual machine dedicated CPUs.
    DedicatedCpus,
    /// Check whether the hypervisor has more virtual CPUs than CPUs.
    CheckOvercommit,
    /// Disable the sources of system management interrupts.
    Firmware,
    /// Keep the code that disables interrupts off the CPU.
    MoveCaller,
    /// Move an interrupt to another CPU.
    MoveIrq {
        /// Number of the interrupt.
        irq: u32,
    },
    /// Isolate the CPU, because its own interrupts cannot be moved.
    IsolateCpu,
    /// Run the application above the threads that run softirqs.
    AboveSoftirqs,
    /// Keep the source of the softirq off the CPU, or use `PREEMPT_RT`.
    MoveSoftirqs,
    /// Keep the thread off the CPU. The kernel already preempts in all places possible.
    MoveThread,
    /// Use `PREEMPT_RT`, or keep the thread off the CPU.
    PreemptRt,
    /// Use `preempt=full` or `PREEMPT_RT`, or keep the thread off the CPU.
    PreemptFull,
    /// Lower the priority of the thread, or move it to another CPU.
    LowerPriority,
    /// Run the application at a higher priority than the thread.
    RaisePriority,
    /// Raise the CPU quota of a control group.
    RaiseQuota {
        /// Group and file. Absent: not known.
        quota: Option<GroupQuota>,
    },
    /// Raise the weight of the control group.
    RaiseWeight,
    DisableAutogroup,
    /// Let the real-time thread sleep, or disable real-time throttling.
    RtRuntime,
    /// Let the real-time thread sleep, or disable the fair server.
    FairServer,
    /// Raise the runtime of the `SCHED_DEADLINE` thread.
    DeadlineBudget,
    /// Pin the threads of the CPU.
    Pin,
    LockMemory,
    /// Raise the memory limit of the control group, or use less memory.
    RaiseMemoryLimit,
    /// Hold the lock for a shorter time, or let its holder inherit priority.
    ShortenLock,
    /// Do not map memory or fork in the process during a cycle.
    MapElsewhere,
    /// Move the wait or the system call to another thread.
    MoveWait,
    /// Sleep for a shorter time within the cycle, or use a shorter timeout.
    ShortenSleep,
    ReduceWork,
    /// Find the program that stops or freezes the thread.
    FindStopper,
    /// Look at the CPU that handled the timer, or disable the migration of timers.
    TimerMigration,
    /// Look at an episode, because a fix of the cause is not known.
    Inspect {
        /// Number of the episode with the longest time of the cause.
        episode: u64,
    },
    /// Update the driver, or disable its device (Windows).
    Driver,
    /// Keep a thread at a raised level off the CPU (Windows).
    MoveRaised,
    /// Keep the thread off the CPU, or run the application above it (Windows).
    MoveOrRaise,
    /// Run the application at a higher priority than the thread (Windows).
    RaiseAbove,
    /// Lock the memory of the application (Windows).
    VirtualLock,
}

impl Fix {
    /// Returns the remedy that has the fix in the table of tests. `None`: it does not change
    /// anything.
    pub const fn remedy(&self) -> Option<Remedy> {
        Some(match self {
            Self::MeasureLess => Remedy::LessMeasuring,
            Self::HoldAwake => Remedy::HoldAwake,
            Self::PollIdle => Remedy::PollIdle,
            Self::HaltPoll => Remedy::HaltPoll,
            Self::DedicatedCpus | Self::CheckOvercommit => Remedy::DedicatedCpus,
            Self::Firmware => Remedy::Firmware,
            Self::MoveCaller | Self::MoveThread | Self::LowerPriority => Remedy::MoveThread,
            Self::MoveIrq { .. } => Remedy::MoveIrq,
            Self::IsolateCpu => Remedy::IsolateCpu,
            Self::AboveSoftirqs => Remedy::AboveSoftirqs,
            Self::MoveSoftirqs => Remedy::MoveSoftirqs,
            Self::PreemptRt | Self::PreemptFull => Remedy::PreemptKernel,
            Self::RaisePriority => Remedy::RaisePriority,
            Self::RaiseQuota { .. } => Remedy::RaiseQuota,
            Self::RaiseWeight => Remedy::RaiseWeight,
            Self::DisableAutogroup => Remedy::DisableAutogroup,
            Self::RtRuntime => Remedy::RtRuntime,
            Self::FairServer => Remedy::FairServer,
            Self::DeadlineBudget => Remedy::DeadlineBudget,
            Self::Pin => Remedy::Pin,
            Self::LockMemory => Remedy::LockMemory,
            Self::RaiseMemoryLimit
            | Self::ShortenLock
            | Self::MapElsewhere
            | Self::MoveWait
            | Self::ShortenSleep
            | Self::ReduceWork
            | Self::FindStopper => Remedy::ChangeProgram,
            Self::TimerMigration => Remedy::TimerMigration,
            Self::Inspect { .. } => return None,
            _ => Remedy::Windows,
        })
    }
}

/// Name of the lock in the culprit of a [`CauseClass::KernelLock`].
pub const MMAP_LOCK: &str = "mmap_lock";
/// End of the culprit of a [`CauseClass::Wait`] that its timeout ended.
pub const TIMEOUT: &str = "timeout";

/// Returns whether the culprit of a [`CauseClass::Wait`] is a sleep or a timeout.
fn is_timed(who: &str) -> bool {
    ["nanosleep()", "clock_nanosleep()"].contains(&who) || who.ends_with(TIMEOUT)
}

/// Returns the fix against a cause in this recording. `None`: a user cannot change
/// anything.
pub fn fix(row: &CauseShare, report: &RecordingReport) -> Option<Fix> {
    fix_on(row, &report.host, &report.plan, &report.cost)
}

/// Returns the fix against a cause on this machine.
pub(crate) fn fix_on(
    row: &CauseShare,
    host: &Host,
    plan: &ProbePlan,
    cost: &OwnCost,
) -> Option<Fix> {
    if row.is_ours {
        return Some(Fix::MeasureLess);
    }
    if host.is_windows() {
        return windows(row.cause.class);
    }
    let is_virtual = host.hypervisor.is_some();
    let preemption = host.preemption.as_deref();
    Some(match row.cause.class {
        CauseClass::IdleExit => idle(plan.held_awake, is_virtual)?,
        CauseClass::Stolen => Fix::DedicatedCpus,
        CauseClass::Stall if is_virtual => Fix::CheckOvercommit,
        CauseClass::Stall => Fix::Firmware,
        CauseClass::InterruptsOff => Fix::MoveCaller,
        CauseClass::Interrupt => row
            .irq
            .map_or(Fix::IsolateCpu, |irq| Fix::MoveIrq { irq }),
        CauseClass::Softirq if preemption == Some("rt") => Fix::AboveSoftirqs,
        CauseClass::Softirq => Fix::MoveSoftirqs,
        CauseClass::PreemptionOff => match preemption {
            Some("rt") => Fix::MoveThread,
            Some("full") => Fix::PreemptRt,
            _ => Fix::PreemptFull,
        },
        CauseClass::HigherPriority => Fix::LowerPriority,
        CauseClass::Equal => Fix::RaisePriority,
        CauseClass::GroupWeight => {
            let mut who = row.cause.who.iter();
            if who.any(|who| who.contains("autogroup")) {
                Fix::DisableAutogroup
            } else {
                Fix::RaiseWeight
            }
        }
        CauseClass::Throttled => Fix::RaiseQuota {
            quota: row.quota.clone(),
        },
        // Without throttling, the fair server stops the same threads for the same time.
        CauseClass::RtThrottled if host.has_fair_server() => Fix::FairServer,
        CauseClass::RtThrottled => Fix::RtRuntime,
        CauseClass::FairServer => Fix::FairServer,
        CauseClass::DeadlineThrottled => Fix::DeadlineBudget,
        CauseClass::Migration => Fix::Pin,
        CauseClass::ReturnToUser if cost.measuring_faults > 0 => Fix::LockMemory,
        CauseClass::ReturnToUser | CauseClass::Unexplained => {
            if row.cause.because == Some(Because::Elsewhere) {
                Fix::TimerMigration
            } else {
                Fix::Inspect {
                    episode: row.largest_episode,
                }
            }
        }
        CauseClass::OwnWork | CauseClass::Overrun => Fix::ReduceWork,
        CauseClass::PageFault => Fix::LockMemory,
        CauseClass::Reclaim => Fix::RaiseMemoryLimit,
        CauseClass::Lock => Fix::ShortenLock,
        CauseClass::KernelLock if row.cause.who.as_ref().is_some_and(|who| who.contains(MMAP_LOCK)) => {
            Fix::MapElsewhere
        }
        // Without samples, it may also be page faults.
        CauseClass::SystemCall if row.cause.who.is_none() => Fix::ReduceWork,
        CauseClass::Wait if row.cause.who.as_deref().is_some_and(is_timed) => Fix::ShortenSleep,
        CauseClass::SystemCall
        | CauseClass::KernelLock
        | CauseClass::Blocked
        | CauseClass::Wait => Fix::MoveWait,
        CauseClass::Frozen | CauseClass::Stopped => Fix::FindStopper,
        CauseClass::ContextSwitch
        | CauseClass::OwnPath
        // Windows only.
        | CauseClass::Dpc => return None,
    })
}

const fn idle(held_awake: bool, is_virtual: bool) -> Option<Fix> {
    Some(match (held_awake, is_virtual) {
        (true, false) => return None,
        (true, true) => Fix::HaltPoll,
        (false, true) => Fix::PollIdle,
        (false, false) => Fix::HoldAwake,
    })
}

const fn windows(class: CauseClass) -> Option<Fix> {
    Some(match class {
        CauseClass::Dpc | CauseClass::Interrupt => Fix::Driver,
        CauseClass::PreemptionOff | CauseClass::InterruptsOff => Fix::MoveRaised,
        CauseClass::HigherPriority => Fix::MoveOrRaise,
        CauseClass::Equal => Fix::RaiseAbove,
        CauseClass::ReturnToUser => Fix::VirtualLock,
        _ => return None,
    })
}
