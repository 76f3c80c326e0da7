//! Planned expiries of the lines of one CPU.
//!
//! Open loop: an expiry depends only on the seed and its number, never on the time when an
//! earlier one was served. All lines of a CPU share one base time per round. Each line has a
//! different offset from it, so that no two lines answer the same expiry.
//!
//! With dither, the distance of two rounds is uniform between 0.5 and 1.5 periods (mean: one
//! period), and the lines swap places at random. The expiries of each line are therefore spread
//! over every phase of any tick that the kernel might round to (docs/method.md 11). Two expiries of
//! one line are at least `period / (2 * places)` apart.
//!
//! `timeline.h` does the same in the kernel; a test compares both.

use laggard_model::Nanos;

/// Planned expiries of one line.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Timeline {
    pub seed: u64,
    pub seq: u64,
    pub base_ns: u64,
    pub expiry_ns: u64,
    pub period_us: u32,
    pub dither: u32,
    pub place: u32,
    pub places: u32,
}

impl Timeline {
    /// Creates the timeline of the line at `place` of `places` places. The first expiry comes
    /// after `start`. Times are rounded down to whole microseconds.
    pub fn new(
        seed: u64,
        period: Nanos,
        dither: bool,
        place: u32,
        places: u32,
        start: Nanos,
    ) -> Self {
        let mut timeline = Self {
            seed,
            seq: 0,
            base_ns: start.ns() / 1_000 * 1_000,
            expiry_ns: 0,
            period_us: u32::try_from(period.ns() / 1_000).unwrap_or(u32::MAX),
            dither: dither.into(),
            place,
            places,
        };
        timeline.advance();
        timeline
    }

    /// Creates the same timeline before its first round, as the kernel starts it.
    pub fn unstarted(
        seed: u64,
        period: Nanos,
        dither: bool,
        place: u32,
        places: u32,
        start: Nanos,
    ) -> Self {
        Self {
            seq: 0,
            base_ns: start.ns() / 1_000 * 1_000,
            expiry_ns: 0,
            ..Self::new(seed, period, dither, place, places, start)
        }
    }

    /// Returns the number of the current expiry, from 0.
    pub fn seq(&self) -> u64 {
        self.seq - 1
    }

    /// Returns the current expiry.
    pub fn expiry(&self) -> Nanos {
        Nanos::from_ns(self.expiry_ns)
    }

    /// Advances to the next expiry.
    pub fn advance(&mut self) {
        let hash = hash(self.seed, self.seq);
        let half_us = self.period_us / 2;
        let (gap_us, place, spacing_us) = if self.dither != 0 {
            let spread = ((u64::from(half_us) * 2 + 1) * (hash & 0xFFFF_FFFF)) >> 32;
            let turn = (u64::from(self.places) * (hash >> 32)) >> 32;
            let place = (u64::from(self.place) + turn) % u64::from(self.places);
            (
                u64::from(self.period_us - half_us) + spread,
                place,
                half_us / self.places,
            )
        } else {
            (
                self.period_us.into(),
                self.place.into(),
                self.period_us / self.places,
            )
        };
        self.base_ns += gap_us * 1_000;
        self.expiry_ns = self.base_ns + place * u64::from(spacing_us) * 1_000;
        self.seq += 1;
    }

    pub fn advance_by(&mut self, expiries: u64) {
        for _ in 0..expiries {
            self.advance();
        }
    }
}

/// Computes `SplitMix64` (Steele, Lea & Flood, OOPSLA 2014) as a hash of the number.
fn hash(seed: u64, seq: u64) -> u64 {
    let mut z = seed.wrapping_add((seq + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Nanos = Nanos::from_ms(1);

    fn expiries(place: u32, dither: bool, count: usize) -> Vec<u64> {
        let mut timeline = Timeline::new(7, PERIOD, dither, place, 4, Nanos::from_secs(1));
        (0..count)
            .map(|_| {
                let expiry = timeline.expiry().ns();
                timeline.advance();
                expiry
            })
            .collect()
    }

    #[test]
    fn expiries_are_a_period_apart_without_dither() {
        let expiries = expiries(1, false, 100);

        assert!(
            expiries
                .windows(2)
                .all(|two| two[1] - two[0] == PERIOD.ns())
        );
    }

    #[test]
    fn mean_gap_is_one_period() {
        let expiries = expiries(0, true, 100_001);

        let mean = (expiries[100_000] - expiries[0]) as f64 / 100_000.0;
        assert!((mean / PERIOD.as_f64() - 1.0).abs() < 0.003, "{mean}");
    }

    #[test]
    fn lines_of_one_cpu_never_come_together() {
        let mut expiries: Vec<u64> = (0..4)
            .flat_map(|place| expiries(place, true, 10_000))
            .collect();
        expiries.sort_unstable();

        assert!(
            expiries
                .windows(2)
                .all(|two| two[1] - two[0] >= PERIOD.ns() / 8)
        );
    }

    #[test]
    fn expiries_cover_every_phase_of_a_tick() {
        let tick = 976_562; // ns: the 1024 Hz tick of HotOS'99 4.1
        let mut phases = [0_u32; 20];
        for expiry in expiries(2, true, 20_000) {
            phases[usize::try_from(expiry % tick * 20 / tick).unwrap()] += 1;
        }

        assert!(
            phases.iter().all(|&count| (800..1200).contains(&count)),
            "{phases:?}"
        );
    }
}
