//! What the time to come brings, without a model.

use laggard_analyze::InputError;
use laggard_analyze::forecast::{
    BlockLength, ObservedPeaks, block_length, chance_of_new_largest, exposure_for_bound,
    prediction_bound,
};
use schemars::JsonSchema;
use serde::Serialize;

/// The chances for which a bound is told.
pub(super) const SHARES: [f64; 2] = [0.5, 0.9];
/// No block is shorter, ns: a burst of late activations is over by then.
const SHORTEST_BLOCK_NS: f64 = 1e9;
/// A block is so many times as long as the longest cluster of late activations.
const CLUSTERS: f64 = 10.0;

/// What a horizon brings if it is like the time recorded (exchangeable blocks).
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Ahead {
    /// The horizon in measured time, ns: without its compression where a source
    /// that comes by the clock on the wall made much of what was late.
    pub horizon_ns: f64,
    /// The chance of a latency larger than the largest seen, h / (T + h).
    pub new_largest: f64,
    /// Whether the chance is at least that: the true largest of the recording
    /// may be larger than the largest seen, since activations were lost or
    /// still waiting at the end.
    pub is_at_least: bool,
    /// What half and nine of ten such horizons stay at or below.
    pub stays_below: Vec<StaysBelow>,
}

/// What a share of horizons stays at or below.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct StaysBelow {
    /// The share that was asked, 0 to 1.
    pub share: f64,
    /// The smallest latency seen that carries it, ns; absent where the
    /// recordings are shorter than `record_ns`.
    pub bound_ns: Option<f64>,
    /// Whether the true bound is at least that, since activations were lost or
    /// still waiting at the end.
    pub is_at_least: bool,
    /// The largest of the block with this rank, 1 for the largest of all.
    pub rank: Option<u64>,
    /// The share that this rank carries: no less than was asked.
    pub carried: Option<f64>,
    /// Recordings so long carry a bound, ns in all.
    pub record_ns: f64,
}

/// The blocks of time that are taken to be exchangeable.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Blocks {
    /// No block is shorter, ns.
    pub least_ns: f64,
    /// Whether the largest latencies of neighbouring blocks depend on each other
    /// all the same, as far as 20 of them can show: the load changed.
    pub is_dependent: bool,
}

/// What is known of the past of one service.
pub(super) struct Past<'a> {
    pub(super) observed: &'a ObservedPeaks,
    pub(super) blocks: Blocks,
    /// The shortest that something had waited when measuring ended, ns.
    pub(super) waited: Option<f64>,
    pub(super) lost: u64,
}

impl Blocks {
    pub(super) fn of(observed: &ObservedPeaks) -> Result<Self, InputError> {
        let longest = observed
            .spans
            .iter()
            .map(|span| span.to.saturating_sub(span.from).as_secs_f64() * 1e9)
            .fold(0.0, f64::max);
        let shortest = SHORTEST_BLOCK_NS.max(CLUSTERS * longest);
        let BlockLength {
            length,
            is_dependent,
        } = block_length(&observed.peaks, shortest)?;
        Ok(Self {
            least_ns: length,
            is_dependent,
        })
    }
}

impl Past<'_> {
    /// What `horizon_ns` of measured time brings.
    pub(super) fn ahead(&self, horizon_ns: f64) -> Result<Ahead, InputError> {
        let peaks = &self.observed.peaks;
        let stays_below = SHARES
            .iter()
            .map(|&share| {
                let found = prediction_bound(peaks, horizon_ns, self.blocks.least_ns, share)?;
                Ok(StaysBelow {
                    share,
                    bound_ns: found.map(|one| one.bound),
                    is_at_least: found.is_some_and(|one| self.may_be_larger(one.bound)),
                    rank: found.map(|one| one.rank),
                    carried: found.map(|one| one.chance),
                    record_ns: exposure_for_bound(horizon_ns.max(self.blocks.least_ns), share)?,
                })
            })
            .collect::<Result<_, InputError>>()?;
        Ok(Ahead {
            horizon_ns,
            new_largest: chance_of_new_largest(peaks.exposure(), horizon_ns)?,
            is_at_least: self.lost > 0 || self.waited.is_some(),
            stays_below,
        })
    }

    /// Whether the true value of a rank may be larger than `bound`, which was
    /// seen: what had waited longer than that already counts above it.
    fn may_be_larger(&self, bound: f64) -> bool {
        self.lost > 0 || self.waited.is_some_and(|waited| waited <= bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_analyze::forecast::Peaks;

    /// Ten blocks of 10 s, the largest of each 10 to 100 ms, and a horizon of one.
    fn ahead(waited: Option<f64>, lost: u64) -> Ahead {
        let times = (0..10_u32).map(|at| f64::from(at) * 10e9 + 1e9).collect();
        let sizes = (1..=10_u32).map(|size| f64::from(size) * 10e6).collect();
        let observed = ObservedPeaks {
            peaks: Peaks::new(1e6, 100e9, times, sizes).unwrap(),
            spans: Vec::new(),
        };
        let past = Past {
            observed: &observed,
            blocks: Blocks {
                least_ns: 10e9,
                is_dependent: false,
            },
            waited,
            lost,
        };
        past.ahead(10e9).unwrap()
    }

    #[test]
    fn what_had_not_ended_spoils_the_bounds_that_its_rank_may_pass() {
        // Ten seen, one to come: rank 5 carries half, rank 1 nine of ten.
        for (waited, lost, expected) in [
            (None, 0, [false, false]),
            (Some(80e6), 0, [false, true]),
            (Some(50e6), 0, [true, true]),
            (None, 3, [true, true]),
        ] {
            let ahead = ahead(waited, lost);
            let bounds: Vec<_> = ahead.stays_below.iter().map(|one| one.bound_ns).collect();
            let found: Vec<_> = ahead
                .stays_below
                .iter()
                .map(|one| one.is_at_least)
                .collect();

            assert_eq!(bounds, [Some(60e6), Some(100e6)]);
            assert_eq!(found, expected, "waited {waited:?}, lost {lost}");
            assert_eq!(ahead.is_at_least, waited.is_some() || lost > 0);
            assert!((ahead.new_largest - 1.0 / 11.0).abs() < 1e-12);
        }
    }
}
