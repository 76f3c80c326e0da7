//! Injects faults while the probe measures: the faults are observed at the stage that they belong
//! to. Uses only lower bounds, because this machine may be late for other reasons.
//!
//! Needs root, BPF, and a CPU 1; without them each test is skipped, with a
//! word why.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use laggard_analyze::period::{TickSearch, find_tick};
use laggard_measure::linux::{BackendChoice, HandlerCounter, LinuxProbe, online_cpus};
use laggard_measure::{Probe, Request};
use laggard_model::{Activation, Activity, Batch, Cpu, Every, HandlerCount, Nanos, Service, Stage};
use laggard_workload::disturb::{DisturbError, Disturbance, FaultKind, Hit, run};

/// Two faults at once would make each other's truth false.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const CPU: Cpu = Cpu(1);
const LENGTH: Nanos = Nanos::from_ms(7);
const LATE: Nanos = Nanos::from_ms(5);
const HALF: Nanos = Nanos::from_us(3_500);
const PERIOD: Nanos = Nanos::from_ms(1);

struct Measurement {
    hits: Vec<Hit>,
    activations: Vec<Activation>,
}

fn plan(kind: FaultKind) -> Disturbance {
    Disturbance {
        kind,
        length: LENGTH,
        every: Nanos::from_ms(100),
        cpu: CPU,
        duration: Nanos::from_secs(4),
        victims: vec![],
    }
}

/// Measures fifo:90 under `kind`, or says why that is not possible.
fn measure_under(kind: FaultKind) -> Option<Measurement> {
    let _turn = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|turn| turn.into_inner());
    let skip = |why: &dyn std::fmt::Display| println!("skipped: {why}");
    if !online_cpus().contains(CPU) {
        skip(&"there is no CPU 1");
        return None;
    }
    let request = Request {
        cpus: [CPU].into_iter().collect(),
        services: vec![Service::Fifo(90)],
        optional: Vec::new(),
        period: PERIOD,
        every: Every::default(),
        dither: true,
        seed: 1,
        drive: laggard_measure::Drive::Timer,
        stages: None,
        contexts: None,
    };
    let mut probe = LinuxProbe::new(request, BackendChoice::Bpf)
        .map_err(|err| skip(&err))
        .ok()?;
    let mut batch = Batch::default();
    probe.start().unwrap();
    let hits = thread::scope(|scope| {
        let fault = scope.spawn(|| run(&plan(kind), &AtomicBool::new(false)));
        while !fault.is_finished() {
            probe.pause(Duration::from_millis(20));
            probe.drain(&mut batch);
        }
        fault.join().unwrap()
    });
    probe.pause(Duration::from_millis(50));
    probe.stop();
    probe.drain(&mut batch);
    match hits {
        Ok(hits) => Some(Measurement {
            hits,
            activations: batch.iter().collect(),
        }),
        Err(err @ (DisturbError::Placement { .. } | DisturbError::Needs { .. })) => {
            skip(&err);
            None
        }
        Err(err) => panic!("{err}"),
    }
}

impl Measurement {
    /// Counts hits with a wakeup that was due up to `before` them, or in them, if `holds` is true
    /// for the wakeup.
    fn hits_with(&self, before: Nanos, holds: impl Fn(&Activation) -> bool) -> usize {
        self.hits
            .iter()
            .filter(|hit| {
                let window = hit.start_ns.saturating_sub(before)..hit.start_ns + hit.length_ns;
                self.activations
                    .iter()
                    .any(|activation| window.contains(&activation.expiry) && holds(activation))
            })
            .count()
    }
}

/// Checks that most hits delayed a thread, and that most wakeups due in a hit were delayed before
/// `stage`. Wakeups in progress at the start of the hit are late elsewhere.
fn most_hits_delay(kind: FaultKind, stage: Stage) {
    let Some(measured) = measure_under(kind) else {
        return;
    };

    let hits = measured.hits.len();
    assert!(hits >= 10, "{kind}: {:?}", measured.hits);
    assert!(measured.hits.iter().all(|hit| hit.length_ns >= LENGTH));
    let late_hits = measured.hits_with(PERIOD, |activation| activation.latency() > LATE);
    assert!(late_hits > hits / 2, "{kind}: {late_hits} of {hits}");
    let is_late = |activation: &Activation| !activation.missed && activation.latency() > LATE;
    let due = measured.hits_with(Nanos::ZERO, is_late);
    let delayed = measured.hits_with(Nanos::ZERO, |activation| {
        is_late(activation) && activation.steps[stage.index()].is_some_and(|step| step > LATE)
    });
    assert!(
        due > 0 && delayed > due / 2,
        "{kind}: {delayed} of {due} before {stage}"
    );
    println!("{kind}: {late_hits} of {hits} found, {delayed} of {due} late before {stage}");
}

#[test]
fn a_long_softirq_keeps_a_thread_that_was_woken_from_running() {
    most_hits_delay(FaultKind::Softirq, Stage::Running);
}

#[test]
fn a_thread_above_keeps_a_thread_that_was_woken_from_running() {
    most_hits_delay(FaultKind::Thread, Stage::Running);
}

#[test]
fn a_long_interrupt_handler_delays_the_timers_that_it_serves_later() {
    // They join the running interrupt and therefore do not have a separate `irq`.
    most_hits_delay(FaultKind::Irq, Stage::Expire);
}

#[test]
fn disabled_interrupts_keep_the_interrupt_out() {
    most_hits_delay(FaultKind::IrqsOff, Stage::Irq);
}

#[test]
fn a_search_for_ticks_finds_the_hidden_one() {
    let _turn = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|turn| turn.into_inner());
    let plan = Disturbance {
        every: PERIOD,
        cpu: Cpu(0),
        duration: Nanos::from_secs(1),
        ..plan(FaultKind::Tick)
    };
    let hits = match run(&plan, &AtomicBool::new(false)) {
        Ok(hits) => hits,
        Err(err @ DisturbError::Placement { .. }) => {
            println!("skipped: {err}");
            return;
        }
        Err(err) => panic!("{err}"),
    };
    let served_us: Vec<f64> = hits
        .iter()
        .map(|hit| (hit.start_ns + hit.length_ns).as_secs_f64() * 1e6)
        .collect();
    let search = TickSearch {
        shortest: 900.0,
        longest: 1100.0,
        requested: Some(1000.0),
    };

    let tick = find_tick(&served_us, search).unwrap();

    assert!(tick.p < 0.01, "{tick:?}");
    assert!((tick.period - 976.5625).abs() < 1.0, "{tick:?}");
    println!("tick: {:.3} us, p {:.1e}", tick.period, tick.p);
}

/// Counts handlers while `kind` is injected. Nearly each hit, minus interrupts in it, must be in
/// the counts of the handlers that `is_kind` selects.
fn hits_are_counted(kind: FaultKind, is_kind: fn(Activity) -> bool) {
    let _turn = ONE_AT_A_TIME
        .lock()
        .unwrap_or_else(|turn| turn.into_inner());
    let mut counter = match HandlerCounter::new(&online_cpus(), &[]) {
        Ok(counter) if online_cpus().contains(CPU) => counter,
        Ok(_) => return println!("skipped: there is no CPU 1"),
        Err(refused) => return println!("skipped: {refused}"),
    };
    counter.start().unwrap();
    let hits = match run(&plan(kind), &AtomicBool::new(false)) {
        Ok(hits) => hits,
        Err(err @ (DisturbError::Placement { .. } | DisturbError::Needs { .. })) => {
            return println!("skipped: {err}");
        }
        Err(err) => panic!("{err}"),
    };
    let counts = counter.read().unwrap();

    assert!(hits.len() >= 10, "{kind}: {hits:?}");
    let as_long = |handler: &HandlerCount| -> u64 {
        let bins = handler.times.iter().filter(|bin| bin.below_ns > HALF);
        bins.map(|bin| bin.count).sum()
    };
    // A single longer run of another handler is noise of the machine.
    let handlers = counts.handlers.iter();
    let of_kind = handlers.filter(|handler| is_kind(handler.activity));
    let longest = of_kind.max_by_key(|handler| as_long(handler)).unwrap();
    let as_long = as_long(longest);
    assert!(longest.longest_ns >= HALF, "{kind}: {longest:?}");
    if longest.longest_cpu != CPU {
        println!("skipped: the longest run was on another CPU: {longest:?}");
    }
    println!(
        "{kind}: {as_long} of {} hits counted as {:?}, the longest {}, its own at least {}; {:?}",
        hits.len(),
        longest.activity,
        longest.longest_ns,
        longest.longest_own_ns,
        counts.missing
    );
    assert!(as_long * 10 >= hits.len() as u64 * 8, "{kind}: {longest:?}");
}

#[test]
fn a_long_softirq_is_in_the_counts_of_its_sort() {
    hits_are_counted(FaultKind::Softirq, |activity| {
        matches!(activity, Activity::Softirq(_))
    });
}

#[test]
fn a_long_interrupt_is_in_the_counts_of_its_sort() {
    hits_are_counted(FaultKind::Irq, |activity| {
        matches!(activity, Activity::Vector(_) | Activity::Irq(_))
    });
}
