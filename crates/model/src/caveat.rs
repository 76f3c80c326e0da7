//! Caveats: reasons to doubt a result, each with advice.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of doubt a caveat raises.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
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
    /// Real-time threads are throttled.
    RtThrottling,
    /// Deep idle states are allowed.
    IdleStates,
    /// The frequency governor is not `performance`.
    Governor,
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
    /// The load ended before the recording, or failed.
    LoadEnded,
    /// Losses are large enough to matter.
    Losses,
    /// Measuring threads had page faults.
    PageFaults,
    /// The recording did not end properly.
    Unfinished,
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
