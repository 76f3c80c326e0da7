//! No line of a view is wider than the terminal, except a name that cannot be
//! broken. It has a separate line and is complete.

use laggard_answer::Shortfall;
use laggard_answer::why::{Explained, RecordedEpisodes, handlers};
use laggard_made::{Made, late, line};
use laggard_model::text::Unit;
use laggard_model::{
    Address, Caveat, CaveatKind, Cpu, Line, LoadRun, Losses, ModelledTask, Nanos, OwnCost,
    ProgramCost, Route, Service, Stage, Symbol, TaskCount,
};
use laggard_view::doc::{Detail, terminal};
use laggard_view::text::Look;
use laggard_view::{rehearsal, show, why};
use unicode_width::UnicodeWidthStr as _;

/// From the narrowest that is kept to, to the widest that is used.
const WIDTHS: [usize; 6] = [40, 53, 80, 99, 100, 120];
/// A path, a function's name, a host's.
const NAME: &str = "a_name_that_has_neither_a_blank_nor_an_end_and_is_longer_than_any_terminal_is_wide_and_then_some_more_of_it";

fn looks() -> impl Iterator<Item = Look> {
    WIDTHS
        .into_iter()
        .flat_map(|columns| [Unit::Auto, Unit::Us, Unit::Ns].map(|unit| Look { columns, unit }))
}

/// Checks that each line fits the terminal or is a single complete name.
fn assert_fits(what: &str, text: &str, look: Look) {
    assert!(!text.is_empty(), "{what}");
    for line in text.lines() {
        // Alone but for its mark.
        let words = line.split_whitespace();
        let is_name = words.filter(|word| word.len() > "[1]".len()).count() == 1;
        assert!(
            line.width() <= look.columns || is_name,
            "{what} in {} columns: {line}\n{text}",
            look.columns
        );
    }
}

/// Every service on CPUs with long numbers, some of it missed, lost and still
/// waiting; `name` is every foreign name.
fn recording(name: &str) -> Made {
    let deferred = |service, cpu| Line::new(Cpu(cpu), service, Route::Deferred);
    let lines = [
        line(Service::Softirq, 0),
        line(Service::Fifo(90), 0),
        line(Service::Fifo(90), 127),
        deferred(Service::Fifo(90), 127),
        deferred(Service::Worker, 127),
        line(Service::Other, 127),
    ];
    let stamps = [
        (Stage::Irq, 9_000),
        (Stage::Expire, 400),
        (Stage::Waking, 240),
        (Stage::Running, 123_456_789),
        (Stage::User, 1_000),
    ];
    let soft = [
        (Stage::Irq, 2_100),
        (Stage::Raise, 300),
        (Stage::Softirq, 900),
    ];
    let after = [
        (Stage::Softirq, 15_000),
        (Stage::Signal, 64),
        (Stage::Worker, 9_000),
    ];
    let mut made = Made::new(&lines)
        .served(0, 3_000, &soft)
        .served(1, 4_000, &stamps)
        .missed(1, (1..900).map(|ms| Nanos::from_ms(ms * 7)))
        .served(2, 4_000, &stamps)
        .waiting(2, 900, Nanos::from_secs(1))
        .served(3, 100, &after)
        .served(4, 100, &after)
        .served(5, 5_000, &stamps)
        .planned(5, 6_234, 1_234);
    let manifest = &mut made.manifest;
    manifest.host.kernel = name.into();
    manifest.host.processor.model = format!("A processor of {name} and words");
    manifest.host.preemption = Some("none".into());
    manifest.host.hypervisor = Some(name.into());
    manifest.load = Some(LoadRun {
        name: name.into(),
        command: vec![name.into()],
        ..LoadRun::default()
    });
    manifest.caveats = vec![Caveat::new(
        CaveatKind::Governor,
        name,
        "use words that help",
    )];
    manifest.losses = Losses {
        ring_full: 1_234,
        ..Losses::default()
    };
    manifest.cost = OwnCost {
        wall_ns: Nanos::from_secs(6),
        measuring_cpu_ns: Nanos::from_ms(400),
        programs: ["on_sched_switch", "on_sched_waking", "on_local_timer_entry"]
            .map(|program| ProgramCost {
                name: program.into(),
                runs: 40_000,
                run_ns: Nanos::from_ms(4),
            })
            .into(),
        ..OwnCost::default()
    };
    made
}

#[test]
fn a_recording_s_figures_fit_whatever_is_in_it() {
    for name in ["short", NAME] {
        let mut report = recording(name).report();
        report.path = format!("{name}.laggard");
        let mut other = recording("other").report();
        other.path = "other.laggard".into();
        let reports = [report, other.clone(), other];
        for look in looks() {
            for (name, document) in [
                ("show --all", show::document(&reports[0], Detail::Full)),
                ("show", show::document(&reports[0], Detail::Short)),
                ("--stages", show::stages(&reports[0])),
                ("side by side", show::side_by_side(&reports)),
                ("--by load", show::by_load(&reports)),
            ] {
                assert_fits(name, &terminal(&document, look).plain(), look);
            }
        }
    }
}

#[test]
fn rows_by_cpu_fit_and_no_figure_is_lost() {
    let made = recording("short");
    let report = laggard_answer::show::recording(made.measured(), true);
    let document = show::document(&report, Detail::Short);
    let wide = Look {
        columns: 400,
        ..Look::default()
    };
    let wide = terminal(&document, wide).plain();
    let figures = |text: &str| {
        let rows = text.lines().filter(|line| line.starts_with("softirq "));
        rows.map(|row| row.split_whitespace().count())
            .collect::<Vec<_>>()
    };
    let [cells_of_wide] = figures(&wide)[..] else {
        panic!("{wide}");
    };

    for look in looks() {
        let text = terminal(&document, look).plain();

        assert_fits("--by cpu", &text, look);
        let parts = figures(&text);
        // Each part has the name and the CPU.
        let cells_of_parts: usize = parts.iter().map(|cells| cells - 2).sum();
        if look.unit == Unit::Auto {
            assert_eq!(cells_of_parts, cells_of_wide - 2, "{text}");
        }
    }
}

#[test]
fn late_activations_fit_with_their_causes_and_call_chains() {
    let mut notes = late::notes();
    let named = Symbol {
        name: Some(NAME.into()),
        module: Some(NAME.into()),
        unknown: None,
    };
    for symbols in notes.symbols.user.values_mut() {
        symbols.insert(Address(16), named.clone());
    }
    notes.symbols.kernel.insert(Address(8), named);
    notes.handlers = Some(late::handlers());
    let recorded = RecordedEpisodes {
        path: NAME.into(),
        manifest: late::manifest(),
        episodes: (1..8).map(late::episode).collect(),
        notes,
        latest: Vec::new(),
        samples_end: None,
        missing: 0,
        shortfalls: vec![Shortfall::Damaged {
            file: NAME.into(),
            reason: "words".into(),
        }],
    };
    let explained = Explained::new(&recorded, None);
    let report = explained.why(20);
    let symbols = explained.symbols();
    let start = recorded.manifest.clock.start_ns;
    let counted = handlers(&recorded).unwrap();
    let documents = [
        ("why", why::document(&report, Detail::Short)),
        ("--all", why::document(&report, Detail::Full)),
        (
            "--episode",
            why::episode(&explained.episodes[0], symbols, start, Detail::Full),
        ),
        ("--handlers", why::handlers(&counted, 8)),
    ];
    for look in looks() {
        for (name, document) in &documents {
            assert_fits(name, &terminal(document, look).plain(), look);
        }
    }
}

#[test]
fn what_jobs_took_fits() {
    let time = Nanos::from_us(12_345);
    let task = TaskCount {
        task: ModelledTask {
            name: NAME.into(),
            service: Service::Fifo(90),
            cpu: Cpu(127),
            period_ns: time,
            compute_ns: time,
            deadline_ns: time,
        },
        first_ns: Nanos::ZERO,
        elapsed_ns: Nanos::from_secs(3_600),
        jobs: 1_234_567,
        skipped: 1_234,
        late: 123_456,
        underruns: 123_456,
        longest_run: 12,
        median_response_ns: time,
        p99_response_ns: time,
        largest_response_ns: time,
        least_work_ns: time,
        median_work_ns: time,
        cpu_per_job_ns: Some(time),
        page_faults: 0,
    };
    for look in looks() {
        for detail in [Detail::Short, Detail::Full] {
            let document = rehearsal::counts(&[task.clone(), task.clone()], detail);

            let text = terminal(&document, look).plain();
            assert_fits("rehearse --count-only", &text, look);
        }
    }
}
