//! Random numbers, for times without a pattern.

use laggard_model::Nanos;

/// Random number generator (Steele, Lea & Flood 2014, "Fast Splittable Pseudorandom Number
/// Generators", figure 15).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn number_below(&mut self, end: usize) -> usize {
        let number = self.next() % u64::try_from(end).unwrap_or(1).max(1);
        usize::try_from(number).unwrap_or(0)
    }

    /// Returns a time below `end`.
    pub(crate) fn below(&mut self, end: Nanos) -> Nanos {
        Nanos::from_ns(self.next() % end.ns().max(1))
    }
}
