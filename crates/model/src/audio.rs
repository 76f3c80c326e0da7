//! Prerequisites of audio on a machine, as its users check them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CpuList, Nanos};

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
    /// Finding.
    pub state: AudioState,
}

/// State of the machine that decides whether an audio prerequisite is met.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AudioState {
    /// A file of the kernel cannot be read.
    Unreadable {
        /// Path of the file.
        file: String,
    },
    /// The limits of root do not apply to the user of the audio programs.
    LimitsOfRoot,
    /// The kernel does not set CPU frequencies.
    NoFrequencyControl,
    /// Every CPU has the governor `performance`.
    Performance,
    /// The frequency of these CPUs follows the load.
    FrequencyFollowsLoad {
        /// CPUs with this governor.
        cpus: CpuList,
        /// Governor.
        governor: String,
    },
    /// The kernel reports no idle states.
    IdleUnknown,
    /// Longest exit latency of an idle state. It is short enough.
    ShallowIdle {
        /// Exit latency.
        exit_ns: Nanos,
    },
    /// Idle state with the longest exit latency. It is too long.
    DeepIdle {
        /// Name of the state.
        name: String,
        /// Exit latency.
        exit_ns: Nanos,
        /// Whether programs can limit the latency with `/dev/cpu_dma_latency`.
        has_latency_file: bool,
    },
    /// The interrupt of the sound card has other devices.
    SharedInterrupt {
        /// Number of the interrupt.
        number: String,
        /// All devices of the interrupt.
        devices: Vec<String>,
    },
    /// The interrupt of the sound card is not shared with another device.
    OwnInterrupt {
        /// Number of the interrupt.
        number: String,
        /// Devices of the interrupt.
        devices: Vec<String>,
    },
    /// The sound card is on USB.
    SoundOnUsb,
    /// No interrupt has the name of the sound card.
    SoundUnnamed,
    /// The machine does not have a sound card.
    NoSoundCard,
    /// Interrupts run in threads, because of `PREEMPT_RT`.
    ThreadsOfRt,
    /// Interrupts run in threads, because of `threadirqs`.
    ThreadsOfOption,
    /// Interrupt handlers run before every thread.
    NoThreads,
    /// Limit of the real-time priority.
    PriorityLimit {
        /// Highest permitted priority.
        most: u64,
        /// Whether rtkit is installed, which gives priorities up to 20.
        has_rtkit: bool,
    },
    /// Limit of locked memory.
    LockLimit {
        /// Bytes; absent: unlimited.
        bytes: Option<u64>,
    },
    /// No swap is in use.
    NoSwap,
    /// `vm.swappiness`.
    Swappiness {
        /// Present value.
        value: u32,
        /// Highest value for audio.
        most: u32,
    },
}
