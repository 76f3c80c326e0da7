//! The flight recorder on this machine. The tests check events and their order, never a duration.
//!
//! They need root and a kernel with BTF; otherwise each test prints that it is skipped, and why.

use std::time::Duration;

use laggard_measure::linux::{
    self, AttachProbe, BackendChoice, FlightError, FlightOptions, FlightRecorder, LinuxProbe,
    online_cpus,
};
use laggard_measure::{Flight as _, Probe as _};
use laggard_model::{Activity, Batch, Cpu, Evidence, Happening, Nanos, Stage, Tid};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::{Pid, gettid};

use crate::asked::request;

fn recorder() -> Option<FlightRecorder> {
    match FlightRecorder::new(&online_cpus(), FlightOptions::default(), None) {
        Ok((recorder, caveats)) => {
            caveats
                .iter()
                .for_each(|caveat| println!("{}", caveat.what));
            Some(recorder)
        }
        Err(err) => {
            println!("skipped: {err}");
            None
        }
    }
}

/// Computes for this CPU time. If this were elapsed time, samples could be missing on a busy
/// machine.
fn spin(time: Nanos) {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    let used = || Nanos::from(Duration::from(clock.now().unwrap()));
    let end = used() + time;
    while used() < end {}
}

/// Lets a thread on CPU 0 sleep and spin in turn, and returns the recorded evidence.
fn watch(recorder: &FlightRecorder) -> (Tid, Evidence) {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let mut only = CpuSet::new();
                only.set(0).unwrap();
                sched_setaffinity(Pid::from_raw(0), &only).unwrap();
                let from = linux::now();
                for _ in 0..20 {
                    std::thread::sleep(Duration::from_millis(1));
                    spin(Nanos::from_ms(4));
                }
                let tid = Tid(gettid().as_raw().cast_unsigned());
                (tid, recorder.evidence(Cpu(0), from, linux::now()))
            })
            .join()
            .unwrap()
    })
}

#[test]
fn thread_that_sleeps_and_runs_is_recorded_with_its_timer_and_its_code() {
    let Some(recorder) = recorder() else {
        return;
    };

    let (tid, evidence) = watch(&recorder);

    assert!(!evidence.overwritten);
    let has = |wanted: &dyn Fn(&Happening) -> bool| {
        evidence.events.iter().any(|event| wanted(&event.what))
    };
    assert!(has(
        &|what| matches!(what, Happening::Switch { tid: to, .. } if *to == tid)
    ));
    assert!(has(
        &|what| matches!(what, Happening::Begin(Activity::Hrtimer(address)) if address.0 != 0)
    ));
    assert!(evidence.events.is_sorted_by_key(|event| event.at_ns));
    assert!(evidence.sampler.is_some());
    let own = evidence.samples.iter().filter(|sample| sample.tid == tid);
    assert!(own.filter(|sample| !sample.user.is_empty()).count() > 5);
}

#[test]
fn context_before_a_window_is_part_of_its_evidence() {
    let Some(recorder) = recorder() else {
        return;
    };
    let (_, before) = watch(&recorder);

    let evidence = recorder.evidence(Cpu(0), before.to_ns, linux::now());

    let first = evidence.events.first().unwrap();
    assert!(first.at_ns < evidence.from_ns, "{first:?}");
    assert!(matches!(first.what, Happening::Switch { .. }), "{first:?}");
}

/// A child, for example, has its parent's name until it renames itself.
#[test]
fn renamed_thread_has_its_new_name_for_the_whole_run() {
    let Some(recorder) = recorder() else {
        return;
    };

    let (tid, evidence) = std::thread::scope(|scope| {
        let renamed = scope.spawn(|| {
            let mut only = CpuSet::new();
            only.set(0).unwrap();
            sched_setaffinity(Pid::from_raw(0), &only).unwrap();
            let from = linux::now();
            std::thread::sleep(Duration::from_millis(1));
            spin(Nanos::from_ms(2));
            std::fs::write("/proc/thread-self/comm", "newborn").unwrap();
            spin(Nanos::from_ms(2));
            std::thread::sleep(Duration::from_millis(1));
            let tid = Tid(gettid().as_raw().cast_unsigned());
            (tid, recorder.evidence(Cpu(0), from, linux::now()))
        });
        renamed.join().unwrap()
    });

    let names = evidence
        .events
        .iter()
        .filter_map(|event| match &event.what {
            Happening::Switch { tid: to, name, .. } if *to == tid => Some(name.as_str()),
            _ => None,
        });
    let names: Vec<&str> = names.collect();
    assert!(!names.is_empty());
    assert!(names.iter().all(|name| *name == "newborn"), "{names:?}");
}

#[test]
fn every_activity_that_ends_has_started() {
    let Some(recorder) = recorder() else {
        return;
    };

    let (_, evidence) = watch(&recorder);

    let mut open = 0_i64;
    for event in &evidence.events {
        match &event.what {
            Happening::Begin(Activity::Vector(_) | Activity::Irq(_)) => open += 1,
            Happening::End(Activity::Vector(_) | Activity::Irq(_)) => open -= 1,
            _ => {}
        }
        assert!((0..=3).contains(&open), "{open} at {event:?}");
    }
}

#[test]
fn cost_of_its_programs_is_reported() {
    let Some(recorder) = recorder() else {
        return;
    };
    // The kernel times programs only during the warm-up of a probe.
    let mut probe = LinuxProbe::new(request("other"), BackendChoice::Bpf).unwrap();
    probe.start().unwrap();
    probe.pause(Duration::from_millis(100));
    probe.stop();

    let cost = recorder.cost();

    for name in ["flight on_sched_switch", "flight on_sample"] {
        let ran = cost
            .iter()
            .any(|program| program.name == name && program.runs > 0);
        assert!(ran, "{name} in {cost:?}");
    }
}

#[test]
fn joined_programs_stamp_stages_and_record() {
    if recorder().is_none() {
        return;
    }
    let mut probe = LinuxProbe::new(request("fifo:50"), BackendChoice::Bpf).unwrap();
    if cfg!(not(target_arch = "x86_64")) {
        println!("skipped: programs are joined on x86 only");
        return;
    }
    let rings = probe.join_flight(&online_cpus()).unwrap();
    let board = probe.board();
    let options = FlightOptions::default();
    let (recorder, _) = FlightRecorder::joined(rings, options, board.as_ref()).unwrap();
    probe.start().unwrap();

    let (tid, evidence) = watch(&recorder);

    let mut batch = Batch::default();
    probe.drain(&mut batch);
    for stage in [Stage::Irq, Stage::Expire, Stage::Waking, Stage::Running] {
        let steps = &batch.step_ns[stage.index()];
        let seen = steps.iter().filter(|&&step| step != Batch::ABSENT).count();
        assert!(seen * 2 > batch.len(), "{stage}: {seen} of {}", batch.len());
    }
    let switched = evidence
        .events
        .iter()
        .any(|event| matches!(&event.what, Happening::Switch { tid: to, .. } if *to == tid));
    assert!(switched, "{} events", evidence.events.len());
    probe.stop();
    let programs: Vec<(String, u64)> = probe
        .cost()
        .programs
        .into_iter()
        .map(|program| (program.name, program.runs))
        .collect();
    let runs_of = |name: &str| {
        let named = programs.iter().filter(|(program, _)| program == name);
        named.map(|(_, runs)| *runs).collect::<Vec<_>>()
    };
    for name in ["on_sched_switch", "flight on_hrtimer_expire_exit"] {
        let runs = runs_of(name);
        assert!(runs.len() == 1 && runs[0] > 0, "{name} in {programs:?}");
    }
    assert!(runs_of("flight on_sched_switch").is_empty());
}

#[test]
fn programs_of_attach_record() {
    if recorder().is_none() {
        return;
    }
    let mut probe = AttachProbe::new(Some(&online_cpus())).unwrap();
    let rings = probe.take_flight().unwrap();
    let options = FlightOptions { stacks_hz: None };
    let (recorder, _) = FlightRecorder::joined(rings, options, None).unwrap();

    let (tid, evidence) = watch(&recorder);

    let switched = evidence
        .events
        .iter()
        .any(|event| matches!(&event.what, Happening::Switch { tid: to, .. } if *to == tid));
    assert!(switched, "{} events", evidence.events.len());
}

#[test]
fn call_chains_are_walked_only_while_an_expiry_is_overdue() {
    if recorder().is_none() {
        return;
    }
    let mut probe = LinuxProbe::new(request("other"), BackendChoice::Bpf).unwrap();
    let board = probe.board();
    let options = FlightOptions::default();
    let (recorder, _) = FlightRecorder::new(&online_cpus(), options, board.as_ref()).unwrap();
    probe.start().unwrap();

    // A SCHED_OTHER thread waits for this one, which has a real-time priority.
    let (spun, calm) = std::thread::scope(|scope| {
        let spinner = scope.spawn(|| {
            let mut only = CpuSet::new();
            only.set(0).unwrap();
            sched_setaffinity(Pid::from_raw(0), &only).unwrap();
            let urgent = nix::libc::sched_param { sched_priority: 1 };
            // SAFETY: the parameter is valid and applies to this thread.
            let set = unsafe { nix::libc::sched_setscheduler(0, nix::libc::SCHED_FIFO, &urgent) };
            assert_eq!(set, 0);
            let from = linux::now();
            spin(Nanos::from_ms(200));
            let to = linux::now();
            (recorder.evidence(Cpu(0), from, to), gettid())
        });
        let spun = spinner.join().unwrap();
        let from = linux::now();
        std::thread::sleep(Duration::from_millis(300));
        (spun, recorder.evidence(Cpu(0), from, linux::now()))
    });
    probe.stop();

    let frames = |sample: &laggard_model::StackSample| sample.kernel.len() + sample.user.len();
    let (evidence, tid) = spun;
    let own = |sample: &&laggard_model::StackSample| sample.tid.0 == tid.as_raw().cast_unsigned();
    let spun: Vec<usize> = evidence.samples.iter().filter(own).map(frames).collect();
    let walked = spun.iter().filter(|&&frames| frames > 1).count();
    assert!(walked * 2 > spun.len() && walked > 20, "{spun:?}");
    // The tests on the other CPU may be late at times, too.
    assert!(calm.samples.iter().any(|sample| frames(sample) == 1));
}

#[test]
fn rate_out_of_range_is_refused() {
    let options = FlightOptions { stacks_hz: Some(0) };

    let err = FlightRecorder::new(&online_cpus(), options, None).unwrap_err();

    assert!(matches!(err, FlightError::Rate(0)));
    assert_eq!(
        err.to_string(),
        "stack samples per second must be 1 to 10000, not 0"
    );
}
