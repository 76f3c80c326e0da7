//! Each remedy fits the recorded machine. A setting that is already active, or that the
//! machine lacks, is not advised.

use laggard_answer::show::RecordingReport;
use laggard_answer::why::{CauseShare, LateWakeups};
use laggard_made::{Made, line};
use laggard_model::{
    Because, CauseClass, Caveat, CaveatKind, GroupQuota, Line, NamedCause, Nanos, ProgramCost,
    Service, Severity, Stage,
};
use laggard_view::advice::advice;

const FIFO: Service = Service::Fifo(90);
const LINES: [Line; 2] = [line(FIFO, 0), line(FIFO, 1)];

fn row(class: CauseClass, who: Option<&str>, share: f64) -> CauseShare {
    CauseShare {
        cause: NamedCause::new(class, who),
        contenders: Vec::new(),
        quota: None,
        is_ours: false,
        irq: None,
        cpus: Vec::new(),
        episodes: 3,
        first_in: 2,
        per_hour: 1.0,
        wakeups: 3,
        time_ns: Nanos::from_ms(9),
        share,
        largest_ns: Nanos::from_ms(4),
        largest_episode: 17,
        is_at_least: false,
        largest_without_ns: Nanos::from_us(80),
        largest_without_is_at_least: false,
        rhythm: None,
        fix: None,
        gains: Vec::new(),
    }
}

fn why(causes: Vec<CauseShare>) -> LateWakeups {
    LateWakeups {
        is_incomplete: false,
        service: None,
        route: None,
        episodes: 3,
        wakeups: 3,
        untraced: None,
        total_ns: Nanos::from_ms(20),
        largest_ns: Nanos::from_ms(9),
        largest_is_at_least: false,
        measured_max_ns: None,
        causes,
        more_causes: 0,
        first_fix: None,
        thresholds: Vec::new(),
        largest: Vec::new(),
        remarks: Vec::new(),
    }
}

/// What is advised of a recording whose only cause of lateness is this.
fn remedy(class: CauseClass, who: Option<&str>, edit: impl Fn(&mut RecordingReport)) -> String {
    advised(row(class, who, 0.9), edit)
}

fn advised(row: CauseShare, edit: impl Fn(&mut RecordingReport)) -> String {
    let mut report = Made::new(&LINES)
        .served(0, 40_000, &[(Stage::User, 8_000)])
        .served(1, 40_000, &[(Stage::User, 8_000)])
        .report();
    edit(&mut report);
    let why = why(vec![row]);
    let advice_list = advice(&report, Some(&why));
    let of_cause = advice_list
        .into_iter()
        .find(|entry| entry.why.contains("3 late wakeups"));
    of_cause.map(|entry| entry.what).unwrap_or_default()
}

#[test]
fn a_setting_that_made_nothing_late_is_noted_after_what_did() {
    let entry_of = |class| {
        let mut report = Made::new(&LINES)
            .served(0, 40_000, &[(Stage::User, 8_000)])
            .report();
        let throttling = Caveat::new(CaveatKind::RtThrottling, "throttling is on", "lift it");
        report.caveats = vec![throttling];
        let advice_list = advice(&report, Some(&why(vec![row(class, None, 0.9)])));
        let entry = advice_list
            .iter()
            .find(|candidate| candidate.what == "Lift it.")
            .unwrap();
        (entry.severity, entry.why.clone())
    };

    let unseen = "Throttling is on. Not seen in this recording.".to_owned();
    assert_eq!(entry_of(CauseClass::Stolen), (Severity::Note, unseen));
    let observed = "Throttling is on.".to_owned();
    assert_eq!(
        entry_of(CauseClass::FairServer),
        (Severity::Matters, observed.clone())
    );
    assert_eq!(
        entry_of(CauseClass::RtThrottled),
        (Severity::Matters, observed)
    );
}

#[test]
fn a_remedy_for_two_leading_causes_is_given_once_and_small_causes_get_none() {
    let report = Made::new(&LINES[..1])
        .served(0, 40_000, &[(Stage::User, 8_000)])
        .report();
    let why = why(vec![
        row(CauseClass::Equal, Some("rustc"), 0.5),
        row(CauseClass::Equal, Some("cc1"), 0.3),
        row(CauseClass::Stolen, Some("-"), 0.15),
        row(CauseClass::Softirq, Some("NET_RX"), 0.05),
    ]);

    let advice_list = advice(&report, Some(&why));

    assert_eq!(advice_list.len(), 2, "{advice_list:?}");
    assert!(
        advice_list[0].why.contains("rustc"),
        "{}",
        advice_list[0].why
    );
    assert!(
        advice_list[1].what.contains("virtual machine"),
        "{}",
        advice_list[1].what
    );
}

#[test]
fn what_the_machine_has_done_already_is_not_advised_again() {
    use CauseClass as C;
    type Edit = fn(&mut RecordingReport);
    let virtual_one: Edit = |report| report.host.hypervisor = Some("kvm".into());
    let rt: Edit = |report| report.host.preemption = Some("rt".into());
    let awake: Edit = |report| report.plan.held_awake = true;
    let plain: Edit = |_| ();
    // (cause, who, machine, what is advised, what is not)
    let cases: [(C, Option<&str>, Edit, &str, &str); 19] = [
        (C::IdleExit, None, plain, "cpu_dma_latency", "hypervisor"),
        (C::IdleExit, None, awake, "", "cpu_dma_latency"),
        (
            C::IdleExit,
            None,
            virtual_one,
            "idle=poll",
            "cpu_dma_latency",
        ),
        (C::Stall, None, plain, "firmware", "hypervisor"),
        (C::Stall, None, virtual_one, "hypervisor", "firmware"),
        (
            C::Interrupt,
            Some("irq work"),
            plain,
            "cannot be moved",
            "smp_affinity",
        ),
        (
            C::Interrupt,
            Some("local timer"),
            plain,
            "cannot be moved",
            "smp_affinity",
        ),
        (C::Softirq, Some("NET_RX"), plain, "PREEMPT_RT", "ksoftirqd"),
        (C::Softirq, Some("NET_RX"), rt, "ksoftirqd", "PREEMPT_RT"),
        (
            C::PreemptionOff,
            Some("cat"),
            plain,
            "preempt=full",
            "no kernel",
        ),
        (C::PreemptionOff, Some("cat"), rt, "taskset", "preempt=full"),
        (
            C::PreemptionOff,
            Some("cat"),
            |report| report.host.preemption = Some("full".into()),
            "PREEMPT_RT",
            "preempt=full",
        ),
        (C::Throttled, None, plain, "cpu.max", "sched_rt_runtime"),
        (
            C::RtThrottled,
            None,
            plain,
            "sched_rt_runtime",
            "fair_server",
        ),
        // A recording of an earlier version does not distinguish them.
        (
            C::RtThrottled,
            None,
            |report| report.host.kernel = "6.12.9".into(),
            "fair_server",
            "cpu.max",
        ),
        // Without throttling, the fair server stops the same threads.
        (
            C::RtThrottled,
            None,
            |report| {
                report.host.kernel = "6.18.1".into();
                report.host.config = vec!["CONFIG_RT_GROUP_SCHED=y".into()];
            },
            "fair_server",
            "cpu.max",
        ),
        (
            C::FairServer,
            None,
            |report| {
                report.host.config = vec!["CONFIG_RT_GROUP_SCHED=y".into()];
            },
            "sched_rt_runtime",
            "cpu.max",
        ),
        (
            C::ReturnToUser,
            None,
            |report| report.cost.measuring_faults = 3,
            "mlockall",
            "--episode",
        ),
        (C::ReturnToUser, None, plain, "--episode 17", "mlockall"),
    ];
    for (class, who, edit, wanted, unwanted) in cases {
        let remedy_text = remedy(class, who, edit);

        let what = format!("{class}, {who:?}: {remedy_text}");
        assert!(remedy_text.contains(wanted), "{what} lacks {wanted}");
        assert!(!remedy_text.contains(unwanted), "{what} has {unwanted}");
        assert_eq!(remedy_text.is_empty(), wanted.is_empty(), "{what}");
    }
}

/// A quota names the group, and the file of the machine's version of control groups.
#[test]
fn quota_remedy_names_group_and_file() {
    let quota = |file: &str| {
        let row = CauseShare {
            quota: Some(GroupQuota {
                group: "/a/b".into(),
                file: file.into(),
                ..GroupQuota::default()
            }),
            ..row(CauseClass::Throttled, Some("CPU quota"), 0.9)
        };
        advised(row, |_| ())
    };

    assert!(quota("cpu.max").contains("control group `/a/b` (`cpu.max`)"));
    let version_1 = quota("cpu.cfs_quota_us");
    assert!(version_1.contains("(`cpu.cfs_quota_us`)"), "{version_1}");
    assert!(!version_1.contains("cpu.max"), "{version_1}");
}

/// The label comes from the table of remedies alone.
#[test]
fn remedies_without_a_test_are_labelled() {
    for (class, is_tested) in [
        (CauseClass::HigherPriority, true),
        (CauseClass::Throttled, true),
        (CauseClass::GroupWeight, true),
        (CauseClass::Equal, true),
        (CauseClass::FairServer, true),
        (CauseClass::IdleExit, false),
    ] {
        let text = remedy(class, Some("cat"), |_| ());

        assert_eq!(!text.contains("(untested)"), is_tested, "{class}: {text}");
    }
}

#[test]
fn an_interrupt_is_moved_by_its_number_and_not_by_what_its_device_is_called() {
    let moved = |irq| {
        let row = CauseShare {
            irq,
            ..row(CauseClass::Interrupt, Some("irq 36 (virtio1)"), 0.9)
        };
        advised(row, |_| ())
    };

    assert!(moved(Some(7)).contains("/proc/irq/7/smp_affinity_list"));
    assert!(moved(None).contains("cannot be moved"));
}

#[test]
fn a_timer_that_another_cpu_had_is_looked_for_there_whatever_it_is_called() {
    let looked_for = |because| {
        let mut row = row(CauseClass::Unexplained, Some("anything"), 0.9);
        row.cause.because = because;
        advised(row, |_| ())
    };

    let elsewhere = looked_for(Some(Because::Elsewhere));
    assert!(elsewhere.contains("timer_migration=0"), "{elsewhere}");
    let here = looked_for(Some(Because::NothingRecorded));
    assert!(here.contains("--episode 17"), "{here}");
}

#[test]
fn every_remedy_that_changes_something_names_its_price() {
    let price = [
        "then",
        "throughput",
        "takes",
        "less",
        "price",
        "dearer",
        "wait",
        "interrupts CPUs",
    ];
    for class in CauseClass::ALL {
        let remedy_text = remedy(class, Some("cat"), |_| ());

        let is_priced = price.iter().any(|word| remedy_text.contains(word));
        let only_looks = remedy_text.contains("--episode") || remedy_text.is_empty();
        assert!(is_priced || only_looks, "{class}: {remedy_text}");
    }
}

#[test]
fn fewer_services_are_not_advised_where_there_is_one_and_the_recorder_is_blamed_where_it_costs_most()
 {
    let reasons =
        |made: Made| laggard_view::trust::reasons(&made.report().trust).unwrap_or_default();
    let one = Made::new(&LINES)
        .served(0, 6_000, &[(Stage::User, 8_000)])
        .cost(90);
    let two = Made::new(&[LINES[0], line(Service::Other, 0)])
        .served(0, 6_000, &[(Stage::User, 8_000)])
        .served(1, 6_000, &[(Stage::User, 8_000)])
        .cost(90);
    let mut recorder = Made::new(&LINES)
        .served(0, 6_000, &[(Stage::User, 8_000)])
        .cost(1);
    recorder.manifest.cost.programs = vec![ProgramCost {
        name: "flight on_sched_switch".into(),
        run_ns: Nanos::from_secs(5),
        ..ProgramCost::default()
    }];

    assert!(!reasons(one).contains("fewer services"));
    assert!(reasons(two).contains("or fewer services"));
    assert!(reasons(recorder).contains("--episodes off"));
}

#[test]
fn how_long_to_record_has_its_price_and_minutes_are_not_made_longer() {
    let mut report = Made::new(&LINES[..1])
        .served(0, 1_000, &[(Stage::User, 8_000)])
        .report();
    report.cost.written_bytes = 1_000_000;
    let last_remedy =
        |report: &RecordingReport| advice(report, None).last().map(|entry| entry.what.clone());

    let longer = last_remedy(&report).unwrap();
    for row in &mut report.services {
        row.minute = Some(0);
    }

    assert!(longer.starts_with("Record for about 22"), "{longer}");
    assert!(longer.contains("which writes about 3.7 MB"), "{longer}");
    assert_eq!(last_remedy(&report), None);
}
