//! Observation of a CPU.

use crate::exceedance::{Blackout, StreamBlackouts};

/// Blackouts of one CPU, and the latency between them.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Number of the recording. CPUs of one recording were observed at the same time.
    pub recording: usize,
    /// Blackouts since the start of the observation.
    pub blackouts: StreamBlackouts,
    /// Duration of the observation.
    pub exposure: f64,
    /// Ordinary latency, which every job has.
    pub base: f64,
}

/// Selects a list of blackouts: never too long, likely, or never too short.
pub(super) type Pick = fn(&StreamBlackouts) -> &[Blackout];
