//! Histograms of times with 64 buckets per octave.
//!
//! Bucket `i` holds times above 2^((i-1)/64) ns up to and including 2^(i/64)
//! ns: the buckets of a Prometheus native histogram of schema 6 and of an
//! OpenTelemetry exponential histogram of scale 6. A bucket's upper edge is at
//! most 1.09 % above any time in it (0.54 % from its middle). Bucket 0 also
//! holds zero.

use crate::{Nanos, whole};

/// Number of buckets per doubling of the time.
const PER_OCTAVE: usize = 64;

/// Ends of the buckets in an octave: ceil(2^63 * 2^(i/64)), i = 0..=63, so that a
/// 64-bit mantissa at or below an edge is in the bucket.
const EDGES: [u64; PER_OCTAVE] = edges();

/// [`EDGES`], then the end of the octave, which no mantissa exceeds. An index of 8 bits is
/// never out of bounds.
const ALL_EDGES: [u64; 256] = all_edges();

const fn all_edges() -> [u64; 256] {
    let mut edges = [u64::MAX; 256];
    let mut index = 0;
    while index < PER_OCTAVE {
        edges[index] = EDGES[index];
        index += 1;
    }
    edges
}

/// 2^(1/64) as a fraction of 2^62, rounded down to 62 bits.
const ROOT: u128 = 4_661_903_986_662_671_289;

const fn edges() -> [u64; PER_OCTAVE] {
    // Repeated multiplication in 128 bits: the error after 63 steps is below 64 units
    // of 2^-62, a millionth of a nanosecond at an hour.
    let mut edges = [0; PER_OCTAVE];
    let mut edge: u128 = 1 << 63;
    let mut index = 0;
    while index < PER_OCTAVE {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "an edge is below 2^64: the octave begins at 2^63"
        )]
        {
            edges[index] = edge as u64;
        }
        edge = (edge * ROOT) >> 62;
        index += 1;
    }
    edges
}

/// Number of parts of an octave that are looked up; at most one edge lies in each.
const CELLS: usize = 512;

/// Bucket in the octave at the start of each cell.
const CELL_BUCKETS: [u8; CELLS] = cell_buckets();

const fn cell_buckets() -> [u8; CELLS] {
    let mut buckets = [0; CELLS];
    let (mut cell, mut within) = (0, 0_u8);
    while cell < CELLS {
        let start = (1 << 63) + ((cell as u64) << 54);
        while (within as usize) < PER_OCTAVE && EDGES[within as usize] < start {
            within += 1;
        }
        buckets[cell] = within;
        cell += 1;
    }
    buckets
}

/// Number of times that [`Histogram::add_all`] sums before it checks for overflow.
const CHUNK: usize = 4_096;
/// Limit of these times: the sum of the squares of [`CHUNK`] of them fits.
const MAX_CHUNK_TIME: u64 = 1 << 57;
/// Limit of times, 67 ms, for which this sum fits in 64 bits.
const MAX_SHORT_TIME: u64 = 1 << 26;

/// Histogram of times, with the exact count, sum, sum of squares, minimum and maximum.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum_ns: u128,
    sum_squares: u128,
    min: Option<Nanos>,
    max: Option<Nanos>,
}

impl Histogram {
    /// Number of buckets, for all times of 64 bits, in ns.
    pub const BUCKETS: usize = PER_OCTAVE * 64 + 1;

    /// Returns the bucket that holds `time`.
    pub const fn bucket_of(time: Nanos) -> usize {
        let ns = time.ns();
        if ns <= 1 {
            return 0;
        }
        let octave = 63 - ns.leading_zeros() as usize;
        let mantissa = ns << ns.leading_zeros();
        let within = CELL_BUCKETS[((mantissa << 1) >> 55) as usize] as usize;
        octave * PER_OCTAVE + within + (ALL_EDGES[within] < mantissa) as usize
    }

    /// Returns the longest integer time in bucket `bucket`; quantiles are reported as
    /// this edge.
    pub const fn upper_edge(bucket: usize) -> Nanos {
        let octave = bucket / PER_OCTAVE;
        if octave > 63 {
            return Nanos::MAX;
        }
        Nanos::from_ns(EDGES[bucket % PER_OCTAVE] >> (63 - octave))
    }

    /// Counts a time.
    pub fn add(&mut self, time: Nanos) {
        let bucket = Self::bucket_of(time);
        if bucket >= self.counts.len() {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        let ns = u128::from(time.ns());
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.sum_squares = self.sum_squares.saturating_add(ns * ns);
        self.min = Some(self.min.map_or(time, |min| min.min(time)));
        self.max = Some(self.max.map_or(time, |max| max.max(time)));
    }

    /// Counts each of `times`, ns, as [`Self::add`] does, and returns the largest of them.
    pub fn add_all(&mut self, times: &[u64]) -> Option<Nanos> {
        let mut largest = None;
        for times in times.chunks(CHUNK) {
            let (min, max) = times.iter().fold((u64::MAX, 0), |(min, max), &ns| {
                (u64::min(min, ns), u64::max(max, ns))
            });
            let (min, max) = (Nanos::from_ns(min), Nanos::from_ns(max));
            largest = largest.max(Some(max));
            if max.ns() >= MAX_CHUNK_TIME {
                times.iter().for_each(|&ns| self.add(Nanos::from_ns(ns)));
                continue;
            }
            let buckets = Self::bucket_of(max) + 1;
            if buckets > self.counts.len() {
                self.counts.resize(buckets, 0);
            }
            let counts = &mut self.counts[..buckets];
            let (mut sum, mut squares) = (0_u128, 0_u128);
            if max.ns() < MAX_SHORT_TIME {
                let (mut short_sum, mut short_squares) = (0_u64, 0_u64);
                for &ns in times {
                    counts[Self::bucket_of(Nanos::from_ns(ns))] += 1;
                    short_sum += ns;
                    short_squares += ns * ns;
                }
                (sum, squares) = (short_sum.into(), short_squares.into());
            } else {
                for &ns in times {
                    counts[Self::bucket_of(Nanos::from_ns(ns))] += 1;
                    sum += u128::from(ns);
                    squares += u128::from(ns) * u128::from(ns);
                }
            }
            self.count += times.len() as u64;
            self.sum_ns = self.sum_ns.saturating_add(sum);
            self.sum_squares = self.sum_squares.saturating_add(squares);
            self.min = Some(self.min.map_or(min, |other| other.min(min)));
            self.max = Some(self.max.map_or(max, |other| other.max(max)));
        }
        largest
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.sum_squares = self.sum_squares.saturating_add(other.sum_squares);
        self.min = [self.min, other.min].into_iter().flatten().min();
        self.max = [self.max, other.max].into_iter().flatten().max();
    }

    /// Creates a histogram from stored parts; `None` if they are inconsistent (counts
    /// that do not add up, a count without extremes).
    pub fn from_parts(
        buckets: impl IntoIterator<Item = (usize, u64)>,
        sum_ns: u128,
        sum_squares: u128,
        extremes: Option<(Nanos, Nanos)>,
    ) -> Option<Self> {
        let mut whole = Self {
            sum_ns,
            sum_squares,
            ..Self::default()
        };
        for (bucket, count) in buckets {
            if bucket >= Self::BUCKETS {
                return None;
            }
            if bucket >= whole.counts.len() {
                whole.counts.resize(bucket + 1, 0);
            }
            whole.counts[bucket] += count;
            whole.count += count;
        }
        (whole.min, whole.max) = extremes.map_or((None, None), |(min, max)| (Some(min), Some(max)));
        match (whole.count == 0, extremes) {
            (true, None) => Some(whole),
            (false, Some((min, max))) if min <= max => Some(whole),
            _ => None,
        }
    }

    /// Returns the number of times.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the minimum.
    pub const fn min(&self) -> Option<Nanos> {
        self.min
    }

    /// Returns the maximum.
    pub const fn max(&self) -> Option<Nanos> {
        self.max
    }

    /// Returns the exact sum, ns.
    pub const fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Returns the exact sum of squares, ns squared.
    pub const fn sum_squares(&self) -> u128 {
        self.sum_squares
    }

    /// Returns the non-empty buckets, ascending, with their counts.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(bucket, &count)| (bucket, count))
    }

    /// Returns the arithmetic mean, ns.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// Returns the standard deviation of the sample (divisor n - 1), ns.
    pub fn deviation_ns(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        // n * sum(x^2) - sum(x)^2 is exact in integers if it fits; the difference of
        // two large floats would not be.
        let n = u128::from(self.count);
        let spread = match (
            n.checked_mul(self.sum_squares),
            self.sum_ns.checked_mul(self.sum_ns),
        ) {
            (Some(a), Some(b)) => a.saturating_sub(b) as f64,
            _ => {
                let mean = self.sum_ns as f64 / n as f64;
                n as f64 * (self.sum_squares as f64 - self.sum_ns as f64 * mean).max(0.0)
            }
        };
        Some((spread / (n as f64 * (n - 1) as f64)).sqrt())
    }

    /// Returns the time that a fraction `q` (0 to 1) of all does not exceed, as its
    /// bucket's upper edge, at most the maximum. `None` when empty.
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        let max = self.max?;
        let rank = (whole((q.clamp(0.0, 1.0) * self.count as f64).ceil())).max(1);
        let mut passed = 0;
        for (bucket, count) in self.buckets() {
            passed += count;
            if passed >= rank {
                return Some(Self::upper_edge(bucket).min(max).max(self.min?));
            }
        }
        Some(max)
    }

    /// Returns the number of times in buckets completely above `limit`'s bucket.
    pub fn count_above(&self, limit: Nanos) -> u64 {
        let bucket = Self::bucket_of(limit);
        self.counts.iter().skip(bucket + 1).sum()
    }
}

#[cfg(test)]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few whole numbers"
)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop, proptest};

    #[test]
    fn edges_are_the_roots_of_two() {
        for (index, &edge) in EDGES.iter().enumerate() {
            let exact = 2_f64.powf(63.0 + f64::from(u32::try_from(index).unwrap()) / 64.0);

            assert!(
                (edge as f64 / exact - 1.0).abs() < 1e-15,
                "edge {index}: {edge} {exact}"
            );
        }
    }

    #[test]
    fn powers_of_two_end_their_bucket() {
        for power in 0..40 {
            let bucket = Histogram::bucket_of(Nanos::from_ns(1 << power));

            assert_eq!(bucket, power * 64, "for 2^{power}");
            assert_eq!(Histogram::upper_edge(bucket), Nanos::from_ns(1 << power));
        }
    }

    #[test]
    fn empty_histogram_has_no_figures() {
        let empty = Histogram::default();

        assert_eq!(
            (empty.quantile(0.5), empty.mean_ns(), empty.deviation_ns()),
            (None, None, None)
        );
    }

    proptest! {
        #[test]
        fn time_is_in_its_bucket(ns in any::<u64>()) {
            let bucket = Histogram::bucket_of(Nanos::from_ns(ns));
            assert!(Nanos::from_ns(ns) <= Histogram::upper_edge(bucket));
            if bucket > 0 && ns > 1 {
                assert!(Nanos::from_ns(ns) > Histogram::upper_edge(bucket - 1), "{ns} {bucket}");
            }
        }

        #[test]
        fn adding_all_equals_adding_each(
            times in prop::collection::vec(0..1_u64 << 60, 0..40),
            shift in 0..60_u32, repeats in 1..300_usize,
        ) {
            let times: Vec<u64> = times.iter().map(|ns| ns >> shift).collect::<Vec<_>>().repeat(repeats);
            let (mut at_once, mut one_by_one) = (Histogram::default(), Histogram::default());
            at_once.add_all(&times);
            times.iter().for_each(|&ns| one_by_one.add(Nanos::from_ns(ns)));
            assert_eq!(at_once, one_by_one);
        }

        #[test]
        fn edge_and_its_neighbours_are_in_their_buckets(bucket in 1..64 * 64_usize) {
            let edge = Histogram::upper_edge(bucket);
            let next = edge + Nanos::from_ns(1);
            assert!(Histogram::upper_edge(Histogram::bucket_of(edge)) == edge);
            assert!(Histogram::upper_edge(Histogram::bucket_of(next)) >= next);
            assert!(Histogram::bucket_of(next) > Histogram::bucket_of(edge));
        }

        #[test]
        fn quantile_is_at_most_a_bucket_above_the_exact_one(
            mut times in prop::collection::vec(1_u64..10_000_000_000, 1..300),
            q in 0.0..1.0_f64,
        ) {
            let mut histogram = Histogram::default();
            times.iter().for_each(|&ns| histogram.add(Nanos::from_ns(ns)));
            times.sort_unstable();
            let rank = ((q * times.len() as f64).ceil() as usize).max(1);
            let exact = times[rank - 1];
            let quantile = histogram.quantile(q).unwrap().ns();
            assert!(quantile >= exact && quantile as f64 <= exact as f64 * 1.011 + 1.0, "{quantile} {exact}");
        }

        #[test]
        fn merging_equals_counting_all(
            left in prop::collection::vec(any::<u32>(), 0..50),
            right in prop::collection::vec(any::<u32>(), 0..50),
        ) {
            let count = |times: &[u32]| {
                let mut histogram = Histogram::default();
                times.iter().for_each(|&ns| histogram.add(Nanos::from_ns(ns.into())));
                histogram
            };
            let mut merged = count(&left);
            merged.merge(&count(&right));
            assert_eq!(merged, count(&[left, right].concat()));
        }

        #[test]
        fn deviation_equals_the_two_pass_formula(times in prop::collection::vec(any::<u32>(), 2..50)) {
            let mut histogram = Histogram::default();
            times.iter().for_each(|&ns| histogram.add(Nanos::from_ns(ns.into())));
            let n = times.len() as f64;
            let mean = times.iter().map(|&ns| f64::from(ns)).sum::<f64>() / n;
            let variance = times.iter().map(|&ns| (f64::from(ns) - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let deviation = histogram.deviation_ns().unwrap();
            assert!((deviation - variance.sqrt()).abs() <= 1e-6 * (1.0 + variance.sqrt()));
        }
    }
}
