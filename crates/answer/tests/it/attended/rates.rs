//! Loops that keep a rate, and loops that only sleep for a time.

use super::{SLEEP_UNTIL, Script, TIMER, report, request_without_deadline, us, wait};

/// Loop of 10 ms that does not sleep if it is late: it runs the cycles that were due one after the
/// other.
#[test]
fn cycle_ends_before_those_that_the_thread_catches_up_with() {
    let mut script = Script::new(1);
    let (mut due, mut now) = (10_000_u64, 100);
    let (mut missed, mut longest) = (0, 0);
    let mut cycle = (0, 0);
    for number in 0..300_u64 {
        if due > now {
            script.add(TIMER, (cycle.0, cycle.1, now), SLEEP_UNTIL);
            cycle = (due, due + 10 + number * 7_919 % 13);
            now = cycle.1;
        }
        now += if number % 20 == 19 {
            33_000 + number * 31 % 2_000
        } else {
            2_000 + number * 7_919 % 100
        };
        missed += u64::from(now > due + 10_000);
        longest = longest.max(now - due);
        due += 10_000;
    }
    script.add(TIMER, (cycle.0, cycle.1, now), SLEEP_UNTIL);

    let report = report(request_without_deadline(None), script.records);

    let row = &report.rows[0];
    let misses = row.deadline.as_ref().unwrap().misses;
    assert!(misses.abs_diff(missed) <= 1, "{misses} of {missed}");
    let largest = row.largest_response.as_ref().unwrap().response_ns;
    let is_close = largest
        .max(us(longest))
        .saturating_sub(largest.min(us(longest)))
        < us(500);
    assert!(is_close, "{largest:?} of {longest} us");
}

/// The sleeps have two lengths, and each time is the work before it later.
#[test]
fn loop_that_sleeps_twice_for_a_time_keeps_no_rate() {
    let relative = wait("clock_nanosleep", 0, 0, 0);
    let mut script = Script::new(1);
    let mut cycle = (0, 0);
    let mut state = 1_u64;
    for number in 0..800 {
        // Multiplicative congruential generator of Park and Miller.
        state = state * 48_271 % 0x7fff_ffff;
        let end = cycle.1 + 200 + state % 200;
        script.add(TIMER, (cycle.0, cycle.1, end), relative);
        let expiry = end + if number % 2 == 0 { 7_000 } else { 1_000 };
        cycle = (expiry, expiry + 10 + state % 7);
    }

    let report = report(request_without_deadline(None), script.records);

    let row = &report.rows[0];
    assert_eq!(row.activations, 800);
    let misses = row.deadline.as_ref().map_or(0, |deadline| deadline.misses);
    assert_eq!(misses, 0);
}
