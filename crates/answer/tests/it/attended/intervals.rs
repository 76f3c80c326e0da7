//! Threads that set their timer for different intervals.

use super::{POLL, SLEEP_UNTIL, Script, TIMER, report, request_without_deadline, us};

/// Intervals of 5 and 15 ms in turn. The work of the second takes 8 ms, or 18 ms in each tenth.
#[test]
fn cycle_of_alternating_intervals_may_last_until_the_next_due_time() {
    for has_fault in [false, true] {
        let mut script = Script::new(1);
        let (mut due, mut now, mut missed) = (50_000, 100, 0);
        let mut wakeup = (0, 0);
        for number in 0..400 {
            if due > now {
                script.add(TIMER, (wakeup.0, wakeup.1, now), SLEEP_UNTIL);
                wakeup = (due, due + 10);
                now = due + 10;
            }
            let interval = if number % 2 == 0 { 5_000 } else { 15_000 };
            now += match number {
                _ if number % 2 == 0 => 500,
                _ if has_fault && number % 20 == 11 => 18_000,
                _ => 8_000,
            };
            missed += u64::from(now > due + interval);
            due += interval;
        }
        script.add(TIMER, (wakeup.0, wakeup.1, now), SLEEP_UNTIL);

        let report = report(request_without_deadline(None), script.records);

        let deadline = report.rows[0].deadline.as_ref().unwrap();
        let misses = deadline.misses;
        assert_eq!(missed, if has_fault { 20 } else { 0 });
        // The first is before both timelines are known.
        assert!(missed - misses <= 1, "{misses} of {missed}");
        let of_timers = report.rows[0].timers.iter().map(|timer| timer.misses);
        assert_eq!(of_timers.sum::<u64>(), misses);
        assert_eq!(deadline.different_ns, Some((us(5_000), us(20_000))));
    }
}

/// Intervals of 5 and 15 ms in turn, with a sleep before each cycle, of zero length if its due time has
/// passed. Each tenth cycle takes 18 to 33 ms.
#[test]
fn late_cycles_of_alternating_intervals_may_follow_sleeps_of_zero_length() {
    let mut script = Script::new(1);
    let (mut due, mut now, mut missed) = (50_000_u64, 100_u64, 0);
    for number in 0..400_u64 {
        let expiry = due.max(now.saturating_sub(5));
        let from = expiry.max(now) + 20;
        let interval = if number % 2 == 0 { 5_000 } else { 15_000 };
        now = from
            + match number {
                _ if number % 10 == 9 => 18_000 + number * 7_919 % 15_000,
                _ => interval / 5,
            };
        script.add(TIMER, (expiry, from, now), SLEEP_UNTIL);
        missed += u64::from(now > due + interval);
        due += interval;
    }

    let report = report(request_without_deadline(None), script.records);

    let misses = report.rows[0].deadline.as_ref().unwrap().misses;
    assert!(
        misses.abs_diff(missed) <= missed / 10,
        "{misses} of {missed}"
    );
}

/// Event loop of Python with tasks that sleep for 5, 7 and 15 ms after their work: its timeouts are 1 to
/// 5 ms in any order.
#[test]
fn timeouts_of_tasks_with_several_rates_are_not_a_period() {
    let mut with_period = Vec::new();
    for seed in 0..16 {
        let mut state: u64 = seed;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut script = Script::new(1);
        let (mut now, mut wakeup) = (100, (0, 0));
        for _ in 0..1_000 {
            script.add(TIMER, (wakeup.0, wakeup.1, now), POLL);
            let expiry = now + 1_000 * (1 + random(5)) - random(10);
            wakeup = (expiry, expiry + 5);
            now = expiry + 40 + random(70);
        }

        let row = &report(request_without_deadline(None), script.records).rows[0];

        if row.deadline.is_some() || row.period_ns.is_some() {
            with_period.push((seed, row.period_ns));
        }
    }
    assert!(with_period.is_empty(), "{with_period:?}");
}

/// Timers of 10, 15 and 40 ms that a thread keeps in a heap. Each fifth callback of the last takes a
/// long time.
#[test]
fn each_of_three_timers_is_compared_with_its_period() {
    for (long, is_late) in [(12_000, false), (42_000, true)] {
        let mut script = Script::new(1);
        let periods = [10_000, 15_000, 40_000];
        let mut due = [50_000, 50_700, 51_400];
        let (mut now, mut number, mut missed) = (100, 0, 0);
        let mut wakeup = (0, 0);
        while due[0] < 4_000_000 {
            let next = (0..3).min_by_key(|&timer| due[timer]).unwrap();
            if due[next] > now {
                script.add(TIMER, (wakeup.0, wakeup.1, now), SLEEP_UNTIL);
                wakeup = (due[next], due[next] + 10);
                now = due[next] + 10;
            }
            number += u64::from(next == 2);
            now += if next == 2 && number % 5 == 4 {
                long
            } else {
                300
            };
            missed += u64::from(now > due[next] + periods[next]);
            due[next] += periods[next];
        }
        script.add(TIMER, (wakeup.0, wakeup.1, now), SLEEP_UNTIL);

        let report = report(request_without_deadline(None), script.records);

        let row = &report.rows[0];
        let found = row.timers.iter().map(|timer| timer.period_ns.unwrap());
        assert_eq!(found.collect::<Vec<_>>(), periods.map(us));
        let misses = row.deadline.as_ref().unwrap().misses;
        assert_eq!(missed > 0, is_late);
        assert!(
            misses.abs_diff(missed) <= missed / 10,
            "{misses} of {missed}"
        );
    }
}
