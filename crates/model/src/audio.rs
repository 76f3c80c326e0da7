//! What audio needs of a machine, as its users check it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing that audio needs.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
pub enum AudioNeed {
    /// A frequency that does not follow the load.
    Governor,
    /// Idle states that are left soon.
    IdleStates,
    /// An interrupt that the sound card shares with nobody.
    SoundInterrupt,
    /// Interrupt handlers that a thread can be put above.
    ThreadedInterrupts,
    /// Real-time priority for the user's programs.
    Priority,
    /// Memory that the user's programs may lock.
    MemoryLock,
    /// Memory that is not swapped out.
    Swappiness,
}

impl AudioNeed {
    /// Its name.
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

/// Whether a need of audio's is met.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AudioFinding {
    /// The need.
    pub need: AudioNeed,
    /// Whether it is met; absent where this machine does not tell.
    pub is_met: Option<bool>,
    /// What was found, in plain words.
    pub what: String,
    /// What to do about it, where it is not met.
    pub advice: Option<String>,
}
