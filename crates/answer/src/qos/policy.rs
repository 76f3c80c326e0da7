//! What an application does with its buffers after a miss.

use laggard_analyze::qos::AfterMiss;
use schemars::JsonSchema;
use serde::Serialize;

/// What becomes of the buffers after a miss (OSDI'99 5.1, footnote 6).
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissPolicy {
    /// A late buffer is filled all the same, and those behind it wait.
    #[default]
    Late,
    /// A buffer is given up when its time is over, and a dummy played for it.
    Drop,
    /// All that was due is thrown away, and the stream begins anew.
    Reset,
}

impl MissPolicy {
    /// Whether it is what is taken for granted.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        matches!(self, Self::Late)
    }

    /// What is done, in words; `None`: what is taken for granted.
    #[must_use]
    pub const fn words(self) -> Option<&'static str> {
        match self {
            Self::Late => None,
            Self::Drop => {
                Some("a buffer is dropped when its time is over, and the next one filled")
            }
            Self::Reset => Some(
                "when a late buffer is filled, all that was due meanwhile is thrown away, and the \
                 stream begins anew",
            ),
        }
    }
}

impl From<MissPolicy> for AfterMiss {
    fn from(policy: MissPolicy) -> Self {
        match policy {
            MissPolicy::Late => Self::Late,
            MissPolicy::Drop => Self::Drop,
            MissPolicy::Reset => Self::Reset,
        }
    }
}
