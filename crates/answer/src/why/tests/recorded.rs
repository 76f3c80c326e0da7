//! Causes of recordings that were read.

use super::*;

/// A recording of the line of these episodes.
fn recorded(dir: &std::path::Path, episodes: &[Episode]) -> Recording {
    recorded_above(dir, episodes, notes().thresholds_ns[0])
}

/// The same with this threshold, which was chosen after the first 3 s.
fn recorded_above(
    dir: &std::path::Path,
    episodes: &[Episode],
    threshold: Option<Nanos>,
) -> Recording {
    let path = dir.join("r.laggard");
    let notes = EpisodeNotes {
        thresholds_ns: vec![threshold],
        ..notes()
    };
    Made::new(&manifest().lines)
        .served(0, 10, &[(Stage::User, 16_000)])
        .record_with(&path, episodes, &notes);
    Recording::open(&path).unwrap()
}

/// Until the threshold was chosen, each new maximum was kept, and each expiry that passed
/// during it.
#[test]
fn maxima_below_the_threshold_of_their_line_are_not_late() {
    let dir = tempfile::tempdir().unwrap();
    let mut episodes: Vec<Episode> = (1..=3).map(episode).collect();
    let stage = episodes[0].stages.get_mut(&Stage::User).unwrap();
    *stage = Nanos::from_us(2_001);
    // During the second episode, 2.002 ms late, an expiry passed before the thread had 1 ms left.
    episodes[1].passed_ns = [500, 1_500].map(Nanos::from_us).to_vec();

    for (threshold, wakeups, kept) in [
        (None, 5, 3),
        (Some(Nanos::from_us(2_000)), 3, 3),
        (Some(Nanos::from_us(2_001)), 2, 2),
        (Some(Nanos::from_ms(3)), 0, 0),
    ] {
        let path = dir.path().join(format!("{threshold:?}"));
        std::fs::create_dir(&path).unwrap();
        let recording = recorded_above(&path, &episodes, threshold);

        let late = RecordedEpisodes::read(&recording).unwrap();
        let causes = EpisodeCauses::read(&recording).unwrap();

        for report in [why(&late, None, 9), causes.explained(None).report(9)] {
            assert_eq!(report.episodes, kept, "{threshold:?}");
            assert_eq!(report.wakeups, wakeups, "{threshold:?}");
        }
        // Each is still shown when its number is given.
        let first = RecordedEpisodes::read_one(&recording, 1).unwrap();
        assert_eq!(first.episodes, episodes[..1]);
        assert!(RecordedEpisodes::read_one(&recording, 4).is_err());
    }
}

/// The heading counts wakeups, and so do the rows.
#[test]
fn late_wakeups_are_counted_per_cause() {
    let mut passed = episode(1);
    passed.passed_ns = vec![Nanos::from_us(500), Nanos::from_ms(1)];
    let report = why(&recorded_with(&[passed], notes()), None, 9);
    assert_eq!((report.episodes, report.wakeups), (1, 3));
    assert_eq!(report.causes[0].wakeups, 3);
}

#[test]
fn causes_are_the_same_without_kept_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let episodes: Vec<Episode> = (1..=7).map(episode).collect();
    let recording = recorded(dir.path(), &episodes);

    let whole = RecordedEpisodes::read(&recording).unwrap();
    let causes = EpisodeCauses::read(&recording).unwrap();

    let json = |explained: Explained<'_>| serde_json::to_string(&explained.report(9)).unwrap();
    assert_eq!(
        json(causes.explained(None)),
        json(Explained::new(&whole, None))
    );
    assert_eq!(causes.late.episodes.len(), 7);
    for explained in &causes.explained(None).episodes {
        let evidence = &explained.episode.evidence;
        assert!(evidence.events.is_empty() && evidence.samples.is_empty());
        assert!(explained.explanation.parts.is_empty());
    }
}

#[test]
fn evidence_is_kept_of_the_episodes_that_are_wanted_alone() {
    let dir = tempfile::tempdir().unwrap();
    let episodes: Vec<Episode> = (1..=3).map(episode).collect();
    let recording = recorded(dir.path(), &episodes);

    let late = RecordedEpisodes::read_with(&recording, |episode| episode.number == 2).unwrap();

    assert_eq!(late.episodes[1], episodes[1]);
    assert!(late.episodes[0].evidence.events.is_empty());
    assert_eq!(late.episodes[0].latency(), episodes[0].latency());
}

#[test]
fn only_the_wanted_service_is_explained_if_it_was_late() {
    let dir = tempfile::tempdir().unwrap();
    let lines = [Service::Fifo(90), Service::Other].map(|service| laggard_made::line(service, 0));
    let mut episodes: Vec<Episode> = (1..=3).map(episode).collect();
    episodes[1].line = laggard_model::LineId(1);
    Made::new(&lines)
        .served(0, 10, &[(Stage::User, 16_000)])
        .served(1, 10, &[(Stage::User, 16_000)])
        .record_with(&dir.path().join("r"), &episodes, &notes());
    let recording = Recording::open(dir.path().join("r")).unwrap();
    let explained = |service| {
        let causes = EpisodeCauses::read_if_any(&recording, service, &mut Vec::new());
        let causes = causes.unwrap().unwrap();
        assert_eq!(causes.late.episodes.len(), 3);
        let explained = causes.explained(None).episodes;
        explained
            .iter()
            .map(|late| late.episode.number)
            .collect::<Vec<_>>()
    };

    assert_eq!(explained(Some(Service::Fifo(90))), [1, 3]);
    assert_eq!(explained(Some(Service::Other)), [2]);
    for service in [None, Some(Service::Worker)] {
        assert_eq!(explained(service), [1, 2, 3]);
    }
}

#[test]
fn causes_of_a_load_are_read_once_for_all_answers() {
    let dir = tempfile::tempdir().unwrap();
    let recording = recorded(dir.path(), &[episode(1)]);
    let loads = crate::loads(&crate::Ask::of(&[recording.dir().to_owned()])).unwrap();

    let first = loads[0].causes().unwrap();
    std::fs::remove_dir_all(recording.dir()).unwrap();
    let again = loads[0].causes().unwrap();

    assert!(std::sync::Arc::ptr_eq(&first, &again));
}
