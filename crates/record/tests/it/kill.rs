//! Kill of a writer at any time.
//!
//! The test program runs itself as the writer, kills it, and reads the recording.

#![cfg(unix)]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::fixture::{NO_END, Noise, Rows, START, all_rows, figures, largest, manifest, sorted};
use laggard_model::{Activation, Figure, Keep, Nanos};
use laggard_record::{Recorder, Recording, Shortfall};

/// Directory of the writer, and the mode.
const DIR: &str = "RECORD_TEST_WRITER_DIR";
const KEEP: &str = "RECORD_TEST_WRITER_KEEP";
const SEED: u64 = 99;
/// Rows of one batch: several batches per millisecond, a segment every 20.
const BATCH: usize = 3_000;

/// Not a test: the program that is killed. Prints the number of appended rows after
/// each batch.
#[test]
#[ignore = "the program that other tests run and kill"]
fn writer_that_is_killed() {
    let Some(dir) = std::env::var_os(DIR) else {
        return println!("skipped: only other tests run this");
    };
    let keep = match std::env::var(KEEP).as_deref() {
        Ok("tail") => Keep::Tail,
        _ => Keep::All,
    };
    let mut recorder = Recorder::create(PathBuf::from(dir), manifest(keep)).unwrap();
    let mut rows = Rows::new(SEED);
    // A limit in case it is not killed.
    for batch in 1..=4_000_u64 {
        recorder.append(&rows.batch(BATCH)).unwrap();
        // A second passes with every batch.
        recorder.flush(START + Nanos::from_secs(batch)).unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "appended {}", batch * BATCH as u64).unwrap();
        out.flush().unwrap();
    }
}

/// Runs the writer and kills it after `delay`. Returns the last number of appended rows
/// that it printed.
fn write_and_kill(dir: &Path, keep: &str, delay: Duration) -> usize {
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "kill::writer_that_is_killed",
            "--nocapture",
        ])
        .env(DIR, dir)
        .env(KEEP, keep)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(writer.stdout.take().unwrap());
    let counts = std::thread::spawn(move || {
        let lines = out.lines().map_while(Result::ok);
        let printed = |line: String| line.split_once("appended ")?.1.trim().parse().ok();
        lines.filter_map(printed).max().unwrap_or(0)
    });
    std::thread::sleep(delay);
    writer.kill().unwrap();
    writer.wait().unwrap();
    counts.join().unwrap()
}

#[test]
fn kill_at_any_time_neither_loses_nor_doubles_a_row() {
    let mut noise = Noise(0x5EED);
    let mut between = 0;
    for round in 0..25 {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("killed");
        let delay = Duration::from_micros(20_000 + noise.below(400_000));
        let appended = write_and_kill(&dir, "all", delay);
        if !dir.join("manifest-start.json").exists() {
            // Killed before the recording existed: no row was promised.
            assert_eq!(appended, 0, "round {round}");
            continue;
        }

        let recording = Recording::open(&dir).unwrap();

        let readable = all_rows(&recording);
        // The kill may come between an append and its message.
        let possible = appended..=appended + BATCH;
        assert!(
            possible.contains(&readable.len()),
            "round {round}: {possible:?} {}",
            readable.len()
        );
        let mut rows = Rows::new(SEED);
        let expected: Vec<Activation> = (0..readable.len()).map(|_| rows.one()).collect();
        assert!(
            readable == sorted(expected),
            "round {round}: other rows than were appended"
        );
        for shortfall in recording.shortfalls() {
            let expected = matches!(
                shortfall,
                Shortfall::NoEnd { .. }
                    | Shortfall::JournalTorn { .. }
                    | Shortfall::ManifestFromStart { .. }
            );
            assert!(expected, "round {round}: {shortfall}");
        }
        between += usize::from(appended > 0);
    }
    assert!(
        between > 5,
        "only {between} writers lived long enough to test anything"
    );
}

#[test]
fn kill_keeps_summaries_complete() {
    let mut noise = Noise(0xF00D);
    let mut late = 0;
    for round in 0..8 {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("killed");
        let delay = Duration::from_micros(100_000 + noise.below(300_000));
        let appended = write_and_kill(&dir, "tail", delay);
        if appended == 0 {
            continue;
        }
        late += 1;

        let recording = Recording::open(&dir).unwrap();
        let (stored, shortfalls) = figures(&recording);

        assert_eq!(shortfalls, [], "round {round}");
        assert_eq!(largest(&recording).1, [], "round {round}");
        let of_all = |figure: &&laggard_record::FigureHour| {
            matches!(figure.figure, Figure::Latency | Figure::Missed)
        };
        let counts = stored.iter().filter(of_all);
        let counted: u64 = counts.map(|figure| figure.histogram.count()).sum();
        // A batch is a second here.
        let lost = appended.saturating_sub(usize::try_from(counted).unwrap());
        assert!(
            lost <= 10 * BATCH,
            "round {round}: {lost} of {appended} lost"
        );
    }
    if late == 0 {
        println!("skipped: every kill came before the first batch");
    }
}

/// A segment closes in steps: the next journal, the segment, the manifest, removal of
/// the old journal. The test sets up the state after a kill between any two of them.
#[test]
fn kill_between_two_steps_of_closing_a_segment_doubles_no_row() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::All)).unwrap();
    let mut rows = Rows::new(SEED);
    // A hard link preserves the journal after its removal.
    std::fs::hard_link(file("open-000001.journal"), file("journal")).unwrap();
    std::fs::copy(file("manifest.json"), file("manifest")).unwrap();
    recorder.append(&rows.batch(65_536)).unwrap();
    let mut rows = Rows::new(SEED);
    let expected = sorted((0..65_536).map(|_| rows.one()).collect());
    let check = |step: &str| {
        let recording = Recording::open(dir.path()).unwrap();
        assert_eq!(recording.shortfalls(), [NO_END], "{step}");
        assert!(all_rows(&recording) == expected, "{step}");
    };
    check("closed");

    std::fs::rename(file("journal"), file("open-000001.journal")).unwrap();
    check("the old journal is still there");

    std::fs::rename(file("manifest"), file("manifest.json")).unwrap();
    check("the manifest does not list the segment");

    let segment = file("samples/000001.parquet");
    std::fs::rename(&segment, file(".samples-000001.parquet.part")).unwrap();
    check("the segment has its other name");

    std::fs::remove_file(file(".samples-000001.parquet.part")).unwrap();
    check("the next journal is there");

    std::fs::remove_file(file("open-000002.journal")).unwrap();
    check("nothing is done");
}
