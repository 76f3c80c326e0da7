//! Periods and due times of threads, also with several timers.

use laggard_answer::attach::{AttachRequest, AttachRow, AttachTimer};
use laggard_model::{Nanos, ThreadHappening, ThreadTold};

use super::{
    CYCLE, FIFO, POLL, SLEEP_UNTIL, Script, TIMER, by_thread, changed_cycles, report, request,
    request_without_deadline, us, wait,
};

/// Two timers of an event loop: each 20th cycle of the regular one, the callback of the other
/// takes 36 ms. The regular one is due twice in that time, and late once.
#[test]
fn timer_that_is_due_during_a_callback_of_another_timer_is_missed() {
    let mut script = Script::new(1);
    for cycle in (0..100).filter(|cycle| ![11, 12].contains(&(cycle % 20))) {
        let due = 20_000 * cycle;
        script.add_cycle(due, POLL);
        if cycle % 20 == 10 {
            script.add(TIMER, (due + 5_000, due + 5_010, due + 41_000), POLL);
        }
    }
    let request = AttachRequest {
        deadline: Some(us(10_000)),
        ..request()
    };

    let report = report(request, script.records);

    let deadline = report.rows[0].deadline.as_ref().unwrap();
    assert_eq!((deadline.passed, deadline.misses), (5, 10));
}

/// Returns the timers of a thread, which has two with these periods in us.
fn two_timers(row: &AttachRow, periods: [u64; 2]) -> [AttachTimer; 2] {
    let [first, second] = row.timers[..] else {
        panic!("{:?}", row.timers);
    };
    let found = [first, second].map(|timer| timer.period_ns);
    assert_eq!(found, periods.map(|period| Some(us(period))));
    [first, second]
}

/// A timer of 10 ms and one of 130 ms. The callback of the second takes 13 ms: one cycle of the
/// first timer passes, 5 ms after its start, and is late by 8 ms.
#[test]
fn each_timer_of_a_thread_has_its_misses() {
    let mut script = Script::new(1);
    let mut free = 0;
    for due in (0..2_500_000_u64).step_by(5_000) {
        let is_slow = due % 130_000 == 5_000;
        if due < free || !(due % 10_000 == 0 || is_slow) {
            continue;
        }
        let (length, timer) = if is_slow { (13_000, 2) } else { (100, 1) };
        free = due + length;
        let poll = wait("poll", 4, 0, 0);
        script.add_changed(TIMER, (due, due, free), poll, |activation| {
            activation.timer = Some(timer);
        });
    }
    let request = AttachRequest {
        deadline: Some(us(6_000)),
        ..request()
    };

    let report = report(request, script.records);

    let row = &report.rows[0];
    let [first, second] = two_timers(row, [10_000, 130_000]);
    // Each callback of the second delays one cycle, also before the period was known.
    assert_eq!(first.misses, second.cycles, "{first:?}");
    assert_eq!(first.largest_ns, us(8_000));
    assert!(second.misses == second.cycles, "{second:?}");
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!(deadline.misses, first.misses + second.misses);
}

/// A timer of 5 ms, and signals of another thread. Each 10th signal takes 9 ms: the timer is due
/// twice in that time, and late once.
#[test]
fn timer_that_is_due_during_work_for_another_thread_is_missed() {
    let mut script = Script::new(1);
    for cycle in 0..100 {
        let due = 5_000 * cycle;
        match cycle % 10 {
            6 => {
                script.add_cycle(due, POLL);
                let signal = (due + 2_000, due + 2_000, due + 11_000);
                script.add(by_thread(5, "sender"), signal, POLL);
            }
            7 | 8 => {}
            _ => script.add_cycle(due, POLL),
        }
    }
    let request = AttachRequest {
        deadline: Some(us(3_000)),
        ..request()
    };

    let report = report(request, script.records);

    let by_timer = report.rows.iter().find(|row| row.woken_by == "timer");
    let deadline = by_timer.unwrap().deadline.as_ref().unwrap();
    assert_eq!((deadline.passed, deadline.misses), (10, 10));
}

/// A POSIX timer of 5 ms in a thread that works for 12 ms in two of three cycles: few gaps are of
/// one period.
#[test]
fn timer_of_a_thread_that_is_mostly_late_has_a_period() {
    let mut script = Script::new(1);
    let signal = wait("rt_sigtimedwait", 4, 0, 0);
    let mut cycle = 0;
    for round in 0..60 {
        let due = 5_000 * cycle;
        let (length, periods) = if round % 3 == 2 {
            (100, 1)
        } else {
            (12_000, 3)
        };
        script.add_changed(TIMER, (due, due + 10, due + length), signal, |activation| {
            activation.timer = Some(64);
        });
        cycle += periods;
    }
    let request = AttachRequest {
        deadline: Some(us(4_000)),
        ..request()
    };

    let report = report(request, script.records);

    let row = &report.rows[0];
    assert_eq!(row.period_ns, Some(us(5_000)));
    // Each long cycle is late, and so is the one that is due 5 ms after its start.
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!((deadline.passed, deadline.misses), (40, 80));
}

/// Reaction of a program to a cycle that ended after the next one was due.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Overrun {
    /// It runs the cycles that were due, one after the other.
    CatchUp,
    /// Its next cycle is due a period later.
    Restart,
}

/// Returns 300 cycles of a loop that sleeps with timeouts in ms, and the number of those that ended
/// more than 5 ms after their due time. The period is 10 ms; each eleventh cycle takes up to 34 ms.
fn loop_with_timeouts(overrun: Overrun) -> (Vec<ThreadTold>, u64) {
    const PERIOD: u64 = 10_000;
    let mut script = Script::new(1);
    let (mut now, mut due, mut missed) = (400, PERIOD, 0);
    let mut cycle = (0, 400);
    for number in 1..=300_u64 {
        if due > now {
            script.add(TIMER, (cycle.0, cycle.1, now), POLL);
            let timeout = (due - now).div_ceil(1_000) * 1_000;
            cycle = (now + timeout, now + timeout + 10);
            now = cycle.1;
        }
        now += match number % 11 {
            // A freeze.
            5 if number == 159 => 804_000,
            5 => 6_000 + number * 7_919 % 28_000,
            _ => 300,
        };
        missed += u64::from(now > due + 5_000);
        due += PERIOD;
        if overrun == Overrun::Restart && due < now {
            due = now + PERIOD;
        }
    }
    script.add(TIMER, (cycle.0, cycle.1, now), POLL);
    (script.records, missed)
}

#[test]
fn cycles_of_a_loop_with_timeouts_count_if_the_program_catches_up() {
    for overrun in [Overrun::CatchUp, Overrun::Restart] {
        let (records, missed) = loop_with_timeouts(overrun);
        let request = AttachRequest {
            deadline: Some(us(5_000)),
            ..request()
        };

        let report = report(request, records);

        let row = &report.rows[0];
        let period = row.period_ns.unwrap().as_f64() / 1e3;
        assert!((period - 10_000.0).abs() < 250.0, "{period}");
        let counted = row.deadline.as_ref().unwrap().misses;
        // Rounded wakeups hide up to 1 ms.
        let is_close = counted.abs_diff(missed) <= missed / 20 + 1;
        assert!(is_close, "{counted} of {missed}");
        assert!(row.timers.is_empty(), "{:?}", row.timers);
    }
}

/// Event loop of Python with two timers: one of 20 ms, and one whose callback blocks for 35 ms and
/// that is due 165 ms after it. The loop rounds its timeout up to 1 ms, some values twice, and
/// other programs delay it. Returns the records, and the cycles of the timer of 20 ms that ended
/// more than 10 ms after their due time.
fn loop_with_rounded_timeouts(seed: u64) -> (Vec<ThreadTold>, u64) {
    let mut script = Script::new(1);
    let mut state = seed;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut now, mut missed) = (0, 0);
    let (mut regular, mut blocking) = (50_000, 55_000 + random(20_000));
    let mut cycle = (0, 0);
    // Due times in this cycle.
    let mut due = Vec::new();
    while regular < 5_000_000 {
        let next = regular.min(blocking);
        if next > now {
            script.add(TIMER, (cycle.0, cycle.1, now), POLL);
            missed += due.drain(..).filter(|due| now > due + 10_000).count() as u64;
            let timeout = (next - now).div_ceil(1_000);
            // ceil(1e3 * 1e-3 * timeout)
            let timeout = timeout + u64::from(timeout % 9 == 0);
            // A delay before the system call adds to the timeout.
            now += if random(16) == 0 { random(600) } else { 20 };
            let expiry = now + 1_000 * timeout;
            let delay = if random(4) == 0 { random(9_000) } else { 60 };
            cycle = (expiry, expiry + delay);
            now = cycle.1;
        }
        now += 100 + random(150);
        if regular <= now {
            due.push(regular);
            regular += 20_000;
        }
        if blocking <= now {
            now += 35_000;
            blocking = now + 165_000;
        }
        if random(8) == 0 {
            now += random(5_000);
        }
    }
    (script.records, missed)
}

#[test]
fn timer_of_a_loop_with_rounded_timeouts_has_its_misses() {
    let request = AttachRequest {
        deadline: Some(us(10_000)),
        ..request()
    };
    let results: Vec<(bool, String)> = (0..40)
        .map(|seed| {
            let (records, missed) = loop_with_rounded_timeouts(seed);
            let report = report(request.clone(), records);
            let timers = &report.rows[0].timers;
            let is_regular = |timer: &&AttachTimer| {
                let period = timer.period_ns.map_or(0, Nanos::ns);
                period.abs_diff(20_000_000) < 200_000
            };
            let misses = timers.iter().find(is_regular).map(|timer| timer.misses);
            let is_right = misses.is_some_and(|misses| misses.abs_diff(missed) <= missed / 10 + 1);
            (
                is_right,
                format!("{seed}: {misses:?} of {missed}, {timers:?}"),
            )
        })
        .collect();

    let wrong = results.iter().filter(|(is_right, _)| !is_right);
    let wrong: Vec<&String> = wrong.map(|(_, text)| text).collect();
    assert!(wrong.len() <= 1, "{wrong:#?}");
}

/// A loop of 10 ms that catches up after a stall of 270 to 279 ms each second. Most of its timeouts are
/// rounded up by 0.56 ms, as after writes that end with the tick.
#[test]
fn stalls_of_a_loop_with_timeouts_are_counted() {
    let mut script = Script::new(1);
    let (mut due, mut now, mut missed) = (10_000_u64, 560, 0);
    let mut cycle = (0, 0);
    for number in 0..550_u64 {
        if due > now {
            script.add(TIMER, (cycle.0, cycle.1, now), POLL);
            let expiry = now + (due - now).div_ceil(1_000) * 1_000;
            cycle = (expiry, expiry + 10);
            now = cycle.1;
        }
        let is_behind = now > due + 5_000;
        now += 100;
        if number % 100 == 90 {
            now += 270_000 + number * 31 % 9_000;
        } else if number % 100 < 90 && !is_behind {
            now = (now / 2_000 + 1) * 2_000 + 560;
        }
        missed += u64::from(now > due + 10_000);
        due += 10_000;
    }
    script.add(TIMER, (cycle.0, cycle.1, now), POLL);

    let report = report(request_without_deadline(None), script.records);

    let row = &report.rows[0];
    assert!(row.timers.is_empty(), "{:?}", row.timers);
    let misses = row.deadline.as_ref().unwrap().misses;
    // Rounded wakeups hide up to 1 ms.
    let is_close = misses.abs_diff(missed) <= missed / 20;
    assert!(is_close, "{misses} of {missed}");
}

/// Executor of Java: its wait is due when its time is computed plus the delay, some microseconds
/// after the timeline, and more if it is preempted then.
#[test]
fn timeline_that_moves_is_not_a_second_timer() {
    let mut script = Script::new(1);
    let park = wait("futex", 64, 0x89, 0);
    let (mut due, mut missed) = (10_000_u64, 0);
    for cycle in 0..400_u64 {
        // Preempted for 100 cycles' time: later timeouts are shorter.
        let shift = if cycle % 100 < 50 { 160 } else { 4 } + cycle * 7_919 % 5;
        let start = due + shift;
        let end = start + if cycle % 40 == 20 { 35_000 } else { 300 };
        script.add(TIMER, (start, start + 30, end), park);
        while due < end {
            missed += u64::from(end > due + 8_000);
            due += 10_000;
        }
    }
    let request = AttachRequest {
        deadline: Some(us(8_000)),
        ..request()
    };

    let report = report(request, script.records);

    let row = &report.rows[0];
    assert!(row.timers.is_empty(), "{:?}", row.timers);
    let misses = row.deadline.as_ref().unwrap().misses;
    assert!(misses.abs_diff(missed) <= 2, "{misses} of {missed}");
}

/// Loop with two timers. Each ninth callback of the second one takes a long time.
struct TwoTimers {
    due: [u64; 2],
    periods: [u64; 2],
    deadlines: [u64; 2],
    /// us
    long_callback: u64,
    /// Whether the kernel has a timer for each; otherwise it has one for the loop.
    has_descriptors: bool,
}

impl TwoTimers {
    /// Returns the records of 4 s, and the misses of each timer.
    fn run(mut self) -> (Vec<ThreadTold>, [u64; 2]) {
        let mut script = Script::new(1);
        let poll = wait("poll", 4, 0, 0);
        let condition = wait("futex", 64, 0x89, 0);
        let mut missed = [0, 0];
        let (mut now, mut number) = (0, 0);
        while now < 4_000_000 {
            let timer = usize::from(self.due[1] < self.due[0]);
            let origin = self.due[timer];
            let start = now.max(origin);
            number += timer;
            let is_long = timer == 1 && number % 9 == 8;
            now = start + if is_long { self.long_callback } else { 300 };
            // Callbacks that are due run without a sleep.
            let mut next = timer;
            loop {
                missed[next] += u64::from(now > self.due[next] + self.deadlines[next]);
                self.due[next] += self.periods[next];
                next = usize::from(self.due[1] < self.due[0]);
                if self.due[next] >= now {
                    break;
                }
                now += 300;
            }
            let site = if self.has_descriptors {
                poll
            } else {
                condition
            };
            script.add_changed(TIMER, (origin, start, now), site, |activation| {
                activation.timer = self.has_descriptors.then_some(u32::from(timer == 1));
            });
        }
        (script.records, missed)
    }
}

/// The timer of 10 ms is due two or three times in a long callback of the timer of 70 ms.
#[test]
fn timers_of_a_loop_are_found_by_their_expiries() {
    let timers = TwoTimers {
        due: [10_000, 13_000],
        periods: [10_000, 70_000],
        deadlines: [5_000, 5_000],
        long_callback: 26_000,
        has_descriptors: false,
    };
    let (records, missed) = timers.run();
    let request = AttachRequest {
        deadline: Some(us(5_000)),
        ..request()
    };

    let report = report(request, records);

    let row = &report.rows[0];
    let timers = two_timers(row, [10_000, 70_000]);
    assert_eq!(timers.map(|timer| timer.misses), missed);
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!(deadline.misses, missed[0] + missed[1]);
}

/// The wakeups come every 5, 5 and 10 ms, but the thread has no period of 5 ms.
#[test]
fn implied_deadline_of_a_timer_is_its_period() {
    for has_descriptors in [true, false] {
        let timers = TwoTimers {
            due: [10_000, 15_000],
            periods: [10_000, 20_000],
            deadlines: [10_000, 20_000],
            long_callback: 34_000,
            has_descriptors,
        };
        let (records, missed) = timers.run();

        let report = report(request_without_deadline(None), records);

        let row = &report.rows[0];
        two_timers(row, [10_000, 20_000]);
        assert_eq!(row.period_ns, Some(us(10_000)));
        let misses = row.deadline.as_ref().unwrap().misses;
        let true_misses = missed[0] + missed[1];
        let is_close = misses.abs_diff(true_misses) <= true_misses / 10;
        assert!(is_close, "{misses} of {true_misses}, {has_descriptors}");
    }
}

/// A loop of 5 ms, later of 15 ms, that catches up after 42 ms of work in every 100 ms.
#[test]
fn late_cycles_after_a_change_of_the_period_are_not_counted_twice() {
    let mut script = Script::new(1);
    let (mut due, mut free, mut missed) = (10_000, 0, 0);
    for number in 0..700_u64 {
        let period = if number < 200 { 5_000 } else { 15_000 };
        let start = free.max(due);
        let is_first = due / 100_000 != (due - period) / 100_000;
        free = start + if is_first { 42_000 } else { 300 };
        missed += u64::from(free > due + period);
        let is_asleep = free < due + period;
        script.add(TIMER, (due, start, free), SLEEP_UNTIL);
        due += period;
        if !is_asleep {
            // The next wait is over at once: it is no sleep.
            let last = script.records.pop();
            let mut last = last.unwrap();
            while due < free {
                free += 300;
                missed += u64::from(free > due + period);
                due += period;
            }
            if let ThreadHappening::Done(activation) = &mut last.what {
                activation.done = us(free);
            }
            script.records.push(last);
        }
    }

    let report = report(request_without_deadline(None), script.records);

    let row = &report.rows[0];
    let misses = row.deadline.as_ref().unwrap().misses;
    let is_close = misses.abs_diff(missed) <= missed / 20;
    assert!(is_close, "{misses} of {missed}, {:?}", row.phases);
}

/// Loop of 20 ms that wakes 1 ms early and sleeps again, as node does. Each 25th cycle takes 57 ms:
/// it is late, and two that are due meanwhile.
#[test]
fn early_wakeups_are_not_a_second_timer() {
    let mut script = Script::new(1);
    let mut number = 1;
    while number < 500 {
        let due = 20_000 * number;
        let early = due - 1_000;
        script.add(TIMER, (early, early + 10, early + 30), SLEEP_UNTIL);
        if number % 25 == 0 {
            script.add(TIMER, (due, due + 10, due + 57_000), SLEEP_UNTIL);
            number += 3;
        } else {
            script.add_cycle(due, SLEEP_UNTIL);
            number += 1;
        }
    }
    let request = AttachRequest {
        deadline: Some(us(10_000)),
        ..request()
    };

    let report = report(request, script.records);

    let row = &report.rows[0];
    assert_eq!(row.timers, []);
    assert_eq!(row.deadline.as_ref().unwrap().misses, 3 * 19);
}

/// Timer of Java: it rounds up to whole milliseconds, and waits for a condition. Each 20th callback
/// takes 66 ms.
#[test]
fn timeouts_that_a_program_rounds_up_have_due_times() {
    let park = wait("futex", 64, 0x89, 0);
    let mut script = Script::new(1);
    let (mut due, mut now, mut missed) = (20_000_u64, 150, 0);
    let mut cycle = (0, 0);
    for number in 0..300_u64 {
        if due > now {
            script.add(TIMER, (cycle.0, cycle.1, now), park);
            let expiry = now + (due - now).div_ceil(1_000) * 1_000;
            cycle = (expiry, expiry + 30);
            now = expiry + 60;
        }
        now += 70 + number * 7_919 % 50;
        now += if number % 20 == 19 { 66_000 } else { 0 };
        missed += u64::from(now > due + 10_000);
        due += 20_000;
    }
    script.add(TIMER, (cycle.0, cycle.1, now), park);
    let request = AttachRequest {
        deadline: Some(us(10_000)),
        ..request()
    };

    let report = report(request, script.records);

    let row = &report.rows[0];
    assert_eq!(row.timers, []);
    let misses = row.deadline.as_ref().unwrap().misses;
    assert!(
        misses.abs_diff(missed) <= missed / 10,
        "{misses} of {missed}"
    );
}

/// The same loop with a rare timer. Its callback takes 46 ms: two cycles of the loop are due and late
/// in it.
#[test]
fn early_wakeups_are_not_a_second_timer_next_to_a_rare_one() {
    let mut script = Script::new(1);
    let mut number = 1;
    while number < 500 {
        let due = 20_000 * number;
        let early = due - 1_000;
        script.add(TIMER, (early, early + 10, early + 30), SLEEP_UNTIL);
        script.add_cycle(due, SLEEP_UNTIL);
        number += 1;
        if number % 25 == 12 {
            let rare = due + 7_000 + number * 31 % 4_000;
            script.add(TIMER, (rare, rare + 10, rare + 46_000), SLEEP_UNTIL);
            number += 2;
        }
    }
    let request = AttachRequest {
        deadline: Some(us(10_000)),
        ..request()
    };

    let report = report(request, script.records);

    let row = &report.rows[0];
    let regular = row.timers.iter().map(|timer| timer.misses).next();
    assert_eq!(regular, Some(2 * 20), "{:?}", row.timers);
    assert_eq!(row.deadline.as_ref().unwrap().misses, 3 * 20);
}

#[test]
fn period_that_changes_has_two_phases() {
    let records = changed_cycles(1, FIFO, us(100), |cycle, activation| {
        let shift = us(500 * u64::from(cycle.saturating_sub(50)));
        activation.origin += shift;
        activation.due += shift;
        activation.waking += shift;
        activation.running += shift;
        activation.done += shift;
    });

    let report = report(request(), records);

    let phases = report.rows[0].phases.iter();
    let periods: Vec<Nanos> = phases.map(|phase| phase.period_ns).collect();
    assert_eq!(periods, [CYCLE, us(1_500)]);
}
