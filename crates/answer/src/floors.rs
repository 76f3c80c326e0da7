//! From which latency on a recording that kept the tail has all samples.

use std::collections::BTreeMap;

use laggard_analyze::distribution::{Fold, Key};
use laggard_analyze::exceedance::Stream;
use laggard_model::{Cpu, Histogram, Line, Nanos, Route, Service};

/// Up to these latencies some of the samples were not kept. Empty for a
/// recording that kept all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Floors(BTreeMap<(Option<Cpu>, Service, Route), Nanos>);

impl Floors {
    /// From the samples that were `kept`, and from the histograms, in which all
    /// were `counted`. What its recorder took for the tail changed as it went,
    /// and lines are not late alike; so samples are complete, by CPU, above the
    /// highest bucket that does not hold as many as were counted.
    pub(crate) fn of(lines: &[Line], kept: &Fold, counted: &Fold) -> Self {
        let by_key = |fold: &Fold| -> BTreeMap<_, _> {
            let groups = fold.groups(lines, true).into_iter();
            let key = |one: &Key| (one.cpu, one.service, one.route);
            groups
                .map(|one| (key(&one.key), one.latency.histogram().clone()))
                .collect()
        };
        let kept = by_key(kept);
        let counted = by_key(counted).into_iter();
        let floor = |(key, all): (_, Histogram)| {
            let kept: BTreeMap<usize, u64> = kept
                .get(&key)
                .map(|kept| kept.buckets().collect())
                .unwrap_or_default();
            let missing = |(at, count): &(usize, u64)| kept.get(at) != Some(count);
            let highest = all.buckets().filter(missing).map(|(at, _)| at).last();
            highest.map(|at| (key, Histogram::upper_edge(at)))
        };
        Self(counted.filter_map(floor).collect())
    }

    /// Returns the latency up to which samples of the line may be missing.
    pub(crate) fn of_line(&self, line: Line) -> Option<Nanos> {
        let key = (Some(line.cpu), line.service, line.route);
        self.0.get(&key).copied()
    }

    /// What the recording does not have is taken out of `streams`, which say so.
    pub(crate) fn raise(&self, streams: &mut [Stream]) {
        for stream in streams {
            let key = (Some(stream.cpu), stream.service, stream.route);
            let Some(&floor) = self.0.get(&key) else {
                continue;
            };
            stream.floor = stream.floor.max(floor);
            let floor = stream.floor;
            stream.exceedances.retain(|late| late.latency > floor);
        }
    }
}
