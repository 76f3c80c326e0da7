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

    assert_eq!(
        told.title,
        "Higher-priority thread: hog on CPU 1 makes fifo:90 late by up to 1.99 ms (Linux 6.12.9)"
    );
    assert!(
        told.sentences[0].contains("every 5.00 s (11 of 11 seen)"),
        "{:?}",
        told.sentences
    );
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
fn what_was_not_seen_is_said() {
    let mut late = late([1, 2]);
    late.episodes[1].evidence.samples.clear();
    late.notes.surplus = 3;

    let told = report(&late, 1).unwrap().not_seen.join("\n");

    for part in [
        "No sample shows it in 1 of its 2 episodes. A timer took the samples",
        "System management interrupts were not counted",
        "3 more late activations, of any cause, were not kept",
        "no lines, arguments or data",
    ] {
        assert!(told.contains(part), "{part} in\n{told}");
    }
    late.episodes.iter_mut().for_each(|one| {
        one.evidence.sampler = Some((Sampler::Nmi, Nanos::from_ms(1)));
        one.evidence.smis = Some(0);
    });
    let told = report(&late, 1).unwrap().not_seen.join("\n");
    assert!(
        !told.contains("A timer took") && !told.contains("System management"),
        "{told}"
    );
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
            "laggard why --bug 1 r.laggard"
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
fn what_is_laggards_own_is_said_to_be_nobodys_bug() {
    let mut late = late([1]);
    let told = report(&late, 1).unwrap();
    assert!(
        told.sentences[1].starts_with("The scheduler did"),
        "{:?}",
        told.sentences
    );

    let all = Explained::new(&late, None).report(usize::MAX);
    let mut row = all.causes[0].clone();
    row.is_ours = true;
    assert!(addressee(&row).unwrap().contains("nobody else's bug"));

    late.episodes.clear();
    assert_eq!(
        report(&late, 1).unwrap_err().to_string(),
        "`/home/alice/r.laggard` has no late activation, and so no cause of any"
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
                "has no cause {number}; the first is 1, the last {known} ("
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
        row.class == CauseClass::HigherPriority
            && row.who.as_deref().is_some_and(|who| who.contains("hog"))
    });
    let told = report(&late, place.unwrap() + 1).unwrap();

    assert_eq!(told.chains[0].functions, ["inner [drv]", "outer [drv]"]);
}
