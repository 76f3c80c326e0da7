//! Pauses: waits between two series of cycles, which are within no cycle.

use laggard_answer::attach::{AttachReport, AttachRequest};
use laggard_model::WokenWay;

use super::{
    SLEEP_UNTIL, Script, TIMER, Wait, by_thread, collector, report, report_of, request,
    request_without_deadline, us, wait,
};

/// Wait between two series.
#[derive(Clone, Copy)]
struct Pause {
    /// `None`: a sleep for a time.
    command: Option<Wait>,
    /// Length of each pause, us.
    lengths: [u64; 3],
    /// Whether the due times of all series are whole periods apart.
    is_rounded: bool,
    /// Whether each cycle waits there for a short time.
    is_usual: bool,
}

const NAP: Wait = wait("clock_nanosleep", 0, 0, 0);

/// Returns the report of series of 60 cycles with these periods in us, and pauses between them. The
/// 31st cycle of each series takes 1.4 periods.
fn series(periods: [u64; 4], pause: Pause) -> (AttachReport, Option<u64>) {
    let mut script = Script::new(1);
    let mut now = 400;
    let mut wakeup = (TIMER, 0, 0);
    for (number, period) in periods.into_iter().enumerate() {
        let mut due = if pause.is_rounded {
            (now / period + 2) * period
        } else {
            now + period
        };
        for cycle in 0..60 {
            if due > now {
                script.add(wakeup.0, (wakeup.1, wakeup.2, now), SLEEP_UNTIL);
                wakeup = (TIMER, due, due + 10);
                now = due + 10;
            }
            if pause.is_usual
                && let Some(wait) = pause.command
            {
                script.add(wakeup.0, (wakeup.1, wakeup.2, now + 50), wait);
                wakeup = (by_thread(7, "main"), now + 150, now + 160);
                now += 160;
            }
            now += if cycle == 30 { period * 7 / 5 } else { 100 };
            due += period;
        }
        if let Some(length) = pause.lengths.get(number) {
            let wait = pause.command.unwrap_or(NAP);
            script.add(wakeup.0, (wakeup.1, wakeup.2, now), wait);
            now += length + 137 * number as u64;
            let waker = pause.command.map_or(TIMER, |_| by_thread(7, "main"));
            wakeup = (waker, now, now + 10);
            now += 60;
        }
    }
    script.add(wakeup.0, (wakeup.1, wakeup.2, now), SLEEP_UNTIL);
    let request = request_without_deadline(None);
    let mut collector = collector(&request, script.records);
    collector.settle();
    let deadline = collector.deadline(1, WokenWay::Timer);
    let report = report_of(collector, request, us(now));
    (report, deadline.map(|deadline| deadline.ns() / 1_000))
}

#[test]
fn wait_for_a_command_between_two_series_is_in_no_cycle() {
    let read = wait("read", 3, 0, 1);
    let receive = wait("recvfrom", 5, 0, 1);
    let condition = wait("futex", 0x2000, 0x189, 0);
    for (place, command) in [read, receive, condition].into_iter().enumerate() {
        for is_rounded in [false, true] {
            let pause = Pause {
                command: Some(command),
                lengths: [30_000, 60_000, 120_000],
                is_rounded,
                is_usual: false,
            };

            let (report, _) = series([5_000; 4], pause);

            let row = &report.rows[0];
            let deadline = row.deadline.as_ref().unwrap();
            let largest = row.largest_response.as_ref().unwrap().response_ns;
            assert_eq!(
                (deadline.misses, largest),
                (4, us(7_010)),
                "{place}, rounded: {is_rounded}"
            );
            assert_eq!(row.activations, 240 + 1);
        }
    }
}

/// The waits for an answer are in each cycle, so that a long one makes its cycle late.
#[test]
fn usual_wait_of_the_cycles_is_no_pause() {
    let pause = Pause {
        command: Some(wait("read", 3, 0, 1)),
        lengths: [30_000, 60_000, 70_000],
        is_rounded: false,
        is_usual: true,
    };

    let (report, _) = series([5_000; 4], pause);

    let row = &report.rows[0];
    assert_eq!(row.deadline.as_ref().unwrap().misses, 4 + 3);
    assert!(row.largest_response.as_ref().unwrap().response_ns > us(70_000));
}

/// Series of 10, 4, 20 and 4 ms with 0.7 s of sleep between them.
#[test]
fn each_series_has_the_deadline_of_its_period() {
    let pause = Pause {
        command: None,
        lengths: [700_000, 701_000, 702_000],
        is_rounded: false,
        is_usual: false,
    };

    let (report, shortest) = series([10_000, 4_000, 20_000, 4_000], pause);

    let row = &report.rows[0];
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!(deadline.misses, 4);
    assert_eq!(deadline.least_margin_ns, -8_010_000);
    let phases: Vec<u64> = row.phases.iter().map(|phase| phase.misses).collect();
    assert_eq!(phases, [1, 1, 1, 1]);
    assert_eq!(shortest, Some(4_000));
    assert_eq!(
        row.largest_response.as_ref().unwrap().response_ns,
        us(28_010)
    );
}

/// The last cycle of a program ends before the sleep after its loop.
#[test]
fn sleep_before_the_exit_of_a_program_is_in_no_cycle() {
    let mut script = Script::new(1);
    script.add_cycles(0..40, SLEEP_UNTIL);
    script.add(TIMER, (40_000, 40_010, 40_100), NAP);
    script.exit((50_100, 50_110, 50_200));
    let request = request_without_deadline(None);

    let report = super::report(request, script.records);

    let row = &report.rows[0];
    assert_eq!(row.deadline.as_ref().unwrap().misses, 0);
    assert_eq!(row.largest_response.as_ref().unwrap().response_ns, us(100));
}

/// After its loop, a program or a thread sleeps for some periods, waits for a child, or for the end of a
/// thread.
#[test]
fn wait_at_a_new_place_before_the_exit_is_in_no_cycle() {
    let child = wait("wait4", 4_242, 0, 0);
    let joined = wait("futex", 0x7000, 0x109, 4_243);
    for (last, by, is_process) in [
        (NAP, TIMER, true),
        (NAP, TIMER, false),
        (child, by_thread(7, "child"), true),
        (joined, by_thread(7, "saver"), true),
    ] {
        let mut script = Script::new(1);
        for cycle in 0..40 {
            let due = 10_000 * cycle;
            let end = if cycle < 39 { SLEEP_UNTIL } else { last };
            script.add(TIMER, (due, due + 10, due + 2_000), end);
        }
        script.add(by, (430_000, 430_000, 430_100), last);
        script.exit((430_200, 430_200, 431_000));
        for told in script.records.iter_mut().filter(|_| is_process) {
            told.thread.process = told.thread.tid.0;
        }
        let request = AttachRequest {
            deadline: Some(us(10_000)),
            ..request()
        };

        let report = super::report(request, script.records);

        assert_eq!(
            report.rows[0].deadline.as_ref().unwrap().misses,
            0,
            "{last:?}"
        );
    }
}

/// The last cycle of a program is late because of the only wait for a lock.
#[test]
fn wait_in_the_last_cycle_of_a_program_is_in_it_if_most_cycles_have_none() {
    let lock = wait("futex", 0x1000, 0x189, 0);
    let mut script = Script::new(1);
    for cycle in 0..40 {
        let due = 10_000 * cycle;
        let end = if cycle < 39 { SLEEP_UNTIL } else { lock };
        script.add(TIMER, (due, due + 10, due + 2_000), end);
    }
    let released = 390_000 + 17_000;
    let holder = by_thread(7, "holder");
    script.add(holder, (released, released, released + 50), lock);
    script.exit((released + 100, released + 100, released + 1_000));
    for told in &mut script.records {
        told.thread.process = told.thread.tid.0;
    }

    let report = report(request_without_deadline(None), script.records);

    assert_eq!(report.rows[0].deadline.as_ref().unwrap().misses, 1);
}

/// Each cycle waits once for the lock of an interpreter, for 3 ms. After its loop, the program prints a
/// result, for which it waits for the lock again, and exits.
#[test]
fn waits_after_the_loop_of_a_program_that_exits_are_in_no_cycle() {
    let run = |is_process: bool| {
        let lock = wait("futex", 0x1000, 0x189, 0);
        let mut script = Script::new(1);
        for cycle in 0..40 {
            let due = 10_000 * cycle;
            script.add(TIMER, (due, due + 10, due + 20), lock);
            let released = due + 3_000;
            let holder = by_thread(7, "holder");
            let next = if cycle < 39 { SLEEP_UNTIL } else { lock };
            script.add(holder, (released, released, released + 50), next);
        }
        script.exit((405_000, 405_000, 406_000));
        for told in script.records.iter_mut().filter(|_| is_process) {
            told.thread.process = told.thread.tid.0;
        }
        let report = report(request_without_deadline(None), script.records);
        let row = &report.rows[0];
        let deadline = row.deadline.as_ref().unwrap();
        let largest = row.largest_response.as_ref().unwrap();
        (deadline.misses, largest.response_ns)
    };

    assert_eq!(run(true), (0, us(3_050)));
    // A thread that is late because of an unusual wait.
    assert_eq!(run(false).0, 1);
}

/// Of four cycles, three wait twice for the lock of an interpreter, for 3 ms together. The last one waits once,
/// and the print after the loop twice more, for 14 ms.
#[test]
fn wait_after_the_loop_does_not_make_the_last_cycle_the_worst() {
    let lock = wait("futex", 0x1000, 0x189, 0);
    let mut script = Script::new(1);
    for cycle in 0..40 {
        let due = 10_000 * cycle;
        script.add(TIMER, (due, due + 10, due + 20), lock);
        let holder = by_thread(7, "holder");
        let has_second = cycle % 4 > 0 && cycle < 39;
        let released = due + if has_second { 2_000 } else { 3_000 };
        let next = if has_second || cycle == 39 {
            lock
        } else {
            SLEEP_UNTIL
        };
        script.add(holder, (released, released, released + 50), next);
        if has_second {
            let released = due + 3_000;
            script.add(holder, (released, released, released + 50), SLEEP_UNTIL);
        } else if cycle == 39 {
            let expired = due + 9_000;
            script.add(TIMER, (expired, expired, expired + 50), lock);
        }
    }
    script.exit((407_000, 407_000, 408_000));
    for told in &mut script.records {
        told.thread.process = told.thread.tid.0;
    }

    let report = report(request_without_deadline(None), script.records);

    let row = &report.rows[0];
    assert_eq!(row.deadline.as_ref().unwrap().misses, 0);
    let largest = row.largest_response.as_ref().unwrap();
    assert_eq!(largest.response_ns, us(3_050));
}

/// A cycle of 50 ms waits for a lock for 1.2 s. The program catches up, and its sleeps have zero length,
/// which take 68 us.
#[test]
fn wait_that_the_program_catches_up_with_is_no_pause() {
    let mut script = Script::new(1);
    let (mut now, mut wakeup) = (100, (TIMER, 0, 0));
    let lock = wait("futex", 0x2000, 0x189, 0);
    for cycle in 1..100 {
        let due = (50_000 * cycle).max(now + 68);
        script.add(wakeup.0, (wakeup.1, wakeup.2, now), SLEEP_UNTIL);
        wakeup = (TIMER, due, due + 5);
        now = due + 15;
        if cycle == 60 {
            script.add(wakeup.0, (wakeup.1, wakeup.2, now), lock);
            now += 1_200_000;
            wakeup = (by_thread(7, "timer"), now, now + 10);
            now += 20;
        }
    }

    let report = super::report(request_without_deadline(None), script.records);

    let row = &report.rows[0];
    let largest = row.largest_response.as_ref().unwrap().response_ns;
    assert!(largest > us(1_200_000), "{largest:?}");
}

/// A loop of 5 ms that is late after each 100 cycles, then waits for 20 ms within the cycle and creates
/// another timer. The earlier timer does not expire in that time.
#[test]
fn timer_that_a_thread_replaces_is_not_missed() {
    let mut script = Script::new(1);
    let mut due = 0;
    for cycle in 0..1_050 {
        let length = if cycle % 100 == 99 { 28_300 } else { 500 };
        let read = wait("read", 4, 0, 0);
        script.add_changed(TIMER, (due, due + 10, due + length), read, |activation| {
            activation.timer = Some(1 + cycle / 100);
        });
        due += if length > 5_000 {
            length + 5_000
        } else {
            5_000
        };
    }

    let report = report(request_without_deadline(None), script.records);

    let deadline = report.rows[0].deadline.as_ref().unwrap();
    assert_eq!((deadline.misses, deadline.passed), (10, 0));
}
