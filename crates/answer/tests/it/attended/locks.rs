//! Locks within a cycle, and their holders.

use laggard_answer::attach::{
    AttachCauseKind, AttachRequest, AttachTaken, CycleChoice, HolderState, WaitKind,
};
use laggard_model::{CauseClass, Cpu, Evidence, Happening, Nanos, ThreadTold, Tid};

use super::{
    NoNames, SLEEP_UNTIL, Script, TIMER, Wait, by_thread, collector, explained_report, hogs,
    report, request, switch, us, wait,
};

/// 20 cycles of 1 ms. In each, the thread waits 300 us for a lock that `holder` releases.
fn cycles_with_a_lock(lock: Wait, to: u64, holder: &str) -> Vec<ThreadTold> {
    let mut script = Script::new(1);
    for cycle in 0..20 {
        let due = 1_000 * cycle;
        script.add(TIMER, (due, due + 10, due + to), lock);
        let back = (due + 600, due + 600, due + 700);
        script.add(by_thread(5, holder), back, SLEEP_UNTIL);
    }
    script.records
}

pub(super) fn cycles_with_a_mutex() -> Vec<ThreadTold> {
    const MUTEX_CONTENDED: u32 = 2;
    cycles_with_a_lock(wait("futex", 0x1000, 0x80, MUTEX_CONTENDED), 300, "logger")
}

#[test]
fn wait_for_a_lock_is_part_of_the_cycle() {
    let report = report(request(), cycles_with_a_mutex());

    let row = &report.rows[0];
    assert_eq!((report.rows.len(), row.activations), (1, 20));
    assert_eq!(row.woken_by, "timer");
    assert_eq!(row.deadline.as_ref().unwrap().misses, 20);
    assert_eq!((row.sleeps, row.slept_ns), (20, us(6_000)));
    let home = row.home.as_ref().unwrap();
    assert_eq!(home.kind, WaitKind::SleepUntil);
    assert_eq!(home.call.as_deref(), Some("clock_nanosleep"));
    assert_eq!(home.clock.as_deref(), Some("CLOCK_MONOTONIC"));
    assert_eq!(home.descriptor, None);
}

#[test]
fn time_of_a_lock_names_its_holder() {
    let chosen = collector(&request(), cycles_with_a_mutex()).choose();

    let parts = chosen[0].taken(hogs, &mut NoNames::default());

    let mut locks = parts.iter();
    let lock = locks.find(|part| part.cause.class == CauseClass::Lock);
    let lock = lock.unwrap_or_else(|| panic!("{parts:?}"));
    assert_eq!(lock.time_ns, us(300));
    let AttachCauseKind::Lock {
        is_mutex: true,
        holder: Some(holder),
        ..
    } = &lock.cause.kind
    else {
        panic!("{lock:?}");
    };
    assert_eq!(holder, "logger");
    let sum = parts.iter().map(|part| part.time_ns.ns()).sum::<u64>();
    assert_eq!(sum, chosen[0].activation().response().ns());
}

/// 20 cycles of 1 ms. In each, the thread waits 300 us for a condition variable until a timeout, but in
/// each of `released` cycles until another thread signals it.
fn cycles_with_timeouts(released: Option<u64>) -> Vec<ThreadTold> {
    let mut script = Script::new(1);
    for cycle in 0..20 {
        let due = 1_000 * cycle;
        let condition = wait("futex", 0x1000, 0x189, 0);
        script.add(TIMER, (due, due + 10, due + 300), condition);
        let is_released = released.is_some_and(|each| cycle.is_multiple_of(each));
        let end = if is_released {
            by_thread(5, "python3")
        } else {
            TIMER
        };
        script.add(end, (due + 600, due + 600, due + 700), SLEEP_UNTIL);
    }
    script.records
}

/// An interpreter waits for its lock with a timeout, and finds it free after the timeout in most cycles.
#[test]
fn timeout_of_a_wait_for_a_lock_is_no_sleep() {
    let holders = |released: Option<u64>, others: &[ThreadTold], running: u32| {
        let request = AttachRequest {
            cycle: CycleChoice::Call {
                name: "clock_nanosleep".into(),
                descriptor: None,
            },
            ..request()
        };
        let mut records = cycles_with_timeouts(released);
        records.extend_from_slice(others);
        let mut chosen = collector(&request, records).choose();
        chosen.retain(|cycle| cycle.thread().tid == Tid(1_001));
        let holder = |part: &AttachTaken| match &part.cause.kind {
            AttachCauseKind::Lock { holder, .. } => holder.clone(),
            AttachCauseKind::Sleep { .. } => Some("sleep".into()),
            _ => None,
        };
        let evidence = |cpu: Cpu, from: Nanos, to: Nanos| Evidence {
            events: vec![switch(from, running, "python3")],
            ..hogs(cpu, from, to)
        };
        let taken = chosen
            .iter()
            .flat_map(|cycle| cycle.taken(evidence, &mut NoNames::default()));
        taken.filter_map(|part| holder(&part)).collect::<Vec<_>>()
    };

    // Another thread waits there until the first one releases it.
    let mut other = Script::new(2);
    for cycle in 0..20 {
        let released = 1_000 * cycle + 700;
        let times = (released, released, released + 300);
        other.add(
            by_thread(1_001, "cycle"),
            times,
            wait("futex", 0x1000, 0x189, 0),
        );
    }

    assert_eq!(holders(Some(4), &[], 5), ["python3"; 20]);
    assert_eq!(holders(None, &[], 5), ["sleep"; 20]);
    assert_eq!(holders(None, &other.records, 1_002), ["cycle"; 20]);
    // If the usual holder did not run, it is not known whether it held the lock.
    let unsure = holders(Some(4), &[], 6);
    let is_named = |holder: &&String| *holder == "python3";
    assert_eq!(unsure.iter().filter(is_named).count(), 5);
}

/// A lock of a file is not a mutex: priority inheritance is not a remedy.
#[test]
fn lock_of_a_file_names_its_call_and_holder() {
    let records = cycles_with_a_lock(wait("flock", 3, 2, 0), 100, "backup");
    let chosen = collector(&request(), records).choose();

    let parts = chosen[0].taken(hogs, &mut NoNames::default());

    let AttachCauseKind::Lock {
        is_mutex: false,
        site: Some(site),
        holder: Some(holder),
        ..
    } = &parts[0].cause.kind
    else {
        panic!("{parts:?}");
    };
    assert_eq!(
        (site.call.as_deref(), site.descriptor, holder.as_str()),
        (Some("flock"), Some(3), "backup")
    );
}

/// The holder of the lock is woken at 300 us, and another thread has its CPU until 600 us.
fn cycles_with_a_preempted_holder() -> Vec<ThreadTold> {
    let mut records = cycles_with_a_mutex();
    let mut holder = Script::new(2);
    for cycle in 0..20 {
        let woken = 1_000 * cycle + 310;
        holder.add_changed(
            TIMER,
            (woken, woken + 280, woken + 290),
            SLEEP_UNTIL,
            |activation| activation.waking = us(woken),
        );
    }
    for record in &mut holder.records {
        record.thread.tid = Tid(5);
    }
    records.extend(holder.records);
    records
}

#[test]
fn holder_that_is_kept_off_its_cpu_is_not_asleep() {
    let chosen = collector(&request(), cycles_with_a_preempted_holder()).choose();
    let evidence = |cpu: Cpu, from: Nanos, to: Nanos| Evidence {
        events: vec![switch(from, 9, "vision")],
        ..hogs(cpu, from, to)
    };

    let mut waiting = chosen.iter();
    let waiting = waiting.find(|cycle| cycle.thread().tid == Tid(1_001));
    let parts = waiting.unwrap().taken(evidence, &mut NoNames::default());

    let states = parts.iter().filter_map(|part| match &part.cause.kind {
        AttachCauseKind::Lock { state, .. } => Some((state.clone().unwrap(), part.time_ns)),
        _ => None,
    });
    let preempted = HolderState::Preempted("vision".into());
    assert_eq!(
        states.collect::<Vec<_>>(),
        [(preempted, us(280)), (HolderState::OffCpu, us(20))]
    );
}

/// Different threads preempt the holder in 20 cycles.
#[test]
fn lock_is_one_cause_whatever_its_holder_did() {
    let mut collector = collector(&request(), cycles_with_a_preempted_holder());
    let chosen = collector.choose();
    let chosen = chosen
        .iter()
        .filter(|cycle| cycle.thread().tid == Tid(1_001));
    for (number, cycle) in chosen.enumerate() {
        let name = if number % 4 == 0 { "rustc" } else { "vision" };
        let evidence = |cpu: Cpu, from: Nanos, to: Nanos| Evidence {
            events: vec![switch(from, 9, name)],
            ..hogs(cpu, from, to)
        };
        let parts = cycle.taken(evidence, &mut NoNames::default());
        collector.explain(cycle, &parts);
    }

    let report = explained_report(collector);

    let deadline = report.rows[0].deadline.as_ref().unwrap();
    let locks = deadline.taken.iter();
    let locks: Vec<_> = locks
        .filter(|late| late.taken.cause.class == CauseClass::Lock)
        .collect();
    let [lock] = locks.as_slice() else {
        panic!("{locks:?}");
    };
    let times: Vec<_> = lock
        .holder_states
        .iter()
        .map(|held| (&held.state, held.time_ns))
        .collect();
    let preempted = |name: &str| HolderState::Preempted(name.into());
    let cycles = lock.activations;
    assert!(cycles >= 8, "{lock:?}");
    let rustc = cycles.div_ceil(4);
    assert_eq!(
        times,
        [
            (&preempted("vision"), us(280 * (cycles - rustc))),
            (&preempted("rustc"), us(280 * rustc)),
            (&HolderState::OffCpu, us(20 * cycles)),
        ]
    );
    assert_eq!(report.causes[0].late.holder_states, lock.holder_states);
}

#[test]
fn each_sleep_ends_a_unit_if_the_user_wants_that() {
    let request = AttachRequest {
        cycle: CycleChoice::Wake,
        ..request()
    };

    let report = report(request, cycles_with_a_mutex());

    assert_eq!(report.rows.len(), 2);
    assert_eq!(report.held.misses, 0);
}

/// 20 cycles of 1 ms with a wait of 300 us until its timeout, and then 100 us for a lock.
fn cycles_with_a_timed_wait(object: u64) -> Vec<ThreadTold> {
    const WAIT_BITSET: u64 = 0x89;
    let mut script = Script::new(1);
    for cycle in 0..20 {
        let due = 1_000 * cycle;
        let timed = wait("futex", 0x1000, WAIT_BITSET, 0);
        script.add(TIMER, (due, due + 10, due + 300), timed);
        let expired = (due + 600, due + 600, due + 610);
        script.add(TIMER, expired, wait("futex", object, WAIT_BITSET, 0));
        let back = (due + 710, due + 710, due + 720);
        script.add(by_thread(5, "logger"), back, SLEEP_UNTIL);
    }
    script.records
}

/// Java's `Thread.sleep` and Python's `Event.wait` wait for a condition variable with a timeout.
#[test]
fn timed_wait_that_expired_is_a_sleep_unless_the_thread_waits_again() {
    let longest = |object| {
        let chosen = collector(&request(), cycles_with_a_timed_wait(object)).choose();
        let parts = chosen[0].taken(hogs, &mut NoNames::default());
        parts.into_iter().next().unwrap()
    };

    let sleep = longest(0x9000);
    let call = Some("futex".to_owned());
    assert_eq!(sleep.cause.kind, AttachCauseKind::Sleep { call });
    assert_eq!(sleep.time_ns, us(300));
    // The GIL of Python: the thread waits until the holder releases it.
    let lock = longest(0x1004);
    assert_eq!(
        (lock.cause.class, lock.time_ns),
        (CauseClass::Lock, us(400))
    );
}

#[test]
fn idle_thread_does_not_preempt_the_holder() {
    let chosen = collector(&request(), cycles_with_a_mutex()).choose();
    let evidence = |cpu: Cpu, from: Nanos, to: Nanos| {
        let mut idle = switch(from + us(500), 0, "swapper/1");
        if let Happening::Switch {
            before, preempted, ..
        } = &mut idle.what
        {
            (*before, *preempted) = (Some(Tid(5)), true);
        }
        Evidence {
            events: vec![switch(from, 5, "logger"), idle],
            ..hogs(cpu, from, to)
        }
    };

    let parts = chosen[0].taken(evidence, &mut NoNames::default());

    let states = parts.iter().filter_map(|part| match &part.cause.kind {
        AttachCauseKind::Lock { state, .. } => state.clone(),
        _ => None,
    });
    let states: Vec<HolderState> = states.collect();
    assert!(states.contains(&HolderState::OffCpu), "{states:?}");
    let is_preempted = |state: &HolderState| matches!(state, HolderState::Preempted(_));
    assert!(!states.iter().any(is_preempted), "{states:?}");
}
