//! Fetches recordings from a store on this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use laggard_ship::Bucket;
use laggard_ship::fetch::{FetchRound, fetch};
use laggard_ship::ship::round;
use object_store::local::LocalFileSystem;
use tempfile::TempDir;

mod folders;

use folders::files;

fn recorded(dir: &Path, name: &str, host: &str) {
    let dir = dir.join(name);
    fs::create_dir_all(dir.join("tail")).unwrap();
    let manifest =
        |state| format!("{{\"state\": \"{state}\", \"host\": {{\"node\": \"{host}\"}}}}");
    for (file, text) in [
        ("manifest.json", manifest("complete")),
        ("manifest-start.json", manifest("running")),
        ("histograms-000000.parquet", format!("buckets of {host}")),
        ("tail/000001.parquet", "rows".repeat(3_000_000)),
        ("empty", String::new()),
    ] {
        fs::write(dir.join(file), text).unwrap();
    }
}

fn bucket(there: &Path) -> Bucket {
    let store = LocalFileSystem::new_with_prefix(there).unwrap();
    Bucket::new(Arc::new(store), "fleet", "s3://latency".into()).unwrap()
}

fn fetched(there: &Path, here: &Path) -> FetchRound {
    fetch(&bucket(there), here).unwrap()
}

/// Creates a bucket with two machines, and the directory of the recordings that they sent.
fn sent() -> (TempDir, TempDir) {
    let (there, own) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for (host, name) in [
        ("a", "1.laggard"),
        ("b", "1.laggard"),
        ("b", "2 [x].laggard"),
    ] {
        let dir = own.path().join(host);
        recorded(&dir, name, host);
        let sent = round(&bucket(there.path()), &dir, &mut BTreeSet::new()).unwrap();
        assert!(sent.is_whole(), "{}", sent.text());
    }
    (there, own)
}

#[test]
fn sent_recordings_are_fetched_unchanged_and_once() {
    let ((there, own), here) = (sent(), TempDir::new().unwrap());

    let first = fetched(there.path(), here.path());
    let second = fetched(there.path(), here.path());

    assert_eq!(
        (first.fetched.len(), first.here),
        (3, 0),
        "{}",
        first.text()
    );
    assert_eq!(
        (second.fetched.len(), second.here),
        (0, 3),
        "{}",
        second.text()
    );
    let files_below = |name: &str| files(&here.path().join(name));
    assert_eq!(
        files_below("a/1.laggard"),
        files(&own.path().join("a/1.laggard"))
    );
    // Local names equal the names in the keys of the bucket.
    let contents: Vec<Vec<u8>> = files(here.path()).into_values().collect();
    assert_eq!(contents.len(), 3 * 5);
    let left = fs::read_dir(here.path()).unwrap();
    assert_eq!(left.count(), 2, "what was under way is gone");
}

#[test]
fn incomplete_recordings_are_reported_and_not_fetched() {
    let ((there, _own), here) = (sent(), TempDir::new().unwrap());
    fs::remove_file(there.path().join("fleet/a/1.laggard/manifest.json")).unwrap();
    fs::create_dir_all(there.path().join("fleet/c")).unwrap();
    fs::write(there.path().join("fleet/c/notes.txt"), "no recording").unwrap();

    let round = fetched(there.path(), here.path());

    assert_eq!(round.open, ["s3://latency/fleet/a/1.laggard"]);
    assert_eq!(round.fetched.len(), 2, "{}", round.text());
    assert!(round.is_whole());
    assert!(!here.path().join("a").exists() && !here.path().join("c").exists());
}

#[test]
fn obstructing_file_is_kept_and_the_rest_is_fetched() {
    let ((there, _own), here) = (sent(), TempDir::new().unwrap());
    fs::create_dir_all(here.path().join("a/1.laggard")).unwrap();
    fs::write(here.path().join("a/1.laggard/mine"), "mine").unwrap();

    let round = fetched(there.path(), here.path());

    assert_eq!(round.failed.len(), 1, "{}", round.text());
    assert!(
        round.text().contains("cannot move the recording to"),
        "{}",
        round.text()
    );
    assert_eq!(round.fetched.len(), 2);
    assert_eq!(
        files(&here.path().join("a")),
        BTreeMap::from([("1.laggard/mine".into(), b"mine".to_vec())])
    );
}
