//! Damaged recordings: an error or a shortfall, never a panic, never wrong rows.

use std::fs;
use std::path::Path;

use crate::fixture::{NO_END, Rows, all_rows, figures, largest, manifest};
use laggard_model::{Activation, Batch, Keep, Nanos, State};
use laggard_record::{Columns, OpenError, Recorder, Recording, Shortfall};
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};

/// Returns rows that are each slower than all before, so that each belongs to the tail.
fn slower_and_slower(seed: u64, first_seq: u64) -> Batch {
    let mut source = Rows::new(seed);
    let mut batch = Batch::default();
    for row in first_seq..first_seq + 300 {
        let mut activation = source.one();
        activation.seq = row;
        activation.steps[0] = Some(Nanos::from_ms(10 + row));
        batch.push(&activation);
    }
    batch
}

/// Writes a small recording with every kind of file. Returns its rows.
fn small(dir: &Path) -> Vec<Activation> {
    let mut recorder = Recorder::create(dir, manifest(Keep::Tail)).unwrap();
    recorder.append(&slower_and_slower(5, 0)).unwrap();
    recorder.finish(State::Complete).unwrap();
    // As if it had continued and been killed.
    let file = dir.join("manifest.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("\"complete\"", "\"running\"")).unwrap();
    let other = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(other.path(), manifest(Keep::Tail)).unwrap();
    for first_seq in [1_000, 2_000] {
        recorder.append(&slower_and_slower(6, first_seq)).unwrap();
    }
    fs::copy(
        other.path().join("open-000001.journal"),
        dir.join("open-000002.journal"),
    )
    .unwrap();
    all_rows(&Recording::open(dir).unwrap())
}

/// Reads all content as a reader does. Returns the rows.
fn read_all(dir: &Path) -> Result<(Vec<Activation>, Vec<Shortfall>), OpenError> {
    let recording = Recording::open(dir)?;
    let mut rows = Vec::new();
    let mut shortfalls = recording.shortfalls().to_vec();
    shortfalls.extend(recording.scan(Columns::all(), |batch| rows.extend(batch.iter())));
    shortfalls.extend(figures(&recording).1);
    shortfalls.extend(largest(&recording).1);
    Ok((rows, shortfalls))
}

/// Modification of a file.
#[derive(Clone, Debug)]
enum Harm {
    Flip {
        at: prop::sample::Index,
        bits: u8,
    },
    Cut {
        at: prop::sample::Index,
    },
    Insert {
        at: prop::sample::Index,
        bytes: Vec<u8>,
    },
    Empty,
    Remove,
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        4 => (any::<prop::sample::Index>(), 1..=u8::MAX).prop_map(|(index, bits)| Harm::Flip { at: index, bits }),
        2 => any::<prop::sample::Index>().prop_map(|index| Harm::Cut { at: index }),
        2 => (any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 1..40))
            .prop_map(|(index, bytes)| Harm::Insert { at: index, bytes }),
        1 => Just(Harm::Empty),
        1 => Just(Harm::Remove),
    ]
}

fn do_harm(file: &Path, harm: &Harm) {
    let mut content = fs::read(file).unwrap();
    match harm {
        Harm::Flip { at, bits } => {
            let position = at.index(content.len());
            content[position] ^= bits;
        }
        Harm::Cut { at } => content.truncate(at.index(content.len())),
        Harm::Insert { at, bytes } => {
            let position = at.index(content.len());
            content.splice(position..position, bytes.iter().copied());
        }
        Harm::Empty => content.clear(),
        Harm::Remove => return fs::remove_file(file).unwrap(),
    }
    fs::write(file, content).unwrap();
}

fn files(dir: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for folder in ["", "samples/"] {
        let entries = fs::read_dir(dir.join(folder)).unwrap();
        let names_in = entries
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.path().is_file())
            .map(|entry| format!("{folder}{}", entry.file_name().into_string().unwrap()));
        names.extend(names_in);
    }
    names.sort();
    names
}

#[test]
fn every_damage_to_every_file_is_an_error_or_a_shortfall() {
    let whole = tempfile::tempdir().unwrap();
    let rows = small(whole.path());
    let names = files(whole.path());
    assert_eq!(rows.len(), 900);
    assert_eq!(
        names,
        [
            "histograms-000000.parquet",
            "largest-000000.parquet",
            "manifest-start.json",
            "manifest.json",
            "open-000002.journal",
            "samples/000001.parquet",
        ]
    );
    let mut runner =
        proptest::test_runner::TestRunner::new(proptest::test_runner::Config::with_cases(400));
    let strategy = (prop::sample::select(names.clone()), harm());
    runner
        .run(&strategy, |(name, harm)| {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join("samples")).unwrap();
            for other in &names {
                fs::copy(whole.path().join(other), dir.path().join(other)).unwrap();
            }
            do_harm(&dir.path().join(&name), &harm);

            let read = read_all(dir.path());

            let is_manifest = name.starts_with("manifest");
            match read {
                // The manifest lacks a checksum: a flipped bit can change a value unnoticed.
                Err(_) if is_manifest => {}
                Err(error) => panic!("{name}: {error}"),
                Ok((intact, shortfalls)) => {
                    assert!(
                        intact.iter().all(|row| rows.contains(row)),
                        "{name}: invented rows"
                    );
                    let lost = rows.len() - intact.len();
                    let is_reported = shortfalls.iter().any(|shortfall| *shortfall != NO_END);
                    // A shorter journal is a valid state after an earlier kill.
                    let younger =
                        name.contains("journal") && matches!(harm, Harm::Empty | Harm::Cut { .. });
                    assert!(
                        is_reported || younger || lost == 0,
                        "{name}: {lost} rows lost without a word"
                    );
                    let checked = ["samples", "histograms", "largest"];
                    let gone_largest = name.contains("largest") && matches!(harm, Harm::Remove);
                    if checked.iter().any(|kind| name.starts_with(kind)) && !gone_largest {
                        assert!(is_reported, "{name}: damage without a word");
                    }
                }
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn damage_in_one_file_does_not_stop_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::All)).unwrap();
    (0..3).for_each(|seed| recorder.append(&Rows::new(seed + 1).batch(65_536)).unwrap());
    recorder.finish(State::Complete).unwrap();
    let second = dir.path().join("samples/000002.parquet");
    let mut content = fs::read(&second).unwrap();
    content[1_000] ^= 1;
    fs::write(&second, content).unwrap();
    fs::remove_file(dir.path().join("samples/000003.parquet")).unwrap();

    let (rows, shortfalls) = read_all(dir.path()).unwrap();

    assert_eq!(rows.len(), 65_536);
    let words: Vec<String> = shortfalls.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "`samples/000003.parquet` with 65536 samples is missing",
            "`samples/000002.parquet` is damaged: its checksum is wrong: some of its bytes changed after it was written",
        ]
    );
    assert!(shortfalls[0].advice().contains("from a copy"));
}

#[test]
fn torn_frame_is_reported_and_the_rest_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::All)).unwrap();
    let journal = dir.path().join("open-000001.journal");
    recorder.append(&Rows::new(1).batch(100)).unwrap();
    let whole = fs::metadata(&journal).unwrap().len();
    recorder.append(&Rows::new(2).batch(100)).unwrap();
    let content = fs::read(&journal).unwrap();
    fs::write(&journal, &content[..content.len() - 7]).unwrap();

    let (rows, shortfalls) = read_all(dir.path()).unwrap();

    assert_eq!(rows.len(), 100);
    let torn = Shortfall::JournalTorn {
        file: "open-000001.journal".into(),
        offset: whole,
        bytes: content.len() as u64 - 7 - whole,
    };
    assert_eq!(shortfalls, [NO_END, torn]);
}

#[test]
fn lost_manifest_is_replaced_by_its_copy_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut recorder = Recorder::create(dir.path(), manifest(Keep::All)).unwrap();
    recorder.append(&Rows::new(1).batch(70_000)).unwrap();
    recorder.finish(State::Complete).unwrap();
    fs::write(dir.path().join("manifest.json"), "{\"schema\": 1").unwrap();

    let (rows, shortfalls) = read_all(dir.path()).unwrap();

    assert_eq!(rows.len(), 70_000);
    assert!(
        matches!(shortfalls[0], Shortfall::ManifestFromStart { .. }),
        "{shortfalls:?}"
    );
    fs::remove_file(dir.path().join("manifest.json")).unwrap();
    fs::remove_file(dir.path().join("manifest-start.json")).unwrap();
    let error = read_all(dir.path()).unwrap_err();
    assert!(
        error.to_string().contains("has 2 sample files but neither"),
        "{error}"
    );
}

#[test]
fn path_that_is_no_recording_is_refused_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        Recording::open(dir.path().join(name))
            .unwrap_err()
            .to_string()
    };
    fs::create_dir(dir.path().join("empty")).unwrap();
    fs::write(dir.path().join("file"), "").unwrap();

    assert!(
        open("none").ends_with("check the name (a recording is a directory, usually NAME.laggard)")
    );
    for name in ["empty", "file"] {
        assert!(
            open(name).ends_with("give the directory that `record` wrote"),
            "{}",
            open(name)
        );
    }
}

#[test]
fn later_layout_is_refused_by_its_version() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = "{\"schema\": 7, \"everything\": \"else\"}";
    fs::write(dir.path().join("manifest.json"), manifest).unwrap();

    let error = Recording::open(dir.path()).unwrap_err().to_string();

    assert!(
        error.ends_with("has layout version 7, this program reads up to 2; use a newer laggard"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn journal_of_any_bytes_is_read_or_reported(bytes in prop::collection::vec(any::<u8>(), 1..300)) {
        let dir = tempfile::tempdir().unwrap();
        drop(Recorder::create(dir.path(), manifest(Keep::All)).unwrap());
        let mut content = b"LGJ1".to_vec();
        content.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
        content.extend(crc32fast::hash(&bytes).to_le_bytes());
        content.extend(&bytes);
        fs::write(dir.path().join("open-000001.journal"), content).unwrap();

        let (rows, shortfalls) = read_all(dir.path()).unwrap();

        assert!(rows.len() * 4 <= bytes.len());
        assert!(!rows.is_empty() || shortfalls.len() > 1);
    }
}
