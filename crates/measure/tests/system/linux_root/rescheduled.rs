//! Changes that other programs make to measuring threads during the run.

use std::time::Duration;

use laggard_measure::Probe as _;
use laggard_measure::linux::{BackendChoice, LinuxProbe};
use laggard_model::{CaveatKind, LineId, Tid};

use super::{TIME, request};

/// Returns the warnings of a recording of `service` whose first thread is changed by `change`
/// halfway.
fn warnings_of(service: &str, change: impl FnOnce(Tid) -> bool) -> Option<Vec<String>> {
    warnings_by(BackendChoice::User, service, change)
}

fn warnings_by(
    backend: BackendChoice,
    service: &str,
    change: impl FnOnce(Tid) -> bool,
) -> Option<Vec<String>> {
    let mut probe = match LinuxProbe::new(request(service), backend) {
        Ok(probe) => probe,
        Err(err) => {
            println!("skipped: {err}");
            return None;
        }
    };
    probe.start().unwrap();
    probe.pause(TIME / 4);
    if !change(probe.thread_of(LineId(0)).unwrap()) {
        println!("skipped: this user may not change how a thread is scheduled");
        return None;
    }
    probe.pause(TIME / 4);
    probe.stop();
    let caveats = probe.caveats().into_iter();
    let kind = CaveatKind::Rescheduled;
    Some(
        caveats
            .filter(|caveat| caveat.kind == kind)
            .map(|caveat| caveat.what)
            .collect(),
    )
}

#[test]
fn reniced_thread_is_named() {
    let change = |tid: Tid| {
        // SAFETY: the arguments are integers.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, tid.0, 5) == 0 }
    };

    let Some(warning) = warnings_of("other", change) else {
        return;
    };

    let [warning] = &warning[..] else {
        panic!("{warning:?}");
    };
    assert!(
        warning.starts_with(
            "the scheduling of thread other on CPU 0 was changed to SCHED_OTHER at nice 5"
        ),
        "{warning}"
    );
    assert!(warning.contains("until the end"), "{warning}");
}

#[test]
fn real_time_thread_that_becomes_sched_other_is_named() {
    let change = |tid: Tid| {
        let normal = libc::sched_param { sched_priority: 0 };
        // SAFETY: `normal` is valid for reads.
        unsafe {
            libc::sched_setscheduler(tid.0.cast_signed(), libc::SCHED_OTHER, &raw const normal) == 0
        }
    };

    let Some(warning) = warnings_of("fifo:90", change) else {
        return;
    };

    let [warning] = &warning[..] else {
        panic!("{warning:?}");
    };
    assert!(
        warning.starts_with(
            "the scheduling of thread fifo:90 on CPU 0 was changed to SCHED_OTHER at nice 0"
        ),
        "{warning}"
    );
}

/// Less than the second between two checks.
const BRIEFLY: Duration = Duration::from_millis(100);

#[test]
fn change_reverted_at_once_is_named_if_programs_see_each_wakeup() {
    let set = |tid: Tid, priority: i32| {
        let fifo = libc::sched_param {
            sched_priority: priority,
        };
        // SAFETY: `fifo` is valid for reads.
        unsafe {
            libc::sched_setscheduler(tid.0.cast_signed(), libc::SCHED_FIFO, &raw const fifo) == 0
        }
    };
    let change = |tid: Tid| {
        let is_changed = set(tid, 10);
        std::thread::sleep(BRIEFLY);
        is_changed && set(tid, 90)
    };

    let Some(warning) = warnings_by(BackendChoice::Bpf, "fifo:90", change) else {
        return;
    };

    let [warning] = &warning[..] else {
        panic!("{warning:?}");
    };
    assert!(
        warning.starts_with(
            "the scheduling of thread fifo:90 on CPU 0 was changed to SCHED_FIFO with priority 10"
        ),
        "{warning}"
    );
    assert!(warning.contains("not until the end"), "{warning}");
}

#[test]
fn unchanged_threads_give_no_warning() {
    for (backend, service) in [
        (BackendChoice::User, "other"),
        (BackendChoice::Bpf, "fifo:90"),
        (BackendChoice::Bpf, "other"),
    ] {
        if let Some(warning) = warnings_by(backend, service, |_| true) {
            assert_eq!(warning, [""; 0], "{backend:?} {service}");
        }
    }
}
