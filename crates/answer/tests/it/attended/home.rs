//! Home waits, and threads that a cycle starts.

use laggard_answer::attach::{AttachCollector, AttachReport, AttachRequest, WaitKind};
use laggard_model::{CauseClass, Nanos, ThreadExit, ThreadHappening, ThreadTold};

use super::{
    FIFO, NoNames, POLL, SLEEP_UNTIL, Script, TIMER, activation, by_thread, collector, record,
    report, report_of, request, request_without_deadline, switch, us, wait, watched_thread_runs,
};

/// A callback of an event loop sleeps, with the period of its timer. The loop has more sleeps.
#[test]
fn home_wait_of_an_event_loop_is_not_the_sleep_of_a_callback() {
    for argument in [0, 1] {
        let mut script = Script::new(1);
        let sleep = wait("clock_nanosleep", 1, argument, 0);
        for cycle in 0..30 {
            let due = 10_000 * cycle;
            script.add_cycle(due, POLL);
            script.add_cycle(due + 2_000, sleep);
            for offset in [5_000, 6_000, 8_000] {
                script.add_cycle(due + offset, POLL);
            }
        }

        let report = report(request(), script.records);

        let row = &report.rows[0];
        let home = row.home.as_ref().unwrap();
        assert_eq!(home.call.as_deref(), Some("epoll_wait"));
        assert_eq!(row.sleeps, 30);
    }
}

/// A program starts for 2 s with irregular sleeps and work of 12 ms after each, longer than the deadline of
/// its loop of 10 ms. The records arrive in steps.
#[test]
fn sleeps_at_the_start_of_a_program_are_no_cycles() {
    let sleep = wait("clock_nanosleep", 0, 0, 0);
    let mut script = Script::new(1);
    let mut end = 0;
    for nap in 0..20 {
        let due = end + 30_000 + 1_000 * (nap * nap * 37 % 110);
        let wait = if nap == 19 { SLEEP_UNTIL } else { sleep };
        end = due + 12_000;
        script.add_changed(TIMER, (due, due + 10, end), wait, |activation| {
            activation.start_seen = nap > 0;
        });
    }
    for cycle in 1..=200 {
        script.add_cycle(end + 10_000 * cycle, SLEEP_UNTIL);
    }
    let request = AttachRequest {
        deadline: Some(us(10_000)),
        ..request()
    };
    let mut collector = AttachCollector::new(request.clone());
    for record in script.records {
        let until = record.at + us(1);
        collector.told(&mut vec![record], until);
    }
    collector.told(&mut Vec::new(), Nanos::MAX);

    let report = report_of(collector, request, us(5_000_000));

    let deadline = report.rows[0].deadline.as_ref().unwrap();
    assert_eq!((report.rows[0].activations, deadline.misses), (200, 0));
}

/// A loop waits for a lock in each cycle. An argument of its sleep is a pointer that changes.
#[test]
fn cycle_is_whole_if_other_arguments_of_its_home_wait_change() {
    let lock = wait("futex", 0x2000, 0x89, 0);
    let mut script = Script::new(1);
    // So that the home wait is checked within a cycle.
    script.add(TIMER, (10_000, 10_010, 10_100), SLEEP_UNTIL);
    for cycle in 1..=500 {
        let due = 20_000 * u64::from(cycle);
        script.add(TIMER, (due, due + 10, due + 30), lock);
        let sleep = wait("clock_nanosleep", 1, 1, cycle);
        let woken = by_thread(5, "holder");
        script.add(woken, (due + 300, due + 310, due + 400), sleep);
    }

    let report = report(request(), script.records);

    let row = &report.rows[0];
    let largest = row.largest_response.as_ref().unwrap().response_ns;
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!(
        (row.activations, largest, deadline.misses),
        (501, us(400), 0)
    );
}

const SIGNAL: &str = "rt_sigtimedwait";

/// Returns the records of a timer with `SIGEV_THREAD`: each expiry starts a thread, which ends
/// after 300 us or, each fifth, after 1.5 ms. `process`: the process of these threads. `home`: the
/// system call in which the thread waits that starts them.
fn threads_of_a_timer(process: u32, home: &'static str) -> Vec<ThreadTold> {
    let mut helper = Script::new(1);
    let mut records = Vec::new();
    for cycle in 0..40_u32 {
        let due = 2_000 * u64::from(cycle);
        let length = if cycle % 5 == 4 { 1_500 } else { 300 };
        let signal = wait(home, 0, 0, 0);
        helper.add(TIMER, (due, due + 10, due + 60), signal);
        let (start, end) = (us(due + 40), us(due + length));
        let exit = ThreadExit {
            activation: Some(activation(|last| {
                last.woken = by_thread(1_001, "cycle");
                (last.origin, last.due, last.waking) = (start, start, start);
                (last.running, last.done) = (start + us(20), end);
                last.start_seen = false;
            })),
            ..ThreadExit::default()
        };
        let happenings = [
            (start, ThreadHappening::Began(Some(1))),
            (end, ThreadHappening::Ended(None, exit)),
        ];
        for (sequence, (time, happening)) in (0..).zip(happenings) {
            let mut record = record(2 + cycle, FIFO, sequence, time, happening);
            record.thread.process = process;
            records.push(record);
        }
    }
    records.extend(helper.records);
    records
}

#[test]
fn cycle_goes_on_in_the_thread_that_it_starts() {
    let request = AttachRequest {
        deadline: Some(us(1_000)),
        ..request()
    };
    let started_thread_runs = |cpu, from, to| {
        let mut evidence = watched_thread_runs(cpu, from, to);
        let switches = (0..40).map(|cycle| {
            let start = us(2_000 * u64::from(cycle) + 60);
            switch(start, 1_002 + cycle, "cycle")
        });
        evidence.events.extend(switches);
        evidence
    };

    let mut collector = collector(&request, threads_of_a_timer(1_000, SIGNAL));
    let chosen = collector.choose();
    let own = report_of(collector, request.clone(), us(100_000));
    let foreign = report(request.clone(), threads_of_a_timer(7, SIGNAL));
    // A loop that starts a thread in each cycle and does not wait for it.
    let other = report(request, threads_of_a_timer(1_000, "clock_nanosleep"));

    for cycle in chosen.iter().filter(|cycle| cycle.missed()) {
        let parts = cycle.taken(started_thread_runs, &mut NoNames::default());
        let sum: u64 = parts.iter().map(|part| part.time_ns.ns()).sum();
        assert_eq!(sum, us(1_500).ns(), "{parts:?}");
        assert_eq!(parts[0].cause.class, CauseClass::OwnWork, "{parts:?}");
        assert!(parts[0].time_ns > us(1_400), "{parts:?}");
    }
    let figures = |report: &AttachReport| {
        let row = &report.rows[0];
        let misses = row.deadline.as_ref().unwrap().misses;
        (row.activations, misses, row.response.unwrap().largest_ns)
    };
    assert_eq!(own.rows.len(), 1);
    assert_eq!(figures(&own), (40, 8, us(1_500)));
    // A process has its own cycles.
    assert_eq!(figures(&foreign), (40, 0, us(60)));
    assert_eq!(figures(&other), (40, 0, us(60)));
}

/// The period of a thread that is nearly always late is not regular; its sleeps until an absolute
/// time still start its cycles.
#[test]
fn irregular_sleeps_until_a_time_are_the_home_wait() {
    let mut script = Script::new(1);
    let condition = wait("futex", 0x2000, 0x80, 0);
    let other = by_thread(5, "other");
    for round in 0..40 {
        let due = 1_000 * round * round;
        script.add_cycle(due, condition);
        script.add(other, (due + 300, due + 300, due + 350), condition);
        script.add(other, (due + 600, due + 600, due + 700), SLEEP_UNTIL);
    }

    let report = report(request(), script.records);

    let row = &report.rows[0];
    assert_eq!((report.rows.len(), row.activations), (1, 40));
    assert_eq!(row.home.as_ref().unwrap().kind, WaitKind::SleepUntil);
    assert_eq!(row.deadline.as_ref().unwrap().misses, 40);
}

/// A loop that waits for all its events at one place sets its timer for a later time when a request
/// comes. `poll` may have waited for another descriptor: the answer that a cycle needs.
#[test]
fn loop_that_sleeps_past_a_due_time_has_set_its_timer_later() {
    let misses = |home| {
        let mut script = Script::new(1);
        for cycle in 0..200 {
            let due = 10_000 * cycle;
            if cycle % 20 == 10 {
                let request = due + 6_000;
                let client = by_thread(5, "client");
                script.add(client, (request, request, request + 50), home);
            } else {
                script.add_cycle(due, home);
            }
        }
        let report = report(request_without_deadline(None), script.records);
        let rows = report.rows.iter().filter_map(|row| row.deadline.as_ref());
        rows.map(|deadline| deadline.misses).sum::<u64>()
    };

    assert_eq!(misses(POLL), 0);
    assert!(misses(wait("ppoll", 0x7000, 1, 0)) >= 10);
}
