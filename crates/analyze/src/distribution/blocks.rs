//! Latencies per block of time, for block bootstraps.

use std::collections::BTreeMap;

use laggard_model::{Batch, Gather, Histogram, Line, Nanos, Route, Service};

/// Latencies of every series, counted in consecutive blocks of equal duration.
#[derive(Clone, Debug)]
pub struct LatencyBlocks {
    start: Nanos,
    length: Nanos,
    /// Per line, and per block: histograms of its service and of its interrupts.
    lines: Vec<[Vec<Histogram>; 2]>,
    count: usize,
}

impl LatencyBlocks {
    /// Creates empty blocks for a recording of `lines` lines from `start` to `end`,
    /// divided into `count` blocks (at least 1).
    pub fn new(lines: usize, (start, end): (Nanos, Nanos), count: usize) -> Self {
        let count = count.max(1);
        // One more, so that the end itself is in the last block.
        let length = end.saturating_sub(start).ns() / count as u64 + 1;
        Self {
            start,
            length: Nanos::from_ns(length),
            lines: vec![[const { Vec::new() }; 2]; lines],
            count,
        }
    }

    /// Returns the counts of each service and route over all CPUs.
    pub fn by_service(&self, lines: &[Line]) -> BTreeMap<(Service, Route), Vec<Histogram>> {
        let mut totals: BTreeMap<(Service, Route), Vec<Histogram>> = BTreeMap::new();
        for (line, [service, irq]) in lines.iter().zip(&self.lines) {
            for (group, blocks) in [(*line, service), (line.interrupts(), irq)] {
                if !blocks.is_empty() {
                    let into = totals.entry((group.service, group.route)).or_default();
                    merge(into, blocks);
                }
            }
        }
        totals
    }

    /// Returns the block of an expiry. Late expiries after the end count in the last
    /// block.
    fn block(&self, expiry_ns: u64) -> usize {
        let since = expiry_ns.saturating_sub(self.start.ns()) / self.length.ns();
        usize::try_from(since)
            .unwrap_or(usize::MAX)
            .min(self.count - 1)
    }
}

impl Gather for LatencyBlocks {
    fn batch(&mut self, rows: &Batch) {
        for row in 0..rows.len() {
            let block = self.block(rows.expiry_ns[row]);
            let Some([service, irq]) = self.lines.get_mut(usize::from(rows.line[row].0)) else {
                continue;
            };
            let read = rows.readings(row);
            add(service, block, read.own);
            if let Some(latency) = read.irq {
                add(irq, block, latency);
            }
        }
    }

    fn join(&mut self, later: Self) {
        for (ours, theirs) in self.lines.iter_mut().zip(later.lines) {
            for (mine, their) in ours.iter_mut().zip(theirs) {
                merge(mine, &their);
            }
        }
    }
}

fn add(blocks: &mut Vec<Histogram>, block: usize, latency: Nanos) {
    if blocks.len() <= block {
        blocks.resize(block + 1, Histogram::default());
    }
    blocks[block].add(latency);
}

fn merge(into: &mut Vec<Histogram>, blocks: &[Histogram]) {
    if into.len() < blocks.len() {
        into.resize(blocks.len(), Histogram::default());
    }
    for (mine, their) in into.iter_mut().zip(blocks) {
        mine.merge(their);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_model::{Activation, Cpu, LineId, STAGES, Stage};

    const LINE: Line = Line::new(Cpu(1), Service::Fifo(90), Route::Direct);

    /// Returns a batch with an activation at each second, late by its number of seconds
    /// in us.
    fn batch(seconds: std::ops::Range<u64>) -> Batch {
        let mut batch = Batch::default();
        for seq in seconds {
            let mut activation = Activation {
                line: LineId(0),
                seq,
                expiry: Nanos::from_secs(100 + seq),
                missed: seq % 4 == 3,
                censored: false,
                steps: [None; STAGES.len()],
            };
            activation.steps[Stage::Irq.index()] = Some(Nanos::from_us(1));
            activation.steps[Stage::User.index()] = Some(Nanos::from_us(seq));
            batch.push(&activation);
        }
        batch
    }

    fn new() -> LatencyBlocks {
        LatencyBlocks::new(1, (Nanos::from_secs(100), Nanos::from_secs(110)), 5)
    }

    #[test]
    fn activations_count_in_their_block_and_late_ones_in_the_last() {
        let mut blocks = new();
        blocks.batch(&batch(0..13));

        let totals = blocks.by_service(&[LINE]);

        let counts = |group: (Service, Route)| -> Vec<u64> {
            totals[&group].iter().map(Histogram::count).collect()
        };
        assert_eq!(counts((Service::Fifo(90), Route::Direct)), [3, 2, 2, 2, 4]);
        // A missed activation does not have an interrupt.
        assert_eq!(counts((Service::Irq, Route::Direct)), [3, 1, 2, 1, 3]);
    }

    #[test]
    fn parts_join_to_one_pass_for_any_division() {
        let whole = {
            let mut blocks = new();
            blocks.batch(&batch(0..10));
            blocks.by_service(&[LINE])
        };
        for cut in 0..10 {
            let (mut first, mut later) = (new(), new());
            first.batch(&batch(0..cut));
            later.batch(&batch(cut..10));
            first.join(later);

            assert_eq!(first.by_service(&[LINE]), whole, "cut at {cut}");
        }
    }
}
