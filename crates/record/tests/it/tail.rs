//! Data that is kept with `keep: tail`.

use std::collections::BTreeMap;

use crate::fixture::{NO_END, Rows, START, all_rows, figures, largest, manifest, sorted};
use laggard_model::{
    Activation, Batch, Figure, Histogram, Keep, LineId, Nanos, STAGES, Stage, State,
};
use laggard_record::{Recorder, Recording};

/// Returns two hours of rows, thinned for a fast test.
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
fn hourly_histograms_are_exact() {
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

    let recording = Recording::open(dir.path()).unwrap();
    let (stored, shortfalls) = figures(&recording);

    assert_eq!(shortfalls, []);
    assert_eq!(largest(&recording).1, []);
    assert_eq!(stored.len(), expected.len());
    for figure in &stored {
        let key = (figure.hour, figure.line, figure.figure);
        assert_eq!(Some(&figure.histogram), expected.get(&key), "for {key:?}");
        let largest = rows
            .iter()
            .find(|row| row.expiry == figure.largest_at)
            .unwrap();
        assert_eq!(
            figure.figure.of(largest),
            figure.histogram.max(),
            "for {key:?}"
        );
    }
}

#[test]
fn largest_eight_of_each_minute_are_exact() {
    let dir = tempfile::tempdir().unwrap();
    let rows = two_hours(100_000);
    record(dir.path(), &rows).finish(State::Complete).unwrap();

    let (largest, _) = largest(&Recording::open(dir.path()).unwrap());

    let minute_of = |row: &Activation| (row.expiry.ns() - START.ns()) / 60_000_000_000;
    for (line, minute) in [(LineId(0), 0), (LineId(3), 59), (LineId(1), 119)] {
        let of_minute = rows
            .iter()
            .filter(|row| row.line == line && minute_of(row) == minute);
        let mut expected: Vec<Nanos> = of_minute.map(Activation::latency).collect();
        expected.sort_unstable_by(|a, b| b.cmp(a));
        expected.truncate(8);
        let here = largest
            .iter()
            .filter(|latency| latency.line == line && u64::from(latency.minute) == minute);
        let here: Vec<_> = here.collect();
        assert_eq!(
            here.iter()
                .map(|latency| latency.latency)
                .collect::<Vec<_>>(),
            expected
        );
        for latency in here {
            let row = rows
                .iter()
                .find(|row| row.line == line && row.seq == latency.seq)
                .unwrap();
            assert_eq!(
                (latency.latency, latency.expiry, latency.missed),
                (row.latency(), row.expiry, row.missed)
            );
        }
    }
}

#[test]
fn kept_samples_are_those_of_the_tail() {
    let dir = tempfile::tempdir().unwrap();
    let rows = two_hours(400_000);
    let finished = record(dir.path(), &rows).finish(State::Complete).unwrap();
    let recording = Recording::open(dir.path()).unwrap();

    let kept = all_rows(&recording);

    let counted: u64 = finished
        .counts
        .iter()
        .map(|count| count.served + count.missed)
        .sum();
    assert_eq!(counted, 400_000);
    assert!(kept.len() < 1_000, "{} are not a tail", kept.len());
    for line in 0..4 {
        // The maximum exceeds every p99.99 used for the selection.
        let of_line = |row: &&Activation| row.line == LineId(line);
        let largest = rows
            .iter()
            .filter(of_line)
            .max_by_key(|row| row.latency())
            .unwrap();
        assert!(kept.contains(largest), "for line {line}");
    }
    let rows = sorted(rows);
    assert!(kept.iter().all(|row| rows.contains(row)));
}

#[test]
fn kill_loses_less_than_ten_seconds_of_summaries() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::Tail)).unwrap();
    let mut counts = Vec::new();
    for second in 0..60_u64 {
        let mut batch = Batch::default();
        let mut steps = [None; STAGES.len()];
        steps[Stage::User.index()] = Some(Nanos::from_us(1 + second));
        batch.push(&Activation::new(
            LineId(0),
            second,
            START + Nanos::from_secs(second),
            steps,
        ));
        recorder.append(&batch).unwrap();
        recorder.flush(START + Nanos::from_secs(second)).unwrap();

        let recording = Recording::open(dir.path()).unwrap();
        assert_eq!(recording.shortfalls(), [NO_END]);
        let (figures, _) = figures(&recording);
        let latency = figures
            .iter()
            .find(|figure| figure.figure == Figure::Latency)
            .unwrap();
        counts.push(second + 1 - latency.histogram.count());
    }

    assert!(counts.iter().all(|&missing| missing < 10), "{counts:?}");
    assert!(
        counts.iter().any(|&missing| missing > 0),
        "rewritten every second: {counts:?}"
    );
}

#[test]
fn activation_of_a_closed_hour_still_counts() {
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

    let (figures, _) = figures(&Recording::open(dir.path()).unwrap());

    let latencies = figures
        .iter()
        .filter(|figure| figure.figure == Figure::Latency);
    let counts: Vec<_> = latencies
        .map(|figure| (figure.hour, figure.histogram.count()))
        .collect();
    assert_eq!(counts, [(0, 1), (1, 1), (2, 2), (3, 1)]);
}

#[test]
fn waiting_activations_are_in_the_histograms_too() {
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
    let (stored, shortfalls) = figures(&recording);

    let whole = [Figure::Latency, Figure::Missed, Figure::Censored];
    let whole = stored
        .iter()
        .filter(|stored| whole.contains(&stored.figure));
    let counted: u64 = whole.map(|stored| stored.histogram.count()).sum();
    assert_eq!(counted, 10);
    assert_eq!(shortfalls, []);
}
