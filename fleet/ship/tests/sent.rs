//! Sends recordings to stores on this machine: in memory, and in a directory.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use laggard_ship::Bucket;
use laggard_ship::ship::{Round, round};
use object_store::local::LocalFileSystem;
use tempfile::TempDir;

mod folders;

use folders::files;

/// Creates a recording of `host` that started at `started`.
fn recorded(dir: &Path, name: &str, host: &str, state: &str, started: &str) {
    let dir = dir.join(name);
    fs::create_dir_all(dir.join("samples")).unwrap();
    let manifest = |state| {
        format!(
            "{{\"state\": \"{state}\", \"host\": {{\"node\": \"{host}\"}}, \"at\": \"{started}\"}}"
        )
    };
    for (file, text) in [
        ("manifest.json", manifest(state)),
        ("manifest-start.json", manifest("running")),
        ("histograms-000000.parquet", "buckets".into()),
        ("samples/000001.parquet", "rows".into()),
    ] {
        fs::write(dir.join(file), text).unwrap();
    }
}

/// Opens a directory as a bucket.
fn bucket(there: &Path) -> Bucket {
    let store = LocalFileSystem::new_with_prefix(there).unwrap();
    Bucket::new(Arc::new(store), "fleet", "s3://latency".into()).unwrap()
}

fn once(there: &Path, here: &Path) -> Round {
    round(&bucket(there), here, &mut BTreeSet::new()).unwrap()
}

#[test]
fn finished_recordings_are_sent_byte_for_byte_and_others_are_not() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    recorded(here.path(), "one.laggard", "a", "complete", "1");
    recorded(here.path(), "two.laggard", "a", "interrupted", "2");
    recorded(here.path(), "now.laggard", "a", "running", "3");
    fs::write(here.path().join("one.laggard/.rest.part"), "half").unwrap();
    fs::create_dir(here.path().join("notes")).unwrap();
    fs::write(here.path().join("notes/secret"), "mine").unwrap();

    let round = once(there.path(), here.path());

    let mut expected = files(here.path());
    expected.retain(|name, _| {
        !["now.", "notes", "one.laggard/.r"]
            .iter()
            .any(|no| name.starts_with(no))
    });
    assert_eq!(files(&there.path().join("fleet/a")), expected);
    assert_eq!(round.open, [here.path().join("now.laggard")]);
    assert_eq!(round.sent.len(), 2, "{}", round.text());
    assert_eq!(round.sent[0].0, "s3://latency/fleet/a/one.laggard");
    assert!(round.is_whole());
}

#[test]
fn sent_recordings_are_not_sent_again() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    recorded(here.path(), "one.laggard", "a", "complete", "1");
    once(there.path(), here.path());

    let again = once(there.path(), here.path());

    assert_eq!((again.sent.len(), again.there), (0, 1));
    assert_eq!(
        again.text(),
        "0 sent, 1 there before, 0 not ended, 0 not sent, 0 not tried\n"
    );
}

#[test]
fn interrupted_recording_is_continued_with_the_manifest_last() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    recorded(here.path(), "one.laggard", "a", "complete", "1");
    once(there.path(), here.path());
    let own = there.path().join("fleet/a/one.laggard");
    let whole = files(&own);
    fs::remove_file(own.join("manifest.json")).unwrap();
    fs::remove_file(own.join("samples/000001.parquet")).unwrap();
    fs::write(own.join("histograms-000000.parquet"), "buck").unwrap();

    let round = once(there.path(), here.path());

    assert_eq!(files(&own), whole);
    let missing = [
        "manifest.json",
        "samples/000001.parquet",
        "histograms-000000.parquet",
    ];
    let bytes: usize = missing.iter().map(|name| whole[*name].len()).sum();
    assert_eq!(
        round.sent[0].1, bytes as u64,
        "the start of it is not sent again"
    );
}

#[test]
fn another_recording_of_the_same_name_is_kept_and_reported() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    recorded(here.path(), "one.laggard", "a", "complete", "1");
    once(there.path(), here.path());
    let before = files(there.path());
    recorded(here.path(), "one.laggard", "a", "complete", "2");
    recorded(here.path(), "two.laggard", "a", "complete", "2");

    let whole = once(there.path(), here.path());
    // An incomplete recording of another machine is not overwritten either.
    fs::remove_file(there.path().join("fleet/a/one.laggard/manifest.json")).unwrap();
    let begun = once(there.path(), here.path());

    for round in [whole, begun] {
        assert_eq!(round.failed.len(), 1, "{}", round.text());
        let why = &round.failed[0].1;
        assert!(
            why.starts_with("another recording is at s3://latency/fleet/a/one.laggard; "),
            "{why}"
        );
    }
    let after = files(there.path());
    let start = "fleet/a/one.laggard/manifest-start.json";
    assert_eq!(after[start], before[start]);
    assert!(after.contains_key("fleet/a/two.laggard/manifest.json"));
}

#[test]
fn unreadable_recording_is_reported_and_the_rest_is_sent() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for name in [
        "a.laggard",
        "b.laggard",
        "c.laggard",
        "d.laggard",
        "e.laggard",
    ] {
        recorded(here.path(), name, "../../etc", "complete", name);
    }
    fs::write(here.path().join("a.laggard/manifest.json"), "{").unwrap();
    fs::remove_file(here.path().join("b.laggard/manifest.json")).unwrap();
    fs::write(here.path().join("c.laggard/manifest.json"), "[]").unwrap();
    std::os::unix::fs::symlink("/etc", here.path().join("d.laggard/etc")).unwrap();

    let round = once(there.path(), here.path());

    let failed: Vec<_> = round
        .failed
        .iter()
        .map(|(path, _)| path.file_name().unwrap())
        .collect();
    assert_eq!(
        failed,
        ["a.laggard", "b.laggard", "c.laggard", "d.laggard"],
        "{}",
        round.text()
    );
    assert_eq!(round.sent.len(), 1, "{}", round.text());
    let names: Vec<String> = files(there.path()).into_keys().collect();
    assert!(
        names.iter().all(|name| name.starts_with("fleet/")),
        "{names:?}"
    );
    assert!(!round.is_whole());
}

#[test]
fn sending_stops_after_repeated_refusals() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for number in 0..6 {
        recorded(
            here.path(),
            &format!("{number}.laggard"),
            "a",
            "complete",
            "1",
        );
    }
    fs::write(there.path().join("fleet"), "a file where a folder must be").unwrap();

    let round = once(there.path(), here.path());

    assert_eq!(
        (round.failed.len(), round.untried),
        (3, 3),
        "{}",
        round.text()
    );
    assert!(!round.is_whole());
}

#[test]
fn file_of_many_pieces_arrives_unchanged() {
    let (here, there) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    recorded(here.path(), "one.laggard", "a", "complete", "1");
    let large: Vec<u8> = (0..20_u32 << 20)
        .map(|position| (position % 251) as u8)
        .collect();
    fs::write(
        here.path().join("one.laggard/samples/000001.parquet"),
        &large,
    )
    .unwrap();

    let round = once(there.path(), here.path());

    assert!(round.is_whole(), "{}", round.text());
    let sent = fs::read(
        there
            .path()
            .join("fleet/a/one.laggard/samples/000001.parquet"),
    )
    .unwrap();
    assert!(sent == large, "{} of {} bytes", sent.len(), large.len());
}
