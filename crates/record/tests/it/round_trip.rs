//! Written data is read back unchanged.

use crate::fixture;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use crate::fixture::{NO_END, Rows, all_rows, manifest, sorted};
use laggard_model::{
    Activation, Batch, Gather, Keep, LineId, LossReason, Nanos, STAGES, SegmentEntry, Stage, State,
};
use laggard_record::{Columns, CreateError, Recorder, Recording, Shortfall, WriteError};
use proptest::prelude::{any, prop, proptest};

/// Rows that fill two segments and start a third.
const ROWS: usize = 150_000;

#[test]
fn finished_recording_returns_every_row() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("whole.laggard");
    let mut recorder = Recorder::create(&dir, manifest(Keep::All)).unwrap();
    let (mut rows, mut pushed) = (Rows::new(7), Vec::new());
    while pushed.len() < ROWS {
        let batch = rows.batch(1_000);
        pushed.extend(batch.iter());
        recorder.append(&batch).unwrap();
    }
    let finished = recorder.finish(State::Complete).unwrap();

    let recording = Recording::open(&dir).unwrap();

    assert_eq!(recording.manifest(), &finished);
    assert_eq!(recording.shortfalls(), []);
    assert_eq!(all_rows(&recording), sorted(pushed.clone()));
    let missed = pushed.iter().filter(|row| row.missed).count() as u64;
    let counts = &finished.counts;
    assert_eq!(counts.iter().map(|count| count.missed).sum::<u64>(), missed);
    assert_eq!(
        counts.iter().map(|count| count.served).sum::<u64>(),
        ROWS as u64 - missed
    );
    assert_eq!(
        finished
            .segments
            .iter()
            .map(|segment| segment.rows)
            .collect::<Vec<_>>(),
        [66_000, 66_000, 18_000]
    );
    let files = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut files: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        files
    };
    assert_eq!(
        files(&dir),
        ["manifest-start.json", "manifest.json", "samples"]
    );
    // No other file, so that other programs can read it as one table.
    assert_eq!(
        files(&dir.join("samples")),
        ["000001.parquet", "000002.parquet", "000003.parquet"]
    );
}

#[test]
fn unfinished_recording_returns_the_appended_rows() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::All)).unwrap();
    let mut rows = Rows::new(3);
    let batch = rows.batch(70_500);
    recorder.append(&batch).unwrap();
    recorder.append(&Batch::default()).unwrap();

    let recording = Recording::open(dir.path()).unwrap();

    assert_eq!(recording.shortfalls(), [NO_END]);
    assert_eq!(all_rows(&recording), sorted(batch.iter().collect()));
}

/// Collects the rows in their order.
#[derive(Default)]
struct Everything(Vec<Activation>);

impl Gather for Everything {
    fn batch(&mut self, rows: &Batch) {
        self.0.extend(rows.iter());
    }

    fn join(&mut self, later: Self) {
        self.0.extend(later.0);
    }
}

#[test]
fn threads_see_every_row_once_in_the_same_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::All)).unwrap();
    recorder.append(&Rows::new(5).batch(ROWS)).unwrap();
    let recording = Recording::open(dir.path()).unwrap();
    let mut scanned = Vec::new();
    recording.scan(Columns::all(), |batch| scanned.extend(batch.iter()));

    for threads in [1, 2, 3, 8] {
        let (rows, shortfalls) = recording.gather(
            NonZeroUsize::new(threads).unwrap(),
            Columns::all(),
            Everything::default,
        );

        assert_eq!(shortfalls, []);
        assert!(rows.0 == scanned, "with {threads} threads");
        assert_eq!(rows.0.len(), ROWS);
    }
}

#[test]
fn unexplained_gap_is_reported() {
    /// Counts no rows.
    struct Nothing;
    impl Gather for Nothing {
        fn batch(&mut self, _: &Batch) {}
        fn join(&mut self, _: Self) {}
    }
    let with_lost = |lost: u64| {
        let dir = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::create(dir.path(), manifest(Keep::All)).unwrap();
        let mut whole = Rows::new(5);
        let mut batch = Batch::default();
        for _ in 0..70_000 {
            let row = whole.one();
            // Line 1 lacks eleven in the middle.
            if row.line != LineId(1) || !(9_000..9_011).contains(&row.seq) {
                batch.push(&row);
            }
        }
        recorder.append(&batch).unwrap();
        recorder.lose(&[0, lost]);
        recorder.finish(State::Complete).unwrap();
        let recording = Recording::open(dir.path()).unwrap();
        let wanted = Columns::default();
        recording.gather(NonZeroUsize::MIN, wanted, || Nothing).1
    };

    assert_eq!(with_lost(11), []);
    assert_eq!(with_lost(4), [Shortfall::Unexplained { rows: 7 }]);
    assert_eq!(with_lost(0), [Shortfall::Unexplained { rows: 11 }]);
}

#[test]
fn only_selected_columns_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::All)).unwrap();
    recorder.append(&Rows::new(5).batch(100)).unwrap();
    recorder.finish(State::Interrupted).unwrap();
    let recording = Recording::open(dir.path()).unwrap();

    let mut passed = 0;
    let shortfalls = recording.scan(Columns::default().step(Stage::User), |batch| {
        passed += batch.len();
        assert_eq!(batch.step_ns[Stage::User.index()].len(), batch.len());
        assert!(batch.seq.is_empty() && batch.step_ns[Stage::Irq.index()].is_empty());
    });

    assert_eq!((passed, shortfalls), (100, vec![]));
}

#[test]
fn directory_in_use_or_without_parent_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let create = |path: PathBuf| Recorder::create(path, manifest(Keep::All)).unwrap_err();

    assert!(matches!(
        create(dir.path().into()),
        CreateError::NotEmpty(_)
    ));
    assert!(matches!(create(file.clone()), CreateError::NotAFolder(_)));
    let error = create(dir.path().join("a/b"));
    assert!(matches!(error, CreateError::ParentMissing(_)));
    assert_eq!(
        error.to_string(),
        format!(
            "the directory `{}` does not exist; create it first",
            dir.path().join("a").display()
        )
    );
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn rows_that_cannot_be_stored_are_refused_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::All)).unwrap();
    let mut batch = Rows::new(1).batch(3);
    batch.line[1] = LineId(4);

    let error = recorder.append(&batch).unwrap_err();

    assert!(matches!(
        error,
        WriteError::UnknownLine { line: 4, lines: 4 }
    ));
    batch.line[1] = LineId(0);
    batch.expiry_ns[2] = u64::MAX;
    let error = recorder.append(&batch).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the expiry 18446744073709551615 of line 2 is too large to be a measurement; \
         check the clock that it was read from"
    );
    assert_eq!(recorder.manifest().losses.not_written, 6);
}

#[test]
fn flush_writes_changes_of_the_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::All)).unwrap();
    let lost = || {
        Recording::open(dir.path())
            .unwrap()
            .manifest()
            .losses
            .ring_full
    };
    let lose = |recorder: &mut Recorder| {
        recorder.update(|manifest| manifest.losses.add(LossReason::RingFull, 1));
    };
    lose(&mut recorder);
    assert_eq!(lost(), 0);

    recorder.flush(Nanos::from_secs(10)).unwrap();
    assert_eq!(lost(), 1);

    lose(&mut recorder);
    recorder.flush(Nanos::from_secs(14)).unwrap();
    assert_eq!(lost(), 1, "before 5 s");
    recorder.flush(Nanos::from_secs(15)).unwrap();
    assert_eq!(lost(), 2, "after 5 s");
}

/// As if the writer is killed directly afterwards, without a flush.
#[test]
fn new_line_is_written_before_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::All)).unwrap();
    let lines = recorder.manifest().lines.len();
    recorder.update(|manifest| manifest.lines.push(manifest.lines[0]));
    let mut batch = Batch::default();
    let row = Rows::new(9).batch(1).get(0);
    let line = LineId::at(lines).unwrap();
    batch.push(&Activation { line, ..row });

    recorder.append(&batch).unwrap();

    let read = Recording::open(dir.path()).unwrap();
    assert_eq!(read.manifest().lines.len(), lines + 1);
    let rows = all_rows(&read);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows.first().map(|row| row.line), Some(line));
}

#[test]
fn manifest_has_the_time_span_of_a_segment() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::All)).unwrap();
    let batch = Rows::new(9).batch(10);
    recorder.append(&batch).unwrap();
    let finished = recorder.finish(State::Complete).unwrap();

    let file = "samples/000001.parquet";
    assert_eq!(
        finished.segments,
        [SegmentEntry {
            file: file.into(),
            rows: 10,
            bytes: dir.path().join(file).metadata().unwrap().len(),
            first_ns: Nanos::from_ns(*batch.expiry_ns.iter().min().unwrap()),
            last_ns: Nanos::from_ns(*batch.expiry_ns.iter().max().unwrap()),
        }]
    );
}

/// Ten years after the start.
const LATEST_NS: u64 = fixture::START.ns() + 10 * 366 * 86_400 * 1_000_000_000;

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(64))]

    #[test]
    fn rows_are_read_back_from_journal_and_segment(
        rows in prop::collection::vec(
            (0_u16..4, 0..=LATEST_NS, any::<bool>(), any::<[Option<u32>; STAGES.len()]>(), 0_u32..22),
            0..200,
        ),
    ) {
        let rows: Vec<Activation> = rows
            .into_iter()
            .zip(0..)
            .map(|((line, expiry, missed, steps, shift), seq)| Activation {
                line: LineId(line),
                seq,
                expiry: Nanos::from_ns(expiry),
                missed,
                censored: missed && seq % 2 == 0,
                steps: steps.map(|ns| ns.map(|ns| Nanos::from_ns(u64::from(ns) << shift))),
            })
            .collect();
        let mut batch = Batch::default();
        rows.iter().for_each(|row| batch.push(row));
        let dir = tempfile::tempdir().unwrap();
        let mut recorder = Recorder::create(dir.path(), manifest(Keep::All)).unwrap();
        recorder.append(&batch).unwrap();
        let rows = sorted(rows);

        assert_eq!(all_rows(&Recording::open(dir.path()).unwrap()), rows, "journal");
        recorder.finish(State::Complete).unwrap();
        assert_eq!(all_rows(&Recording::open(dir.path()).unwrap()), rows, "segment");
    }
}

/// The writer refuses what the reader refuses, so that no recording is unreadable.
#[test]
fn unreadable_manifest_is_never_written() {
    let dir = tempfile::tempdir().unwrap();
    let beyond = Nanos::from_ns(u64::MAX / 2);
    let mut late = manifest(Keep::All);
    late.clock.start_ns = beyond;

    let refused = Recorder::create(dir.path().join("late.laggard"), late).unwrap_err();

    assert!(
        matches!(refused, CreateError::Write(WriteError::Manifest { .. })),
        "{refused:?}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);

    let place = dir.path().join("endless.laggard");
    let mut recorder = Recorder::create(&place, manifest(Keep::All)).unwrap();
    recorder.append(&Rows::new(7).batch(10)).unwrap();
    recorder.update(|manifest| manifest.clock.end_ns = Some(beyond));

    let refused = recorder.finish(State::Complete).unwrap_err();

    assert!(
        matches!(refused, WriteError::Manifest { .. }),
        "{refused:?}"
    );
    assert_eq!(all_rows(&Recording::open(&place).unwrap()).len(), 10);
}
