//! What was observed of a CPU.

use crate::exceedance::{Blackout, StreamBlackouts};

/// The blackouts of one CPU, and what jobs find there between them.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Which recording this is of: CPUs of one were observed at the same time.
    pub recording: usize,
    /// The blackouts, since the start of the observation.
    pub blackouts: StreamBlackouts,
    /// How long was observed.
    pub exposure: f64,
    /// The ordinary latency, which every job pays.
    pub base: f64,
}

/// Which of the lists of blackouts: those never too long, the likely ones, or
/// those never too short.
pub(super) type Pick = fn(&StreamBlackouts) -> &[Blackout];
