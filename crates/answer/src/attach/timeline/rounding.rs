//! Timeouts that a program rounds up to whole milliseconds before a wait with a finer resolution, as
//! the timers of Java do.

use laggard_model::Nanos;

/// Finds rounded timeouts: each expiry is later than a period after the one before, by the work of
/// the loop, until a timeout is 1 ms shorter.
#[derive(Debug, Default)]
pub(super) struct Rounding {
    last: Option<Nanos>,
    /// Last two gaps between expiries, the newest last.
    gaps: [Nanos; 2],
    /// Number of gaps that were 1 ms shorter than those around them.
    shorter: u32,
}

impl Rounding {
    const RESOLUTION: Nanos = Nanos::from_ms(1);
    /// Deviation of the length of the gaps.
    const TOLERANCE: Nanos = Nanos::from_us(250);
    const MIN_GAP: Nanos = Nanos::from_ms(5);
    const MIN_SHORTER: u32 = 2;

    /// Adds an expiry, and returns the resolution of the timeouts; 0: they are not rounded.
    pub(super) fn add(&mut self, expiry: Nanos) -> Nanos {
        let [first, second] = self.gaps;
        if let Some(last) = self.last {
            let gap = expiry.saturating_sub(last);
            let is_near = |a: Nanos, b: Nanos| a.max(b).saturating_sub(a.min(b)) <= Self::TOLERANCE;
            let is_shorter = is_near(second + Self::RESOLUTION, first) && is_near(first, gap);
            self.shorter += u32::from(is_shorter && second >= Self::MIN_GAP);
            self.gaps = [second, gap];
        }
        self.last = Some(expiry);
        self.resolution()
    }

    pub(super) const fn resolution(&self) -> Nanos {
        if self.shorter >= Self::MIN_SHORTER {
            Self::RESOLUTION
        } else {
            Nanos::ZERO
        }
    }
}
