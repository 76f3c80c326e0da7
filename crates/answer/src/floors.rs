//! Floor of a tail recording: it has all samples of this latency or more.

use std::collections::BTreeMap;

use laggard_analyze::distribution::{Fold, Key};
use laggard_analyze::exceedance::Stream;
use laggard_model::{Cpu, Histogram, Line, Nanos, Route, Service};

/// Latency floors: some samples below them were not kept. Empty if all samples were kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Floors(BTreeMap<(Option<Cpu>, Service, Route), Nanos>);

impl Floors {
    /// Compares the `kept` samples with the `counted` ones of the histograms, which include all.
    /// The limit of the tail can change during a recording and differ between series. Samples are
    /// complete per CPU above the highest bucket with fewer samples than counts.
    pub(crate) fn new(lines: &[Line], kept: &Fold, counted: &Fold) -> Self {
        let by_key = |fold: &Fold| -> BTreeMap<_, _> {
            let groups = fold.groups(lines, true).into_iter();
            let key = |group_key: &Key| (group_key.cpu, group_key.service, group_key.route);
            groups
                .map(|group| (key(&group.key), group.latency.histogram().clone()))
                .collect()
        };
        let kept = by_key(kept);
        let counted = by_key(counted).into_iter();
        let floor = |(key, histogram): (_, Histogram)| {
            let kept: BTreeMap<usize, u64> = kept
                .get(&key)
                .map(|kept| kept.buckets().collect())
                .unwrap_or_default();
            let missing = |(bucket, count): &(usize, u64)| kept.get(bucket) != Some(count);
            let highest = histogram
                .buckets()
                .filter(missing)
                .map(|(bucket, _)| bucket)
                .last();
            highest.map(|bucket| (key, Histogram::upper_edge(bucket)))
        };
        Self(counted.filter_map(floor).collect())
    }

    /// Returns a latency of the line. Samples up to this latency may be missing.
    pub(crate) fn of_line(&self, line: Line) -> Option<Nanos> {
        let key = (Some(line.cpu), line.service, line.route);
        self.0.get(&key).copied()
    }

    /// Raises the floors of `streams`. The streams are complete above the new floors.
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
