//! Real faults, each for a short time, if this user may inject them.
//!
//! They run one after the other: two on one CPU would falsify each other's record.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use laggard_model::{Cpu, Nanos};
use laggard_workload::disturb::{DisturbError, Disturbance, FaultKind, Hit, run, run_telling};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn plan(kind: FaultKind) -> Disturbance {
    Disturbance {
        kind,
        length: Nanos::from_ms(4),
        every: Nanos::from_ms(40),
        cpu: Cpu(0),
        duration: Nanos::from_ms(300),
        victims: vec![],
    }
}

/// Returns the fault's hits, or `None` if this user or kernel does not permit it.
fn hits(plan: &Disturbance) -> Option<Vec<Hit>> {
    let _turn = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|turn| turn.into_inner());
    match run(plan, &AtomicBool::new(false)) {
        Ok(hits) => Some(hits),
        Err(err @ (DisturbError::Placement { .. } | DisturbError::Needs { .. })) => {
            eprintln!("skipped: {err}: {:?}", std::error::Error::source(&err));
            None
        }
        Err(err) => panic!("{err}"),
    }
}

#[test]
fn hits_are_in_order_and_at_least_as_long_as_requested() {
    for kind in [
        FaultKind::Thread,
        FaultKind::Queue,
        FaultKind::PageFault,
        FaultKind::Net,
        FaultKind::Softirq,
        FaultKind::Irq,
        FaultKind::IrqsOff,
    ] {
        let plan = plan(kind);
        let Some(hits) = hits(&plan) else { continue };

        assert!(!hits.is_empty(), "for {kind}");
        assert!(
            hits.iter().all(|hit| hit.length_ns >= plan.length),
            "for {kind}: {hits:?}"
        );
        assert!(
            hits.is_sorted_by(|hit, next| hit.start_ns + hit.length_ns <= next.start_ns),
            "for {kind}: {hits:?}"
        );
        assert!(
            hits.iter()
                .all(|hit| (hit.kind, hit.cpu) == (kind, plan.cpu)),
            "for {kind}: {hits:?}"
        );
    }
}

#[test]
fn waits_on_the_hidden_tick_end_on_that_tick() {
    let plan = Disturbance {
        every: Nanos::from_ms(1),
        ..plan(FaultKind::Tick)
    };
    let Some(hits) = hits(&plan) else { return };

    assert!(hits.len() > 30, "{hits:?}");
    for (number, hit) in (1..).zip(&hits) {
        let since_tick_half_ns = number * 2_000_000 % 1_953_125;
        let late_ns = (1_953_125 - since_tick_half_ns) % 1_953_125 / 2;
        assert!(
            hit.length_ns >= Nanos::from_ns(late_ns),
            "{number}: {hit:?}"
        );
    }
}

#[test]
fn hit_is_reported_when_it_is_over() {
    let _turn = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|turn| turn.into_inner());
    let hits_reported = Mutex::new(Vec::new());
    let tell = |hit: &Hit| hits_reported.lock().unwrap().push(*hit);

    let hits = run_telling(&plan(FaultKind::Queue), &AtomicBool::new(false), &tell).unwrap();

    let reported = hits_reported.into_inner().unwrap();
    assert!(!hits.is_empty());
    assert_eq!(hits, reported);
}

#[test]
fn long_system_call_is_recorded_with_its_real_length() {
    let Some(hits) = hits(&plan(FaultKind::PreemptOff)) else {
        return;
    };

    assert!(!hits.is_empty());
    assert!(
        hits.iter().all(|hit| hit.length_ns > Nanos::from_us(100)),
        "{hits:?}"
    );
}

#[test]
fn waiter_without_inheritance_waits_for_the_middle_thread_too() {
    let (plain, inherit) = (plan(FaultKind::Lock), plan(FaultKind::LockPi));
    let (Some(plain), Some(inherit)) = (hits(&plain), hits(&inherit)) else {
        return;
    };

    let shortest = |hits: &[Hit]| hits.iter().map(|hit| hit.length_ns).min().unwrap();
    assert!(shortest(&plain) > Nanos::from_ms(3), "{plain:?}");
    assert!(
        shortest(&inherit) < shortest(&plain),
        "{inherit:?} {plain:?}"
    );
}

#[test]
fn group_beyond_its_quota_is_throttled_and_removed() {
    let plan = Disturbance {
        length: Nanos::from_ms(36),
        duration: Nanos::from_secs(1),
        ..plan(FaultKind::Throttle)
    };
    let Some(hits) = hits(&plan) else { return };

    assert!(!hits.is_empty());
    for controller in ["cpu", "cpu,cpuacct", ""] {
        let group = format!("/sys/fs/cgroup/{controller}/laggard-{}", std::process::id());
        assert!(!Path::new(&group).exists(), "{group}");
    }
}

#[test]
fn fault_ends_when_stopped() {
    let _turn = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|turn| turn.into_inner());
    let stop = AtomicBool::new(false);
    let plan = Disturbance {
        duration: Nanos::from_secs(3600),
        ..plan(FaultKind::Queue)
    };

    let hits = run_telling(&plan, &stop, &|_| stop.store(true, Ordering::Relaxed));

    assert!(!hits.unwrap().is_empty());
}

#[test]
fn dangerous_plan_is_refused_before_any_change() {
    let plan = Disturbance {
        length: Nanos::from_secs(30),
        every: Nanos::from_secs(60),
        ..plan(FaultKind::Thread)
    };

    let err = run(&plan, &AtomicBool::new(false)).unwrap_err();

    assert!(err.to_string().contains("use at most"), "{err}");
}

#[test]
fn missing_cpu_is_named() {
    let plan = Disturbance {
        cpu: Cpu(8191),
        ..plan(FaultKind::Net)
    };

    let err = run(&plan, &AtomicBool::new(false)).unwrap_err();

    assert!(err.to_string().contains("CPU 8191"), "{err}");
}
