//! Caveats: reasons to doubt a result, each with advice.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of doubt a caveat raises.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CaveatKind {
    /// Not run as root, so something is refused.
    NotRoot,
    /// The kernel has no type information for BPF.
    NoBtf,
    /// The kernel is locked down.
    Lockdown,
    /// BPF could not be used; only expiry and user stage are measured.
    NoBpf,
    /// An optional ability is absent.
    AbilityAbsent,
    /// A service could not be measured.
    ServiceAbsent,
    /// The real-time priorities that are asked for may not be used.
    Priority,
    /// This control group has no time for real-time threads.
    RtGroup,
    /// Real-time threads are throttled.
    RtThrottling,
    /// Deep idle states are allowed.
    IdleStates,
    /// The frequency governor is not `performance`.
    Governor,
    /// Turbo frequencies come and go.
    Turbo,
    /// The kernel does not preempt itself everywhere.
    Preemption,
    /// The kernel was built to find its own faults.
    DebugKernel,
    /// The scheduler's tick is slow.
    TickRate,
    /// A chosen CPU stops its tick, which makes entering the kernel dearer.
    Tickless,
    /// Cures of processor vulnerabilities make entering the kernel dearer.
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
    /// A virtual machine: the hypervisor can stop it.
    VirtualMachine,
    /// The hypervisor did stop it during the recording.
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
    /// The load ended before the recording, or failed, or was stopped meanwhile.
    LoadEnded,
    /// Losses are large enough to matter.
    Losses,
    /// Measuring itself takes enough of the machine to matter.
    OwnCost,
    /// A stage was not seen in enough activations to matter.
    StageUnseen,
    /// laggard itself was stopped while it measured.
    Stopped,
    /// Something ran on another CPU than the one that it was to measure.
    Moved,
    /// A measuring thread was given another policy, priority or nice value.
    Rescheduled,
    /// Measuring threads had page faults.
    PageFaults,
    /// Activations begin with a device's interrupt, not with a timer's expiry.
    ExternalSource,
    /// Softirqs run in a thread, which waits for every thread above it.
    SoftirqThread,
    /// A tracer of the kernel runs for a service, which costs every interrupt.
    Tracer,
    /// The recording did not end properly.
    Unfinished,
    /// This process was started with a scheduling other than the normal one.
    Inherited,
    /// CPUs that are online are outside of this process's set of CPUs.
    Cpuset,
    /// A control group limits the CPU time of this process.
    CpuQuota,
    /// Other programs trace the events that measuring uses.
    OtherTracers,
    /// Measuring as asked takes a large part of the CPUs that it measures.
    Overload,
    /// Another program recorded it: what its rows are.
    Imported,
    /// So much of what another program recorded is missing that it cannot be trusted.
    TraceIncomplete,
    /// The system is Windows by name alone: Wine has its calls done by another.
    Wine,
}

/// How much a caveat bears on a result.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Part of the measurement is impossible, or its numbers are not those of
    /// the system in normal use.
    Spoils,
    /// It adds latency now and then, often more than everything else.
    Matters,
    /// It adds a little, or explains a difference between two machines.
    Note,
}

impl CaveatKind {
    /// How much this kind bears on a result.
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

/// A reason to doubt a result, with advice.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Caveat {
    /// What kind of doubt.
    pub kind: CaveatKind,
    /// What was found, in plain words.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

impl Caveat {
    /// A caveat of this kind.
    pub fn new(kind: CaveatKind, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            advice: advice.into(),
        }
    }
}
