//! Fetches the recordings in a bucket into a directory, for reports over many machines.
//!
//! A recording in a bucket is complete if it has its manifest. A local recording is moved into
//! place once all its files have arrived. Existing recordings are not fetched again, and nothing is
//! removed on either side.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use futures_util::TryStreamExt as _;
use laggard_model::printable;
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStoreExt as _};
use tempfile::TempDir;

use crate::ship::{MAX_REFUSALS, pause, refusal};
use crate::{Bucket, MANIFEST, MANIFEST_START};

/// Result of one pass over the bucket.
#[derive(Debug, Default)]
pub struct FetchRound {
    /// Recordings fetched in this pass, with their local paths and sizes in bytes.
    pub fetched: Vec<(PathBuf, u64)>,
    /// Number of recordings that already existed.
    pub here: usize,
    /// Recordings that are not complete in the bucket yet.
    pub open: Vec<String>,
    /// Recordings that could not be fetched, with the reason.
    pub failed: Vec<(String, String)>,
    /// Number of recordings that were not attempted after repeated failures.
    pub untried: usize,
}

impl FetchRound {
    /// Returns true if all complete recordings exist locally.
    pub fn is_whole(&self) -> bool {
        self.failed.is_empty() && self.untried == 0
    }

    /// Formats the result.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (path, bytes) in &self.fetched {
            let path = path.display().to_string();
            let _ = writeln!(text, "fetched {} ({bytes} bytes)", printable(&path));
        }
        for url in &self.open {
            let _ = writeln!(
                text,
                "incomplete in the object store, not fetched: {}",
                printable(url)
            );
        }
        for (url, why) in &self.failed {
            let message = format!("{url}: {why}");
            let _ = writeln!(text, "NOT FETCHED: {}", printable(&message));
        }
        let _ = writeln!(
            text,
            "{} fetched, {} already here, {} incomplete in the object store, {} failed, {} not tried",
            self.fetched.len(),
            self.here,
            self.open.len(),
            self.failed.len(),
            self.untried
        );
        text
    }
}

/// Files of recordings, by the key of their directory.
type Recordings = BTreeMap<Key, Vec<ObjectMeta>>;

/// Fetches the complete recordings below the prefix that are missing in `dir`. Creates `dir` if
/// necessary.
///
/// # Errors
/// If the bucket cannot be listed, or if the directory cannot be created.
pub fn fetch(bucket: &Bucket, dir: &Path) -> anyhow::Result<FetchRound> {
    fs::create_dir_all(dir)
        .with_context(|| format!("cannot create the directory `{}`", dir.display()))?;
    let listed: Vec<ObjectMeta> = bucket
        .runtime
        .block_on(bucket.store.list(Some(&bucket.prefix)).try_collect())
        .map_err(|error| refusal("list", &bucket.url(&bucket.prefix), &error))?;
    let mut round = FetchRound::default();
    let mut failures = 0;
    for (key, files) in recordings(listed) {
        let url = bucket.url(&key);
        let has = |name: &str| {
            files
                .iter()
                .any(|file| file.location.filename() == Some(name))
        };
        if !has(MANIFEST) {
            round.open.push(url);
            continue;
        }
        let place = place(bucket, dir, &key);
        if place.join(MANIFEST).exists() {
            round.here += 1;
        } else if failures == MAX_REFUSALS {
            round.untried += 1;
        } else {
            match bucket
                .runtime
                .block_on(bring(bucket, &key, &files, dir, &place))
            {
                Ok(bytes) => {
                    failures = 0;
                    round.fetched.push((place, bytes));
                }
                Err(error) => {
                    failures += 1;
                    round.failed.push((url, format!("{error:#}")));
                }
            }
        }
    }
    Ok(round)
}

/// Fetches forever, like [`ship::follow`](crate::ship::follow). A bucket that cannot be listed is a
/// failure. It tries again then.
pub fn follow(
    bucket: &Bucket,
    dir: &Path,
    every: Duration,
    mut tell: impl FnMut(&FetchRound),
) -> ! {
    let mut failures = 0;
    loop {
        let round = fetch(bucket, dir).unwrap_or_else(|error| FetchRound {
            failed: vec![(bucket.url(&bucket.prefix), format!("{error:#}"))],
            ..FetchRound::default()
        });
        failures = if round.is_whole() { 0 } else { failures + 1 };
        if !round.fetched.is_empty() || !round.is_whole() {
            tell(&round);
        }
        std::thread::sleep(pause(every, failures).mul_f64(rand::random_range(0.5..1.0)));
    }
}

/// Returns the directories with a manifest of the start or the end, and all files below them.
fn recordings(listed: Vec<ObjectMeta>) -> Recordings {
    let is_manifest =
        |meta: &ObjectMeta| matches!(meta.location.filename(), Some(MANIFEST | MANIFEST_START));
    let mut recordings: Recordings = listed
        .iter()
        .filter(|meta| is_manifest(meta))
        .map(|meta| (above(&meta.location), Vec::new()))
        .collect();
    for meta in listed {
        let mut parent = above(&meta.location);
        while !recordings.contains_key(&parent) && parent != Key::default() {
            parent = above(&parent);
        }
        if let Some(files) = recordings.get_mut(&parent) {
            files.push(meta);
        }
    }
    recordings
}

/// Returns the directory of a key.
pub(crate) fn above(key: &Key) -> Key {
    let mut parts: Vec<_> = key.parts().collect();
    parts.pop();
    Key::from_iter(parts)
}

/// Returns the local path of a recording: like its path below the prefix. A key never contains `.`
/// or `..`.
fn place(bucket: &Bucket, dir: &Path, key: &Key) -> PathBuf {
    let parts = key.prefix_match(&bucket.prefix).into_iter().flatten();
    parts.fold(dir.into(), |path: PathBuf, part| path.join(part.as_ref()))
}

/// Returns the number of received bytes.
async fn bring(
    bucket: &Bucket,
    at: &Key,
    files: &[ObjectMeta],
    dir: &Path,
    place: &Path,
) -> anyhow::Result<u64> {
    // Without a manifest in its top directory it is not a recording, even if this process is
    // killed.
    let under_way =
        TempDir::with_prefix_in(".fetching-", dir).context("cannot create a directory")?;
    let whole = under_way.path().join("whole");
    DirBuilder::new().mode(0o700).create(&whole)?;
    let mut bytes = 0;
    for file in files {
        let parts = file.location.prefix_match(at).into_iter().flatten();
        let path = parts.fold(whole.clone(), |path, part| path.join(part.as_ref()));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        get(bucket, &file.location, file.size, &path).await?;
        bytes += file.size;
    }
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::rename(&whole, place)
        .with_context(|| format!("cannot move the recording to `{}`", place.display()))?;
    Ok(bytes)
}

/// Writes an object with this size, in bytes, to a file.
pub(crate) async fn get(bucket: &Bucket, key: &Key, size: u64, path: &Path) -> anyhow::Result<()> {
    let url = bucket.url(key);
    let refused = |error| refusal("read", &url, &error);
    let got = bucket.store.get(key).await.map_err(refused)?;
    let mut stream = got.into_stream();
    let mut file =
        File::create_new(path).with_context(|| format!("cannot write `{}`", path.display()))?;
    let mut bytes = 0;
    while let Some(piece) = stream.try_next().await.map_err(refused)? {
        file.write_all(&piece)
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        bytes += piece.len() as u64;
    }
    anyhow::ensure!(
        bytes == size,
        "{url} has {bytes} bytes where {size} were listed: it changed, or the answer was cut short"
    );
    Ok(())
}
