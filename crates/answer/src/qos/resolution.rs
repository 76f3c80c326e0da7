//! Resolution of stalls that can use up a slack.

use laggard_analyze::exceedance::{Exceedance, Stream};
use laggard_analyze::qos::Sampled;
use laggard_model::{Keep, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use crate::finer::FinerPeriod;
use crate::selection::Selection;

/// A latency that exceeds the median by less than this part of the slack is not counted as
/// a stall.
pub(super) const ORDINARY_PART: u64 = 10;
/// With fewer samples per slack, a stall between two samples can use up the slack unseen.
pub(crate) const MIN_SAMPLES: f64 = 2.0;
/// With this many samples per slack or more, failures are bounded well (docs/method.md 6.3).
pub(crate) const FINE_SAMPLES: f64 = 20.0;

/// Resolution of stalls that can use up a slack.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Resolution {
    /// Stalls can be replayed.
    Full,
    /// Stalls can be replayed, but their onset is known only coarsely. The interval is wide.
    OnsetCoarse {
        /// Mean time between two samples on a CPU, ns.
        sample_interval_ns: f64,
        /// Period that resolves the onset.
        finer: FinerPeriod,
    },
    /// Only the late samples were recorded, so the onset of a stall is known only between
    /// two times. There is an interval and no estimate.
    TailOnly {
        /// Mean time between two samples on a CPU, ns.
        sample_interval_ns: f64,
    },
    /// A stall between two samples can use up the slack. There is an interval and no
    /// estimate.
    TooCoarse {
        /// Mean time between two samples on a CPU, ns.
        sample_interval_ns: f64,
        /// Period of samples that would show these stalls.
        finer: FinerPeriod,
    },
    /// The times of some latencies that matter were not recorded. There is an interval, for
    /// the policy `late`, and no estimate.
    NotRecorded {
        /// The times of latencies up to this are unknown.
        floor_ns: Nanos,
        /// Latencies above this matter.
        matters_above_ns: Nanos,
        /// Whether the recording was asked to keep only the tail. Otherwise there were
        /// too many samples.
        is_tail: bool,
    },
}

impl Resolution {
    /// Returns whether stalls can be replayed.
    pub(super) const fn can_replay(&self) -> bool {
        matches!(
            self,
            Self::Full | Self::OnsetCoarse { .. } | Self::TailOnly { .. }
        )
    }

    /// Returns whether failures have an estimate and not only an interval.
    pub(super) const fn has_estimate(&self) -> bool {
        matches!(self, Self::Full | Self::OnsetCoarse { .. })
    }

    /// Returns whether a stall between two samples can use up the slack unseen.
    pub const fn is_too_coarse(&self) -> bool {
        matches!(self, Self::TooCoarse { .. })
    }
}

fn ns(time: Nanos) -> f64 {
    time.as_f64()
}

impl Selection<'_> {
    /// Returns how well the recordings resolve stalls that use up this slack.
    pub(crate) fn resolution(&self, slack: Nanos) -> Resolution {
        let sample_interval_ns = self.apart;
        let is_tail = self.is_tail();
        let finer = |samples: f64| {
            let runs = self.streams.iter().map(|(run, _)| *run);
            FinerPeriod::new(runs, ns(slack) / samples / self.apart)
        };
        match self.floor() {
            Some(floor_ns) if floor_ns > self.ordinary(slack) => Resolution::NotRecorded {
                floor_ns,
                matters_above_ns: self.ordinary(slack),
                is_tail,
            },
            _ if ns(slack) < MIN_SAMPLES * self.apart => Resolution::TooCoarse {
                sample_interval_ns,
                finer: finer(2.0 * MIN_SAMPLES),
            },
            _ if ns(slack) >= FINE_SAMPLES * self.apart => Resolution::Full,
            _ if is_tail => Resolution::TailOnly { sample_interval_ns },
            _ => Resolution::OnsetCoarse {
                sample_interval_ns,
                finer: finer(FINE_SAMPLES),
            },
        }
    }

    fn is_tail(&self) -> bool {
        let mut runs = self.streams.iter().map(|(run, _)| run);
        runs.any(|run| run.plan.keep == Keep::Tail)
    }

    /// Returns whether all latencies above `limit` have a time.
    fn is_kept(&self, limit: Nanos) -> bool {
        self.streams.iter().all(|(_, stream)| stream.floor <= limit)
    }

    /// Returns the longest latency that is not counted as a stall.
    fn ordinary(&self, slack: Nanos) -> Nanos {
        self.base + Nanos::from_ns(slack.ns() / ORDINARY_PART)
    }

    /// Counts the samples that bound failures if stalls cannot be replayed.
    pub(super) fn sampled(&self, slack: Nanos) -> Sampled {
        let halfway = Nanos::from_ns(u64::midpoint(self.base.ns(), slack.ns()));
        let is_too_coarse = ns(slack) < MIN_SAMPLES * self.apart;
        let largest = self
            .groups
            .iter()
            .map(|group| group.latency.histogram().max());
        Sampled {
            samples: self.samples(),
            beyond: self.later_than(slack),
            halfway: self.later_than(halfway),
            largest: largest.flatten().max().map_or(0.0, ns),
            stalls: self.is_kept(halfway).then(|| {
                let stalls = self.streams.iter().flat_map(|(run, stream)| {
                    let since = |time: Nanos| ns(time.saturating_sub(run.start)) / ns(run.duration);
                    stalls(stream, halfway).into_iter().map(since)
                });
                stalls.collect()
            }),
            hidden: (!is_too_coarse).then(|| self.later_than(self.ordinary(slack))),
        }
    }
}

/// Returns the first expiry of each stall that delayed a sample by more than `limit`.
fn stalls(stream: &Stream, limit: Nanos) -> Vec<Nanos> {
    let mut onsets = Vec::new();
    let mut end = Nanos::ZERO;
    let is_late = |sample: &&Exceedance| sample.latency > limit;
    for late in stream.exceedances.iter().filter(is_late) {
        if late.expiry > end || onsets.is_empty() {
            onsets.push(late.expiry);
        }
        end = end.max(late.expiry + late.latency);
    }
    onsets
}
