//! Treatment of buffers after an xrun.

use laggard_analyze::qos::AfterMiss;
use schemars::JsonSchema;
use serde::Serialize;

/// Treatment of buffers after an xrun (OSDI'99 5.1, footnote 6).
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissPolicy {
    /// A late buffer is still filled, and later buffers wait for it.
    #[default]
    Late,
    /// A buffer is dropped at its deadline, and a dummy is played.
    Drop,
    /// All due buffers are discarded, and the stream restarts.
    Reset,
}

impl MissPolicy {
    /// Returns whether this is the default.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        matches!(self, Self::Late)
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
