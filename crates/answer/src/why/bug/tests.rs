use laggard_made::late::{episode, manifest, notes};
use laggard_model::{Address, Caveat, CaveatKind, EpisodeNotes, Host, Sampler, Symbol};

use super::super::RecordedEpisodes;
use super::*;

fn late(numbers: impl IntoIterator<Item = u64>) -> RecordedEpisodes {
    RecordedEpisodes::new(
        "/home/alice/r.laggard",
        manifest(),
        numbers.into_iter().map(episode).collect(),
        notes(),
    )
}

fn report(late: &RecordedEpisodes, number: usize) -> Result<BugReport, BugError> {
    bug(&Explained::new(late, None), number)
}

#[test]
fn report_has_code_rhythm_and_three_examples() {
    let mut late = late(1..=11);
    late.manifest.host.kernel = "6.12.9".into();

    let bug = report(&late, 1).unwrap();

    assert_eq!(bug.addressee, Some(Addressee::Priorities));
    assert_eq!(bug.cause.rhythm.as_ref().unwrap().hits, 11);
    let made_late = Series {
        service: Service::Fifo(90),
        route: Route::Direct,
    };
    assert_eq!(bug.made_late, [made_late]);
    assert_eq!(bug.recording, "r.laggard");
    assert_eq!(bug.median_ns, Nanos::from_us(1_985));
    assert_eq!((bug.samples, bug.unsampled), (22, 0));
    assert_eq!(
        bug.chains,
        [CallChain {
            samples: 22,
            functions: vec!["spin [hog]".into()],
            left_out: 0
        }]
    );
    let numbers: Vec<u64> = bug
        .examples
        .iter()
        .map(|example| example.episode.number)
        .collect();
    assert_eq!(numbers, [1, 2, 3]);
    for example in &bug.examples {
        let sum = example
            .timeline
            .iter()
            .fold(Nanos::ZERO, |sum, part| sum + part.ns);
        assert_eq!(sum, example.episode.latency_ns);
        let its = example.timeline.iter().filter(|part| part.is_it);
        let its = its.fold(Nanos::ZERO, |sum, part| sum + part.ns);
        assert_eq!(its, example.of_it_ns);
    }
}

/// Two lines of one CPU that one stall makes late are one event.
#[test]
fn examples_are_of_different_events() {
    let mut late = late([1, 2, 3]);
    let mut beside = episode(1);
    beside.number = 9;
    late.episodes.push(beside);

    let bug = report(&late, 1).unwrap();

    let numbers: Vec<u64> = bug
        .examples
        .iter()
        .map(|example| example.episode.number)
        .collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(bug.cause.episodes, 4);
}

#[test]
fn gaps_are_listed() {
    let mut late = late([1, 2]);
    late.episodes[1].evidence.samples.clear();
    late.notes.surplus = 3;
    let samples = |missing, by_timer| Gap::Samples {
        missing,
        episodes: 2,
        by_timer,
    };

    let gaps = report(&late, 1).unwrap().not_seen;

    for gap in [
        samples(1, true),
        Gap::Firmware,
        Gap::NotKept { wakeups: 3 },
        Gap::NamesOnly,
    ] {
        assert!(gaps.contains(&gap), "{gap:?} in {gaps:?}");
    }
    for episode in &mut late.episodes {
        episode.evidence.sampler = Some((Sampler::Nmi, Nanos::from_ms(1)));
        episode.evidence.smis = Some(0);
    }
    let gaps = report(&late, 1).unwrap().not_seen;
    assert!(gaps.contains(&samples(1, false)), "{gaps:?}");
    assert!(!gaps.contains(&Gap::Firmware), "{gaps:?}");
}

#[test]
fn commands_can_be_repeated_and_have_no_program_path() {
    let mut late = late([1]);
    let words = ["/home/alice/laggard", "record", "--", "sh", "-c", "it's"];
    late.manifest.command = words.map(str::to_owned).into();

    let bug = report(&late, 1).unwrap();

    assert_eq!(
        bug.reproduce,
        [
            r"laggard record -- sh -c 'it'\''s'",
            "laggard why --service fifo:90 --bug 1 r.laggard"
        ]
    );
}

#[test]
fn report_has_warnings_and_no_machine_name() {
    let mut late = late([1]);
    late.manifest.host = Host {
        node: "alice-laptop".into(),
        ..Host::default()
    };
    late.manifest.caveats = vec![
        Caveat::new(CaveatKind::RtThrottling, "throttled", "do"),
        Caveat::new(CaveatKind::Losses, "lost", "do"),
    ];

    let bug = report(&late, 1).unwrap();

    let json = serde_json::to_string(&bug).unwrap();
    assert!(!json.contains("alice"), "{json}");
    let matter = late.manifest.caveats.iter();
    let matter = matter.filter(|caveat| caveat.kind.severity() != laggard_model::Severity::Note);
    assert!(bug.machine.caveats.iter().eq(matter));
}

#[test]
fn threads_of_laggard_are_addressed_to_laggard() {
    let mut late = late([1]);
    let ranking = Explained::new(&late, None).report(usize::MAX);
    let mut row = ranking.causes[0].clone();
    assert_eq!(addressee(&row), Some(Addressee::Priorities));
    row.is_ours = true;
    assert_eq!(addressee(&row), Some(Addressee::Laggard));

    late.episodes.clear();
    assert_eq!(
        report(&late, 1).unwrap_err().to_string(),
        "`/home/alice/r.laggard` has no late wakeup with trace data, and so no cause to report"
    );
}

#[test]
fn an_unknown_cause_number_is_refused_with_the_range() {
    let late = late([1]);
    let causes = Explained::new(&late, None).report(usize::MAX).causes.len();

    for number in [0, causes + 1, usize::MAX] {
        let message = report(&late, number).unwrap_err().to_string();
        assert!(
            message.contains(&format!(
                "has no cause {number}: --bug takes 1 to {causes}, "
            )),
            "{message}"
        );
    }
    assert!(report(&late, causes).is_ok());
}

/// Kernel functions are listed from the inside out.
#[test]
fn a_chain_has_the_innermost_function_first() {
    let mut late = late([1]);
    let named = |name: &str| Symbol {
        name: Some(name.into()),
        module: Some("drv".into()),
        unknown: None,
    };
    late.notes = EpisodeNotes {
        symbols: Symbols {
            kernel: [(Address(1), named("inner")), (Address(2), named("outer"))].into(),
            ..late.notes.symbols
        },
        ..late.notes
    };
    for sample in &mut late.episodes[0].evidence.samples {
        sample.kernel = vec![Address(1), Address(2)];
        sample.user.clear();
    }

    let ranking = Explained::new(&late, None).report(usize::MAX);
    let place = ranking.causes.iter().position(|row| {
        row.cause.class == CauseClass::HigherPriority
            && row
                .cause
                .who
                .as_deref()
                .is_some_and(|who| who.contains("hog"))
    });
    let bug = report(&late, place.unwrap() + 1).unwrap();

    assert_eq!(bug.chains[0].functions, ["inner [drv]", "outer [drv]"]);
}
