//! Stages from perf tracepoints, on the same kernel as the stages from BPF.

use std::time::Duration;

use laggard_measure::linux::BackendChoice;
use laggard_model::{Activation, Backend, CaveatKind, Service, Stage};

use super::{measure_by, request};

/// Stages of a thread that a timer interrupt wakes.
const STAGES_OF_THREAD: [Stage; 5] = [
    Stage::Irq,
    Stage::Expire,
    Stage::Waking,
    Stage::Running,
    Stage::User,
];

#[test]
fn tracepoints_show_the_stages_that_bpf_shows() {
    for choice in [BackendChoice::Bpf, BackendChoice::Perf] {
        let Some(measured) = measure_by(request("irq,fifo:90,other"), choice) else {
            return;
        };
        let expected = match choice {
            BackendChoice::Perf => Backend::Perf,
            _ => Backend::Bpf,
        };
        assert_eq!(measured.backend, expected);
        println!("{choice:?}: {:?}", measured.losses);
        for (index, line) in measured.lines.iter().enumerate() {
            let served: Vec<Activation> = measured
                .of_line(index)
                .filter(|activation| !activation.missed)
                .collect();
            let complete = served
                .iter()
                .filter(|activation| {
                    let mut stages = STAGES_OF_THREAD.iter();
                    stages.all(|stage| activation.steps[stage.index()].is_some())
                })
                .count();
            // Some kernels record no performance event while the idle task of a CPU runs, so a
            // fraction is not certain.
            assert!(
                complete > 0,
                "{choice:?}, {line:?}: 0 of {} have all stages",
                served.len()
            );
        }
    }
}

#[test]
fn services_that_need_bpf_are_left_out_with_a_warning() {
    let Some(measured) = measure_by(request("softirq,worker,other"), BackendChoice::Perf) else {
        return;
    };

    let services = measured.lines.iter().map(|line| line.service);
    assert!(services.eq(measured.lines.iter().map(|_| Service::Other)));
    for service in ["softirq", "worker"] {
        let expected = format!("`{service}` is not measured: it needs BPF");
        let mut caveats = measured.caveats.iter();
        assert!(caveats.any(|caveat| caveat.what == expected), "{expected}");
    }
}

/// The collector does not run while more events arrive than the rings hold.
#[test]
fn lost_events_are_counted_and_their_stages_absent() {
    let mut request = request("fifo:90");
    request.period = laggard_model::Nanos::from_us(100);
    let Some(measured) = super::measure_for(request, BackendChoice::Perf, Duration::from_secs(8))
    else {
        return;
    };

    let unseen = measured.losses.expire_unseen;
    println!("{unseen} wakeups without stages");
    let mut caveats = measured.caveats.iter();
    let has_lost = caveats.any(|caveat| {
        caveat.kind == CaveatKind::StageUnseen && caveat.what.contains("tracepoint events")
    });
    // Some kernels also omit events without a record of it.
    assert!(!has_lost || unseen > 0);
}
