//! Printed screens, kept in `snapshots/`. Run `cargo insta review` after an intended change.

use laggard_analyze::distribution::{Fold, Lost, Split};
use laggard_answer::show::{Measured, RecordingReport, recording};
use laggard_made::{Made, line};
use laggard_model::text::Unit;
use laggard_model::{
    Activation, Backend, Batch, Caveat, CaveatKind, Clock, Cpu, Host, Line, LineId, LoadRun,
    Losses, Manifest, Nanos, OwnCost, ProbePlan, ProgramCost, Route, STAGES, Service, Stage, State,
};
use laggard_view::doc::{Detail, terminal};
use laggard_view::markdown;
use laggard_view::show::{document, side_by_side};
use laggard_view::text::Look;

const LINES: [Line; 2] = [
    Line::new(Cpu(0), Service::Fifo(90), Route::Direct),
    Line::new(Cpu(0), Service::Fifo(90), Route::Deferred),
];
const START: Nanos = Nanos::from_secs(100);

/// Returns 40,000 wakeups: one of a thousand has ten times the latency, one was stalled for 20 ms,
/// and 19 were missed behind it.
fn activations() -> Batch {
    let mut batch = Batch::default();
    for seq in 0..40_000 {
        let expiry = START + Nanos::from_ms(seq);
        let stalled = (20_000..20_020).contains(&seq);
        let slow = if seq % 1_000 == 999 { 10 } else { 1 };
        let mut steps = [None; STAGES.len()];
        let mut step = |stage: Stage, ns| steps[stage.index()] = Some(Nanos::from_ns(ns));
        if stalled && seq > 20_000 {
            step(Stage::User, (20_020 - seq) * 1_000_000 + 17_000);
        } else {
            let stall = if stalled { 20_000_000 } else { 0 };
            step(Stage::Irq, stall + 9_000 * slow + seq % 7 * 16);
            step(Stage::Expire, 400);
            step(Stage::Waking, 240);
            step(Stage::Running, 6_000 * slow);
            step(Stage::User, 1_000);
        }
        let missed = stalled && seq > 20_000;
        batch.push(&Activation {
            line: LineId(0),
            seq,
            expiry,
            missed,
            censored: false,
            steps,
        });
    }
    let mut steps = [None; STAGES.len()];
    for (stage, ns) in [
        (Stage::Softirq, 15_000),
        (Stage::Signal, 64),
        (Stage::User, 9_000),
    ] {
        steps[stage.index()] = Some(Nanos::from_ns(ns));
    }
    for seq in 0..100 {
        let expiry = START + Nanos::from_ms(4 * seq);
        batch.push(&Activation::new(LineId(1), seq, expiry, steps));
    }
    batch
}

fn manifest() -> Manifest {
    let plan = ProbePlan {
        duration_ns: Some(Nanos::from_secs(40)),
        ..ProbePlan::default()
    };
    let clock = Clock {
        end_ns: Some(START + Nanos::from_secs(40)),
        ..Clock::monotonic(START, "2026-11-20T11:00:00.000+01:00")
    };
    Manifest {
        state: State::Complete,
        command: vec!["laggard".into(), "record".into()],
        load: Some(LoadRun {
            name: "fileio".into(),
            ..LoadRun::default()
        }),
        host: Host {
            kernel: "6.12.0-rt".into(),
            ..Host::default()
        },
        losses: Losses {
            ring_full: 2,
            ..Losses::default()
        },
        caveats: vec![Caveat::new(
            CaveatKind::Governor,
            "CPUs may slow down",
            "use `performance`",
        )],
        cost: OwnCost {
            wall_ns: Nanos::from_secs(40),
            measuring_cpu_ns: Nanos::from_ms(400),
            other_cpu_ns: Nanos::from_ms(40),
            programs: vec![ProgramCost {
                name: "on_sched_switch".into(),
                runs: 40_000,
                run_ns: Nanos::from_ms(4),
            }],
            written_bytes: 900_000,
            resident_bytes: 18_000_000,
            measuring_faults: 0,
            outside_cpu_ns: Nanos::from_ms(1_200),
            ..OwnCost::default()
        },
        ..Manifest::new(Backend::Bpf, plan, clock, LINES.to_vec())
    }
}

fn report(split: Split, by_cpu: bool) -> RecordingReport {
    let mut fold = Fold::new(LINES.len(), split);
    fold.add(&activations());
    let manifest = manifest();
    fold.set_lost(Lost::new(&manifest.counts, &manifest.losses));
    let measured = Measured {
        path: "busy.laggard".into(),
        manifest,
        shortfalls: Vec::new(),
        fold,
        last: None,
    };
    recording(measured, by_cpu)
}

/// Returns what `show --all` prints.
fn full(report: &RecordingReport, look: Look) -> String {
    terminal(&document(report, Detail::Full), look).plain()
}

#[test]
fn one_recording() {
    insta::assert_snapshot!(full(&report(Split::Whole, false), Look::default()));
}

#[test]
fn by_cpu_in_microseconds() {
    let options = Look {
        unit: Unit::Us,
        ..Look::default()
    };

    insta::assert_snapshot!(full(&report(Split::Whole, true), options));
}

#[test]
fn latency_has_its_start_and_end() {
    let mut external = report(Split::Whole, false);
    let kind = CaveatKind::ExternalSource;
    external.caveats.push(Caveat::new(kind, "raised", "beware"));
    let first_line = |text: String| {
        let line = text.lines().find(|line| line.contains("first instruction"));
        line.unwrap_or_default().to_owned()
    };

    assert_eq!(
        first_line(full(
            &external,
            Look {
                columns: 200,
                ..Look::default()
            }
        )),
        "Latency from the raising of the interrupt to the first instruction of the service"
    );
    assert_eq!(
        first_line(markdown(&[report(Split::Whole, false), external], &[])),
        "From the programmed expiry or the raising of the interrupt to the first instruction of the service:"
    );
}

#[test]
fn two_recordings_side_by_side() {
    let mut other = report(Split::Whole, false);
    other.path = "other.laggard".into();

    let screen = terminal(
        &side_by_side(&[report(Split::Whole, false), other]),
        Look::default(),
    );
    insta::assert_snapshot!(screen.plain());
}

/// CPU 1 never served; CPU 0 not in the last second.
fn starved() -> Made {
    let service = Service::Fifo(90);
    Made::new(&[line(service, 0), line(service, 1)])
        .served(0, 5_000, &[(Stage::Irq, 9_000), (Stage::User, 7_000)])
        .waiting(0, 1_000, Nanos::from_secs(1))
        .waiting(1, 6_000, Nanos::from_secs(6))
}

#[test]
fn a_service_that_starves() {
    let report = starved().report();

    insta::assert_snapshot!(full(&report, Look::default()));
    let few = Made::new(&[line(Service::Fifo(90), 0)]).served(0, 3, &[(Stage::User, 7_000)]);
    let screen = terminal(
        &side_by_side(&[report.clone(), few.report()]),
        Look::default(),
    );
    insta::assert_snapshot!(screen.plain());
    insta::assert_snapshot!(markdown(&[report], &[]));
}

#[test]
fn series_with_lost_samples_are_named_if_quantiles_are_bounds() {
    let lines = [
        (Service::Fifo(90), 0),
        (Service::Other, 0),
        (Service::Other, 1),
    ];
    let steps = [(Stage::User, 16_000)];
    let made = Made::new(&lines.map(|(service, cpu)| line(service, cpu)))
        .served(0, 10_000, &steps)
        .served(1, 10_000, &steps)
        .served(2, 10_000, &steps)
        .planned(0, 10_040, 40)
        .planned(2, 11_234, 1_234);

    let wide = Look {
        columns: 200,
        ..Look::default()
    };
    let text = full(&made.report(), wide);

    assert!(
        text.contains(
            "lost samples can have any latency: SCHED_OTHER up to 1,234, SCHED_FIFO 90 up to 40.\n"
        ),
        "{text}"
    );
}

#[test]
fn the_json_of_a_service() {
    insta::assert_json_snapshot!(report(Split::Whole, false).services[1]);
}

#[test]
fn min_is_marked_if_the_other_figures_count_missed_wakeups() {
    let served = Made::new(&[line(Service::Fifo(90), 0)]).served(0, 100, &[(Stage::User, 8_000)]);
    let header = |made: &Made| {
        let text = full(&made.report(), Look::default());
        let header = text.lines().find(|line| line.starts_with("series"));
        header.unwrap_or_default().to_owned()
    };

    assert!(!header(&served).contains("served"), "{}", header(&served));
    let missed = served.missed(0, [Nanos::from_ns(3)]);
    assert!(
        header(&missed).contains("min (served)"),
        "{}",
        header(&missed)
    );
    assert!(
        markdown(&[missed.report()], &[]).contains("min (served)"),
        "in Markdown too"
    );
}
