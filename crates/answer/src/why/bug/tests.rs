use laggard_made::late::{episode, manifest, notes};
use laggard_model::{Address, Caveat, CaveatKind, EpisodeNotes, Host, Sampler, Symbol};

use super::super::RecordedEpisodes;
use super::*;

fn late(numbers: impl IntoIterator<Item = u64>) -> RecordedEpisodes {
    RecordedEpisodes {
        path: "/home/alice/r.laggard".into(),
        manifest: manifest(),
        episodes: numbers.into_iter().map(episode).collect(),
        notes: notes(),
        latest: Vec::new(),
        samples_end: None,
        missing: 0,
        shortfalls: Vec::new(),
    }
}

fn report(late: &RecordedEpisodes, number: usize) -> Result<BugReport, BugError> {
    bug(&Explained::new(late, None), number)
}

#[test]
fn a_cause_is_told_with_its_code_its_rhythm_and_three_examples() {
    let mut late = late(1..=11);
    late.manifest.host.kernel = "6.12.9".into();

    let told = report(&late, 1).unwrap();

    assert_eq!(told.addressee, Some(Addressee::Priorities));
    assert_eq!(told.cause.rhythm.as_ref().unwrap().hits, 11);
    let made_late = Series {
        service: Service::Fifo(90),
        route: Route::Direct,
    };
    assert_eq!(told.made_late, [made_late]);
    assert_eq!(told.recording, "r.laggard");
    assert_eq!(told.median_ns, Nanos::from_us(1_985));
    assert_eq!((told.samples, told.unsampled), (22, 0));
    assert_eq!(
        told.chains,
        [CallChain {
            samples: 22,
            functions: vec!["spin [hog]".into()],
            left_out: 0
        }]
    );
    let numbers: Vec<u64> = told.examples.iter().map(|one| one.episode.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    for one in &told.examples {
        let sum = one
            .timeline
            .iter()
            .fold(Nanos::ZERO, |sum, one| sum + one.ns);
        assert_eq!(sum, one.episode.latency_ns);
        let its = one.timeline.iter().filter(|one| one.is_it);
        let its = its.fold(Nanos::ZERO, |sum, one| sum + one.ns);
        assert_eq!(its, one.of_it_ns);
    }
}

/// Two lines of one CPU that one stall makes late are one event.
#[test]
fn examples_are_of_different_events() {
    let mut late = late([1, 2, 3]);
    let mut beside = episode(1);
    beside.number = 9;
    late.episodes.push(beside);

    let told = report(&late, 1).unwrap();

    let numbers: Vec<u64> = told.examples.iter().map(|one| one.episode.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(told.cause.episodes, 4);
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
fn the_commands_that_made_it_can_be_typed_again_and_do_not_tell_where_the_program_lay() {
    let mut late = late([1]);
    let words = ["/home/alice/laggard", "record", "--", "sh", "-c", "it's"];
    late.manifest.command = words.map(str::to_owned).into();

    let told = report(&late, 1).unwrap();

    assert_eq!(
        told.reproduce,
        [
            r"laggard record -- sh -c 'it'\''s'",
            "laggard why --service fifo:90 --bug 1 r.laggard"
        ]
    );
}

#[test]
fn caveats_that_matter_are_told_and_the_name_of_the_machine_is_not() {
    let mut late = late([1]);
    late.manifest.host = Host {
        node: "alice-laptop".into(),
        ..Host::default()
    };
    late.manifest.caveats = vec![
        Caveat::new(CaveatKind::RtThrottling, "throttled", "do"),
        Caveat::new(CaveatKind::Losses, "lost", "do"),
    ];

    let told = report(&late, 1).unwrap();

    let all = serde_json::to_string(&told).unwrap();
    assert!(!all.contains("alice"), "{all}");
    let matter = late.manifest.caveats.iter();
    let matter = matter.filter(|one| one.kind.severity() != laggard_model::Severity::Note);
    assert!(told.machine.caveats.iter().eq(matter));
}

#[test]
fn threads_of_laggard_are_addressed_to_laggard() {
    let mut late = late([1]);
    let all = Explained::new(&late, None).report(usize::MAX);
    let mut row = all.causes[0].clone();
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
fn a_number_that_no_cause_has_is_refused_with_those_there_are() {
    let late = late([1]);
    let known = Explained::new(&late, None).report(usize::MAX).causes.len();

    for number in [0, known + 1, usize::MAX] {
        let said = report(&late, number).unwrap_err().to_string();
        assert!(
            said.contains(&format!(
                "has no cause {number}: --bug takes 1 to {known}, "
            )),
            "{said}"
        );
    }
    assert!(report(&late, known).is_ok());
}

/// A function of the kernel is told from the inside out.
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

    let all = Explained::new(&late, None).report(usize::MAX);
    let place = all.causes.iter().position(|row| {
        row.cause.class == CauseClass::HigherPriority
            && row
                .cause
                .who
                .as_deref()
                .is_some_and(|who| who.contains("hog"))
    });
    let told = report(&late, place.unwrap() + 1).unwrap();

    assert_eq!(told.chains[0].functions, ["inner [drv]", "outer [drv]"]);
}
