//! Comparison of quantiles by a bootstrap of blocks of time.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use laggard_analyze::InputError;
use laggard_analyze::compare::{BlockBootstrap, mean_ratio, quantile_ratio};
use laggard_analyze::distribution::LatencyBlocks;
use laggard_model::{Histogram, Keep, Nanos, Route, Service};
use laggard_record::{Columns, Recording};

use super::QuantileComparison;
use crate::qos::CONFIDENCE;
use crate::scan;

/// Number of blocks of time per recording.
const BLOCKS: usize = 40;
/// Quantiles that are compared if enough wakeups exceed them.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];
const ENOUGH_BEYOND: f64 = 30.0;
const BOOTSTRAP: BlockBootstrap = BlockBootstrap {
    rounds: 999,
    seed: 1,
};

/// Latencies per series and block of time.
pub(super) type ByService = BTreeMap<(Service, Route), Vec<Histogram>>;

/// Reads every latency per block of time. Returns `None` if the recording did not keep all.
pub(super) fn blocks(recording: &Recording, threads: NonZeroUsize) -> Option<ByService> {
    let manifest = recording.manifest();
    if manifest.plan.keep != Keep::All {
        return None;
    }
    let start = manifest.clock.start_ns;
    let end = manifest.clock.end_ns?;
    let wanted = Columns {
        seq: false,
        ..Columns::all()
    };
    let new = || LatencyBlocks::new(manifest.lines.len(), (start, end), BLOCKS);
    // The notes already list unreadable parts.
    let scanned = scan::scan(recording, threads.min(scan::FEW), wanted, new);
    Some(scanned.gathered.by_service(&manifest.lines))
}

/// Method to compare quantiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct QuantilesAsked {
    /// Rows of each side with a latency of 0, because they came before they were due.
    pub(super) early: [u64; 2],
    /// Number of series whose intervals hold together, from the differences between
    /// recordings of a side (Welch 1947 with logarithms). `None`: each interval holds
    /// separately, from the bootstrap.
    pub(super) among: Option<usize>,
}

/// Compares the quantiles of a series.
pub(super) fn quantiles(
    line: (Service, Route),
    blocks: &[Vec<Option<ByService>>; 2],
    request: QuantilesAsked,
) -> Result<Vec<QuantileComparison>, InputError> {
    let of_line = |side: &Vec<Option<ByService>>| -> Option<Vec<Vec<Histogram>>> {
        let histograms = side
            .iter()
            .map(|counts| counts.as_ref()?.get(&line).cloned());
        histograms.collect()
    };
    let (Some(first), Some(second)) = (of_line(&blocks[0]), of_line(&blocks[1])) else {
        return Ok(Vec::new());
    };
    let count =
        |side: &[Vec<Histogram>]| -> u64 { side.iter().flatten().map(Histogram::count).sum() };
    let counts = [count(&first), count(&second)];
    let least = counts[0].min(counts[1]) as f64;
    let is_late = |share: &f64| {
        let mut sides = counts.iter().zip(request.early);
        sides.all(|(&count, early)| (early as f64) < share * count as f64)
    };
    let shares = QUANTILES.into_iter();
    shares
        .filter(is_late)
        .filter(|share| least * (1.0 - share) >= ENOUGH_BEYOND)
        .map(|share| {
            if let Some(among) = request.among {
                let each = 1.0 - (1.0 - CONFIDENCE) / (among * QUANTILES.len()) as f64;
                return between_recordings([&first, &second], share, each);
            }
            let ratio = quantile_ratio(&first, &second, share, CONFIDENCE, BOOTSTRAP)?;
            Ok(Some(QuantileComparison {
                share,
                first_ns: ratio.quantiles[0],
                second_ns: ratio.quantiles[1],
                ratio: ratio.ratio,
                ratio_low: ratio.interval.low,
                ratio_high: ratio.interval.high,
            }))
        })
        .filter_map(Result::transpose)
        .collect()
}

/// Compares one quantile per recording. Returns `None` if one of them is 0 or a side has only
/// one recording.
fn between_recordings(
    sides: [&Vec<Vec<Histogram>>; 2],
    share: f64,
    confidence: f64,
) -> Result<Option<QuantileComparison>, InputError> {
    let of_recording = |blocks: &Vec<Histogram>| {
        let mut merged = Histogram::default();
        blocks.iter().for_each(|block| merged.merge(block));
        merged.quantile(share).map_or(0.0, |time| time.as_f64())
    };
    let [first, second] = sides.map(|side| side.iter().map(of_recording).collect::<Vec<f64>>());
    if first.iter().chain(&second).any(|&value| value <= 0.0) {
        return Ok(None);
    }
    let ratio = mean_ratio(&first, &second, confidence)?;
    // The resolution is the width of a bucket, which may exceed the differences.
    let width = |time: f64| {
        let bucket = Histogram::bucket_of(Nanos::from_f64(time));
        let below = Histogram::upper_edge(bucket.saturating_sub(1)).as_f64();
        Histogram::upper_edge(bucket).as_f64() / below.max(1.0)
    };
    let unsure = ratio.means.map(width);
    Ok(ratio.interval.map(|interval| QuantileComparison {
        share,
        first_ns: ratio.means[0],
        second_ns: ratio.means[1],
        ratio: ratio.ratio,
        ratio_low: interval.low / unsure[1],
        ratio_high: interval.high * unsure[0],
    }))
}
