//! Rows per second written and read, and bytes per row on disk.
//!
//! `cargo bench -p laggard-record -- [ROWS] [FOLDER]`. With a folder, the recordings
//! are kept there for comparison with other readers, and existing ones are only read.

#[path = "../tests/it/fixture/mod.rs"]
mod fixture;

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use fixture::{Rows, manifest};
use laggard_model::{Batch, Gather, Histogram, Keep, Nanos, State};
use laggard_record::{Columns, Recorder, Recording};

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let rows = words.next().map_or(5_000_000, |text| {
        text.parse().expect("the first word is a number of rows")
    });
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = words.next().map(std::path::PathBuf::from);
    for keep in [Keep::All, Keep::Tail] {
        let name = format!("{keep:?}").to_lowercase();
        if let Some(folder) = &folder {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        let dir = folder.as_deref().unwrap_or(temporary.path()).join(name);
        if !dir.exists() {
            write(&dir, keep, rows);
        }
        if keep == Keep::All {
            (1..=2).for_each(|threads| read(&dir, threads));
        }
    }
}

/// Appends the rows in batches like a collector. The time for making rows is excluded.
fn write(dir: &Path, keep: Keep, rows: usize) {
    let mut source = Rows::new(42);
    let mut recorder = Recorder::create(dir, manifest(keep)).expect("a new folder");
    let mut seconds = 0.0;
    for part in 0..rows.div_ceil(4_096) {
        let batch = source.batch(4_096.min(rows - part * 4_096));
        let start = Instant::now();
        recorder.append(&batch).expect("room on the disk");
        let now = batch.expiry_ns.last().copied().unwrap_or_default();
        recorder
            .flush(Nanos::from_ns(now))
            .expect("room on the disk");
        seconds += start.elapsed().as_secs_f64();
    }
    let start = Instant::now();
    let written = recorder.written_bytes();
    let finished = recorder.finish(State::Complete).expect("room on the disk");
    seconds += start.elapsed().as_secs_f64();
    let kept: u64 = finished.segments.iter().map(|segment| segment.bytes).sum();
    println!(
        "write, keep {keep:?}: {:.2} million rows/s, {:.2} bytes/row in segments, {:.1} bytes/row written in all",
        rows as f64 / seconds / 1e6,
        kept as f64 / rows as f64,
        written as f64 / rows as f64,
    );
}

/// Reads the latencies of all rows into histograms, as `show` does.
fn read(dir: &Path, threads: usize) {
    let recording = Recording::open(dir).expect("a recording");
    let start = Instant::now();
    let (counted, shortfalls) = recording.gather(
        NonZeroUsize::new(threads).expect("not zero"),
        Columns::latencies(),
        Latencies::default,
    );
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(shortfalls, []);
    let rows: u64 = counted.0.iter().map(Histogram::count).sum();
    println!(
        "read, {threads} threads: {:.1} million rows/s into histograms of latencies",
        rows as f64 / seconds / 1e6
    );
}

/// Per line.
#[derive(Default)]
struct Latencies([Histogram; 4]);

impl Gather for Latencies {
    fn batch(&mut self, rows: &Batch) {
        let mut latency_ns = vec![0; rows.len()];
        for steps in rows.step_ns.iter().filter(|steps| !steps.is_empty()) {
            for (sum, &step) in latency_ns.iter_mut().zip(steps) {
                *sum += if step == Batch::ABSENT { 0 } else { step };
            }
        }
        for (line, &ns) in rows.line.iter().zip(&latency_ns) {
            self.0[usize::from(line.0)].add(Nanos::from_ns(ns));
        }
    }

    fn join(&mut self, later: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&later.0) {
            mine.merge(theirs);
        }
    }
}
