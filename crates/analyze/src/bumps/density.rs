//! Density of a histogram: counts and moments between any two times.

use laggard_model::{Histogram, whole};

/// Histogram read as a density that is constant within each bucket.
#[derive(Debug)]
pub(super) struct Density {
    /// Non-empty buckets: lower and upper edge, ns, number of times in the bucket, and
    /// number of times in all buckets before it.
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    low: f64,
    high: f64,
    count: f64,
    before: f64,
}

impl Density {
    pub(super) fn from_histogram(histogram: &Histogram) -> Self {
        let mut before = 0.0;
        let pieces = histogram.buckets().map(|(bucket, count)| {
            let low = match bucket {
                0 => 0.0,
                _ => Histogram::upper_edge(bucket - 1).as_f64(),
            };
            let piece = Piece {
                low,
                high: Histogram::upper_edge(bucket).as_f64().max(low + 1.0),
                count: count as f64,
                before,
            };
            before += piece.count;
            piece
        });
        Self {
            pieces: pieces.collect(),
        }
    }

    /// Returns the number of times.
    pub(super) fn count(&self) -> u64 {
        whole(self.below(f64::INFINITY))
    }

    /// Returns the number of times below `time`.
    fn below(&self, time: f64) -> f64 {
        let after = self.pieces.partition_point(|piece| piece.low < time);
        let Some(piece) = after.checked_sub(1).map(|place| self.pieces[place]) else {
            return 0.0;
        };
        let share = (time - piece.low) / (piece.high - piece.low);
        piece.before + piece.count * share.min(1.0)
    }

    /// Returns the number of times between `from` and `to`.
    pub(super) fn between(&self, from: f64, to: f64) -> f64 {
        (self.below(to) - self.below(from)).max(0.0)
    }

    /// Returns the number of times between `from` and `to` as an integer. Adjacent
    /// intervals neither count a time twice nor omit one.
    pub(super) fn whole_between(&self, from: f64, to: f64) -> u64 {
        whole(self.below(to).round()).saturating_sub(whole(self.below(from).round()))
    }

    /// Returns the number of times between `from` and `to`, their mean, and the
    /// variance of a single time, ns squared. Returns `None` for an empty interval.
    pub(super) fn moments(&self, from: f64, to: f64) -> Option<(f64, f64, f64)> {
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        let parts = self.pieces.iter().filter_map(|piece| {
            let (low, high) = (piece.low.max(from), piece.high.min(to));
            let part = piece.count * (high - low) / (piece.high - piece.low);
            (high > low).then_some((part, low, high))
        });
        for (part, low, high) in parts {
            let (middle, width) = (f64::midpoint(low, high), high - low);
            count += part;
            sum += part * middle;
            squares += part * (middle * middle + width * width / 12.0);
        }
        let mean = sum / count;
        (count > 0.0).then(|| (count, mean, (squares / count - mean * mean).max(0.0)))
    }
}
