//! Timers on a tick of 976.5625 us that the program does not know, like multimedia timers on
//! Windows NT's multiprocessor kernels (Jones and Regehr 1999, 4.1, Table 3).
//!
//! Both expire on the first tick that is not before the requested time. A wait for 1 ms from a
//! tick takes two ticks, each time. A wait until a time takes one tick, and two only once in 41
//! waits, because the tick is faster than the timer by 2.4 %.

use std::io;

use laggard_model::Nanos;

use laggard_measure::linux::clock;
use laggard_measure::{For, Served, TimedWait};

/// Length of two ticks, because one is not an integer number of nanoseconds.
const TWO_TICKS: Nanos = Nanos::from_ns(1_953_125);

/// Returns a timer that waits for a time from now.
pub(super) fn relative() -> Box<dyn TimedWait> {
    Box::new(For(|length| {
        clock::sleep_until(tick_from(clock::now() + length));
        Ok(())
    }))
}

/// Timer that waits until a time.
pub(super) struct Absolute;

impl TimedWait for Absolute {
    fn once(&mut self, length: Nanos) -> io::Result<()> {
        clock::sleep_until(tick_from(clock::now() + length));
        Ok(())
    }

    fn next(&mut self, due: Nanos, _: Nanos) -> io::Result<Served> {
        clock::sleep_until(tick_from(due));
        Ok(Served::One)
    }
}

/// Returns the first tick at or after `time`. The ticks start with the clock.
#[expect(
    clippy::cast_possible_truncation,
    reason = "less than a tick after a time that fits"
)]
const fn tick_from(time: Nanos) -> Nanos {
    let ticks = (time.ns() as u128 * 2).div_ceil(TWO_TICKS.ns() as u128);
    let ns = (ticks * TWO_TICKS.ns() as u128).div_ceil(2);
    Nanos::from_ns(ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers of intervals of one tick and of two in 10,000 waits of 1 ms, each of
    /// which starts 20 us after the tick. `next` returns the requested time.
    fn intervals(next: impl Fn(Nanos, u64) -> Nanos) -> [usize; 2] {
        let mut now = Nanos::from_secs(3_000);
        let first = now;
        let mut counts = [0; 2];
        for number in 1..=10_000 {
            let tick = tick_from(next(now, number));
            let is_long = tick.saturating_sub(now) > Nanos::from_us(1_500);
            counts[usize::from(is_long)] += 1;
            now = tick + Nanos::from_us(20);
        }
        assert!(now > first);
        counts
    }

    #[test]
    fn wait_for_a_time_takes_two_ticks_and_wait_until_a_time_takes_one() {
        let relative = intervals(|now, _| now + Nanos::from_ms(1));
        let absolute = intervals(|_, number| Nanos::from_secs(3_000) + Nanos::from_ms(number));

        assert_eq!(relative, [0, 10_000]);
        // As Table 3 of the paper: 240 of 10,000.
        assert!((239..=241).contains(&absolute[1]), "{absolute:?}");
    }

    #[test]
    fn tick_is_not_before_the_requested_time_and_at_most_one_tick_later() {
        for ns in [0, 1, 976_562, 976_563, 1_953_125, u64::from(u32::MAX) << 16] {
            let late = Nanos::between(Nanos::from_ns(ns), tick_from(Nanos::from_ns(ns)));

            assert!(late.unwrap() <= Nanos::from_ns(976_563), "{ns}: {late:?}");
        }
    }
}
