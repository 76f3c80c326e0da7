//! What recordings tell of a slack: a replay, an interval, and why no more.

use std::fmt::{self, Display, Formatter};

use laggard_analyze::exceedance::Stream;
use laggard_analyze::qos::Sampled;
use laggard_model::text::{Unit, span};
use laggard_model::{Keep, Nanos};
use serde::{Serialize, Serializer};

use super::policy::MissPolicy;
use crate::finer::Finer;
use crate::selection::Selection;

/// Latencies that exceed the ordinary one by less than this part of the slack
/// show no blackout.
pub(super) const ORDINARY_PART: u64 = 10;
/// With fewer than so many activations within the slack, stalls come unseen
/// between two that decide by themselves.
pub(crate) const LEAST_PART: f64 = 2.0;
/// A probe finer than this part of the slack bounds failures well (docs/method.md 6.3).
pub(crate) const FINE_PART: f64 = 20.0;

/// What tells more than a tail.
const KEEP_ALL: &str = "record with `--keep all`";

/// What can be told of a slack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Told {
    /// Blackouts can be replayed.
    Well,
    /// They can, but when they began is known only coarsely.
    Coarsely,
    /// They can, at least and at most: what came before a late activation was
    /// not kept, so when its stall began is known only between these.
    Loosely,
    /// The probe is too coarse for it.
    Between,
    /// Latencies up to this were not kept, and some of them matter.
    NotKept(Nanos),
}

impl Told {
    /// Whether blackouts can be replayed at all.
    pub(super) const fn is_replayed(self) -> bool {
        matches!(self, Self::Well | Self::Coarsely | Self::Loosely)
    }
}

/// Why recordings tell little of a slack. Serialized in words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coarse {
    /// How late an activation may be.
    pub slack: Nanos,
    /// What they do not see.
    pub reason: CoarseReason,
    /// What becomes of late buffers: an interval without a replay is that of `late`.
    pub policy: MissPolicy,
}

/// What recordings do not see of what matters for a slack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CoarseReason {
    /// When exactly a blackout began.
    Beginnings {
        /// Activations are so far apart, ns.
        apart_ns: f64,
        /// With what they would be near enough.
        finer: Finer,
    },
    /// What came before a late activation, which was not kept.
    Before {
        /// Activations are so far apart, ns.
        apart_ns: f64,
    },
    /// What begins and ends between two activations.
    Between {
        /// Activations are so far apart, ns.
        apart_ns: f64,
        /// With what they would be near enough.
        finer: Finer,
    },
    /// When latencies came that were not kept.
    NotKept {
        /// Those up to this.
        floor: Nanos,
        /// Those above this matter.
        ordinary: Nanos,
        /// Whether only a tail was to be kept; else there were too many.
        is_tail: bool,
    },
}

impl Coarse {
    /// Whether what begins and ends between two activations can use up the slack.
    pub(crate) const fn is_blind(&self) -> bool {
        matches!(self.reason, CoarseReason::Between { .. })
    }

    /// What would tell more.
    pub fn advice(&self) -> String {
        match self.reason {
            CoarseReason::Beginnings { finer, .. } | CoarseReason::Between { finer, .. } => {
                finer.to_string()
            }
            CoarseReason::Before { .. } | CoarseReason::NotKept { is_tail: true, .. } => {
                KEEP_ALL.into()
            }
            CoarseReason::NotKept { is_tail: false, .. } => {
                "record only the services and CPUs that matter, or a shorter time".into()
            }
        }
    }

    /// What the recordings do not see, and what is told all the same.
    fn what(&self) -> String {
        let write = |time: Nanos| Unit::Auto.write_nanos(time);
        let slack = write(self.slack);
        let of_late = match self.policy {
            MissPolicy::Late => "",
            MissPolicy::Drop | MissPolicy::Reset => " (that of `--policy late`)",
        };
        match self.reason {
            CoarseReason::Beginnings { apart_ns, .. } => format!(
                "a probe every {} sees a slack of {slack} only coarsely: the interval is wide",
                span_or_unit(apart_ns),
            ),
            CoarseReason::Before { apart_ns } => format!(
                "what came before a late activation was not kept (`--keep tail`), and activations {} apart are not fine \
                 for a slack of {slack}: only an interval can be told, and late buffers by the histogram",
                span_or_unit(apart_ns),
            ),
            CoarseReason::Between { apart_ns, .. } => format!(
                "a probe every {} does not see what begins and ends between two activations, which can use up a slack \
                 of {slack}: only an interval can be told{of_late}, and late buffers by the share of activations that were later \
                 than the slack",
                span_or_unit(apart_ns),
            ),
            CoarseReason::NotKept {
                floor,
                ordinary,
                is_tail,
            } => format!(
                "when latencies up to {} came was not kept ({}), and with a slack of {slack} those above {} matter: \
                 only an interval can be told{of_late}, and late buffers by the histogram",
                write(floor),
                if is_tail {
                    "`--keep tail`"
                } else {
                    "too many to hold"
                },
                write(ordinary),
            ),
        }
    }
}

impl Display for Coarse {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what(), self.advice())
    }
}

impl Serialize for Coarse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn ns(time: Nanos) -> f64 {
    time.as_f64()
}

impl Selection<'_> {
    /// What can be told of this slack.
    pub(super) fn told(&self, slack: Nanos) -> Told {
        let floor = self.streams.iter().map(|(_, stream)| stream.floor).max();
        match floor {
            Some(floor) if floor > self.ordinary(slack) => Told::NotKept(floor),
            _ if ns(slack) < LEAST_PART * self.apart => Told::Between,
            _ if ns(slack) < FINE_PART * self.apart && self.is_tail() => Told::Loosely,
            _ if ns(slack) < FINE_PART * self.apart => Told::Coarsely,
            _ => Told::Well,
        }
    }

    fn is_tail(&self) -> bool {
        let mut recordings = self.streams.iter().map(|(seen, _)| seen);
        recordings.any(|seen| seen.plan.keep == Keep::Tail)
    }

    /// Whether all that was later than this is known one by one.
    fn is_kept(&self, limit: Nanos) -> bool {
        self.streams.iter().all(|(_, stream)| stream.floor <= limit)
    }

    /// Up to this, a latency shows no blackout.
    fn ordinary(&self, slack: Nanos) -> Nanos {
        self.base + Nanos::from_ns(slack.ns() / ORDINARY_PART)
    }

    /// What samples alone tell of this slack.
    pub(super) fn sampled(&self, slack: Nanos) -> Sampled {
        let halfway = Nanos::from_ns(u64::midpoint(self.base.ns(), slack.ns()));
        let is_between = ns(slack) < LEAST_PART * self.apart;
        let largest = self.groups.iter().map(|one| one.latency.histogram().max());
        Sampled {
            samples: self.samples(),
            beyond: self.later_than(slack),
            halfway: self.later_than(halfway),
            largest: largest.flatten().max().map_or(0.0, ns),
            stalls: self.is_kept(halfway).then(|| {
                let stalls = self.streams.iter().flat_map(|(seen, stream)| {
                    let since = |at: Nanos| ns(at.saturating_sub(seen.start)) / ns(seen.duration);
                    stalls(stream, halfway).into_iter().map(since)
                });
                stalls.collect()
            }),
            hidden: (!is_between).then(|| self.later_than(self.ordinary(slack))),
        }
    }

    /// Why the recordings tell little about so short a slack, and what would
    /// tell more.
    pub(crate) fn coarse(&self, slack: Nanos) -> Option<Coarse> {
        let recordings = self.streams.iter().map(|(seen, _)| *seen);
        let finer = |part: f64| Finer::than(recordings.clone(), ns(slack) / part / self.apart);
        let apart_ns = self.apart;
        let reason = match self.told(slack) {
            Told::Well => return None,
            Told::Coarsely => CoarseReason::Beginnings {
                apart_ns,
                finer: finer(FINE_PART),
            },
            Told::Loosely => CoarseReason::Before { apart_ns },
            Told::Between => CoarseReason::Between {
                apart_ns,
                finer: finer(2.0 * LEAST_PART),
            },
            Told::NotKept(floor) => CoarseReason::NotKept {
                floor,
                ordinary: self.ordinary(slack),
                is_tail: self.is_tail(),
            },
        };
        let policy = MissPolicy::Late;
        Some(Coarse {
            slack,
            reason,
            policy,
        })
    }
}

/// When stalls were first felt that made activations later than `limit`.
fn stalls(stream: &Stream, limit: Nanos) -> Vec<Nanos> {
    let mut all = Vec::new();
    let mut end = Nanos::ZERO;
    for late in stream.exceedances.iter().filter(|one| one.latency > limit) {
        if late.expiry > end || all.is_empty() {
            all.push(late.expiry);
        }
        end = end.max(late.expiry + late.latency);
    }
    all
}

fn span_or_unit(ns: f64) -> String {
    // A mean: three digits, so that 999.99 us is a millisecond.
    let digit = 10_f64.powf(ns.max(1.0).log10().floor() - 2.0);
    let ns = (ns / digit).round() * digit;
    if ns < 1e9 {
        Unit::Auto.write(ns)
    } else {
        span(Nanos::from_f64(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_without_a_replay_says_whose_policy_it_is_of() {
        let said = |policy| {
            let reason = CoarseReason::NotKept {
                floor: Nanos::from_us(10),
                ordinary: Nanos::from_us(5),
                is_tail: true,
            };
            let slack = Nanos::from_us(50);
            Coarse {
                slack,
                reason,
                policy,
            }
            .to_string()
        };

        let of_late = "only an interval can be told (that of `--policy late`), and";
        assert!(!said(MissPolicy::Late).contains("--policy"));
        assert!(said(MissPolicy::Drop).contains(of_late));
        assert!(said(MissPolicy::Reset).contains(of_late));
    }
}
