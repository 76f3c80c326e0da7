//! The recordings in a bucket without their samples: all that answers over many machines
//! read of them.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::{Path as Key, PathPart};

use crate::fetch::{above, get};
use crate::ship::{ENOUGH, refusal};
use crate::{Bucket, MANIFEST, MANIFEST_START, SAMPLES};

/// Recordings under way at a time.
const AT_A_TIME: usize = 16;

/// A recording in a bucket.
#[derive(Debug)]
pub struct ThereRecording {
    /// What it is called.
    pub url: String,
    /// Changes whenever one of its files does.
    pub stamp: String,
    /// Whether it is whole there.
    pub is_whole: bool,
    at: Key,
    files: Vec<ThereFile>,
}

/// A file of one. There can be millions.
#[derive(Debug)]
struct ThereFile {
    name: Box<str>,
    bytes: u64,
    /// us since 1970.
    changed_us: i64,
}

/// The recordings below the bucket's prefix, in the order of their keys. What is held of
/// each is its manifests, histograms, largest and episodes, however many samples it has.
///
/// # Errors
/// When the bucket cannot be listed.
pub fn listed(bucket: &Bucket) -> anyhow::Result<Vec<ThereRecording>> {
    let mut all: BTreeMap<Key, Vec<ThereFile>> = BTreeMap::new();
    let listing = async {
        let mut listing = bucket.store.list(Some(&bucket.prefix));
        while let Some(meta) = listing.try_next().await? {
            let at = above(&meta.location);
            let is_sample = at
                .parts()
                .next_back()
                .is_some_and(|one| one.as_ref() == SAMPLES);
            if let (false, Some(name)) = (is_sample, meta.location.filename()) {
                all.entry(at).or_default().push(ThereFile {
                    name: name.into(),
                    bytes: meta.size,
                    changed_us: meta.last_modified.timestamp_micros(),
                });
            }
        }
        Ok(())
    };
    bucket
        .runtime
        .block_on(listing)
        .map_err(|error| refusal("list", &bucket.url(&bucket.prefix), &error))?;
    let has = |files: &[ThereFile], name: &str| files.iter().any(|one| &*one.name == name);
    all.retain(|_, files| has(files, MANIFEST) || has(files, MANIFEST_START));
    let recordings = all.into_iter().map(|(at, files)| ThereRecording {
        url: bucket.url(&at),
        stamp: stamp(&files),
        is_whole: has(&files, MANIFEST),
        at,
        files,
    });
    Ok(recordings.collect())
}

/// When the newest was written, how many there are, and their bytes.
fn stamp(files: &[ThereFile]) -> String {
    let newest = files.iter().map(|file| file.changed_us).max();
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    format!("{}/{}/{bytes}", newest.unwrap_or_default(), files.len())
}

/// Fetches these into folders of `dir`; says where each is, or why it could not be had.
///
/// # Errors
/// When several one after the other could not be had: then nothing more is asked for.
pub fn bring(
    bucket: &Bucket,
    recordings: &[&ThereRecording],
    dir: &Path,
) -> anyhow::Result<Vec<anyhow::Result<PathBuf>>> {
    let all = async {
        let under_way = recordings.iter().enumerate().map(|(number, one)| {
            let place = dir.join(number.to_string());
            async move { bring_one(bucket, one, &place).await.map(|()| place) }
        });
        let mut under_way = stream::iter(under_way).buffered(AT_A_TIME);
        let mut brought = Vec::with_capacity(recordings.len());
        let mut failures = 0;
        while let Some(came) = under_way.next().await {
            failures = if came.is_ok() { 0 } else { failures + 1 };
            match came {
                Err(last) if failures == ENOUGH => {
                    let what = format!(
                        "{ENOUGH} recordings in a row could not be fetched, so the rest was not tried"
                    );
                    return Err(last.context(what));
                }
                came => brought.push(came),
            }
        }
        Ok(brought)
    };
    bucket.runtime.block_on(all)
}

async fn bring_one(bucket: &Bucket, one: &ThereRecording, place: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .create(place)
        .with_context(|| format!("make the folder `{}`", place.display()))?;
    for file in &one.files {
        let name = PathPart::parse(&file.name).context("read a key")?;
        let key = one.at.clone().join(name);
        get(bucket, &key, file.bytes, &place.join(&*file.name)).await?;
    }
    Ok(())
}
