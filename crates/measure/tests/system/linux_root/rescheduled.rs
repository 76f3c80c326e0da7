//! What somebody else does to measuring threads meanwhile.

use std::time::Duration;

use laggard_measure::Probe as _;
use laggard_measure::linux::{BackendChoice, LinuxProbe};
use laggard_model::{CaveatKind, LineId, Tid};

use super::{TIME, request};

/// What is said of a recording of `service` whose first thread `change` is done
/// to halfway.
fn said_of(service: &str, change: impl FnOnce(Tid) -> bool) -> Option<Vec<String>> {
    said_by(BackendChoice::User, service, change)
}

fn said_by(
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
            .filter(|one| one.kind == kind)
            .map(|one| one.what)
            .collect(),
    )
}

#[test]
fn a_thread_that_is_reniced_while_it_measures_is_named() {
    let change = |tid: Tid| {
        // SAFETY: takes no pointers.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, tid.0, 5) == 0 }
    };

    let Some(said) = said_of("other", change) else {
        return;
    };

    let [said] = &said[..] else {
        panic!("{said:?}");
    };
    assert!(
        said.starts_with("the thread of other on CPU 0 was changed to SCHED_OTHER at nice 5"),
        "{said}"
    );
    assert!(said.contains("to the end"), "{said}");
}

#[test]
fn a_real_time_thread_that_is_made_a_normal_one_is_named() {
    let change = |tid: Tid| {
        let normal = libc::sched_param { sched_priority: 0 };
        // SAFETY: `normal` is valid for reads.
        unsafe {
            libc::sched_setscheduler(tid.0.cast_signed(), libc::SCHED_OTHER, &raw const normal) == 0
        }
    };

    let Some(said) = said_of("fifo:90", change) else {
        return;
    };

    let [said] = &said[..] else {
        panic!("{said:?}");
    };
    assert!(
        said.starts_with("the thread of fifo:90 on CPU 0 was changed to SCHED_OTHER at nice 0"),
        "{said}"
    );
}

/// Less than the second that lies between two looks.
const BRIEFLY: Duration = Duration::from_millis(100);

#[test]
fn a_change_that_is_put_back_at_once_is_named_where_programs_see_each_wakeup() {
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

    let Some(said) = said_by(BackendChoice::Bpf, "fifo:90", change) else {
        return;
    };

    let [said] = &said[..] else {
        panic!("{said:?}");
    };
    assert!(
        said.starts_with(
            "the thread of fifo:90 on CPU 0 was changed to SCHED_FIFO with priority 10"
        ),
        "{said}"
    );
    assert!(said.contains("not to the end"), "{said}");
}

#[test]
fn nothing_is_said_of_threads_that_are_left_alone() {
    for (backend, service) in [
        (BackendChoice::User, "other"),
        (BackendChoice::Bpf, "fifo:90"),
        (BackendChoice::Bpf, "other"),
    ] {
        if let Some(said) = said_by(backend, service, |_| true) {
            assert_eq!(said, [""; 0], "{backend:?} {service}");
        }
    }
}
