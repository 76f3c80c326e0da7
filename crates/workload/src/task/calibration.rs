//! Computing for a known time: rounds of arithmetic with a calibrated rate.

use std::hint::black_box;

use laggard_model::{Nanos, whole};

use crate::clock;

/// Steps of one round: about 100 ns.
const STEPS: u32 = 32;
/// Rounds of one trial: less than 0.1 ms, which often passes without interruption even
/// on a busy processor.
pub(super) const TRIAL: u64 = 500;
/// Number of trials. The fastest counts, because no disturbance makes a processor
/// faster.
pub(super) const TRIALS: u32 = 1_000;

pub(super) fn compute(rounds: u64) {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..rounds {
        // Xorshift (Marsaglia 2003): each step needs the previous one.
        for _ in 0..STEPS {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        x = black_box(x);
    }
}

/// Returns the number of rounds per millisecond on the undisturbed processor.
pub(super) fn rounds_per_ms() -> f64 {
    let quickest = (0..TRIALS).map(|_| {
        let start = clock::now();
        compute(TRIAL);
        clock::now().saturating_sub(start).ns()
    });
    per_ms(TRIAL, quickest.min().unwrap_or_default())
}

/// Converts `rounds` in `ns` to rounds per millisecond.
pub(super) fn per_ms(rounds: u64, ns: u64) -> f64 {
    rounds as f64 * 1e6 / ns.max(1) as f64
}

/// Returns the number of rounds that take `time`, at least one.
pub(super) fn rounds_in(time: Nanos, per_ms: f64) -> u64 {
    (whole((time.as_secs_f64() * 1e3 * per_ms).round())).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_time_is_twice_the_rounds() {
        assert_eq!(
            rounds_in(Nanos::from_ms(2), per_ms(10_000, 1_000_000)),
            20_000
        );
        assert_eq!(
            rounds_in(Nanos::from_ms(4), per_ms(10_000, 1_000_000)),
            40_000
        );
        assert_eq!(rounds_in(Nanos::ZERO, 1.0), 1);
    }

    #[test]
    fn computing_takes_at_least_the_calibrated_time() {
        let rounds = rounds_in(Nanos::from_ms(5), rounds_per_ms());
        let quickest = (0..10).map(|_| {
            let start = clock::now();
            compute(rounds);
            clock::now().saturating_sub(start)
        });

        // A busy processor's clock frequency may change in between.
        assert!(quickest.min().unwrap() > Nanos::from_us(2_500));
    }
}
