use std::fs;

use laggard_model::{
    Activation, Batch, Cpu, Episode, LineId, Nanos, STAGES, Stage, Symbol, Symbols,
};

use super::{EpisodeSelector, EpisodeWriter, Episodes, Late, Threshold};
use crate::disk;

fn activation(seq: u64, latency: Nanos) -> Activation {
    let mut steps = [None; STAGES.len()];
    steps[Stage::User.index()] = Some(latency);
    Activation {
        line: LineId(0),
        seq,
        expiry: Nanos::from_ms(seq),
        missed: false,
        censored: false,
        steps,
    }
}

fn batch(latencies: impl IntoIterator<Item = (u64, Nanos)>) -> Batch {
    let mut batch = Batch::default();
    for (seq, latency) in latencies {
        batch.push(&activation(seq, latency));
    }
    batch
}

fn numbers(chosen: &[Late]) -> Vec<u64> {
    chosen.iter().map(|late| late.activation.seq).collect()
}

fn episode(number: u64) -> Episode {
    let latency = Nanos::from_us(number * 100);
    Episode::new(number, Cpu(1), &activation(number, latency), Nanos::ZERO)
}

#[test]
fn the_automatic_threshold_is_the_tail_of_the_first_seconds() {
    let mut selector = EpisodeSelector::new(1, Threshold::Automatic, 100);
    let first = batch((0..=3_000).map(|seq| (seq, Nanos::from_us(seq % 1000))));

    assert_eq!(selector.choose(&first), []);
    let threshold = selector.notes().thresholds_ns[0].unwrap();
    assert!(threshold.ns().abs_diff(999_000) < 10_000, "{threshold}");
    let later = batch([(4_000, Nanos::from_us(900)), (4_001, Nanos::from_ms(2))]);
    assert_eq!(numbers(&selector.choose(&later)), [4_001]);
}

#[test]
fn the_automatic_threshold_is_never_below_50_us() {
    let mut selector = EpisodeSelector::new(1, Threshold::Automatic, 100);

    selector.choose(&batch((0..=3_000).map(|seq| (seq, Nanos::from_us(5)))));

    assert_eq!(selector.notes().thresholds_ns, [Some(Nanos::from_us(50))]);
}

#[test]
fn beyond_the_limit_only_a_new_largest_is_kept_until_time_has_passed() {
    // Eight a minute: two at once, then one every 7.5 s.
    let mut selector = EpisodeSelector::new(1, Threshold::Fixed(Nanos::from_us(50)), 8);
    let late = [70, 80, 75, 90, 40, 60].map(Nanos::from_us);

    let chosen = selector.choose(&batch((0..).zip(late)));
    let later = selector.choose(&batch([
        (7_400, Nanos::from_us(60)),
        (7_600, Nanos::from_us(60)),
        (7_700, Nanos::from_us(60)),
    ]));

    assert_eq!(numbers(&chosen), [0, 1, 3]);
    assert_eq!(numbers(&later), [7_600]);
    assert_eq!((selector.kept(), selector.notes().surplus), (4, 4));
}

#[test]
fn a_limit_of_zero_keeps_new_largest_ones_only() {
    let mut selector = EpisodeSelector::new(1, Threshold::Fixed(Nanos::from_us(50)), 0);
    let late = [70, 60, 80].map(Nanos::from_us);

    assert_eq!(numbers(&selector.choose(&batch((0..).zip(late)))), [0, 2]);
}

#[test]
fn a_missed_activation_is_no_episode() {
    let mut selector = EpisodeSelector::new(1, Threshold::Fixed(Nanos::from_us(50)), 9);
    let mut rows = Batch::default();
    rows.push(&Activation {
        missed: true,
        censored: false,
        ..activation(1, Nanos::from_ms(9))
    });

    assert_eq!(selector.choose(&rows), []);
}

fn read(dir: &std::path::Path) -> Episodes {
    let mut all = Episodes::default();
    let mut episodes = Vec::new();
    all.read_file(dir, disk::episodes_name(1), &mut |one| episodes.push(one));
    all.episodes = episodes;
    all.read_notes(dir);
    all
}

#[test]
fn episodes_and_names_are_read_back_as_they_were_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = EpisodeWriter::new(dir.path());
    let mut notes = EpisodeSelector::new(1, Threshold::Automatic, 1).notes();
    writer.append(&episode(1)).unwrap();
    writer.flush(Nanos::from_secs(1), &notes).unwrap();
    writer.append(&episode(2)).unwrap();
    let symbol = Symbol {
        name: Some("schedule".into()),
        ..Symbol::default()
    };
    notes.symbols = Symbols {
        kernel: [(laggard_model::Address(16), symbol)].into(),
        ..Symbols::default()
    };

    writer.finish(&notes).unwrap();

    let all = read(dir.path());
    assert_eq!(all.episodes, [episode(1), episode(2)]);
    assert_eq!(all.notes, Some(notes));
    assert_eq!(all.shortfalls, []);
}

#[test]
fn a_torn_last_frame_costs_only_its_own_episodes() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = EpisodeWriter::new(dir.path());
    let notes = EpisodeSelector::new(1, Threshold::Automatic, 1).notes();
    for number in 1..=2 {
        writer.append(&episode(number)).unwrap();
        writer.flush(Nanos::from_secs(10 * number), &notes).unwrap();
    }
    let file = dir.path().join(disk::episodes_name(1));
    let whole = fs::read(&file).unwrap();
    let first = zstd::zstd_safe::find_frame_compressed_size(&whole).unwrap();
    for length in [first, first + 1, first + 9, whole.len() - 1] {
        fs::write(&file, &whole[..length]).unwrap();

        let all = read(dir.path());

        assert_eq!(all.episodes, [episode(1)], "cut at {length}");
        assert_eq!(all.shortfalls.len(), usize::from(length > first));
    }
}

#[test]
fn a_line_that_is_no_episode_is_named_and_the_rest_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = serde_json::to_string(&episode(1)).unwrap();
    text.push_str("\n{}\n");
    text.push_str(&serde_json::to_string(&episode(3)).unwrap());
    let file = dir.path().join(disk::episodes_name(1));
    fs::write(&file, zstd::bulk::compress(text.as_bytes(), 1).unwrap()).unwrap();

    let all = read(dir.path());

    assert_eq!(all.episodes, [episode(1), episode(3)]);
    assert!(
        all.shortfalls[0]
            .to_string()
            .contains("line 2 is no episode")
    );
}
