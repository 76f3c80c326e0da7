//! A timer that is served only on a hidden tick of 1024 Hz, as multimedia
//! timers were on Windows NT's multiprocessor kernels (Jones and Regehr 1999,
//! 4.1): the tick is faster than the timer by 2.4 %, so that 2.4 % of the
//! waits take two ticks instead of one.
//!
//! A hit is one wait's lateness: from the instant that was asked for until
//! the thread ran. The instants asked for are a period apart; the ticks are
//! 976.5625 us apart, and begin with the fault.

use laggard_model::Nanos;

use super::hog::ABOVE_ALL;
use super::{DisturbError, Hit, Site, clock};

/// Two ticks; one is not a whole number of nanoseconds.
const TWO_TICKS: Nanos = Nanos::from_ns(1_953_125);

pub(super) fn run(site: &Site<'_>) -> Result<Vec<Hit>, DisturbError> {
    site.in_thread(|| {
        site.place(ABOVE_ALL)?;
        let begin = clock::now();
        let mut log = site.log();
        let mut asked = site.plan.every;
        while asked < site.plan.duration && site.wait_until(begin + tick_after(asked)) {
            log.push(site.hit_since(begin + asked));
            asked += site.plan.every;
        }
        Ok(log.hits)
    })
}

/// The first tick that is not before `asked`, both since the first tick.
fn tick_after(asked: Nanos) -> Nanos {
    let ticks = (asked.ns() * 2).div_ceil(TWO_TICKS.ns());
    Nanos::from_ns((ticks * TWO_TICKS.ns()).div_ceil(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_waits_take_two_ticks_as_in_table_3_of_the_paper() {
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
    fn a_timer_is_never_served_early_and_at_most_a_tick_late() {
        for ns in [0, 1, 976_562, 976_563, 976_564, 1_000_000, 1_953_125] {
            let (asked, served) = (Nanos::from_ns(ns), tick_after(Nanos::from_ns(ns)));

            let late = Nanos::between(asked, served).unwrap();
            assert!(late <= Nanos::from_ns(976_563), "{late} for {asked}");
        }
    }
}
