//! What answers read of the recordings in a bucket comes without their samples.

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
    Bucket::of(Arc::new(store), "fleet", "s3://latency".into()).unwrap()
}

/// A bucket with one recording of this name.
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
fn all_but_its_samples_comes_by_any_name() {
    for name in ["1.laggard", "2 [x]%25 #\u{e4}.laggard"] {
        let there = sent(name);
        let here = TempDir::new().unwrap();

        let found = listed(&bucket(there.path())).unwrap();
        let all: Vec<_> = found.iter().collect();
        let came = bring(&bucket(there.path()), &all, here.path()).unwrap();

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
        assert!(found[0].is_whole && found[0].url.starts_with("s3://latency/fleet/a/"));
    }
}

#[test]
fn one_that_is_not_whole_is_told_and_one_that_changes_has_another_stamp() {
    let there = sent("1.laggard");
    let at = there.path().join("fleet/a/1.laggard");
    let before = listed(&bucket(there.path())).unwrap().remove(0);

    fs::write(at.join("histograms-000000.parquet"), "other buckets").unwrap();
    let changed = listed(&bucket(there.path())).unwrap().remove(0);
    fs::remove_file(at.join("manifest.json")).unwrap();
    let open = listed(&bucket(there.path())).unwrap().remove(0);

    assert_ne!(before.stamp, changed.stamp);
    assert!(changed.is_whole && !open.is_whole);
}

#[test]
fn what_is_gone_meanwhile_is_an_error_of_its_own_until_too_much_is() {
    let there = sent("1.laggard");
    let here = TempDir::new().unwrap();
    let bucket = bucket(there.path());
    let found = listed(&bucket).unwrap();
    let many = |count| vec![&found[0]; count];

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
