use super::*;

/// The worst cycle waits for the disk; 240 others wait for a lock.
#[test]
fn next_step_is_against_the_cause_of_most_misses() {
    let mut report = inversion();
    let disk = AttachTaken {
        cause: cause(
            CauseClass::Blocked,
            AttachCauseKind::Blocked {
                call: Some("fsync".into()),
                file: None,
                waker: None,
            },
        ),
        time_ns: us(8_000),
    };
    report.worst.as_mut().unwrap().taken = vec![disk];

    let text = text(&report, Detail::Short);

    let step = "Next: use a mutex with priority inheritance";
    assert!(text.contains(step), "{text}");
}

#[test]
fn causes_that_avoid_misses_only_together_are_counted() {
    let mut report = inversion();
    for ranked in &mut report.causes {
        (ranked.late.avoided, ranked.late.jointly) = (0, 90);
    }
    report.rows[0].deadline.as_mut().unwrap().taken = report
        .causes
        .iter()
        .map(|ranked| ranked.late.clone())
        .collect();

    let text = text(&report, Detail::Short);

    let table = "\
avoids  jointly  cycles     time      max  cause
     0       90     240   1.50 s   150 ms  lock (mutex): held by logger,
                                           preempted by vision
     0       90       0  90.0 ms  9.00 ms  execution time
jointly: misses that end in time only without several of these causes
";
    assert!(text.contains(table), "{text}");
    let findings = phrase::findings(&report.rows[0]).join(" ");
    let fact = "preempted by vision (90 on time without it and others)";
    assert!(findings.contains(fact), "{findings}");
}

#[test]
fn lock_states_what_its_holder_did() {
    let held = |state: HolderState, time: u64| AttachHolder {
        state,
        time_ns: us(time),
    };
    let preempted = |name: &str| HolderState::Preempted(name.into());
    let text = |holder: Vec<AttachHolder>| {
        phrase::late_cause(&AttachLate {
            holder_states: holder,
            ..late(lock(), 1, 1_000)
        })
    };

    assert_eq!(
        text(vec![
            held(preempted("vision"), 950),
            held(HolderState::Ran, 50)
        ]),
        "lock (mutex): held by logger, preempted by vision"
    );
    assert_eq!(
        text(vec![
            held(preempted("vision"), 600),
            held(HolderState::OffCpu, 300),
            held(HolderState::Ran, 100),
        ]),
        "lock (mutex): held by logger (preempted by vision 60 %, off its CPU 30 %)"
    );
}

/// Page faults of 100 us, of which `overrun` us were in an earlier cycle.
#[test]
fn share_of_a_cause_in_an_earlier_cycle_is_named() {
    let named = |overrun: u64| {
        let mut kind = AttachCauseKind::PageFault;
        if overrun > 50 {
            kind = AttachCauseKind::Overrun { of: Box::new(kind) };
        }
        phrase::late_cause(&AttachLate {
            overrun_ns: us(overrun),
            ..late(AttachCause::new(kind), 1, 100)
        })
    };

    assert_eq!(named(0), "execution time in page faults");
    assert_eq!(named(40), "execution time in page faults (overrun 40 %)");
    assert_eq!(named(60), "execution time in page faults (overrun 60 %)");
    assert_eq!(
        named(100),
        "overrun of an earlier cycle: execution time in page faults"
    );
}

#[test]
fn each_cause_has_a_name() {
    let call = || Some("mmap".to_owned());
    let site = AttachSite {
        kind: WaitKind::Event,
        call: Some("read".into()),
        clock: None,
        descriptor: Some(3),
        file: None,
    };
    let pipe = AttachSite {
        kind: WaitKind::Output,
        call: Some("write".into()),
        clock: None,
        descriptor: Some(1),
        file: Some("pipe".into()),
    };
    let waker = || Some(WaitEnd::Thread("reader".into()));
    let system = |class, who: Option<&str>, contender: Option<&str>| {
        let kind = AttachCauseKind::System {
            who: who.map(Into::into),
            because: None,
            contender: contender.map(Into::into),
        };
        cause(class, kind)
    };
    let other = |kind| cause(CauseClass::Unexplained, kind);
    for (cause, name) in [
        (other(AttachCauseKind::TimerSlack), "timer slack"),
        (
            other(AttachCauseKind::SystemCall {
                call: "fork".into(),
            }),
            "execution time in fork()",
        ),
        (
            other(AttachCauseKind::Kernel { is_sampled: false }),
            "execution time in the kernel (--stack-rate names the system call)",
        ),
        (
            other(AttachCauseKind::Overrun {
                of: Box::new(AttachCauseKind::PageFault),
            }),
            "overrun of an earlier cycle: execution time in page faults",
        ),
        (
            other(AttachCauseKind::Sleep {
                call: Some("35".into()),
            }),
            "sleeping in system call 35 within the cycle",
        ),
        (
            other(AttachCauseKind::Wait {
                site,
                waker: Some(WaitEnd::Irq(27)),
            }),
            "waiting in read(), fd 3, until irq 27 woke it",
        ),
        (
            other(AttachCauseKind::Output {
                site: pipe,
                waker: waker(),
            }),
            "waiting in write(), fd 1 (pipe), for room, until reader woke it",
        ),
        (
            other(AttachCauseKind::KernelLock {
                call: call(),
                is_mmap: true,
                holder: Some("helper".into()),
            }),
            "held up in mmap(): mmap_lock, held by helper",
        ),
        (
            other(AttachCauseKind::Blocked {
                file: None,
                call: None,
                waker: None,
            }),
            "held up in a page fault or other work of the kernel",
        ),
        (
            other(AttachCauseKind::Blocked {
                call: Some("fsync".into()),
                file: Some("/var/log/app".into()),
                waker: waker(),
            }),
            "held up in fsync() of /var/log/app, until reader woke it",
        ),
        (
            other(AttachCauseKind::Lock {
                is_mutex: false,
                site: None,
                holder: None,
                state: None,
            }),
            "lock or condition variable (futex), holder unknown",
        ),
        (
            other(AttachCauseKind::Lock {
                is_mutex: false,
                site: Some(AttachSite {
                    kind: WaitKind::Lock,
                    call: Some("flock".into()),
                    clock: None,
                    descriptor: Some(3),
                    file: Some("/run/lock".into()),
                }),
                holder: Some("backup".into()),
                state: Some(HolderState::OffCpu),
            }),
            "lock or semaphore in flock(), fd 3 (/run/lock): held by backup, which was off its CPU",
        ),
        (
            system(CauseClass::HigherPriority, Some("hog"), None),
            "preempted by hog",
        ),
        (
            cause(
                CauseClass::Equal,
                AttachCauseKind::System {
                    who: Some("make".into()),
                    because: Some(Because::NiceInGroup),
                    contender: None,
                },
            ),
            "CPU shared with make (same priority; nice counts only within a control group)",
        ),
        (
            system(CauseClass::RtThrottled, None, Some("hog")),
            "real-time throttling, because `hog` used up the CPU time",
        ),
    ] {
        assert_eq!(phrase::cause(&cause), name);
    }
}

#[test]
fn next_step_names_the_thread_without_the_note_on_nice() {
    let kind = AttachCauseKind::System {
        who: Some("make".into()),
        because: Some(Because::NiceInGroup),
        contender: None,
    };

    let step = phrase::next_step(&cause(CauseClass::Equal, kind), false).unwrap();

    assert!(step.contains("than `make`, or"), "{step}");
}

#[test]
fn next_step_names_the_setting_of_the_version_of_control_groups() {
    for setting in ["cpu.weight", "cpu.shares"] {
        let kind = AttachCauseKind::System {
            who: Some(format!("/small, {setting} 450")),
            because: None,
            contender: None,
        };

        let step = phrase::next_step(&cause(CauseClass::GroupWeight, kind), false).unwrap();

        assert!(step.contains(&format!("({setting})")), "{step}");
    }
}

#[test]
fn next_step_against_an_unexplained_delay_is_to_sample() {
    let step = |because, has_samples| {
        let kind = AttachCauseKind::System {
            who: None,
            because: Some(because),
            contender: None,
        };
        phrase::next_step(&cause(CauseClass::Unexplained, kind), has_samples)
    };

    let sample = step(Because::LateInterrupt, false).unwrap();
    assert!(sample.starts_with("add `--stack-rate"), "{sample}");
    assert_eq!(step(Because::LateInterrupt, true), None);
    assert_eq!(step(Because::Lost, false), None);
    let execution = |has_samples| {
        phrase::next_step(
            &cause(CauseClass::OwnWork, AttachCauseKind::Execution),
            has_samples,
        )
    };
    assert!(execution(false).unwrap().contains("--stack-rate"));
    assert!(execution(true).unwrap().starts_with("reduce the work"));
}
