use std::fs;

use laggard_model::{
    Activation, Activity, Address, Batch, Cpu, Episode, FlightEvent, Happening, LineId, Nanos,
    STAGES, Stage, Symbol, Symbols, Tid, Untraced, Vector,
};
use proptest::prelude::{prop_assert_eq, proptest};

use super::read::parse;
use super::select::MAX_PASSED;
use super::{ChosenActivation, EpisodeSelector, EpisodeWriter, Episodes, Threshold};
use crate::disk;
use crate::{Access, Folder};

fn activation(seq: u64, latency: Nanos) -> Activation {
    let mut steps = [None; STAGES.len()];
    steps[Stage::User.index()] = Some(latency);
    Activation::new(LineId(0), seq, Nanos::from_ms(seq), steps)
}

/// Returns an activation of a thread of `line` that is late by `latency` at `seq` ms.
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

/// Returns latencies in whole microseconds that rise and fall without a new maximum
/// after the first.
fn ordinary(seq: u64, most: u64) -> Nanos {
    Nanos::from_us(most - seq % most)
}

#[test]
fn automatic_threshold_is_the_tail_of_the_first_seconds() {
    let mut selector = EpisodeSelector::new(1, Threshold::Automatic, 100);
    let first = batch((0..=3_000).map(|seq| (seq, ordinary(seq, 1_000))));

    assert_eq!(numbers(&selector.choose(&first)), [0]);
    let threshold = selector.notes().thresholds_ns[0].unwrap();
    assert!(threshold.ns().abs_diff(999_000) < 10_000, "{threshold}");
    let later = batch([(4_000, Nanos::from_us(900)), (4_001, Nanos::from_ms(2))]);
    assert_eq!(numbers(&selector.choose(&later)), [4_001]);
}

#[test]
fn automatic_threshold_is_between_50_us_and_1_ms() {
    let mut selector = EpisodeSelector::new(2, Threshold::Automatic, 100);
    let mut rows = Batch::default();
    for seq in 0..=3_000 {
        rows.push(&on(0, seq, Nanos::from_us(5)));
        // A fault that hits most wakeups also determines the median.
        rows.push(&on(1, seq, Nanos::from_ms(1_000 + seq % 7)));
    }

    selector.choose(&rows);

    let limits = [Nanos::from_us(50), Nanos::from_ms(1)];
    assert_eq!(selector.notes().thresholds_ns, limits.map(Some));
}

/// A fault that is present from the start hits a fifth of all wakeups and determines
/// the p99.9. The rest shows the usual latency.
#[test]
fn fault_from_the_start_does_not_raise_the_threshold() {
    let mut selector = EpisodeSelector::new(1, Threshold::Automatic, 6_000);
    let latency = |seq: u64| match seq % 30 {
        late @ 0..6 => Nanos::from_us(6_000 - 1_000 * late),
        _ => Nanos::from_us(20 + seq % 7),
    };

    let chosen = selector.choose(&batch((0..6_000).map(|seq| (seq, latency(seq)))));

    let threshold = selector.notes().thresholds_ns[0].unwrap();
    assert!(threshold <= Nanos::from_us(300), "{threshold}");
    let late = (0..6_000)
        .filter(|&seq| latency(seq) >= Nanos::from_ms(1))
        .count();
    let notes = selector.notes().lines[0];
    let untraced = notes.untraced.unwrap().wakeups;
    assert_eq!(chosen.len() as u64 + untraced, late as u64);
    assert_eq!(late, 1_200);
}

#[test]
fn passed_expiries_are_part_of_the_late_wakeup_or_counted_without_trace_data() {
    let mut selector = EpisodeSelector::new(1, Threshold::Fixed(Nanos::from_us(500)), 600);
    let missed = |seq, ms| Activation {
        missed: true,
        ..activation(seq, Nanos::from_ms(ms))
    };
    let mut rows = Batch::default();
    rows.push(&activation(10, Nanos::from_ms(3)));
    rows.push(&missed(11, 2));
    rows.push(&missed(12, 1));
    rows.push(&activation(20, Nanos::from_us(100)));
    // The late wakeup during which it passed was lost.
    rows.push(&missed(30, 2));

    let chosen = selector.choose(&rows);

    assert_eq!(numbers(&chosen), [10]);
    assert_eq!(chosen[0].passed, [1, 2].map(Nanos::from_ms));
    assert_eq!(chosen[0].wakeups(), (3, Nanos::from_ms(3 + 2 + 1)));
    let untraced = selector.notes().lines[0].untraced.unwrap();
    assert_eq!(
        (untraced.wakeups, untraced.total_ns),
        (1, Nanos::from_ms(2))
    );
}

/// A batch ends between a late wakeup and the expiries that passed during it if the
/// collector drains in between.
#[test]
fn passed_expiries_are_part_of_a_late_wakeup_of_an_earlier_batch() {
    let rows = |seq: u64| Activation {
        missed: !seq.is_multiple_of(10),
        ..activation(seq, Nanos::from_ms(9 - seq % 10))
    };
    for size in [1, 3, 10, 100] {
        let mut selector = EpisodeSelector::new(1, Threshold::Fixed(Nanos::from_us(500)), 600);
        let (mut with, mut episodes) = (Untraced::default(), 0);
        let mut open = None;

        for start in (0..100).step_by(size) {
            let batch: Vec<_> = (start..100.min(start + size as u64)).map(rows).collect();
            let mut rows = Batch::default();
            batch.iter().for_each(|row| rows.push(row));
            let may_grow = open.is_some_and(|seq| selector.may_grow(LineId(0), seq));
            let chosen = selector.choose(&rows);
            for passed in selector.passed() {
                assert!(may_grow, "{size}: {passed:?}");
                assert_eq!(open, Some(passed.seq), "{size}: {passed:?}");
                assert_eq!(passed.after + passed.latency, Nanos::from_ms(9));
                with.add(1, passed.latency);
            }
            for late in chosen {
                let (wakeups, total) = late.wakeups();
                with.add(wakeups, total);
                episodes += 1;
                open = Some(late.activation.seq);
            }
        }

        let without = selector.notes().lines[0].untraced.unwrap();
        assert_eq!((episodes, without.wakeups), (10, 0), "{size}");
        assert_eq!(
            (with.wakeups, with.total_ns),
            (90, Nanos::from_ms(450)),
            "{size}"
        );
    }
}

/// The late wakeup was not kept, so the causes of the passed expiries are unknown.
#[test]
fn passed_expiries_of_a_wakeup_without_trace_data_have_none() {
    let mut selector = EpisodeSelector::new(1, Threshold::Fixed(Nanos::from_us(500)), 0);
    let missed = |seq, ms| Activation {
        missed: true,
        ..activation(seq, Nanos::from_ms(ms))
    };
    selector.choose(&batch([(0, Nanos::from_ms(9)), (10, Nanos::from_ms(3))]));
    let mut rows = Batch::default();
    rows.push(&missed(11, 2));
    rows.push(&missed(12, 1));

    selector.choose(&rows);

    assert_eq!(selector.passed(), []);
    let untraced = selector.notes().lines[0].untraced.unwrap();
    assert_eq!(
        (untraced.wakeups, untraced.total_ns),
        (3, Nanos::from_ms(6))
    );
}

/// A reader accepts no more with one episode.
#[test]
fn expiries_beyond_the_limit_of_one_late_wakeup_have_no_trace_data() {
    let mut selector = EpisodeSelector::new(1, Threshold::Fixed(Nanos::from_us(500)), 600);
    let length = MAX_PASSED as u64 + 1_000;
    let mut rows = Batch::default();
    rows.push(&activation(0, Nanos::from_ms(length)));
    for seq in 1..=MAX_PASSED as u64 + 10 {
        rows.push(&Activation {
            missed: true,
            ..activation(seq, Nanos::from_ms(length - seq))
        });
    }

    let chosen = selector.choose(&rows);

    assert_eq!(chosen[0].passed.len(), MAX_PASSED);
    let untraced = selector.notes().lines[0].untraced.unwrap();
    assert_eq!(untraced.wakeups, 10);
}

/// For any selection, late wakeups with trace data and late wakeups without it add up to the total.
#[test]
fn late_wakeups_with_and_without_trace_data_add_up() {
    for threshold in [Threshold::Automatic, Threshold::Fixed(Nanos::from_us(800))] {
        let mut selector = EpisodeSelector::new(1, threshold, 1);
        let latency = |seq: u64| match seq % 20 {
            0 => Nanos::from_us(2_900 + seq % 40),
            _ => Nanos::from_us(20),
        };
        let mut with = (0, Nanos::ZERO);
        let mut total = (0, Nanos::ZERO);
        for second in 0..8 {
            let mut rows = Batch::default();
            for seq in second * 1_000..(second + 1) * 1_000 {
                rows.push(&Activation {
                    missed: matches!(seq % 20, 1 | 2),
                    ..activation(
                        seq,
                        match seq % 20 {
                            after @ (1 | 2) => {
                                latency(seq - after).saturating_sub(Nanos::from_ms(after))
                            }
                            _ => latency(seq),
                        },
                    )
                });
            }
            let is_late = |activation: &Activation| activation.latency() > Nanos::from_us(899);
            for activation in rows.iter().filter(is_late) {
                total = (total.0 + 1, total.1 + activation.latency());
            }
            for chosen in selector.choose(&rows) {
                let (count, time) = chosen.wakeups();
                with = (with.0 + count, with.1 + time);
            }
        }

        let without = selector.notes().lines[0].untraced.unwrap();

        assert!(without.wakeups > 0);
        assert_eq!(with.0 + without.wakeups, total.0, "{threshold:?}");
        // Until the threshold is chosen, latencies are counted in buckets.
        let difference = (with.1 + without.total_ns).ns().abs_diff(total.1.ns());
        assert!(
            difference < total.1.ns() / 1_000,
            "{threshold:?}: {difference} ns"
        );
    }
}

#[test]
fn only_new_maxima_are_kept_beyond_the_limit() {
    // One a minute: room for ten at once, and a line holds half of it.
    let mut selector = EpisodeSelector::new(1, Threshold::Fixed(Nanos::from_us(50)), 1);
    let late = [70, 60, 60, 60, 60, 60, 90, 60].map(Nanos::from_us);

    let chosen = selector.choose(&batch((0..).zip(late)));
    let soon = selector.choose(&batch([(1_000, Nanos::from_us(60))]));
    let later = selector.choose(&batch([
        (200_000, Nanos::from_us(60)),
        (200_001, Nanos::from_us(60)),
    ]));

    assert_eq!(numbers(&chosen), [0, 1, 2, 3, 4, 6]);
    assert_eq!(soon, []);
    assert_eq!(numbers(&later), [200_000]);
    assert_eq!((selector.kept(), selector.notes().surplus), (7, 4));
}

#[test]
fn limit_of_zero_keeps_new_maxima_only() {
    let mut selector = EpisodeSelector::new(1, Threshold::Fixed(Nanos::from_us(50)), 0);
    let late = [70, 60, 80].map(Nanos::from_us);

    assert_eq!(numbers(&selector.choose(&batch((0..).zip(late)))), [0, 2]);
}

#[test]
fn missed_activation_is_no_episode() {
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
    let mut read_back = Episodes::default();
    let mut episodes = Vec::new();
    read_back.read_file(
        dir,
        disk::episodes_name(1),
        &mut |_| Ok(()),
        &mut |episode| {
            episodes.push(episode);
        },
    );
    read_back.episodes = episodes;
    read_back.read_notes(dir);
    read_back
}

#[test]
fn episodes_and_names_are_read_back_unchanged() {
    let around = tempfile::tempdir().unwrap();
    let dir = Folder::make(&around.path().join("r"), Access::Private).unwrap();
    let mut writer = EpisodeWriter::new(&dir);
    let mut notes = EpisodeSelector::new(1, Threshold::Automatic, 1).notes();
    writer.append(&episode(1)).unwrap();
    writer.flush(Nanos::from_secs(1), &notes).unwrap();
    writer.append(&episode(2)).unwrap();
    let symbol = Symbol::named("schedule");
    notes.symbols = Symbols {
        kernel: [(laggard_model::Address(16), symbol)].into(),
        ..Symbols::default()
    };

    writer.finish(&notes).unwrap();

    let episodes = read(dir.path());
    assert_eq!(episodes.episodes, [episode(1), episode(2)]);
    assert_eq!(episodes.notes, Some(notes));
    assert_eq!(episodes.shortfalls, []);
}

#[test]
fn torn_last_frame_loses_only_its_episodes() {
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

        let episodes = read(dir.path());

        assert_eq!(episodes.episodes, [episode(1)], "cut at {length}");
        assert_eq!(episodes.shortfalls.len(), usize::from(length > first));
    }
}

#[test]
fn line_that_is_no_episode_is_named_and_the_rest_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = serde_json::to_string(&episode(1)).unwrap();
    text.push_str("\n{}\n");
    text.push_str(&serde_json::to_string(&episode(3)).unwrap());
    let file = dir.path().join(disk::episodes_name(1));
    fs::write(&file, zstd::bulk::compress(text.as_bytes(), 1).unwrap()).unwrap();

    let episodes = read(dir.path());

    assert_eq!(episodes.episodes, [episode(1), episode(3)]);
    assert!(
        episodes.shortfalls[0]
            .to_string()
            .contains("line 2 is not an episode")
    );
}

#[test]
fn late_wakeups_of_the_first_seconds_are_kept() {
    let mut selector = EpisodeSelector::new(1, Threshold::Automatic, 100);
    let latency = |seq| match seq {
        400 => Nanos::from_ms(25),
        1_100 => Nanos::from_us(24_900),
        1_200 => Nanos::from_us(900),
        _ => Nanos::from_us(20 + seq % 7),
    };

    let chosen = selector.choose(&batch((0..2_000).map(|seq| (seq, latency(seq)))));

    assert_eq!(numbers(&chosen), [400, 1_100]);
    // It would be late by the threshold that would be chosen now: 10 times the median.
    let watch = selector.notes().lines[0];
    assert_eq!((watch.from_ns, watch.kept), (None, 2));
    assert_eq!((watch.early, watch.early_largest_ns.is_some()), (1, true));
}

#[test]
fn late_wakeups_before_the_threshold_are_counted() {
    let mut selector = EpisodeSelector::new(1, Threshold::Automatic, 100);
    let latency = |seq| match seq {
        100 => Nanos::from_us(900),
        200 => Nanos::from_us(800),
        700 => Nanos::from_us(700),
        _ => ordinary(seq, 60),
    };

    selector.choose(&batch((0..2_000).map(|seq| (seq, latency(seq)))));
    let undecided = selector.notes();
    selector.choose(&batch((2_000..=3_000).map(|seq| (seq, latency(seq)))));
    let decided = selector.notes();

    assert_eq!(undecided.thresholds_ns, [None]);
    assert_eq!(undecided.lines[0].from_ns, None);
    // Three exceed 10 times the median; the largest was kept.
    assert_eq!((undecided.lines[0].early, decided.lines[0].early), (2, 2));
    let largest = Some(Nanos::from_us(800));
    assert_eq!(undecided.lines[0].early_largest_ns, largest);
    assert_eq!(decided.lines[0].early_largest_ns, largest);
    assert_eq!(decided.lines[0].from_ns, Some(Nanos::from_secs(3)));
    assert_eq!(decided.surplus, 0);
}

#[test]
fn recording_that_starts_later_keeps_its_own_maximum() {
    let mut selector = EpisodeSelector::new(1, Threshold::Fixed(Nanos::from_us(50)), 0);
    selector.choose(&batch([(1, Nanos::from_ms(9)), (2, Nanos::from_ms(1))]));

    selector.begin();

    let chosen = selector.choose(&batch([(3, Nanos::from_ms(2)), (4, Nanos::from_ms(1))]));
    assert_eq!(numbers(&chosen), [3]);
    let notes = selector.notes();
    assert_eq!((notes.kept, notes.surplus), (1, 1));
}

#[test]
fn first_of_the_waiting_expiries_is_kept() {
    let mut selector = EpisodeSelector::new(1, Threshold::Fixed(Nanos::from_us(50)), 600);
    let mut rows = Batch::default();
    for seq in 0..100 {
        rows.push(&Activation {
            missed: true,
            censored: true,
            ..activation(seq, Nanos::from_ms(100 - seq))
        });
    }

    let chosen = selector.choose(&rows);

    assert_eq!(numbers(&chosen), [0]);
    assert_eq!(chosen[0].wakeups().0, 100);
    assert_eq!(selector.notes().lines[0].untraced.unwrap().wakeups, 0);
}

#[test]
fn noisy_line_leaves_room_for_a_quiet_one() {
    let mut selector = EpisodeSelector::new(2, Threshold::Fixed(Nanos::from_us(50)), 600);
    let mut kept = [0, 0];
    for second in 0..25 {
        let mut rows = Batch::default();
        for ms in 0..1_000 {
            rows.push(&on(0, second * 1_000 + ms, Nanos::from_us(900 - ms % 7)));
        }
        // Never a new maximum.
        rows.push(&on(1, second * 1_000, Nanos::from_ms(40 - second)));
        for late in selector.choose(&rows) {
            kept[usize::from(late.activation.line.0)] += 1;
        }
    }

    assert_eq!(kept[1], 25);
    assert!((3_000..=3_300).contains(&kept[0]), "{kept:?}");
}

/// Returns the line of an episode that has every kind of event.
fn line_with_all_events() -> String {
    let code = Address(0xffff_ffff_8100_0000);
    let activities = [
        Activity::Irq(u32::MAX),
        Activity::Softirq(0),
        Activity::Isr(code),
        Activity::Dpc(code),
        Activity::Hrtimer(code),
        Activity::Timer(code),
        Activity::Work(Address(0)),
        Activity::Idle(3),
        Activity::PageFault,
        Activity::Vector(Vector::LocalTimer),
        Activity::Vector(Vector::Reschedule),
        Activity::Vector(Vector::CallFunction),
        Activity::Vector(Vector::CallFunctionSingle),
        Activity::Vector(Vector::IrqWork),
        Activity::Vector(Vector::Thermal),
    ];
    let activities =
        activities.map(|activity| [Happening::Begin(activity), Happening::End(activity)]);
    let switch = |name: &str, priority, priority_before, before, preempted| Happening::Switch {
        tid: Tid(90),
        name: name.into(),
        priority,
        priority_before,
        before,
        preempted,
    };
    let switches = [
        switch("", -1, None, None, true),
        switch("ksoftirqd/0", 139, Some(-1), None, false),
        switch("événement", 0, None, Some(Tid(7)), false),
        switch("x", i16::MAX, Some(120), Some(Tid(0)), true),
    ];
    let mut late = episode(1);
    let times = [0, 1, 10_000_000_000_000_000_000 - 1].into_iter().cycle();
    late.evidence.events = times
        .zip(activities.into_iter().flatten().chain(switches))
        .map(|(time, what)| FlightEvent {
            at_ns: Nanos::from_ns(time),
            what,
        })
        .collect();
    serde_json::to_string(&late).unwrap()
}

/// Returns the episode of a line, or the error.
fn parsed(line: &str) -> Result<Episode, String> {
    parse(line.as_bytes()).map_err(|error| error.to_string())
}

/// Returns the episode or the error by serde alone.
fn by_serde(line: &str) -> Result<Episode, String> {
    serde_json::from_str(line).map_err(|error| error.to_string())
}

#[test]
fn written_events_are_read_without_serde() {
    let line = line_with_all_events();
    let (rest, events) = super::events::split(&line).unwrap();

    let episode = by_serde(&line).unwrap();
    assert_eq!(events, episode.evidence.events);
    assert_eq!(by_serde(&rest).unwrap().evidence.events, []);
    assert_eq!(parsed(&line), Ok(episode));
}

#[test]
fn events_in_another_form_are_left_to_serde() {
    let line = line_with_all_events();
    for (from, to) in [
        (r#""name":"x""#, r#""name":"\u0078""#),
        (r#""tid":90"#, r#""tid":090"#),
        (r#""tid":90"#, r#""tid":90.0"#),
        (r#""priority":0"#, r#""priority":-0"#),
        (r#""priority":0"#, r#""priority":32768"#),
        (r#""at_ns":1,"#, r#""at_ns":18446744073709551615,"#),
        (r#""at_ns":1,"#, r#""at_ns":18446744073709551616,"#),
        (r#"{"irq":4294967295}"#, r#"{"irq":4294967296}"#),
        (r#"{"idle":3}"#, r#"{"idle": 3}"#),
        (r#"{"idle":3}"#, r#"{"halt":3}"#),
        (r#""evidence":{"#, r#""evidence":{"inner":{},"#),
        (
            r#""number":1,"#,
            r#""number":1,"x":{"evidence":{"events":[]}},"#,
        ),
        (r#""samples":"#, r#""events":[],"samples":"#),
    ] {
        let changed = line.replace(from, to);
        assert_ne!(changed, line, "{from}");

        assert_eq!(parsed(&changed), by_serde(&changed), "{to}");
    }
}

proptest! {
    #[test]
    fn changed_line_is_read_as_by_serde(
        index in 0..10_000_usize, byte in proptest::prelude::any::<u8>(), cut in proptest::bool::ANY,
    ) {
        let mut line = line_with_all_events().into_bytes();
        let index = index % line.len();
        if cut {
            line.remove(index);
        } else {
            line[index] = byte;
        }
        if let Ok(line) = std::str::from_utf8(&line) {
            prop_assert_eq!(parsed(line), by_serde(line));
        }
    }
}
