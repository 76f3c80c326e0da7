//! Prerequisites of audio on a machine, as its users check them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prerequisite of audio.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum AudioNeed {
    /// CPU frequency that does not follow the load.
    Governor,
    /// Idle states with a short exit latency.
    IdleStates,
    /// Sound card interrupt that is not shared.
    SoundInterrupt,
    /// Interrupt handlers in threads, which can have a lower priority.
    ThreadedInterrupts,
    /// Real-time priority for the user's programs.
    Priority,
    /// Memory that the user's programs may lock.
    MemoryLock,
    /// Memory that is not swapped out.
    Swappiness,
}

impl AudioNeed {
    /// Returns the name.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Governor => "governor",
            Self::IdleStates => "idle states (C-states)",
            Self::SoundInterrupt => "interrupt of the sound card",
            Self::ThreadedInterrupts => "threaded interrupts",
            Self::Priority => "real-time priority (rtprio, rtkit)",
            Self::MemoryLock => "locked memory (memlock)",
            Self::Swappiness => "swappiness",
        }
    }
}

/// Result of a check of a prerequisite.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AudioFinding {
    /// Prerequisite.
    pub need: AudioNeed,
    /// Whether it is met; absent if unknown.
    pub is_met: Option<bool>,
    /// Finding, in words.
    pub what: String,
    /// Remedy, if it is not met.
    pub advice: Option<String>,
}
