//! What `laggard attach` says of threads whose activations are known.

use laggard_answer::attach::{AttachAsked, AttachLost, AttachMeasured, AttachReport, Attended};
use laggard_model::{
    Address, Cpu, Host, Nanos, Symbols, ThreadActivation, ThreadHappening, ThreadName,
    ThreadPolicy, ThreadTold, Tid, UnfinishedActivation, WatchedThread, WokenBy,
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
            origin,
            waking: origin,
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

fn report(rows: usize, mut all: Vec<ThreadTold>) -> AttachReport {
    let asked = AttachAsked {
        deadline: Some(DEADLINE),
        application: None,
        rows,
    };
    let mut seen = Attended::new(asked.clone());
    seen.told(&mut all, Nanos::MAX);
    let measured = AttachMeasured {
        host: Host::default(),
        asked,
        from: Nanos::ZERO,
        to: Nanos::from_ns(u64::from(CYCLES) * CYCLE.ns()),
        threads: seen.threads() as u64,
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
    let report = report(
        9,
        cycles(1, ThreadPolicy::Fifo(80), Nanos::from_us(100)),
    );

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

#[test]
fn a_deadline_thread_may_end_jobs_unseen_which_is_said_and_no_miss() {
    let policy = ThreadPolicy::Deadline;
    let mut all = cycles(1, policy, Nanos::from_us(100));
    let unfinished = in_the_middle(Nanos::from_us(9_000));
    all.push(told(1, policy, CYCLES, ThreadHappening::Left(unfinished)));

    let report = report(9, all);

    assert_eq!(report.held.overdue, 0);
    let [caveat] = &report.caveats[..] else {
        panic!("{:?}", report.caveats);
    };
    assert!(caveat.what.contains("sched_yield"), "{}", caveat.what);
}
