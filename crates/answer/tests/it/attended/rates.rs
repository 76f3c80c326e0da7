//! Loops that keep a rate, and loops that only sleep for a time: late cycles, and sleeps within cycles.

use laggard_answer::attach::{AttachRequest, AttachRow};
use laggard_model::WokenWay;

use super::{
    DEADLINE, NoNames, SLEEP_UNTIL, Script, TIMER, Wait, by_thread, collector, explained_report,
    report, report_of, request, request_without_deadline, us, wait, watched_thread_runs,
};

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
    // Those that end in time count, too. The first activation is before the first cycle, and the last
    // cycle goes on past three further due times.
    assert_eq!(row.activations, 304);
    let largest = row.largest_response.as_ref().unwrap().response_ns;
    let is_close = largest
        .max(us(longest))
        .saturating_sub(largest.min(us(longest)))
        < us(500);
    assert!(is_close, "{largest:?} of {longest} us");
}

/// The first cycle of a loop of 10 ms takes 35 ms, or the fifth of a worker that a message wakes each 10 ms. Both
/// then run three or four short cycles without a sleep.
#[test]
fn one_of_the_first_cycles_ends_before_those_that_the_thread_catches_up_with() {
    let read = wait("read", 5, 0, 0);
    for (long, woken, home) in [(0, TIMER, SLEEP_UNTIL), (4, by_thread(5, "ticker"), read)] {
        let mut script = Script::new(1);
        let (mut now, mut cycle) = (0, (0, 10));
        if long > 0 {
            script.add(by_thread(9, "sh"), (0, 10, 300), home);
        }
        for number in 0..60 {
            let due = 13_000 + 10_000 * number;
            if number == 0 {
                cycle = (due, due + 10);
            } else if due > now {
                script.add(woken, (cycle.0, cycle.1, now), home);
                cycle = (due, due + 10);
            }
            let work = if number == long { 35_000 } else { 2_000 };
            now = now.max(due + 10) + work;
        }
        script.add(woken, (cycle.0, cycle.1, now), home);
        let request = AttachRequest {
            deadline: Some(us(10_000)),
            ..request()
        };

        let report = report(request, script.records);

        let row = &report.rows[0];
        let deadline = row.deadline.as_ref().unwrap();
        // The next three are late, too.
        let starts = u64::from(long > 0);
        let counts = (row.activations, deadline.misses);
        assert_eq!(counts, (60 + starts, 4), "{long}");
        let largest = row.largest_response.as_ref().unwrap();
        assert_eq!(largest.response_ns, us(35_010), "{long}");
        let worst = report.worst.unwrap();
        assert_eq!(worst.response_ns, us(35_010), "{long}");
    }
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

#[test]
fn cycles_that_are_due_while_an_earlier_one_goes_on_are_misses() {
    let relative = wait("clock_nanosleep", 0, 0, 0);
    let run = |goes_on_at: u64, home: Wait| {
        let mut script = Script::new(1);
        script.add_cycles(0..20, home);
        // 4.8 ms of work without a sleep.
        script.add(TIMER, (20_000, 20_010, 24_800), home);
        for cycle in 0..20 {
            script.add_cycle(goes_on_at + 1_000 * cycle, home);
        }
        let report = report(request(), script.records);
        let deadline = report.rows[0].deadline.as_ref().unwrap();
        (report.rows[0].activations, deadline.misses, deadline.passed)
    };

    // On the same grid: it has caught up. Otherwise it has skipped them.
    assert_eq!(run(25_000, SLEEP_UNTIL), (45, 5, 4));
    assert_eq!(run(25_800, SLEEP_UNTIL), (41, 1, 0));
    // It sleeps for the time until it is due, or for the same time after each cycle.
    assert_eq!(run(25_000, relative), (45, 5, 4));
    assert_eq!(run(25_700, relative), (41, 1, 0));
}

/// A loop that sleeps for 5 and 15 ms in turn. `share`: percentage of the cycles whose work takes so
/// long that the thread sleeps for less than 5 ms before each due time.
#[test]
fn late_loop_with_intervals_in_turn_has_the_deadlines_of_its_intervals() {
    for share in [37, 96] {
        let mut script = Script::new(1);
        let (mut now, mut due, mut late) = (0_u64, 10_000_u64, 0);
        for cycle in 0..600 {
            let interval = if cycle % 2 == 0 { 5_000 } else { 15_000 };
            let is_long = cycle * cycle * 7_919 % 100 < share;
            let work = match (is_long, cycle % 2) {
                (true, 0) => 5_500 + cycle * 7_919 % 1_000,
                (true, _) => 9_000 + cycle * 7_919 % 3_000,
                (false, _) => 1_000,
            };
            let from = due.max(now) + 10;
            now = from + work;
            script.add(TIMER, (due, from, now), SLEEP_UNTIL);
            late += u64::from(now > due + interval);
            due += interval;
        }
        let report = report(request_without_deadline(None), script.records);
        let row = &report.rows[0];
        let misses = row.deadline.as_ref().unwrap().misses;
        assert!(
            misses.abs_diff(late) <= late / 20,
            "{share} %: {misses} of {late}, {:?}, {:?}",
            row.period_ns,
            row.timers
        );
    }
}

/// A loop of 10 ms whose work takes 13 to 28 ms, and which skips the due times in it: it wakes every 20
/// or 30 ms. The sleeps are until a time, or for the time that is left. A loop of 30 ms with work of the
/// same length is in time.
#[test]
fn loop_that_is_always_late_has_the_period_of_its_due_times() {
    let relative = wait("clock_nanosleep", 0, 0, 0);
    let run = |period: u64, home: Wait| {
        let mut script = Script::new(1);
        let (mut due, mut wakeups) = (10_000, 0);
        while due < 6_000_000 {
            let work = 13_000 + wakeups * wakeups * 7_919 % 15_000;
            let expiry = due + if home == relative { wakeups % 3 } else { 0 };
            script.add(TIMER, (expiry, expiry + 10, due + work), home);
            due += work.next_multiple_of(period);
            wakeups += 1;
        }
        let report = report(request_without_deadline(None), script.records);
        let row = &report.rows[0];
        let misses = row.deadline.as_ref().unwrap().misses;
        let period = (row.period_ns.unwrap().ns() + 50_000) / 100_000;
        (period, misses, due / 10_000 - 1)
    };

    for home in [SLEEP_UNTIL, relative] {
        let (period, misses, missed) = run(10_000, home);
        assert_eq!(period, 100);
        assert!(
            missed * 9 / 10 <= misses && misses <= missed,
            "{misses} of {missed}"
        );
        assert_eq!(run(30_000, home), (300, 0, 600));
    }
}

/// Each 8th cycle of 10 ms takes 10 to 20 ms. The program skips the due time that has passed, or runs
/// that cycle without a sleep before it.
#[test]
fn skipped_cycle_is_a_miss_if_the_program_skips_due_times() {
    let run = |skips: bool| {
        let mut script = Script::new(1);
        let (mut due, mut late, mut cycle) = (10_000, 0, 0);
        while cycle < 1_600 {
            let (first, mut now) = (due, due + 10);
            loop {
                let usual = 2_000 + cycle * 7_919 % 300;
                let is_late = cycle % 8 == 7;
                now += if is_late {
                    10_300 + cycle * 7_919 % 9_000
                } else {
                    usual
                };
                late += u64::from(now > due + 10_000);
                (due, cycle) = (due + 10_000, cycle + 1);
                if now < due || skips {
                    break;
                }
            }
            while due < now {
                late += 1;
                (due, cycle) = (due + 10_000, cycle + 1);
            }
            script.add(TIMER, (first, first + 10, now), SLEEP_UNTIL);
        }
        let request = request_without_deadline(None);
        let mut collector = collector(&request, script.records);
        collector.settle();
        let ended = collector.take_ended();
        let recorded = ended
            .iter()
            .filter(|cycle| cycle.whole.response() > us(10_000));
        let recorded = recorded.count() as u64;
        let report = report_of(collector, request, us(20_000_000));
        let misses = report.rows[0].deadline.as_ref().unwrap().misses;
        // `why` and `check` count the misses in a recording.
        assert_eq!(recorded, misses);
        (misses, late)
    };

    let (misses, late) = run(true);
    assert!(
        late * 9 / 10 <= misses && misses <= late,
        "{misses} of {late}"
    );
    let (misses, late) = run(false);
    assert!(misses.abs_diff(late) <= late / 10, "{misses} of {late}");
}

/// A program sleeps for the time until its next due time, and for no time if that has passed, as
/// programs in Python do. Each 20th cycle of 10 ms takes 33 ms, and one of them longer. It catches up,
/// or starts a new timeline.
#[test]
fn cycle_after_a_sleep_of_zero_length_was_due_at_a_due_time() {
    let run = |keeps_due_times: bool, longest: u64| {
        let mut script = Script::new(1);
        let (mut now, mut due, mut late) = (0_u64, 10_000_u64, 0);
        for cycle in 1..=390 {
            let is_at_once = due < now;
            if is_at_once && !keeps_due_times {
                due = now;
            }
            let expiry = due.max(now.saturating_sub(5));
            let from = expiry.max(now) + 20;
            now = from
                + match cycle {
                    39 => longest,
                    cycle if cycle % 20 == 19 => 33_000,
                    _ => 2_000,
                };
            script.add(TIMER, (expiry, from, now), SLEEP_UNTIL);
            late += u64::from(now > due + 10_000);
            due += 10_000;
        }
        let report = report(request_without_deadline(None), script.records);
        let row = &report.rows[0];
        let deadline = row.deadline.as_ref().unwrap();
        let reported = row.activations + deadline.passed;
        (reported, deadline.misses, late, row.period_ns)
    };

    assert_eq!(run(true, 33_000), (390, 57, 57, Some(us(10_000))));
    assert_eq!(run(false, 33_000), (390, 19, 19, Some(us(10_000))));
    // Some of the many sleeps of zero length end at a due time by chance.
    assert_eq!(run(true, 1_500_000), (390, 251, 251, Some(us(10_000))));
}

/// A loop that sleeps for the same time after each cycle, and once continues at an old due time.
#[test]
fn one_wakeup_at_an_old_due_time_may_be_by_chance() {
    let relative = wait("clock_nanosleep", 0, 0, 0);
    let mut script = Script::new(1);
    script.add_cycles(0..20, relative);
    let mut due = 20_000;
    for goes_on_after in [5_000, 5_700, 5_600, 5_300] {
        // 4.8 ms of work without a sleep.
        script.add(TIMER, (due, due + 10, due + 4_800), relative);
        for cycle in 0..20 {
            script.add_cycle(due + goes_on_after + 1_000 * cycle, relative);
        }
        due += goes_on_after + 20_000;
    }

    let report = report(request(), script.records);

    let deadline = report.rows[0].deadline.as_ref().unwrap();
    assert_eq!((deadline.misses, deadline.passed), (4, 0));
}

/// Two loops that sleep for a time: one until it is due, which catches up after each stall, the
/// other for 5 ms after each cycle.
#[test]
fn loop_that_sleeps_for_a_time_has_passed_cycles_if_it_keeps_its_timeline() {
    let relative = wait("nanosleep", 0, 0, 0);
    for keeps_timeline in [true, false] {
        let mut script = Script::new(1);
        let (mut due, mut now, mut missed) = (5_000_u64, 100, 0);
        let mut cycle = (0, 0);
        for number in 0..300_u64 {
            if due > now {
                script.add(TIMER, (cycle.0, cycle.1, now), relative);
                cycle = (due + number * 7_919 % 4, due + 60);
                now = cycle.1;
            }
            let stall = 24_000 + number * 31 % 5_000;
            now += if number % 25 == 20 { stall } else { 100 };
            missed += u64::from(now > due + 5_000);
            due = if keeps_timeline { due } else { now } + 5_000;
        }
        script.add(TIMER, (cycle.0, cycle.1, now), relative);

        let report = report(request_without_deadline(None), script.records);

        let misses = report.rows[0].deadline.as_ref().unwrap().misses;
        let is_close = misses.abs_diff(missed) <= missed / 10;
        assert!(is_close, "{misses} of {missed}, {keeps_timeline}");
    }
}

/// A loop of 10 ms sets `next = now + period` after a late cycle. Its first late cycle is the longest.
#[test]
fn first_late_cycle_is_whole_if_the_program_starts_a_new_timeline() {
    let mut script = Script::new(1);
    let mut due = 0;
    for number in 0..200 {
        let work = match number {
            40 => 63_700,
            90 | 150 => 24_300,
            _ => 2_000 + number * 7_919 % 2_000,
        };
        let end = due + 10 + work;
        script.add(TIMER, (due, due + 10, end), SLEEP_UNTIL);
        due = if end > due + 10_000 { end } else { due } + 10_000;
    }

    let report = report(request_without_deadline(None), script.records);

    let row = &report.rows[0];
    assert_eq!(row.deadline.as_ref().unwrap().misses, 3);
    let largest = row.largest_response.as_ref().unwrap();
    assert_eq!(largest.response_ns, us(63_710));
}

/// A loop of 16.7 ms with 3 to 5 ms of work, and 25 ms in each 30th cycle. It sleeps for what is left of the
/// period, or always for 12 ms. Without a sleep after a late cycle, the next one starts at once.
#[test]
fn late_cycle_ends_before_the_next_one_that_follows_without_a_sleep() {
    let relative = wait("nanosleep", 0, 0, 0);
    let run = |makes_up: bool| {
        let mut script = Script::new(1);
        let (mut wake, mut start) = (0, 0_u64);
        for number in 0..240_u64 {
            let work = 3_000 + number * 7_919 % 2_000;
            let end = start + if number % 30 == 12 { 25_000 } else { work };
            let sleep = if makes_up {
                (start + 16_667).saturating_sub(end)
            } else {
                12_000
            };
            if sleep > 0 {
                script.add(TIMER, (wake, wake + 20, end), relative);
                wake = end + sleep;
                start = wake + 20;
            } else {
                start = end;
            }
        }
        let request = AttachRequest {
            deadline: Some(us(16_667)),
            ..request()
        };
        let report = report(request, script.records);
        let row = &report.rows[0];
        let misses = row.deadline.as_ref().unwrap().misses;
        let largest = row.largest_response.as_ref().unwrap().response_ns;
        (row.activations, misses, largest.ns() / 100_000)
    };

    assert_eq!(run(true), (240, 8, 250));
    assert_eq!(run(false), (240, 8, 250));
}

/// Loop with timeouts in whole milliseconds. Each 25th cycle waits for an answer with `poll`, which also
/// ends the cycles, or the program waits for a command and starts a new timeline.
#[test]
fn wait_for_an_event_within_a_cycle_does_not_end_it() {
    let poll = wait("poll", 0x7000, 1, 0);
    for keeps_timeline in [true, false] {
        let mut script = Script::new(1);
        let (mut due, mut now, mut missed) = (10_000_u64, 100, 0);
        let mut cycle = (TIMER, 0, 0);
        for number in 0..400_u64 {
            if due > now {
                script.add(cycle.0, (cycle.1, cycle.2, now), poll);
                let expiry = now + (due - now).div_ceil(1_000) * 1_000;
                cycle = (TIMER, expiry, expiry + 10);
                now = expiry + 40;
            }
            if number % 25 == 24 {
                script.add(cycle.0, (cycle.1, cycle.2, now), poll);
                let answer = now + 25_500 + number * 31 % 7_000;
                cycle = (by_thread(7, "server"), answer, answer + 10);
                now = answer + 50;
            }
            now += 100;
            missed += u64::from(now > due + 10_000);
            due = if keeps_timeline { due } else { now } + 10_000;
        }
        script.add(cycle.0, (cycle.1, cycle.2, now), poll);

        let report = report(request_without_deadline(None), script.records);

        let row = &report.rows[0];
        let misses = row.deadline.as_ref().unwrap().misses;
        if keeps_timeline {
            assert!(
                misses.abs_diff(missed) <= missed / 10,
                "{misses} of {missed}"
            );
            let largest = row.largest_response.as_ref().unwrap().response_ns;
            assert!(largest > us(25_000), "{largest:?}");
        } else {
            assert!(misses <= 1, "{misses}");
        }
    }
}

/// Loop of 10 ms that keeps its rate, and waits for a device by sleeping for 1 ms: twice in most
/// cycles, 24 times in each 20th.
#[test]
fn short_sleeps_within_the_cycles_are_not_their_period() {
    let relative = wait("clock_nanosleep", 0, 0, 0);
    for period in [Some(us(10_000)), None] {
        let mut script = Script::new(1);
        let (mut due, mut now, mut missed) = (10_000_u64, 0, 0);
        let (mut cycle, mut state) = ((0, 0), 1);
        let mut sleep_until = |expiry: u64, now: &mut u64| {
            script.add(TIMER, (cycle.0, cycle.1, *now), relative);
            // Multiplicative congruential generator of Park and Miller.
            state = state * 48_271 % 0x7fff_ffff;
            cycle = (expiry, expiry + 20 + state % 13);
            *now = cycle.1 + 10;
        };
        for number in 0..300_u64 {
            if due > now {
                sleep_until(due, &mut now);
            }
            let sleeps = if number % 20 == 19 { 24 } else { 2 };
            for _ in 0..sleeps {
                sleep_until(now + 1_000, &mut now);
            }
            missed += u64::from(now > due + 10_000);
            due += 10_000;
        }

        let report = report(request_without_deadline(period), script.records);

        let row = &report.rows[0];
        let deadline = row.deadline.as_ref().unwrap();
        assert_eq!(deadline.deadline_ns.ns() / 100_000, 100);
        let misses = deadline.misses;
        assert!(
            misses.abs_diff(missed) <= missed / 5,
            "{misses} of {missed}, {period:?}"
        );
        // The other wakeups are within the cycles.
        assert!(row.activations.abs_diff(300) <= 15, "{}", row.activations);
    }
}

/// One cycle works, sleeps, or is woken by a thread past four due times.
#[test]
fn ended_cycles_include_those_that_are_due_while_an_earlier_one_goes_on() {
    for case in ["work", "sleep", "other wakeup"] {
        let mut script = Script::new(1);
        script.add_cycles(0..30, SLEEP_UNTIL);
        match case {
            "work" => script.add(TIMER, (30_000, 30_010, 34_800), SLEEP_UNTIL),
            "sleep" => {
                script.add_cycle(30_000, SLEEP_UNTIL);
                script.add(TIMER, (34_600, 34_610, 34_800), SLEEP_UNTIL);
            }
            _ => {
                script.add_cycle(30_000, SLEEP_UNTIL);
                let waker = by_thread(7, "waker");
                script.add(waker, (30_500, 30_510, 34_800), SLEEP_UNTIL);
            }
        }
        script.add_cycles(35..70, SLEEP_UNTIL);
        let mut collector = collector(&request(), script.records);
        collector.settle();

        let ended = collector.take_ended();
        for cycle in &collector.choose() {
            let parts = cycle.taken(watched_thread_runs, &mut NoNames::default());
            collector.explain(cycle, &parts);
        }
        let report = explained_report(collector);

        let late = ended
            .iter()
            .filter(|cycle| cycle.whole.response() > DEADLINE);
        let misses = |row: &AttachRow| row.deadline.as_ref().unwrap().misses;
        assert_eq!(
            report.rows.iter().map(misses).sum::<u64>(),
            late.count() as u64
        );
        let cycles = report.rows.iter().map(|row| row.activations).sum::<u64>();
        assert_eq!(
            (ended.len() as u64, misses(&report.rows[0]) > 3),
            (cycles, true),
            "{case}"
        );
        let by_timer = ended
            .iter()
            .filter(|cycle| cycle.whole.woken.way() == WokenWay::Timer);
        assert_eq!(
            by_timer.count() as u64,
            report.rows[0].activations,
            "{case}"
        );
    }
}

/// Cycles of 1 ms. Now and then the thread is delayed when it sets its timer, so that an expiry is
/// 50 us late.
#[test]
fn an_expiry_soon_after_its_due_time_is_not_a_sleep_within_a_cycle() {
    let mut script = Script::new(1);
    for number in 0..300 {
        let delay = if number % 20 == 15 { 50 } else { 0 };
        script.add_cycle(1_000 * number + delay, SLEEP_UNTIL);
    }

    let report = report(request_without_deadline(None), script.records);

    let row = &report.rows[0];
    assert_eq!(row.deadline.as_ref().unwrap().misses, 0);
    assert_eq!(row.largest_response.as_ref().unwrap().response_ns, us(100));
}

/// Cycles of 1 ms. Each 25th sleeps for 4.5 ms by the same call as between cycles, and the program
/// catches up: the cycle is late, and three of the four that are due meanwhile. The program exits
/// with the last of them, or later.
#[test]
fn sleep_within_a_cycle_past_due_times_does_not_end_it() {
    for end in [500, 510] {
        let mut script = Script::new(1);
        let mut number = 0;
        while number < end {
            script.add_cycle(1_000 * number, SLEEP_UNTIL);
            if number % 25 == 24 {
                let back = 1_000 * number + 4_600;
                if number + 1 < end {
                    script.add(TIMER, (back, back + 10, back + 60), SLEEP_UNTIL);
                } else {
                    script.exit((back, back + 10, back + 60));
                }
                number += 5;
            } else {
                number += 1;
            }
        }

        let report = report(request_without_deadline(None), script.records);

        let row = &report.rows[0];
        let deadline = row.deadline.as_ref().unwrap();
        assert_eq!(row.timers, []);
        assert_eq!(deadline.misses, 4 * 20, "{end}");
        let largest = row.largest_response.as_ref().unwrap();
        assert_eq!(largest.response_ns, us(4_660));
        assert_eq!(largest.slept_ns, us(4_510));
    }
}

/// The program ends its loop with a pause, or with long work, and exits.
#[test]
fn due_times_after_the_last_cycle_of_a_thread_that_exits_are_no_misses() {
    let misses = |exit: (u64, u64, u64)| {
        let mut script = Script::new(1);
        script.add_cycles(0..50, SLEEP_UNTIL);
        script.add(TIMER, (50_000, 50_010, 52_400), SLEEP_UNTIL);
        script.add_cycles(53..100, SLEEP_UNTIL);
        script.exit(exit);
        let report = report(request_without_deadline(None), script.records);
        let row = &report.rows[0];
        let misses = row.deadline.as_ref().unwrap().misses;
        (misses, row.activations)
    };

    // Two cycles are late, the third of them in time.
    assert_eq!(misses((109_150, 109_160, 109_200)), (2, 100));
    // The last cycle, without those that would have been due.
    assert_eq!(misses((100_000, 100_010, 107_500)), (3, 101));
}

/// The thread works for another thread when its timer expires. These cycles have no wakeup.
#[test]
fn longest_response_may_be_of_a_cycle_without_a_wakeup() {
    let home = wait("ppoll", 0x7000, 2, 0);
    let mut script = Script::new(1);
    for cycle in 0..200 {
        let due = 10_000 * cycle;
        if cycle % 20 == 10 {
            let request = due - 3_000;
            let client = by_thread(7, "client");
            script.add(client, (request, request + 10, due + 8_000), home);
        } else {
            script.add(TIMER, (due, due + 10, due + 100), home);
        }
    }
    let request = AttachRequest {
        deadline: Some(us(5_000)),
        ..request()
    };

    let report = report(request, script.records);

    let mut rows = report.rows.iter();
    let row = rows.find(|row| row.activations > 100).unwrap();
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!(
        (deadline.misses, deadline.passed, row.activations),
        (10, 10, 200)
    );
    assert_eq!(row.response.unwrap().largest_ns, us(8_000));
}
