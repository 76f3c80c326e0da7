//! Timer that expires only on a hidden tick of 1024 Hz, like multimedia timers on
//! Windows NT's multiprocessor kernels (Jones and Regehr 1999, 4.1). The tick is faster
//! than the timer by 2.4 %, so 2.4 % of the waits take two ticks instead of one.
//!
//! A hit is the latency of one wait, from the requested time until the thread ran. The
//! requested times are a period apart; the ticks are 976.5625 us apart and start with
//! the fault.

use laggard_model::Nanos;

use super::hog::ABOVE_ALL;
use super::{DisturbError, Hit, Site, clock};

/// Two ticks, because one is not an integer number of nanoseconds.
const TWO_TICKS: Nanos = Nanos::from_ns(1_953_125);

pub(super) fn run(site: &Site<'_>) -> Result<Vec<Hit>, DisturbError> {
    site.in_thread(|| {
        site.place(ABOVE_ALL)?;
        let begin = clock::now();
        let mut log = site.log();
        let mut requested = site.plan.every;
        while requested < site.plan.duration && site.wait_until(begin + tick_after(requested)) {
            log.push(site.hit_since(begin + requested));
            requested += site.plan.every;
        }
        Ok(log.hits)
    })
}

/// Returns the first tick at or after `requested`, both relative to the first tick.
fn tick_after(requested: Nanos) -> Nanos {
    let ticks = (requested.ns() * 2).div_ceil(TWO_TICKS.ns());
    Nanos::from_ns((ticks * TWO_TICKS.ns()).div_ceil(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_two_ticks_are_as_frequent_as_in_table_3_of_the_paper() {
        let served: Vec<Nanos> = (1..=10_001)
            .map(|ms| tick_after(Nanos::from_ms(ms)))
            .collect();

        let long = served
            .windows(2)
            .filter(|two| two[1].saturating_sub(two[0]) > Nanos::from_us(1900))
            .count();
        assert_eq!(long, 240);
    }

    #[test]
    fn timer_is_never_early_and_at_most_a_tick_late() {
        for ns in [0, 1, 976_562, 976_563, 976_564, 1_000_000, 1_953_125] {
            let (requested, served) = (Nanos::from_ns(ns), tick_after(Nanos::from_ns(ns)));

            let late = Nanos::between(requested, served).unwrap();
            assert!(late <= Nanos::from_ns(976_563), "{late} for {requested}");
        }
    }
}
