//! Overhead of a measurement.

use std::time::Duration;

use laggard_measure::Probe as _;
use laggard_measure::linux::{BackendChoice, LinuxProbe};
use laggard_model::{Nanos, Service};
use nix::time::ClockId;

use super::{EVERY_SERVICE, measure, request};

#[test]
fn every_program_has_run_and_its_cost_is_known() {
    let Some(measured) = measure(EVERY_SERVICE) else {
        return;
    };

    let programs = &measured.cost.programs;
    let has = |name| measured.lines.iter().any(|line| line.service == name);
    for (name, wanted) in [
        ("on_hrtimer_expire_entry", true),
        ("on_sched_waking", true),
        ("on_sched_switch", true),
        ("on_deferred", has(Service::Softirq)),
        ("on_work", has(Service::Worker)),
    ] {
        let ran = programs.iter().any(|program| {
            program.name == name && program.runs > 0 && program.run_ns > Nanos::ZERO
        });
        assert_eq!(ran, wanted, "{name} in {programs:?}");
    }
    assert!(measured.cost.measuring_cpu_ns > Nanos::ZERO);
}

/// Counted by every measuring thread from its first expiry to its end.
#[test]
fn measuring_threads_have_no_page_faults() {
    let Some(measured) = measure(EVERY_SERVICE) else {
        return;
    };

    assert_eq!(measured.cost.measuring_faults, 0);
}

/// Computes until this thread has used `time` more CPU time.
fn use_cpu(time: Duration) {
    let used = || Duration::from(ClockId::CLOCK_THREAD_CPUTIME_ID.now().unwrap());
    let until = used() + time;
    while used() < until {
        std::hint::spin_loop();
    }
}

#[test]
fn overhead_is_the_usage_from_start_to_end() {
    let mut probe = match LinuxProbe::new(request(EVERY_SERVICE), BackendChoice::Bpf) {
        Ok(probe) => probe,
        Err(err) => {
            println!("skipped: {err}");
            return;
        }
    };
    let work = Duration::from_millis(200);
    use_cpu(work);
    probe.start().unwrap();

    use_cpu(work);
    probe.stop();
    let cost = probe.cost();
    use_cpu(work);
    let later = probe.cost();

    // The kernel counts the time of threads and of the process per tick.
    let other = Duration::from(cost.other_cpu_ns);
    assert!(other >= work.mul_f64(0.9), "{cost:?}");
    assert_eq!(later.other_cpu_ns, cost.other_cpu_ns);
    assert_eq!(later.measuring_cpu_ns, cost.measuring_cpu_ns);
    // Usage before and after is reported separately.
    let before = Duration::from(cost.outside_cpu_ns);
    let after = Duration::from(later.outside_cpu_ns.saturating_sub(cost.outside_cpu_ns));
    assert!(before >= work.mul_f64(0.9), "{cost:?}");
    assert!(after >= work.mul_f64(0.9), "{later:?}");
}
