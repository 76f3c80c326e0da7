//! Warnings: reasons to doubt a result, each with a remedy.

// A new variant needs a decision here.
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of a warning.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CaveatKind {
    /// laggard does not run as root, so some operations are refused.
    NotRoot,
    /// The kernel lacks type information for BPF.
    NoBtf,
    /// The kernel is locked down.
    Lockdown,
    /// BPF is not available; only expiry and user stage are measured.
    NoBpf,
    /// An optional ability is absent.
    AbilityAbsent,
    /// A service could not be measured.
    ServiceAbsent,
    /// The requested real-time priorities are not permitted.
    Priority,
    /// This control group does not give time to real-time threads.
    RtGroup,
    /// Real-time threads are throttled.
    RtThrottling,
    /// Deep idle states are allowed.
    IdleStates,
    /// The frequency governor is not `performance`.
    Governor,
    /// Turbo frequencies vary.
    Turbo,
    /// The kernel is not fully preemptible.
    Preemption,
    /// The kernel is a debug build.
    DebugKernel,
    /// The scheduler's tick is slow.
    TickRate,
    /// A chosen CPU stops its tick, which makes kernel entry slower.
    Tickless,
    /// Mitigations of processor vulnerabilities make kernel entry slower.
    Mitigations,
    /// A chosen CPU shares its core with another.
    Siblings,
    /// Memory can be swapped out.
    Swap,
    /// Huge pages are assembled in the background.
    HugePages,
    /// Pages are moved between NUMA nodes.
    NumaBalancing,
    /// A watchdog runs on every CPU.
    Watchdog,
    /// A daemon moves interrupts between CPUs.
    IrqBalance,
    /// Timers may move to another CPU.
    TimerMigration,
    /// Timers of a measured CPU expired on another.
    TimerElsewhere,
    /// Normal threads are scheduled by session.
    Autogroup,
    /// The machine is virtual: the hypervisor can stop it.
    VirtualMachine,
    /// The hypervisor stopped it during the recording.
    Stolen,
    /// No performance counters: code with interrupts disabled cannot be sampled.
    NoPmu,
    /// A chosen CPU is offline.
    CpuOffline,
    /// A chosen CPU is isolated, so the load does not reach it.
    CpuIsolated,
    /// The memory lock limit is too low.
    MemoryLock,
    /// The clock source is slow or unstable.
    Clocksource,
    /// The load ended before the recording, failed, or was stopped during it.
    LoadEnded,
    /// Losses are significant.
    Losses,
    /// The overhead of the measurement is significant.
    OwnCost,
    /// A stage was missing in a significant number of activations.
    StageUnseen,
    /// laggard itself was stopped during the measurement.
    Stopped,
    /// A service ran on another CPU than the measured one.
    Moved,
    /// Another program changed the policy, priority or nice value of a measuring
    /// thread.
    Rescheduled,
    /// Measuring threads had page faults.
    PageFaults,
    /// Activations start with a device interrupt, not with a timer expiry.
    ExternalSource,
    /// Softirqs run in a thread, which waits for every thread above it.
    SoftirqThread,
    /// A kernel tracer runs for a service, which slows every interrupt.
    Tracer,
    /// The recording did not end properly.
    Unfinished,
    /// This process was started with a policy other than the normal one.
    Inherited,
    /// CPUs that are online are outside this process's cpuset.
    Cpuset,
    /// A control group limits the CPU time of this process.
    CpuQuota,
    /// Other programs trace the same events.
    OtherTracers,
    /// The requested measurement takes a large part of the measured CPUs.
    Overload,
    /// Another program made the recording; the meaning of its rows.
    Imported,
    /// Too much of an imported recording is missing for it to be trusted.
    TraceIncomplete,
    /// The system is Wine, which emulates Windows.
    Wine,
}

/// Severity of a warning.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Part of the measurement is impossible, or its numbers do not apply to the system
    /// in normal use.
    Spoils,
    /// It occasionally adds latency, often more than everything else.
    Matters,
    /// It adds a little, or explains a difference between two machines.
    Note,
}

impl CaveatKind {
    /// Returns the severity of this kind.
    pub const fn severity(self) -> Severity {
        match self {
            Self::NotRoot
            | Self::NoBtf
            | Self::NoBpf
            | Self::ServiceAbsent
            | Self::Priority
            | Self::RtGroup
            | Self::DebugKernel
            | Self::Stolen
            | Self::CpuOffline
            | Self::MemoryLock
            | Self::LoadEnded
            | Self::Rescheduled
            | Self::Losses
            | Self::Overload
            | Self::TraceIncomplete
            | Self::Wine => Severity::Spoils,
            Self::RtThrottling
            | Self::IdleStates
            | Self::Governor
            | Self::Preemption
            | Self::Siblings
            | Self::Swap
            | Self::NumaBalancing
            | Self::VirtualMachine
            | Self::CpuIsolated
            | Self::Clocksource
            | Self::Stopped
            | Self::Moved
            | Self::PageFaults
            | Self::OwnCost
            | Self::StageUnseen
            | Self::TimerElsewhere
            | Self::Tracer
            | Self::Unfinished
            | Self::Inherited
            | Self::Cpuset
            | Self::CpuQuota
            | Self::OtherTracers => Severity::Matters,
            Self::Lockdown
            | Self::AbilityAbsent
            | Self::Turbo
            | Self::TickRate
            | Self::Tickless
            | Self::Mitigations
            | Self::HugePages
            | Self::Watchdog
            | Self::IrqBalance
            | Self::TimerMigration
            | Self::Autogroup
            | Self::NoPmu
            | Self::ExternalSource
            | Self::SoftirqThread
            | Self::Imported => Severity::Note,
        }
    }
}

/// Reason to doubt a result, with a remedy.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Caveat {
    /// Kind of the warning.
    pub kind: CaveatKind,
    /// Finding, in words.
    pub what: String,
    /// Remedy.
    pub advice: String,
}

impl Caveat {
    /// Returns a caveat of this kind.
    pub fn new(kind: CaveatKind, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            advice: advice.into(),
        }
    }
}
