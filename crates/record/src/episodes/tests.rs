use std::fs;

use laggard_model::{
    Activation, Batch, Cpu, Episode, LineId, Nanos, STAGES, Stage, Symbol, Symbols,
};

use super::{ChosenActivation, EpisodeSelector, EpisodeWriter, Episodes, Threshold};
use crate::disk;
use crate::{Access, Folder};

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

/// A thread of `line` that is late by `latency` at `seq` ms.
fn on(line: u16, seq: u64, latency: Nanos) -> Activation {
    Activation {
        line: LineId(line),
        ..activation(seq, latency)
    }
}

fn batch(latencies: impl IntoIterator<Item = (u64, Nanos)>) -> Batch {
    let mut batch = Batch::default();
    for (seq, latency) in latencies {
        batch.push(&activation(seq, latency));
    }
    batch
}

fn numbers(chosen: &[ChosenActivation]) -> Vec<u64> {
    chosen.iter().map(|late| late.activation.seq).collect()
}

fn episode(number: u64) -> Episode {
    let latency = Nanos::from_us(number * 100);
    Episode::new(number, Cpu(1), &activation(number, latency), Nanos::ZERO)
}

/// Latencies in whole microseconds that go up and down again without a new
/// largest after the first.
fn ordinary(seq: u64, most: u64) -> Nanos {
    Nanos::from_us(most - seq % most)
}

#[test]
fn the_automatic_threshold_is_the_tail_of_the_first_seconds() {
    let mut selector = EpisodeSelector::new(1, Threshold::Automatic, 100);
    let first = batch((0..=3_000).map(|seq| (seq, ordinary(seq, 1_000))));

    assert_eq!(numbers(&selector.choose(&first)), [0]);
    let threshold = selector.notes().thresholds_ns[0].unwrap();
    assert!(threshold.ns().abs_diff(999_000) < 10_000, "{threshold}");
    let later = batch([(4_000, Nanos::from_us(900)), (4_001, Nanos::from_ms(2))]);
    assert_eq!(numbers(&selector.choose(&later)), [4_001]);
}

#[test]
fn the_automatic_threshold_is_never_below_50_us_nor_above_10_ms() {
    let mut selector = EpisodeSelector::new(2, Threshold::Automatic, 100);
    let mut rows = Batch::default();
    for seq in 0..=3_000 {
        rows.push(&on(0, seq, Nanos::from_us(5)));
        // Stalls of a second and more, in the first seconds.
        let stall = Nanos::from_ms(1_000 + seq % 7);
        rows.push(&on(
            1,
            seq,
            if seq % 100 == 0 {
                stall
            } else {
                Nanos::from_us(5)
            },
        ));
    }

    selector.choose(&rows);

    let limits = [Nanos::from_us(50), Nanos::from_ms(10)];
    assert_eq!(selector.notes().thresholds_ns, limits.map(Some));
}

#[test]
fn beyond_the_limit_only_a_new_largest_is_kept_until_time_has_passed() {
    // Eight a minute: room for two, of which a line holds half.
    let mut selector = EpisodeSelector::new(1, Threshold::Fixed(Nanos::from_us(50)), 8);
    let late = [70, 80, 75, 90, 40, 60].map(Nanos::from_us);

    let chosen = selector.choose(&batch((0..).zip(late)));
    let soon = selector.choose(&batch([(1_000, Nanos::from_us(60))]));
    let later = selector.choose(&batch([
        (30_000, Nanos::from_us(60)),
        (30_100, Nanos::from_us(60)),
    ]));

    assert_eq!(numbers(&chosen), [0, 1, 3]);
    assert_eq!(soon, []);
    assert_eq!(numbers(&later), [30_000]);
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
    all.read_file(dir, disk::episodes_name(1), &mut |_| Ok(()), &mut |one| {
        episodes.push(one);
    });
    all.episodes = episodes;
    all.read_notes(dir);
    all
}

#[test]
fn episodes_and_names_are_read_back_as_they_were_written() {
    let around = tempfile::tempdir().unwrap();
    let dir = Folder::make(&around.path().join("r"), Access::Private).unwrap();
    let mut writer = EpisodeWriter::new(&dir);
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
    let around = tempfile::tempdir().unwrap();
    let dir = Folder::make(&around.path().join("r"), Access::Private).unwrap();
    let mut writer = EpisodeWriter::new(&dir);
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

#[test]
fn what_is_late_in_the_first_seconds_is_kept_too() {
    let mut selector = EpisodeSelector::new(1, Threshold::Automatic, 100);
    let latency = |seq| match seq {
        400 => Nanos::from_ms(25),
        1_100 => Nanos::from_us(24_900),
        1_200 => Nanos::from_ms(3),
        _ => Nanos::from_us(20 + seq % 7),
    };

    let chosen = selector.choose(&batch((0..2_000).map(|seq| (seq, latency(seq)))));

    assert_eq!(numbers(&chosen), [400, 1_100]);
    // It would be late by the threshold that there would be now.
    let watch = selector.notes().lines[0];
    assert_eq!((watch.from_ns, watch.kept), (None, 2));
    assert_eq!((watch.early, watch.early_largest_ns), (0, None));
}

#[test]
fn what_was_late_before_the_threshold_was_known_is_counted() {
    let mut selector = EpisodeSelector::new(1, Threshold::Automatic, 100);
    let latency = |seq| match seq {
        100 => Nanos::from_ms(4),
        200 => Nanos::from_us(3_900),
        700 => Nanos::from_us(3_500),
        _ => ordinary(seq, 60),
    };

    selector.choose(&batch((0..2_000).map(|seq| (seq, latency(seq)))));
    let undecided = selector.notes();
    selector.choose(&batch((2_000..=3_000).map(|seq| (seq, latency(seq)))));
    let decided = selector.notes();

    assert_eq!(undecided.thresholds_ns, [None]);
    assert_eq!(undecided.lines[0].from_ns, None);
    // p99.9 of 2,000 leaves two above it, of 3,001 three; the largest was kept.
    assert_eq!((undecided.lines[0].early, decided.lines[0].early), (1, 2));
    let largest = Some(Nanos::from_us(3_900));
    assert_eq!(undecided.lines[0].early_largest_ns, largest);
    assert_eq!(decided.lines[0].early_largest_ns, largest);
    assert_eq!(decided.lines[0].from_ns, Some(Nanos::from_secs(3)));
    assert_eq!(decided.surplus, 0);
}

#[test]
fn a_recording_that_begins_later_keeps_the_largest_of_its_own() {
    let mut selector = EpisodeSelector::new(1, Threshold::Fixed(Nanos::from_us(50)), 0);
    selector.choose(&batch([(1, Nanos::from_ms(9)), (2, Nanos::from_ms(1))]));

    selector.begin();

    let chosen = selector.choose(&batch([(3, Nanos::from_ms(2)), (4, Nanos::from_ms(1))]));
    assert_eq!(numbers(&chosen), [3]);
    let notes = selector.notes();
    assert_eq!((notes.kept, notes.surplus), (1, 1));
}

#[test]
fn of_those_that_still_wait_at_the_end_the_first_is_kept() {
    let mut selector = EpisodeSelector::new(1, Threshold::Fixed(Nanos::from_us(50)), 600);
    let mut rows = Batch::default();
    for seq in 0..100 {
        rows.push(&Activation {
            missed: true,
            censored: true,
            ..activation(seq, Nanos::from_ms(100 - seq))
        });
    }

    assert_eq!(numbers(&selector.choose(&rows)), [0]);
}

#[test]
fn a_noisy_line_leaves_room_for_a_quiet_one() {
    let mut selector = EpisodeSelector::new(2, Threshold::Fixed(Nanos::from_us(50)), 600);
    let mut kept = [0, 0];
    for second in 0..25 {
        let mut rows = Batch::default();
        for ms in 0..1_000 {
            rows.push(&on(0, second * 1_000 + ms, Nanos::from_us(900 - ms % 7)));
        }
        // Never a new largest.
        rows.push(&on(1, second * 1_000, Nanos::from_ms(40 - second)));
        for late in selector.choose(&rows) {
            kept[usize::from(late.activation.line.0)] += 1;
        }
    }

    assert_eq!(kept[1], 25);
    assert!((100..=300).contains(&kept[0]), "{kept:?}");
}
