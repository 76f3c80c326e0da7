//! Rows without a rate: context switches of `switch`, waits of `timers`, and traces. Their rate of
//! late rows is meaningless. Their latencies are compared.

use laggard_model::{Nanos, RowsOf};
use laggard_record::Recording;
use schemars::JsonSchema;
use serde::Serialize;

/// Kind of the rows of all recordings.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct RowsCompared {
    pub kind: RowsOf,
    /// Requested period of the rows.
    pub period_ns: Nanos,
    /// Rows of each side that came before they were due. They have a latency of 0.
    pub early: [u64; 2],
}

impl RowsCompared {
    /// Returns the kind; `None` if a recording has rates. The first `first` of `recordings`
    /// belong to A.
    pub(super) fn new(recordings: &[Recording], first: usize) -> Option<Self> {
        let mut plans = recordings
            .iter()
            .map(|recording| &recording.manifest().plan);
        let plan = plans.next()?;
        plan.rows.no_rates()?;
        if plans.any(|other| other.rows.no_rates().is_none()) {
            return None;
        }
        let (before, after) = recordings.split_at(first);
        let early = [before, after].map(|side| {
            let each = side
                .iter()
                .map(|recording| recording.manifest().plan.rows.early());
            each.sum()
        });
        Some(Self {
            kind: plan.rows,
            period_ns: plan.period_ns,
            early,
        })
    }
}
