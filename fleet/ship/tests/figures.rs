//! The data for reports is fetched without the samples.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use laggard_ship::Bucket;
use laggard_ship::figures::{bring, listed};
use laggard_ship::ship::round;
use object_store::local::LocalFileSystem;
use tempfile::TempDir;

mod folders;

use folders::files;

fn bucket(there: &Path) -> Bucket {
    let store = LocalFileSystem::new_with_prefix(there).unwrap();
    Bucket::new(Arc::new(store), "fleet", "s3://latency".into()).unwrap()
}

/// Creates a bucket with one recording of this name.
fn sent(name: &str) -> TempDir {
    let (there, own) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let dir = own.path().join(name);
    fs::create_dir_all(dir.join("samples")).unwrap();
    let manifest = |state| format!("{{\"state\": \"{state}\", \"host\": {{\"node\": \"a\"}}}}");
    for (file, text) in [
        ("manifest.json", manifest("complete")),
        ("manifest-start.json", manifest("running")),
        ("histograms-000000.parquet", "buckets".into()),
        ("samples/000001.parquet", "rows".repeat(1_000_000)),
    ] {
        fs::write(dir.join(file), text).unwrap();
    }
    let sent = round(&bucket(there.path()), own.path(), &mut BTreeSet::new()).unwrap();
    assert!(sent.is_whole(), "{}", sent.text());
    there
}

#[test]
fn all_files_except_samples_are_fetched_for_any_name() {
    for name in ["1.laggard", "2 [x]%25 #\u{e4}.laggard"] {
        let there = sent(name);
        let here = TempDir::new().unwrap();

        let recordings = listed(&bucket(there.path())).unwrap();
        let selected: Vec<_> = recordings.iter().collect();
        let came = bring(&bucket(there.path()), &selected, here.path()).unwrap();

        let place = came[0].as_ref().unwrap();
        let names: Vec<String> = files(place).into_keys().collect();
        assert_eq!(
            names,
            [
                "histograms-000000.parquet",
                "manifest-start.json",
                "manifest.json"
            ],
            "{name}"
        );
        assert!(recordings[0].is_whole && recordings[0].url.starts_with("s3://latency/fleet/a/"));
    }
}

#[test]
fn incomplete_recording_is_reported_and_a_changed_one_has_another_stamp() {
    let there = sent("1.laggard");
    let remote = there.path().join("fleet/a/1.laggard");
    let before = listed(&bucket(there.path())).unwrap().remove(0);

    fs::write(remote.join("histograms-000000.parquet"), "other buckets").unwrap();
    let changed = listed(&bucket(there.path())).unwrap().remove(0);
    fs::remove_file(remote.join("manifest.json")).unwrap();
    let open = listed(&bucket(there.path())).unwrap().remove(0);

    assert_ne!(before.stamp, changed.stamp);
    assert!(changed.is_whole && !open.is_whole);
}

#[test]
fn missing_recordings_are_single_errors_up_to_a_limit() {
    let there = sent("1.laggard");
    let here = TempDir::new().unwrap();
    let bucket = bucket(there.path());
    let recordings = listed(&bucket).unwrap();
    let many = |count| vec![&recordings[0]; count];

    fs::remove_file(there.path().join("fleet/a/1.laggard/manifest.json")).unwrap();
    let few = bring(&bucket, &many(2), here.path()).unwrap();
    let again = TempDir::new().unwrap();
    let refused = bring(&bucket, &many(40), again.path()).unwrap_err();

    assert!(few.iter().all(Result::is_err), "{few:?}");
    assert!(
        format!("{refused:#}").contains("3 recordings in a row"),
        "{refused:#}"
    );
}
