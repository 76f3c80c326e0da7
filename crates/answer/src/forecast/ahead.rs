//! Chances and bounds without a fit: rank-based, and for longer horizons with an assumed
//! tail.

use laggard_analyze::InputError;
use laggard_analyze::forecast::{
    BlockLength, Course, FARTHEST_HORIZON, HEAVIEST_SHAPE, ObservedPeaks, block_length,
    capped_bound, chance_of_new_largest, exposure_for_bound, prediction_bound, shortest_block,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Shares of horizons that have a bound.
pub(super) const SHARES: [f64; 2] = [0.5, 0.9];

/// Chance of a new maximum and bounds of a horizon, if the future is like the recorded time
/// (exchangeable blocks).
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Ahead {
    /// The horizon in measured time, ns. Not shorter than a block, and not compressed if a
    /// wall-clock source caused many of the late wakeups.
    pub horizon_ns: f64,
    /// Chance of a latency above the measured maximum, h / (T + h).
    pub new_largest: f64,
    /// Whether the chance is an upper limit: the maximum was measured more than once, and
    /// the future may equal it again, or latencies fell.
    pub is_at_most: bool,
    /// Whether the chance is a lower limit: samples were lost, or a thread was still waiting
    /// at the end, so the true maximum may be larger; or latencies grew.
    pub is_at_least: bool,
    /// Bounds for one half and nine tenths of all horizons of this length.
    pub stays_below: Vec<StaysBelow>,
}

/// Latency that a share of horizons does not exceed.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct StaysBelow {
    /// Share of the horizons, 0 to 1.
    pub share: f64,
    /// Smallest measured latency that holds for the share, ns; absent if the recordings are
    /// shorter than `record_ns`. If latencies drift or changed, this is the latency at the end of
    /// the horizon, or after the last change; if they went up and down, as measured or larger.
    pub bound_ns: Option<f64>,
    /// Whether the true bound is at least that: samples were lost, or a thread was still
    /// waiting at the end.
    pub is_at_least: bool,
    /// Rank of the block whose maximum is the bound, 1 for the largest.
    pub rank: Option<u64>,
    /// Share that this rank holds for. At least `share`.
    pub carried: Option<f64>,
    /// Total recording time that gives a bound, ns.
    pub record_ns: f64,
    /// Bound under the assumption that the tail is at most as heavy as `assumed_shape`, ns. If
    /// `bound_ns` is known, the assumption is not needed, and both are equal. Absent if the
    /// recordings are shorter than `assumed_record_ns`. If it differs from `bound_ns` and
    /// `is_at_least` of the chance is set, this is a lower limit.
    pub assumed_ns: Option<f64>,
    /// Total recording time that gives `assumed_ns`, ns.
    pub assumed_record_ns: f64,
    /// The maximum is assumed to grow with at most this power of time.
    pub assumed_shape: f64,
    /// Whether the bound would be 0 ns: the recording cannot resolve the latencies, so no
    /// recording time gives a bound.
    pub is_unresolved: bool,
}

/// Blocks of time that are assumed to be exchangeable.
#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct Blocks {
    /// Minimum length of a block, ns.
    pub least_ns: f64,
    /// Whether the maxima of neighbouring blocks depend on each other: the load changed.
    /// Fewer than 20 blocks cannot show it.
    pub is_dependent: bool,
}

/// Course of the latencies during the recordings.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum LatencyCourse {
    /// Neither a drift nor a change was found.
    Steady,
    /// Latencies grew or fell evenly. Bounds are for the state at the end of the horizon, or
    /// at the end of the recordings if latencies fell.
    Drift {
        /// Latencies at the end of the recordings, relative to the latencies at the start.
        times: f64,
    },
    /// Latencies changed. Bounds are for the state after the last change, or for the state
    /// with the largest latencies if they changed both upwards and downwards.
    Changes {
        /// The changes, in time order.
        changes: Vec<LatencyChange>,
    },
}

#[derive(Clone, Copy, Debug, JsonSchema, Serialize)]
pub struct LatencyChange {
    /// Time since the start of the recordings one after the other, ns.
    pub at_ns: f64,
    /// Latencies after the change, relative to the latencies before.
    pub times: f64,
}

/// Recorded latencies of one service.
pub(super) struct Past<'a> {
    pub(super) observed: &'a ObservedPeaks,
    pub(super) course: Course,
    pub(super) blocks: Blocks,
    /// Shortest wait that had not ended when measuring ended, ns.
    pub(super) waited: Option<f64>,
    pub(super) lost: u64,
}

impl Blocks {
    pub(super) fn new(observed: &ObservedPeaks, course: &Course) -> Result<Self, InputError> {
        let shortest = shortest_block(observed);
        let present = course.present(&observed.peaks, shortest)?;
        let BlockLength {
            length,
            is_dependent,
        } = block_length(&present, shortest)?;
        Ok(Self {
            least_ns: length,
            is_dependent,
        })
    }
}

impl LatencyCourse {
    /// Describes the `course` of latencies in this `exposure`.
    pub(super) fn new(course: &Course, exposure: f64) -> Self {
        match course {
            Course::Steady => Self::Steady,
            Course::Drift { slope } => Self::Drift {
                times: (slope * exposure).exp(),
            },
            Course::Changes(changes) => {
                let changes = changes.iter().map(|change| LatencyChange {
                    at_ns: change.at,
                    times: change.times,
                });
                Self::Changes {
                    changes: changes.collect(),
                }
            }
        }
    }
}

impl Past<'_> {
    /// Returns the chance and the bounds for `horizon_ns` of measured time.
    pub(super) fn ahead(&self, horizon_ns: f64) -> Result<Ahead, InputError> {
        // Blocks do not describe shorter spans.
        let horizon_ns = horizon_ns.max(self.blocks.least_ns);
        let peaks = &self.course.present(&self.observed.peaks, horizon_ns)?;
        let is_unknown = self.course.is_unknown_after(peaks.exposure(), horizon_ns);
        let stays_below = SHARES
            .iter()
            .map(|&share| {
                let ranked = prediction_bound(peaks, horizon_ns, self.blocks.least_ns, share)?;
                let ranked = ranked.filter(|prediction| prediction.bound > 0.0 && !is_unknown);
                let bound = ranked.map(|prediction| prediction.bound);
                let assumed = || {
                    if is_unknown {
                        return Ok(None);
                    }
                    capped_bound(peaks, horizon_ns, share, HEAVIEST_SHAPE)
                };
                Ok(StaysBelow {
                    share,
                    bound_ns: bound,
                    is_at_least: ranked
                        .is_some_and(|prediction| self.may_be_larger(prediction.bound)),
                    rank: ranked.map(|prediction| prediction.rank),
                    carried: ranked.map(|prediction| prediction.chance),
                    record_ns: exposure_for_bound(horizon_ns, share)?,
                    assumed_ns: bound.map_or_else(assumed, |bound| Ok(Some(bound)))?,
                    assumed_record_ns: horizon_ns / FARTHEST_HORIZON,
                    assumed_shape: HEAVIEST_SHAPE,
                    is_unresolved: bound.is_none() && self.is_zero(),
                })
            })
            .collect::<Result<_, InputError>>()?;
        Ok(Ahead {
            horizon_ns,
            new_largest: chance_of_new_largest(peaks.exposure(), horizon_ns)?,
            is_at_least: self.lost > 0 || self.waited.is_some() || self.grows(),
            is_at_most: self.is_tied() || self.falls(),
            stays_below,
        })
    }

    /// Returns whether the future is worse than the recordings.
    fn grows(&self) -> bool {
        if self.course.alternates() {
            return false;
        }
        match &self.course {
            Course::Steady => false,
            Course::Drift { slope } => *slope > 0.0,
            Course::Changes(changes) => changes.last().is_some_and(|last| last.times > 1.0),
        }
    }

    /// Returns whether the future is better than the recordings.
    fn falls(&self) -> bool {
        let is_steady = matches!(self.course, Course::Steady) || self.course.alternates();
        !is_steady && !self.grows()
    }

    /// Returns whether every latency was 0 ns.
    fn is_zero(&self) -> bool {
        self.observed.peaks.largest().is_none() && self.observed.peaks.threshold() <= 0.0
    }

    /// Returns whether the maximum was measured more than once, or no peak is above the
    /// threshold. Latencies below the threshold are not known.
    fn is_tied(&self) -> bool {
        let sizes = self.observed.peaks.sizes();
        let largest = sizes.iter().copied().fold(0.0, f64::max);
        sizes.iter().filter(|&&size| size >= largest).count() != 1
    }

    /// Returns whether the true value of a rank may be larger than `bound`. A longer wait
    /// already counts as larger.
    fn may_be_larger(&self, bound: f64) -> bool {
        self.lost > 0 || self.waited.is_some_and(|waited| waited <= bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_analyze::forecast::{PeakSpan, Peaks};
    use laggard_model::Nanos;

    /// Ten blocks of 10 s, the largest of each 10 to 100 ms, and a horizon of one.
    fn past_of<T>(waited: Option<f64>, lost: u64, ask: impl Fn(&Past<'_>) -> T) -> T {
        let times = (0..10_u32)
            .map(|index| f64::from(index) * 10e9 + 1e9)
            .collect();
        let sizes = (1..=10_u32).map(|size| f64::from(size) * 10e6).collect();
        past_with((times, sizes), 10e9, |past| {
            ask(&Past {
                waited,
                lost,
                course: past.course.clone(),
                ..*past
            })
        })
    }

    /// Peaks at these times and of these sizes in 100 s, by blocks of `least_ns`.
    fn past_with<T>(
        (times, sizes): (Vec<f64>, Vec<f64>),
        least_ns: f64,
        ask: impl Fn(&Past<'_>) -> T,
    ) -> T {
        let observed = ObservedPeaks {
            events: Vec::new(),
            peaks: Peaks::new(1e6, 100e9, times, sizes).unwrap(),
            spans: Vec::new(),
        };
        ask(&Past {
            observed: &observed,
            course: Course::Steady,
            blocks: Blocks {
                least_ns,
                is_dependent: false,
            },
            waited: None,
            lost: 0,
        })
    }

    #[test]
    fn a_block_has_five_times_the_length_of_the_longest_late_time() {
        let lasting = |ms: u64| {
            let times = (0..40_u32)
                .map(|index| f64::from(index) * 10e9 + 1e9)
                .collect();
            let sizes = (0..40_u32)
                .map(|index| 10e6 + f64::from(index * 7 % 40))
                .collect();
            let from = Nanos::from_secs(11);
            let span = PeakSpan {
                observation: 0,
                from,
                to: from + Nanos::from_ms(ms),
            };
            let observed = ObservedPeaks {
                events: Vec::new(),
                peaks: Peaks::new(1e6, 400e9, times, sizes).unwrap(),
                spans: vec![span; 40],
            };
            Blocks::new(&observed, &Course::Steady).unwrap().least_ns
        };

        // Late for 2 s; doubled once, because the sizes repeat.
        assert!((10e9..21e9).contains(&lasting(2_000)), "{}", lasting(2_000));
        assert!((1e9..20e9).contains(&lasting(20)), "{}", lasting(20));
    }

    fn ahead(waited: Option<f64>, lost: u64) -> Ahead {
        past_of(waited, lost, |past| past.ahead(10e9).unwrap())
    }

    #[test]
    fn beyond_the_ranks_it_grows_with_the_assumed_power_and_within_them_it_is_theirs() {
        let ahead = ahead(None, 0);

        // For a tenth of the time, ranks bound one half and nine tenths of the horizons.
        for horizon in &ahead.stays_below {
            assert!(horizon.bound_ns.is_some());
            assert_eq!(horizon.assumed_ns, horizon.bound_ns);
        }
        let long = past_of(None, 0, |past| past.ahead(900e9).unwrap());
        let nine = long.stays_below[1];
        assert_eq!(nine.bound_ns, None);
        // 81 times what the ranks bound.
        assert!((nine.assumed_ns.unwrap() / (100e6 * 81_f64.powf(0.75)) - 1.0).abs() < 1e-9);
        let far = past_of(None, 0, |past| past.ahead(1.6e13).unwrap());
        assert_eq!(far.stays_below[1].assumed_ns, None);
    }

    #[test]
    fn long_stalls_lengthen_blocks_and_the_shortest_horizon_is_one_block() {
        // One stall of 20 s in a minute; it expired once.
        let peaks = Peaks::new(1e6, 60e9, vec![10e9], vec![20e9]).unwrap();
        let time = Nanos::from_ns(10_000_000_000);
        let spans = vec![PeakSpan {
            observation: 0,
            from: time,
            to: time,
        }];
        let observed = ObservedPeaks {
            peaks,
            spans,
            events: Vec::new(),
        };
        let blocks = Blocks::new(&observed, &Course::Steady).unwrap();
        let past = Past {
            observed: &observed,
            course: Course::Steady,
            blocks,
            waited: None,
            lost: 0,
        };

        let ahead = past.ahead(1e9).unwrap();

        assert!((blocks.least_ns / 100e9 - 1.0).abs() < 1e-9);
        assert!((ahead.new_largest - 100.0 / 160.0).abs() < 1e-9);
        assert!(
            ahead
                .stays_below
                .iter()
                .all(|below| below.bound_ns.is_none())
        );
    }

    #[test]
    fn chance_is_an_upper_limit_if_the_maximum_occurred_twice() {
        let is_at_most = |sizes: Vec<f64>| {
            let times = (0..sizes.len()).map(|index| index as f64 * 1e9).collect();
            past_with((times, sizes), 1e9, |past| {
                past.ahead(10e9).unwrap().is_at_most
            })
        };

        assert!(!is_at_most(vec![3e6, 5e6, 4e6]));
        assert!(is_at_most(vec![5e6, 5e6, 4e6]));
        assert!(is_at_most(Vec::new()), "nothing was late");
    }

    #[test]
    fn unfinished_wait_makes_bounds_of_its_rank_lower_limits() {
        // Ten maxima and the next: rank 5 has probability 0.5, rank 1 has 0.9.
        for (waited, lost, expected) in [
            (None, 0, [false, false]),
            (Some(80e6), 0, [false, true]),
            (Some(50e6), 0, [true, true]),
            (None, 3, [true, true]),
        ] {
            let ahead = ahead(waited, lost);
            let bounds: Vec<_> = ahead
                .stays_below
                .iter()
                .map(|below| below.bound_ns)
                .collect();
            let at_least: Vec<_> = ahead
                .stays_below
                .iter()
                .map(|below| below.is_at_least)
                .collect();

            assert_eq!(bounds, [Some(60e6), Some(100e6)]);
            assert_eq!(at_least, expected, "waited {waited:?}, lost {lost}");
            assert_eq!(ahead.is_at_least, waited.is_some() || lost > 0);
            assert!((ahead.new_largest - 1.0 / 11.0).abs() < 1e-12);
        }
    }
}
