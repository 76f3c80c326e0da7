//! What `laggard attach` says of threads whose activations are known.

use laggard_answer::attach::{
    AttachAsked, AttachLost, AttachMeasured, AttachReport, AttachTaken, Attended,
};
use laggard_model::{
    Address, Cpu, Evidence, FlightEvent, Happening, Host, Names, Nanos, Symbols, ThreadActivation,
    ThreadHappening, ThreadName, ThreadPolicy, ThreadTold, Tid, UnfinishedActivation,
    WatchedThread, WokenBy,
};

const CYCLE: Nanos = Nanos::from_us(1_000);
const DEADLINE: Nanos = Nanos::from_us(500);
const CYCLES: u32 = 100;

fn told(number: u32, policy: ThreadPolicy, sequence: u32, what: ThreadHappening) -> ThreadTold {
    ThreadTold {
        thread: WatchedThread {
            number,
            tid: Tid(1_000 + number),
            process: 1_000,
            name: ThreadName(*b"cycle\0\0\0\0\0\0\0\0\0\0\0"),
            policy,
            merged: 0,
            unseen: 0,
            stopped: 0,
        },
        sequence,
        at: Nanos::from_ns(u64::from(sequence) * CYCLE.ns()),
        what,
    }
}

/// A thread that takes so long in each of its cycles.
fn cycles(number: u32, policy: ThreadPolicy, response: Nanos) -> Vec<ThreadTold> {
    let one = |cycle: u32| {
        let origin = Nanos::from_ns(u64::from(cycle) * CYCLE.ns());
        let done = ThreadHappening::Done(ThreadActivation {
            woken: WokenBy::Timer(Address(1)),
            wake_seen: true,
            run_seen: true,
            origin,
            due: origin,
            waking: origin,
            waker_cpu: Cpu(0),
            arrived: None,
            left_cpu: None,
            first_cpu: Cpu(0),
            running: origin,
            done: origin + response,
            preempted: Nanos::ZERO,
            blocked: Nanos::ZERO,
            preemptions: 0,
            migrations: 0,
            blocks: 0,
            cpu: Cpu(0),
        });
        told(number, policy, cycle, done)
    };
    (0..CYCLES).map(one).collect()
}

/// In an activation that was due so long before the end.
fn in_the_middle(so_far: Nanos) -> Option<UnfinishedActivation> {
    let at = Nanos::from_ns(u64::from(CYCLES) * CYCLE.ns());
    Some(UnfinishedActivation {
        woken: WokenBy::Timer(Address(1)),
        origin: at.saturating_sub(so_far),
        running: Some(at.saturating_sub(so_far)),
    })
}

/// One of a thread that is `fifo:80`, which was due 1 ms after the beginning.
fn one(change: impl Fn(&mut ThreadActivation)) -> ThreadActivation {
    let origin = CYCLE;
    let mut one = ThreadActivation {
        woken: WokenBy::Timer(Address(1)),
        wake_seen: true,
        run_seen: true,
        origin,
        due: origin,
        waking: origin + Nanos::from_us(5),
        waker_cpu: Cpu(0),
        arrived: None,
        left_cpu: None,
        running: origin + Nanos::from_us(700),
        first_cpu: Cpu(0),
        done: origin + Nanos::from_us(800),
        preempted: Nanos::ZERO,
        blocked: Nanos::ZERO,
        preemptions: 0,
        migrations: 0,
        blocks: 0,
        cpu: Cpu(0),
    };
    change(&mut one);
    one
}

/// A more urgent thread has CPU 0 until the one that was woken runs, and another CPU 1.
fn evidence(cpu: Cpu, from: Nanos, to: Nanos) -> Evidence {
    let switch = |at_us: u64, tid: u32, name: &str, priority: i16| FlightEvent {
        at_ns: (CYCLE + Nanos::from_us(at_us)).saturating_sub(Nanos::from_us(500)),
        what: Happening::Switch {
            tid: Tid(tid),
            name: name.into(),
            priority,
            priority_before: None,
            before: None,
            preempted: false,
        },
    };
    let mut events = vec![switch(0, 8, "other", 9)];
    if cpu == Cpu(0) {
        events = vec![switch(0, 7, "hog", 9), switch(1_198, 1_001, "cycle", 19)];
    }
    Evidence {
        from_ns: from,
        to_ns: to,
        events,
        ..Evidence::default()
    }
}

fn taken(change: impl Fn(&mut ThreadActivation)) -> Vec<(String, u64)> {
    let activation = one(change);
    let mut seen = Attended::new(AttachAsked {
        deadline: Some(DEADLINE),
        application: None,
        rows: 9,
    });
    let done = ThreadHappening::Done(activation);
    let mut all = vec![told(1, ThreadPolicy::Fifo(80), 0, done)];
    seen.told(&mut all, Nanos::MAX);
    let chosen = seen.choose(9);
    assert_eq!(chosen.len(), 1);
    let found = chosen[0].taken(evidence, &mut NoNames::default());
    let sum: u64 = found.iter().map(|part| part.time_ns.ns()).sum();
    assert_eq!(sum, activation.response().ns(), "{found:?}");
    seen.explain(&chosen[0], &found);
    let report = measured(seen, 9);
    let deadline = report.rows[0].deadline.as_ref().unwrap();
    assert_eq!(deadline.explained, 1);
    assert_eq!(deadline.taken.len(), found.len());
    let largest = report.rows[0].largest_response.as_ref().unwrap();
    assert_eq!(largest.taken, found);
    let us = |part: AttachTaken| (part.what, part.time_ns.ns() / 1_000);
    found.into_iter().map(us).collect()
}

#[derive(Debug, Default)]
struct NoNames(Symbols);

impl Names for NoNames {
    fn learn_stack(&mut self, _: &[Address]) {}
    fn learn_thread(&mut self, _: Tid) {}
    fn symbols(&self) -> &Symbols {
        &self.0
    }
}

#[test]
fn all_time_from_when_it_was_due_until_it_is_done_is_somebodys() {
    let found = taken(|_| ());

    assert_eq!(
        found[..2],
        [
            ("higher-priority thread: hog".to_owned(), 693),
            ("its own work".to_owned(), 100)
        ]
    );
}

#[test]
fn of_wakes_that_were_not_seen_it_is_said_from_where_they_count() {
    let mut all = cycles(1, ThreadPolicy::Fifo(80), Nanos::from_us(100));
    for one in all.iter_mut().take(7) {
        if let ThreadHappening::Done(activation) = &mut one.what {
            activation.wake_seen = false;
        }
    }

    let report = report(9, all);

    assert_eq!(report.rows[0].inferred, 7);
    assert_eq!(report.rows[0].activations, u64::from(CYCLES));
    let said = report.sentences.join(" ");
    assert!(said.contains("the wakes of 7 were not seen"), "{said}");
}

#[test]
fn slack_that_a_timer_was_given_is_nobody_elses_doing() {
    let found = taken(|one| {
        one.due = one.origin + Nanos::from_us(50);
        one.waking = one.due + Nanos::from_us(5);
    });

    assert_eq!(found[0].1, 643, "{found:?}");
    assert!(
        found.contains(&("its timer's slack".to_owned(), 50)),
        "{found:?}"
    );
}

#[test]
fn who_has_a_cpu_that_it_only_came_to_later_is_not_blamed_for_before() {
    let moved = |left: Option<Cpu>| {
        taken(move |one: &mut ThreadActivation| {
            one.waker_cpu = Cpu(1);
            one.arrived = Some(one.origin + Nanos::from_us(500));
            one.left_cpu = left;
        })
    };
    let part = |what: &str, us: u64| (what.to_owned(), us);
    let hog = part("higher-priority thread: hog", 198);

    let on_several = moved(None);
    let on_one = moved(Some(Cpu(1)));

    let unknown = "waiting on another CPU than the one it came to";
    assert_eq!(on_several[..2], [part(unknown, 495), hog.clone()]);
    let other = part("higher-priority thread: other", 495);
    assert_eq!(on_one[..2], [other, hog]);
}

#[test]
fn what_it_waited_for_is_told_apart_from_its_work() {
    let found = taken(|one| {
        one.blocks = 1;
        one.blocked = Nanos::from_us(40);
        one.preempted = Nanos::from_us(10);
    });

    for part in [
        ("its own work", 50),
        ("held up in the kernel", 40),
        ("other threads had its CPU", 10),
    ] {
        assert!(found.contains(&(part.0.to_owned(), part.1)), "{found:?}");
    }
}

#[test]
fn of_many_that_are_late_the_real_time_ones_and_the_largest_are_looked_at() {
    let mut all = cycles(1, ThreadPolicy::Other(0), Nanos::from_us(900));
    all.extend(cycles(2, ThreadPolicy::Fifo(80), Nanos::from_us(700)));
    all.extend(cycles(3, ThreadPolicy::Fifo(80), Nanos::from_us(100)));
    let mut seen = Attended::new(AttachAsked {
        deadline: Some(DEADLINE),
        application: None,
        rows: 9,
    });
    seen.told(&mut all, Nanos::MAX);

    let chosen = seen.choose(10);

    assert_eq!(chosen.len(), 10);
    for one in &chosen {
        let found = one.taken(evidence, &mut NoNames::default());
        seen.explain(one, &found);
    }
    assert_eq!(seen.choose(10).len(), 0, "they were for one time");
    let report = measured(seen, 9);
    let explained = |name: u32| {
        let mut rows = report.rows.iter();
        let row = rows.find(|row| row.number == name).unwrap();
        row.deadline.as_ref().unwrap().explained
    };
    assert_eq!([explained(1), explained(2), explained(3)], [0, 10, 0]);
    let said = report.sentences.join(" ");
    assert!(
        said.contains("the time of 10 of the 100 that ended later"),
        "{said}"
    );
}

#[test]
fn a_period_that_changes_is_told() {
    let policy = ThreadPolicy::Fifo(80);
    let mut all = cycles(1, policy, Nanos::from_us(100));
    for (number, one) in all.iter_mut().enumerate().skip(50) {
        if let ThreadHappening::Done(activation) = &mut one.what {
            let more = Nanos::from_us(500 * (number as u64 - 50));
            for instant in [
                &mut activation.origin,
                &mut activation.due,
                &mut activation.waking,
                &mut activation.running,
                &mut activation.done,
            ] {
                *instant += more;
            }
        }
    }

    let report = report(9, all);

    let row = &report.rows[0];
    assert_eq!(row.period_ns, Some(CYCLE));
    assert_eq!(row.later_period_ns, Some(Nanos::from_us(1_500)));
    let said = report.sentences.join(" ");
    assert!(
        said.contains("1.00 ms at first and 1.50 ms at the end"),
        "{said}"
    );
}

fn report(rows: usize, mut all: Vec<ThreadTold>) -> AttachReport {
    let asked = AttachAsked {
        deadline: Some(DEADLINE),
        application: None,
        rows,
    };
    let mut seen = Attended::new(asked);
    seen.told(&mut all, Nanos::MAX);
    measured(seen, rows)
}

fn measured(seen: Attended, rows: usize) -> AttachReport {
    let measured = AttachMeasured {
        host: Host::default(),
        asked: AttachAsked {
            deadline: Some(DEADLINE),
            application: None,
            rows,
        },
        from: Nanos::ZERO,
        to: Nanos::from_ns(u64::from(CYCLES) * CYCLE.ns()),
        threads: seen.threads() as u64,
        ended: 0,
        lost: AttachLost::default(),
        caveats: Vec::new(),
    };
    seen.report(&measured, &Symbols::default())
}

#[test]
fn misses_of_threads_without_a_row_are_in_the_verdict() {
    let mut all = cycles(1, ThreadPolicy::Fifo(80), Nanos::from_us(100));
    all.extend(cycles(2, ThreadPolicy::Other(0), Nanos::from_us(700)));

    let report = report(1, all);

    assert_eq!(report.rows.len(), 1);
    assert_eq!(report.held.activations, 2 * u64::from(CYCLES));
    assert_eq!(report.held.misses, u64::from(CYCLES));
}

#[test]
fn none_that_missed_is_told_with_an_upper_limit() {
    let report = report(9, cycles(1, ThreadPolicy::Fifo(80), Nanos::from_us(100)));

    // The rule of three: -ln(0.05).
    let said = &report.sentences[0];
    assert!(said.contains("0 of 100 ended later"), "{said}");
    assert!(said.contains("3.0 at most (95 %)"), "{said}");
}

#[test]
fn one_that_is_overdue_at_the_end_is_counted_unless_its_thread_ended() {
    for (so_far, ended, overdue) in [(700, false, 1), (300, false, 0), (700, true, 0)] {
        let unfinished = in_the_middle(Nanos::from_us(so_far));
        let policy = ThreadPolicy::Fifo(80);
        let mut all = cycles(1, policy, Nanos::from_us(100));
        let last = match ended {
            true => ThreadHappening::Ended(unfinished),
            false => ThreadHappening::Left(unfinished),
        };
        all.push(told(1, policy, CYCLES, last));

        let report = report(9, all);

        assert_eq!(report.held.overdue, overdue, "{so_far} us, ended: {ended}");
        assert_eq!(report.held.misses, 0, "{so_far} us, ended: {ended}");
        let said = report.sentences.join(" ");
        let when = match ended {
            true => "when the thread ended, one",
            false => "when watching ended, one",
        };
        assert!(said.contains(when), "{said}");
    }
}
