//! How quantiles compare, from blocks of time that are drawn again.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use laggard_analyze::InputError;
use laggard_analyze::compare::{BlockBootstrap, quantile_ratio};
use laggard_analyze::distribution::LatencyBlocks;
use laggard_model::{Histogram, Keep, Route, Service};
use laggard_record::{Columns, Recording};

use super::QuantileComparison;
use crate::qos::CONFIDENCE;
use crate::scan;

/// Blocks of a recording's time that are drawn again.
const BLOCKS: usize = 40;
/// Quantiles that are compared, where so many activations are beyond them.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];
const ENOUGH_BEYOND: f64 = 30.0;
const BOOTSTRAP: BlockBootstrap = BlockBootstrap {
    rounds: 999,
    seed: 1,
};

/// By service and route: the latencies of each block of a recording's time.
pub(super) type ByService = BTreeMap<(Service, Route), Vec<Histogram>>;

/// Every latency by block of time; `None` where not every one was kept.
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
    // What cannot be read is among the notes already.
    let scanned = scan::scan(recording, threads.min(scan::FEW), wanted, new);
    Some(scanned.gathered.by_service(&manifest.lines))
}

/// How the quantiles of a line compare, where every latency was kept.
pub(super) fn quantiles(
    line: (Service, Route),
    blocks: &[Vec<Option<ByService>>; 2],
) -> Result<Vec<QuantileComparison>, InputError> {
    let of_line = |side: &Vec<Option<ByService>>| -> Option<Vec<Vec<Histogram>>> {
        let all = side.iter().map(|one| one.as_ref()?.get(&line).cloned());
        all.collect()
    };
    let (Some(first), Some(second)) = (of_line(&blocks[0]), of_line(&blocks[1])) else {
        return Ok(Vec::new());
    };
    let count =
        |side: &[Vec<Histogram>]| -> u64 { side.iter().flatten().map(Histogram::count).sum() };
    let least = count(&first).min(count(&second)) as f64;
    let shares = QUANTILES.into_iter();
    shares
        .filter(|share| least * (1.0 - share) >= ENOUGH_BEYOND)
        .map(|share| {
            let found = quantile_ratio(&first, &second, share, CONFIDENCE, BOOTSTRAP)?;
            Ok(QuantileComparison {
                share,
                first_ns: found.quantiles[0],
                second_ns: found.quantiles[1],
                ratio: found.ratio,
                ratio_low: found.interval.low,
                ratio_high: found.interval.high,
            })
        })
        .collect()
}
