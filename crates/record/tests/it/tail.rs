//! What is kept when not every sample is kept.

use std::collections::BTreeMap;

use crate::fixture::{NO_END, Rows, START, all_rows, manifest, sorted};
use laggard_model::{Activation, Batch, Histogram, Keep, LineId, Nanos, STAGES, Stage, State};
use laggard_record::{Figure, Recorder, Recording};

/// Two hours' worth, thinned out so that the test is quick.
fn two_hours(rows: usize) -> Vec<Activation> {
    let mut source = Rows::new(11);
    let step = Nanos::from_secs(7_200).ns() / rows as u64;
    (0..rows as u64)
        .map(|row| Activation {
            expiry: START + Nanos::from_ns(row * step),
            ..source.one()
        })
        .collect()
}

fn record(dir: &std::path::Path, rows: &[Activation]) -> Recorder {
    let mut recorder = Recorder::create(dir, manifest(Keep::Tail)).unwrap();
    for rows in rows.chunks(1_000) {
        let mut batch = Batch::default();
        rows.iter().for_each(|row| batch.push(row));
        recorder.append(&batch).unwrap();
        recorder.flush(rows[rows.len() - 1].expiry).unwrap();
    }
    recorder
}

#[test]
fn histograms_by_the_hour_are_exact() {
    let dir = tempfile::tempdir().unwrap();
    let rows = two_hours(100_000);
    record(dir.path(), &rows).finish(State::Complete).unwrap();
    let mut expected: BTreeMap<_, Histogram> = BTreeMap::new();
    for row in &rows {
        let hour = u32::from(row.expiry >= START + Nanos::from_secs(3_600));
        for figure in Figure::all() {
            if let Some(time) = figure.of(row) {
                expected
                    .entry((hour, row.line, figure))
                    .or_default()
                    .add(time);
            }
        }
    }

    let found = Recording::open(dir.path()).unwrap().summaries();

    assert_eq!(found.shortfalls, []);
    assert_eq!(found.figures.len(), expected.len());
    for one in &found.figures {
        let key = (one.hour, one.line, one.figure);
        assert_eq!(Some(&one.histogram), expected.get(&key), "for {key:?}");
        let largest = rows
            .iter()
            .find(|row| row.expiry == one.largest_at)
            .unwrap();
        assert_eq!(one.figure.of(largest), one.histogram.max(), "for {key:?}");
    }
}

#[test]
fn the_largest_eight_of_each_minute_are_exact() {
    let dir = tempfile::tempdir().unwrap();
    let rows = two_hours(100_000);
    record(dir.path(), &rows).finish(State::Complete).unwrap();

    let found = Recording::open(dir.path()).unwrap().summaries().largest;

    let minute_of = |row: &Activation| (row.expiry.ns() - START.ns()) / 60_000_000_000;
    for (line, minute) in [(LineId(0), 0), (LineId(3), 59), (LineId(1), 119)] {
        let of_minute = rows
            .iter()
            .filter(|row| row.line == line && minute_of(row) == minute);
        let mut expected: Vec<Nanos> = of_minute.map(Activation::latency).collect();
        expected.sort_unstable_by(|a, b| b.cmp(a));
        expected.truncate(8);
        let here = found
            .iter()
            .filter(|one| one.line == line && u64::from(one.minute) == minute);
        let here: Vec<_> = here.collect();
        assert_eq!(
            here.iter().map(|one| one.latency).collect::<Vec<_>>(),
            expected
        );
        for one in here {
            let row = rows
                .iter()
                .find(|row| row.line == line && row.seq == one.seq)
                .unwrap();
            assert_eq!(
                (one.latency, one.expiry, one.missed),
                (row.latency(), row.expiry, row.missed)
            );
        }
    }
}

#[test]
fn the_samples_kept_are_those_of_the_tail() {
    let dir = tempfile::tempdir().unwrap();
    let rows = two_hours(400_000);
    let finished = record(dir.path(), &rows).finish(State::Complete).unwrap();
    let recording = Recording::open(dir.path()).unwrap();

    let kept = all_rows(&recording);

    let counted: u64 = finished
        .counts
        .iter()
        .map(|one| one.served + one.missed)
        .sum();
    assert_eq!(counted, 400_000);
    assert!(kept.len() < 1_000, "{} are not a tail", kept.len());
    for line in 0..4 {
        // The largest of all is above every p99.99 that it was held against.
        let of_line = |row: &&Activation| row.line == LineId(line);
        let largest = rows
            .iter()
            .filter(of_line)
            .max_by_key(|row| row.latency())
            .unwrap();
        assert!(kept.contains(largest), "for line {line}");
    }
    let all = sorted(rows);
    assert!(kept.iter().all(|row| all.contains(row)));
}

#[test]
fn a_kill_loses_less_than_ten_seconds_of_summaries() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::Tail)).unwrap();
    let mut seen = Vec::new();
    for second in 0..60_u64 {
        let mut batch = Batch::default();
        let mut steps = [None; STAGES.len()];
        steps[Stage::User.index()] = Some(Nanos::from_us(1 + second));
        batch.push(&Activation {
            line: LineId(0),
            seq: second,
            expiry: START + Nanos::from_secs(second),
            missed: false,
            censored: false,
            steps,
        });
        recorder.append(&batch).unwrap();
        recorder.flush(START + Nanos::from_secs(second)).unwrap();

        let recording = Recording::open(dir.path()).unwrap();
        assert_eq!(recording.shortfalls(), [NO_END]);
        let figures = recording.summaries().figures;
        let latency = figures
            .iter()
            .find(|one| one.figure == Figure::Latency)
            .unwrap();
        seen.push(second + 1 - latency.histogram.count());
    }

    assert!(seen.iter().all(|&missing| missing < 10), "{seen:?}");
    assert!(
        seen.iter().any(|&missing| missing > 0),
        "rewritten every second: {seen:?}"
    );
}

#[test]
fn an_activation_of_an_hour_long_closed_still_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::Tail)).unwrap();
    for (seq, hour) in [0, 1, 2, 3, 0].into_iter().enumerate() {
        let mut rows = Rows::new(1);
        let mut row = rows.one();
        row.seq = seq as u64;
        row.missed = false;
        row.expiry = START + Nanos::from_secs(3_600 * hour);
        let mut batch = Batch::default();
        batch.push(&row);
        recorder.append(&batch).unwrap();
        recorder
            .flush(START + Nanos::from_secs(100 * seq as u64))
            .unwrap();
    }
    recorder.finish(State::Complete).unwrap();

    let figures = Recording::open(dir.path()).unwrap().summaries().figures;

    let latencies = figures.iter().filter(|one| one.figure == Figure::Latency);
    let counts: Vec<_> = latencies
        .map(|one| (one.hour, one.histogram.count()))
        .collect();
    assert_eq!(counts, [(0, 1), (1, 1), (2, 2), (3, 1)]);
}

#[test]
fn what_was_still_waiting_at_the_end_is_in_the_histograms_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::Tail)).unwrap();
    let mut rows = Rows::new(1);
    let mut batch = Batch::default();
    for seq in 0..10 {
        let mut row = rows.one();
        (row.line, row.seq) = (LineId(0), seq);
        (row.missed, row.censored) = (seq > 3, seq > 6);
        batch.push(&row);
    }
    recorder.append(&batch).unwrap();
    recorder.finish(State::Complete).unwrap();

    let recording = Recording::open(dir.path()).unwrap();
    let summaries = recording.summaries();

    assert_eq!(summaries.activations(), 10);
    assert_eq!(summaries.shortfalls, []);
}
