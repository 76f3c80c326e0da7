//! Deadlines: the cycles that miss them, and the threads that have none.

use laggard_answer::attach::{AttachCollector, AttachRequest, CycleChoice, DeadlineSource};
use laggard_model::{
    Address, Names, Nanos, Symbols, ThreadExit, ThreadHappening, ThreadPolicy, ThreadTold, Tid,
    UnfinishedActivation, WokenBy,
};

use super::locks::cycles_with_a_mutex;
use super::{
    CYCLE, CYCLES, FIFO, SLEEP_UNTIL, Script, TIMER, by_thread, changed_cycles, collector, cycles,
    record, report, report_of, request, request_without_deadline, starts_at_once, unfinished, us,
    wait,
};

/// Names of a machine whose programs are all written in Go.
#[derive(Debug, Default)]
struct GoNames(Symbols);

impl Names for GoNames {
    fn learn_stack(&mut self, _: &[Address]) {}
    fn learn_thread(&mut self, _: Tid) {}
    fn is_go(&mut self, _: u32) -> bool {
        true
    }
    fn symbols(&self) -> &Symbols {
        &self.0
    }
}

/// A thread that computes and only waits for a lock now and then, as a thread of Python does.
fn busy() -> Vec<ThreadTold> {
    let mut script = Script::new(2);
    let lock = wait("futex", 0x2000, 0x80, 0);
    let mut due = 0;
    for round in 0..10 {
        let to = due + 1_700 + 37 * round * round;
        script.add(by_thread(1_001, "main"), (due, due, to), lock);
        due = to + 100;
    }
    script.records
}

#[test]
fn deadline_of_a_process_does_not_apply_to_its_busy_thread() {
    let run = |names_threads| {
        let request = AttachRequest {
            names_threads,
            ..request()
        };
        let mut records = cycles_with_a_mutex();
        records.extend(busy());
        let report = report_of(collector(&request, records), request, us(20_000));
        let busy = report.rows.iter().filter(|row| row.number == 2);
        assert!(busy.clone().all(|row| row.is_busy != names_threads));
        let deadlines = busy.filter(|row| row.deadline.is_some()).count();
        (deadlines, report.worst.unwrap().number, report.held.misses)
    };

    assert_eq!(run(false), (0, 1, 20));
    let (deadlines, _, misses) = run(true);
    assert!(deadlines > 0 && misses > 20, "{misses}");
}

/// A periodic thread takes the lock of the interpreter from a thread that computes, which is therefore
/// woken at regular times. A worker that sleeps for a tenth of the time has the deadline.
#[test]
fn deadline_of_a_process_does_not_apply_to_a_busy_thread_with_regular_wakeups() {
    let is_busy = |pause: u64| {
        let condition = wait("futex", 0x2000, 0x89, 0);
        let mut script = Script::new(2);
        for due in (0..100).map(|number| 1_000 * number) {
            let to = due + 1_000 - pause;
            script.add(by_thread(1_001, "main"), (due, due, to), condition);
        }
        let mut records = cycles(1, FIFO, us(700));
        records.extend(script.records);
        let report = report(request(), records);
        let row = report.rows.iter().find(|row| row.number == 2).unwrap();
        assert_eq!(row.period_ns, Some(us(1_000)));
        row.is_busy
    };

    assert!(is_busy(10));
    assert!(!is_busy(100));
}

#[test]
fn worst_cycle_exceeds_its_deadline_by_most() {
    let worst = |responses: [Nanos; 2]| {
        let mut records = cycles(1, FIFO, responses[0]);
        records.extend(cycles(2, ThreadPolicy::Fifo(10), responses[1]));
        report(request(), records).worst.unwrap().number
    };

    assert_eq!(worst([us(700), us(900)]), 2);
    assert_eq!(worst([us(700), us(600)]), 1);
    // Without a miss, the most urgent thread comes first.
    assert_eq!(worst([us(300), us(400)]), 1);
}

/// jackd with its audio thread and the threads that answer its clients.
#[test]
fn deadline_of_a_process_does_not_apply_to_helpers_of_its_real_time_thread() {
    let misses = |policies: [ThreadPolicy; 2], names_threads| {
        let mut records = cycles(1, policies[0], us(100));
        records.extend(changed_cycles(
            2,
            policies[1],
            us(700),
            |cycle, activation| {
                activation.woken = WokenBy::Softirq(3);
                let shift = us(u64::from(cycle * cycle * 7_919 % 301));
                activation.origin += shift;
                activation.waking += shift;
                activation.running += shift;
                activation.done += shift;
            },
        ));
        let request = AttachRequest {
            names_threads,
            ..request()
        };
        let report = report(request, records);
        let helpers = report.rows.iter().filter(|row| row.is_helper).count();
        (helpers, report.held.misses)
    };
    let other = ThreadPolicy::Other(0);
    let all = u64::from(CYCLES);

    assert_eq!(misses([FIFO, other], false), (1, 0));
    assert_eq!(misses([FIFO, other], true), (0, all));
    assert_eq!(misses([FIFO, FIFO], false), (0, all));
    assert_eq!(misses([other, other], false), (0, all));
}

#[test]
fn deadline_applies_to_a_busy_thread_without_others() {
    let report = report(request(), busy());

    assert_eq!((report.held.activations, report.held.misses), (10, 10));
}

#[test]
fn threads_of_a_go_program_have_no_deadline_unless_named() {
    let misses = |request: AttachRequest| {
        let mut collector = AttachCollector::new(request.clone());
        let mut first = cycles(1, ThreadPolicy::Other(0), us(700));
        let mut later = first.split_off(4);
        collector.told(&mut first, us(4_000));
        collector.learn_processes(&mut GoNames::default());
        collector.told(&mut later, Nanos::MAX);
        let report = report_of(collector, request, us(100_000));
        assert!(report.rows[0].is_go);
        assert_eq!(report.rows[0].home, None);
        report.held.misses
    };

    assert_eq!(misses(request()), 0);
    assert_eq!(misses(request_without_deadline(None)), 0);
    let named = AttachRequest {
        names_threads: true,
        ..request()
    };
    assert_eq!(misses(named), u64::from(CYCLES));
}

#[test]
fn period_is_the_deadline_of_cycles_that_end_in_a_chosen_call() {
    let mut script = Script::new(1);
    script.add_cycles(0..20, SLEEP_UNTIL);
    let implied = |cycle: CycleChoice| {
        let request = AttachRequest {
            cycle,
            ..request_without_deadline(None)
        };
        let report = report(request, script.records.clone());
        let row = &report.rows[0];
        let deadline = row.deadline.as_ref();
        let call = row.home.as_ref().and_then(|site| site.call.clone());
        (deadline.map(|deadline| deadline.deadline_ns), call)
    };
    let call = CycleChoice::Call {
        name: "clock_nanosleep".into(),
        descriptor: None,
    };

    // The chosen call is the home wait, so that the report counts cycles.
    let name = Some("clock_nanosleep".to_owned());
    assert_eq!(implied(call), (Some(CYCLE), name));
    assert_eq!(implied(CycleChoice::Wake), (None, None));
}

#[test]
fn threads_that_only_wake_each_other_have_no_implied_deadline() {
    let read = wait("read", 3, 0, 1);
    let (mut first, mut second) = (Script::new(1), Script::new(2));
    for round in 0..100 {
        let due = 400 * round;
        first.add(by_thread(1_002, "b"), (due, due, due + 190), read);
        second.add(
            by_thread(1_001, "a"),
            (due + 200, due + 200, due + 390),
            read,
        );
    }
    let mut records = first.records;
    records.extend(second.records);

    let report = report(request_without_deadline(None), records);

    assert_eq!(report.rows.len(), 2);
    assert!(report.rows.iter().all(|row| row.deadline.is_none()));
}

#[test]
fn thread_killed_in_a_late_cycle_has_a_miss_and_its_limit_is_named() {
    let mut script = Script::new(1);
    script.add_cycles(0..20, SLEEP_UNTIL);
    let last = unfinished(us(75_000), us(55_000));
    let exit = ThreadExit {
        signal: 9,
        rt_limit: Some(us(50_000)),
        ..ThreadExit::default()
    };
    script.push(75_000, ThreadHappening::Ended(Some(last), exit));

    let report = report(request(), script.records);

    assert_eq!(report.held.overdue, 1);
    let killed = report.rows[0].killed.unwrap();
    assert!(killed.is_rt_limit(), "{killed:?}");
    let worst = report.worst.unwrap();
    assert_eq!((worst.has_ended, worst.killed), (false, Some(killed)));
    assert_eq!(worst.response_ns, us(55_000));
}

/// Returns the activation of a thread that has not slept since 500 us, at `end` (us).
fn never_slept(end: u64) -> UnfinishedActivation {
    UnfinishedActivation {
        woken: WokenBy::Interrupt,
        start_seen: false,
        ..unfinished(us(end), us(end - 500))
    }
}

#[test]
fn thread_that_never_sleeps_is_late_if_its_period_is_given() {
    let mut script = Script::new(1);
    let last = never_slept(90_500);
    script.push(500, ThreadHappening::Began(None));
    script.push(90_500, ThreadHappening::Left(Some(last)));

    let report = report(request_without_deadline(Some(CYCLE)), script.records);

    assert_eq!(report.held.overdue, 1);
    let unfinished = report.rows[0].unfinished.as_ref().unwrap();
    assert!(
        unfinished.never_slept && unfinished.overdue,
        "{unfinished:?}"
    );
    assert_eq!(unfinished.so_far_ns, us(90_000));
}

#[test]
fn misses_of_threads_without_a_row_are_in_the_verdict() {
    let mut records = cycles(1, FIFO, us(100));
    records.extend(cycles(2, ThreadPolicy::Other(0), us(700)));
    let request = AttachRequest {
        rows: 1,
        ..request()
    };

    let report = report(request, records);

    assert_eq!(report.rows.len(), 1);
    assert_eq!(report.held.activations, 2 * u64::from(CYCLES));
    assert_eq!(report.held.misses, u64::from(CYCLES));
}

#[test]
fn no_miss_has_an_upper_limit() {
    let report = report(request(), cycles(1, FIFO, us(100)));

    let deadline = report.rows[0].deadline.as_ref().unwrap();
    let (low, high) = deadline.expected.unwrap();
    assert_eq!((deadline.misses, low), (0, 0.0));
    // The rule of three: -ln(0.05).
    assert!((high - 3.0).abs() < 0.01, "{high}");
}

#[test]
fn cycle_that_is_overdue_at_the_end_is_counted_unless_its_thread_ended() {
    for (so_far, has_ended, overdue) in [(700, false, 1), (300, false, 0), (700, true, 0)] {
        let end = us(100_000);
        let last = Some(unfinished(end, us(so_far)));
        let last = if has_ended {
            ThreadHappening::Ended(last, ThreadExit::default())
        } else {
            ThreadHappening::Left(last)
        };
        let mut records = cycles(1, FIFO, us(100));
        records.push(record(1, FIFO, CYCLES, end, last));

        let report = report(request(), records);

        assert_eq!(
            (report.held.overdue, report.held.misses),
            (overdue, 0),
            "{so_far} us, ended: {has_ended}"
        );
        let unfinished = report.rows[0].unfinished.as_ref().unwrap();
        assert_eq!(unfinished.so_far_ns, us(so_far));
    }
}

/// A thread that others wake freely has a period for a few cycles now and then. A wait for an
/// event is not a late cycle then: there may be nothing to do.
#[test]
fn thread_that_waits_for_an_event_without_a_regular_period_is_not_overdue() {
    let overdue = |regular_from: u64| {
        let mut script = Script::new(1);
        let condition = wait("futex", 0x2000, 0x80, 0);
        let other = by_thread(5, "other");
        let mut due = 0;
        for round in 0..700 {
            due += if round >= regular_from {
                1_000
            } else {
                200 + round * round * 7_919 % 4_001
            };
            script.add(other, (due, due, due + 100), condition);
        }
        due += 1_000;
        script.add(other, (due, due, due + 100), wait("read", 3, 0, 1));
        script.push(due + 900_000, ThreadHappening::Left(None));
        report(request(), script.records).held.overdue
    };

    assert_eq!(overdue(680), 0);
    assert_eq!(overdue(0), 1);
}

/// A thread that another one controls with a pipe. If it continues at the old due times, a short wait
/// for the pipe delays its cycle, and cycles that are due in the wait.
#[test]
fn pause_until_a_command_comes_is_not_a_miss() {
    let misses = |length: u64, phase: u64, request: AttachRequest| {
        let mut script = Script::new(1);
        script.add_cycles(0..40, SLEEP_UNTIL);
        let pipe = wait("read", 3, 0, 1);
        script.add(TIMER, (40_000, 40_010, 40_050), pipe);
        let command = 40_050 + length;
        let last = (command, command + 10, command + 60);
        script.add(by_thread(5, "main"), last, SLEEP_UNTIL);
        let first = command / 1_000 + 1;
        for cycle in 0..40 {
            script.add_cycle(1_000 * (first + cycle) + phase, SLEEP_UNTIL);
        }
        let report = report(request, script.records);
        report.rows[0].deadline.as_ref().unwrap().misses
    };

    assert_eq!(misses(900_123, 300, request_without_deadline(None)), 0);
    assert_eq!(misses(7_123, 0, request_without_deadline(None)), 7);
    assert_eq!(misses(7_123, 300, request_without_deadline(None)), 0);
    assert_eq!(misses(900_123, 300, request()), 1);
}

/// A consumer that a producer wakes every 5 ms. In three of ten cycles it works for 7 ms, so that the
/// next item is there before it waits.
#[test]
fn thread_that_another_one_drives_keeps_its_deadline_if_it_is_often_late() {
    for (long, of) in [(1, 10), (2, 10), (3, 10), (4, 10)] {
        let mut script = Script::new(1);
        let condition = wait("futex", 0x2000, 0x89, 0);
        let (mut missed, mut item) = (0, 0_u64);
        while item < 600 {
            let due = 5_000 * item + item * 7_919 % 97;
            let is_long = item * 7 % of < long;
            let mut done = due + if is_long { 7_000 } else { 300 };
            missed += u64::from(done > due + 5_000);
            item += 1;
            if is_long {
                done += 300;
                item += 1;
            }
            script.add(by_thread(5, "producer"), (due, due + 20, done), condition);
        }

        let report = report(request_without_deadline(None), script.records);

        let deadline = report.rows[0].deadline.as_ref();
        let misses = deadline.map(|deadline| deadline.misses);
        assert_eq!(misses, Some(missed), "{long} of {of}");
    }
}

/// A producer whose times are 5 ms apart is up to 50 us late, in each fourth cycle up to 500 us. In
/// each 25th cycle the consumer works for 17 ms. Meanwhile three items arrive, which do not wake it.
/// Two of these are then late, too.
#[test]
fn cycles_of_an_inexact_producer_pass_while_the_consumer_works() {
    let mut script = Script::new(1);
    let condition = wait("futex", 0x2000, 0x89, 0);
    let mut item = 0_u64;
    while item < 600 {
        let jitter = if item.is_multiple_of(4) { 500 } else { 50 };
        let due = 5_000 * item + item * 7_919 % jitter;
        let is_long = item % 25 == 20;
        let done = due + if is_long { 17_000 } else { 1_000 };
        item += if is_long { 4 } else { 1 };
        script.add(by_thread(5, "producer"), (due, due + 20, done), condition);
    }

    let report = report(request_without_deadline(None), script.records);

    let deadline = report.rows[0].deadline.as_ref().unwrap();
    // Each third item is due 2 ms before the consumer waits again: it is in time.
    assert_eq!((deadline.misses, deadline.passed), (72, 48));
    // With half more work, the next item is late, too.
    let grown: Vec<u64> = deadline.grown.iter().map(|grown| grown.misses).collect();
    assert_eq!((grown, deadline.misses_of_half), (vec![72, 72, 96], 72));
}

/// A machine with too much load: in each third cycle of 5 ms the thread waits for a CPU for 200 ms.
#[test]
fn thread_that_is_nearly_always_late_has_all_of_its_misses() {
    let mut script = Script::new(1);
    let mut due = 0;
    for round in 0..20 {
        for length in [300, 300, 203_000 + 10 * round] {
            script.add(TIMER, (due, due + 20, due + length), SLEEP_UNTIL);
            due += length.next_multiple_of(5_000);
        }
    }

    let report = report(request_without_deadline(None), script.records);

    let deadline = report.rows[0].deadline.as_ref().unwrap();
    // The last due time in each of the spans is in time.
    assert_eq!((deadline.misses, deadline.passed), (20 * 40, 20 * 39));
}

/// Workers that wait for one condition variable. Each job wakes the next of them, or all of them.
#[test]
fn pool_has_no_implied_deadline_unless_each_event_wakes_all_of_its_threads() {
    let deadlines = |is_for_all: bool| {
        let condition = wait("futex", 0x2000, 0x89, 0);
        let mut workers = [1, 2, 3].map(Script::new);
        for job in 0..300 {
            let due = 5_000 * job;
            for (place, worker) in workers.iter_mut().enumerate() {
                if is_for_all || job % 3 == place as u64 {
                    let start = due + 10 * place as u64;
                    let times = (start, start, start + 300);
                    worker.add(by_thread(5, "driver"), times, condition);
                }
            }
        }
        let records = workers.into_iter().flat_map(|worker| worker.records);
        let report = report(request_without_deadline(None), records.collect());
        let rows = report.rows.iter();
        rows.filter(|row| row.deadline.is_some()).count()
    };

    assert_eq!(deadlines(false), 0);
    assert_eq!(deadlines(true), 3);
}

#[test]
fn margin_that_shrinks_is_a_trend() {
    // 100 cycles of 1 s. Each response is 1 us longer than the one before.
    let records = changed_cycles(1, FIFO, us(100), |cycle, activation| {
        let origin = Nanos::from_secs(cycle.into());
        (activation.origin, activation.due) = (origin, origin);
        starts_at_once(activation);
        activation.done = origin + us(100 + u64::from(cycle));
    });

    let shrinking = report(request(), records);
    let steady = report(request(), cycles(1, FIFO, us(100)));

    let course = shrinking.rows[0].course.as_ref().unwrap();
    assert_eq!(course.parts.len(), 8);
    assert!((85_000..=90_000).contains(&course.change_ns), "{course:?}");
    assert_eq!(shrinking.rows[0].trend(), Some(course));
    assert_eq!(steady.rows[0].trend(), None);
}

#[test]
fn period_that_is_given_is_the_deadline_and_periods_without_a_wake_are_counted() {
    let with_period = |period| {
        let mut records = cycles(1, FIFO, us(1_100));
        // The cycles before these two ran past them.
        records.remove(70);
        records.remove(30);
        report(request_without_deadline(Some(period)), records)
    };

    let right = with_period(CYCLE);
    let wrong = with_period(us(800));

    let row = &right.rows[0];
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!(deadline.source, DeadlineSource::GivenPeriod);
    assert_eq!((deadline.deadline_ns, deadline.misses), (CYCLE, 98));
    assert_eq!(row.asked.unwrap().without_wake, 2);
    assert_eq!(row.differing_period(), None);
    assert_eq!(wrong.rows[0].differing_period(), Some(CYCLE));
}

#[test]
fn step_has_the_figures_since_the_last_step_and_the_largest_so_far() {
    let mut collector = AttachCollector::new(AttachRequest {
        steps: true,
        ..request()
    });
    let mut records = changed_cycles(1, FIFO, us(700), |cycle, activation| {
        if cycle >= 90 {
            activation.done = activation.running + us(100);
        }
    });
    let mut late = records.split_off(90);

    collector.told(&mut records, Nanos::MAX);
    let first = collector.step();
    collector.told(&mut late, Nanos::MAX);
    let second = collector.step();

    assert_eq!(
        (first.len(), second.len(), collector.step().len()),
        (1, 1, 0)
    );
    assert_eq!((first[0].activations, second[0].activations), (90, 10));
    assert_eq!(second[0].largest, Some(us(100)));
    assert_eq!(second[0].largest_so_far, Some(us(700)));
    assert_eq!(second[0].misses, Some(90));
    assert_eq!(first[0].p99, None, "90 cycles are too few");
}

/// Ctrl-C ends a command that has not slept yet. After 2 s it is no longer starting: it computes.
#[test]
fn program_that_the_user_ends_while_it_starts_has_no_miss() {
    let overdue = |signal: u32, end: u64| {
        let mut script = Script::new(1);
        let last = never_slept(end);
        script.push(500, ThreadHappening::Began(None));
        let exit = ThreadExit {
            signal,
            ..ThreadExit::default()
        };
        script.push(end, ThreadHappening::Ended(Some(last), exit));
        report(request(), script.records).held.overdue
    };

    assert_eq!(overdue(2, 90_500), 0);
    assert_eq!(overdue(9, 90_500), 1);
    assert_eq!(overdue(2, 2_000_500), 1);
    // It exits.
    assert_eq!(overdue(0, 90_500), 0);
    assert_eq!(overdue(0, 2_000_500), 1);
}

/// A thread that exits after a late cycle, or in time after its last one. The exit of a process takes
/// longer, and is not a late cycle.
#[test]
fn last_cycle_of_a_thread_that_exits_late_is_a_miss() {
    let run = |end: u64, irregular: u64, is_process: bool| {
        let mut script = Script::new(1);
        for cycle in 0..20 {
            script.add_cycle(1_000 * cycle + cycle * cycle * irregular, SLEEP_UNTIL);
        }
        script.exit((40_000, 40_010, end));
        for told in script.records.iter_mut().filter(|_| is_process) {
            told.thread.process = told.thread.tid.0;
        }
        let report = report(request(), script.records);
        let row = &report.rows[0];
        let misses = row.deadline.as_ref().unwrap().misses;
        // The last cycle is counted, or is listed as one that did not end.
        assert_eq!(row.activations + u64::from(row.unfinished.is_some()), 21);
        (row.activations, misses)
    };

    assert_eq!(run(40_300, 0, false), (20, 0));
    assert_eq!(run(45_000, 0, false), (21, 1));
    assert_eq!(run(45_000, 0, true), (20, 0));
    // Without a period, it may have paused.
    assert_eq!(run(45_000, 37, false), (20, 0));
}

/// A server has a period for 10 requests now and then, but clients do not send them at fixed times.
/// A client that waits for each answer sends requests every 20 us.
#[test]
fn server_has_no_implied_deadline_and_no_period() {
    let deadline = |irregular: u64, usual: u64| {
        let mut script = Script::new(1);
        let (mut due, epoll) = (0, wait("epoll_wait", 5, 0, 0));
        for request in 0..600 {
            let is_irregular = request / 10 % 2 < irregular;
            due += if is_irregular {
                200 + request * request * 7_919 % 901
            } else {
                usual
            };
            script.add(WokenBy::Softirq(3), (due, due, due + usual / 3), epoll);
        }
        let report = report(request_without_deadline(None), script.records);
        let row = &report.rows[0];
        assert_eq!(row.period_ns.is_some(), row.deadline.is_some(), "{row:#?}");
        row.deadline.is_some()
    };

    assert!(deadline(0, 300));
    assert!(!deadline(1, 300));
    assert!(!deadline(0, 20));
}
