//! Threads that messages of another thread wake.

use laggard_answer::attach::{AttachCollector, AttachReport};
use laggard_model::{Nanos, ThreadTold};

use super::{
    POLL, SLEEP_UNTIL, Script, TIMER, by_thread, report, report_of, request_without_deadline, us,
    wait,
};

/// An event loop with a timer of 50 ms and messages every 10 ms. Each tenth callback of the timer takes
/// 30 ms: three messages arrive in it without a wakeup, and two of them are late.
#[test]
fn messages_that_arrive_during_a_callback_of_a_timer_count() {
    let mut script = Script::new(1);
    let mut free = 0;
    let mut due: Vec<(u64, bool)> = (1..500).map(|number| (10_000 * number, false)).collect();
    due.extend((0..100).map(|number| (14_000 + 50_000 * number, true)));
    due.sort_unstable();
    let mut callbacks = 0;
    for (time, is_timer) in due {
        if time < free {
            continue;
        }
        // With the work for the three messages.
        let length = match (is_timer, callbacks % 10) {
            (true, 5) => 30_600,
            (true, _) => 1_000,
            (false, _) => 200,
        };
        callbacks += u64::from(is_timer);
        let start = time + 10 + time / 10_000 * 7 % 40;
        free = start + length;
        let woken = if is_timer {
            TIMER
        } else {
            by_thread(7, "sensor")
        };
        let time = if is_timer { time } else { start };
        script.add(woken, (time, start, free), POLL);
    }

    let report = report(request_without_deadline(None), script.records);

    let mut rows = report.rows.iter();
    let row = rows.find(|row| row.woken_by == "thread").unwrap();
    let deadline = row.deadline.as_ref().unwrap();
    assert_eq!(deadline.misses, 2 * 10);
    assert!(row.activations.abs_diff(499) <= 1, "{}", row.activations);
    let largest = row.response.unwrap().largest_ns;
    assert!(largest > us(23_000) && largest < us(27_000), "{largest:?}");
}

/// Bursts of messages at equal intervals, and series of many messages.
#[test]
fn short_bursts_of_messages_have_no_period() {
    let deadline = |length: u64| {
        let mut script = Script::new(1);
        let read = wait("read", 5, 0, 0);
        for message in 0..1_200 {
            let due = message / length * 100_000 + message * 400 + message % 3 * 10;
            script.add(by_thread(7, "net"), (due, due + 5, due + 90), read);
        }
        let report = report(request_without_deadline(None), script.records);
        let row = &report.rows[0];
        assert_eq!(row.period_ns.is_some(), row.deadline.is_some(), "{row:#?}");
        row.deadline.is_some()
    };

    assert!(!deadline(5));
    assert!(!deadline(12));
    assert!(deadline(100));
}

/// Returns the report of a worker that a scheduler wakes every 10 ms. The records come every 100 ms.
fn worker_with_a_late_cycle(late: u64) -> AttachReport {
    let (mut worker, mut scheduler) = (Script::new(1), Script::new(2));
    let queue = wait("mq_timedreceive", 3, 0, 0);
    for cycle in 0..300 {
        let due = 10_000 * cycle;
        scheduler.add_cycle(due, SLEEP_UNTIL);
        let start = due + 50 + cycle * 7_919 % 40;
        // The next message arrives in a late cycle.
        let length = if cycle == late { 13_300 } else { 300 };
        if cycle != late + 1 {
            worker.add(
                by_thread(1_002, "cycle"),
                (start, start, start + length),
                queue,
            );
        }
    }
    let records = worker.records.into_iter().chain(scheduler.records);
    let records: Vec<ThreadTold> = records.collect();
    let request = request_without_deadline(None);
    let mut collector = AttachCollector::new(request.clone());
    for look in 1..=30 {
        let (from, to) = (us(100_000 * (look - 1)), us(100_000 * look));
        let new = |record: &&ThreadTold| (from..to).contains(&record.at);
        let mut new: Vec<ThreadTold> = records.iter().filter(new).copied().collect();
        collector.told(&mut new, to);
    }
    collector.told(&mut Vec::new(), Nanos::MAX);
    report_of(collector, request, us(3_000_000))
}

#[test]
fn cycles_before_the_waker_is_known_are_compared() {
    for late in [10, 40, 60, 90] {
        let report = worker_with_a_late_cycle(late);

        assert_eq!(report.held.misses, 1, "{late}");
        let worst = report.worst.unwrap();
        assert_eq!((worst.number, worst.response_ns), (1, us(13_000)), "{late}");
    }
}
