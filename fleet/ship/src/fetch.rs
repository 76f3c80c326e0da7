//! The recordings in a bucket, fetched into a folder, where answers over many machines
//! are asked of them.
//!
//! A recording is whole there when its manifest is, and is moved into its place here when
//! all of it has come. What is here is not fetched again, and nothing is removed, here or
//! there.

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

use crate::ship::{ENOUGH, pause, refusal};
use crate::{Bucket, MANIFEST, MANIFEST_START};

/// What one look at the bucket came to.
#[derive(Debug, Default)]
pub struct FetchRound {
    /// Fetched now: where they are, and how many bytes came.
    pub fetched: Vec<(PathBuf, u64)>,
    /// Recordings that were here already.
    pub here: usize,
    /// Recordings that are not whole there yet, by what they are called there.
    pub open: Vec<String>,
    /// Recordings that were not fetched, by what they are called there, and why.
    pub failed: Vec<(String, String)>,
    /// Recordings that were not tried, because those before failed.
    pub untried: usize,
}

impl FetchRound {
    /// Whether all that is whole there is here.
    pub fn is_whole(&self) -> bool {
        self.failed.is_empty() && self.untried == 0
    }

    /// What there is to say.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (path, bytes) in &self.fetched {
            let path = path.display().to_string();
            let _ = writeln!(text, "fetched {} ({bytes} bytes)", printable(&path));
        }
        for url in &self.open {
            let _ = writeln!(text, "not whole there, not fetched: {}", printable(url));
        }
        for (url, why) in &self.failed {
            let said = format!("{url}: {why}");
            let _ = writeln!(text, "NOT FETCHED: {}", printable(&said));
        }
        let _ = writeln!(
            text,
            "{} fetched, {} here before, {} not whole there, {} not fetched, {} not tried",
            self.fetched.len(),
            self.here,
            self.open.len(),
            self.failed.len(),
            self.untried
        );
        text
    }
}

/// Files of a recording, by the key of its folder.
type Recordings = BTreeMap<Key, Vec<ObjectMeta>>;

/// Fetches what is whole below the bucket's prefix and not in `dir`, which is made where
/// there is none.
///
/// # Errors
/// When the bucket cannot be listed, or the folder cannot be made.
pub fn fetch(bucket: &Bucket, dir: &Path) -> anyhow::Result<FetchRound> {
    fs::create_dir_all(dir).with_context(|| format!("make the folder `{}`", dir.display()))?;
    let listed: Vec<ObjectMeta> = bucket
        .runtime
        .block_on(bucket.store.list(Some(&bucket.prefix)).try_collect())
        .map_err(|error| refusal("list", &bucket.url(&bucket.prefix), &error))?;
    let mut round = FetchRound::default();
    let mut failures = 0;
    for (at, files) in recordings(listed) {
        let url = bucket.url(&at);
        let has = |name: &str| {
            files
                .iter()
                .any(|file| file.location.filename() == Some(name))
        };
        if !has(MANIFEST) {
            round.open.push(url);
            continue;
        }
        let place = place(bucket, dir, &at);
        if place.join(MANIFEST).exists() {
            round.here += 1;
        } else if failures == ENOUGH {
            round.untried += 1;
        } else {
            match bucket
                .runtime
                .block_on(bring(bucket, &at, &files, dir, &place))
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

/// Fetches for ever, as [`ship::follow`](crate::ship::follow) sends; a bucket that cannot
/// be listed is a failure to try again after.
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

/// The folders that have a manifest, of the end or of the start, with all below them.
fn recordings(listed: Vec<ObjectMeta>) -> Recordings {
    let is_manifest =
        |meta: &ObjectMeta| matches!(meta.location.filename(), Some(MANIFEST | MANIFEST_START));
    let mut all: Recordings = listed
        .iter()
        .filter(|meta| is_manifest(meta))
        .map(|meta| (above(&meta.location), Vec::new()))
        .collect();
    for meta in listed {
        let mut at = above(&meta.location);
        while !all.contains_key(&at) && at != Key::default() {
            at = above(&at);
        }
        if let Some(files) = all.get_mut(&at) {
            files.push(meta);
        }
    }
    all
}

/// The folder that a key is in.
pub(crate) fn above(key: &Key) -> Key {
    let mut parts: Vec<_> = key.parts().collect();
    parts.pop();
    Key::from_iter(parts)
}

/// Where a recording is here: as below the prefix there. No part of a key is `.` or `..`.
fn place(bucket: &Bucket, dir: &Path, at: &Key) -> PathBuf {
    let parts = at.prefix_match(&bucket.prefix).into_iter().flatten();
    parts.fold(dir.into(), |path: PathBuf, part| path.join(part.as_ref()))
}

/// How many bytes came.
async fn bring(
    bucket: &Bucket,
    at: &Key,
    files: &[ObjectMeta],
    dir: &Path,
    place: &Path,
) -> anyhow::Result<u64> {
    // Without a manifest at its top it is no recording, wherever this ends.
    let under_way = TempDir::with_prefix_in(".fetching-", dir).context("make a folder")?;
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
        .with_context(|| format!("move it to `{}`; something else is there", place.display()))?;
    Ok(bytes)
}

/// Writes an object of this size, in bytes, to a file.
pub(crate) async fn get(bucket: &Bucket, key: &Key, size: u64, path: &Path) -> anyhow::Result<()> {
    let url = bucket.url(key);
    let refused = |error| refusal("read", &url, &error);
    let got = bucket.store.get(key).await.map_err(refused)?;
    let mut stream = got.into_stream();
    let mut file = File::create_new(path).with_context(|| format!("write `{}`", path.display()))?;
    let mut bytes = 0;
    while let Some(piece) = stream.try_next().await.map_err(refused)? {
        file.write_all(&piece)
            .with_context(|| format!("write `{}`", path.display()))?;
        bytes += piece.len() as u64;
    }
    anyhow::ensure!(
        bytes == size,
        "{url} has {bytes} bytes where {size} were listed: it changed, or the answer was cut short"
    );
    Ok(())
}
