//! Loops that keep a rate, and loops that only sleep for a time.

use super::{Script, TIMER, report, request_without_deadline, wait};

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
