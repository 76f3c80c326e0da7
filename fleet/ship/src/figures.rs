//! Recordings in a bucket without their samples, which suffice for reports over many machines.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::path::{Path as Key, PathPart};

use crate::fetch::{above, get};
use crate::ship::{MAX_REFUSALS, refusal};
use crate::{Bucket, MANIFEST, MANIFEST_START, SAMPLES};

/// Maximum number of simultaneous downloads of recordings.
const AT_A_TIME: usize = 16;

/// Recording in a bucket.
#[derive(Debug)]
pub struct RemoteRecording {
    /// URL of the recording.
    pub url: String,
    /// Changes whenever one of its files changes.
    pub stamp: String,
    /// True if it is complete.
    pub is_whole: bool,
    at: Key,
    files: Vec<RemoteFile>,
}

/// File of a recording. There can be millions.
#[derive(Debug)]
struct RemoteFile {
    name: Box<str>,
    bytes: u64,
    /// Time of the change, us since 1970.
    changed_us: i64,
}

/// Lists the recordings below the prefix, in the order of their keys. Keeps manifests, histograms,
/// largest wakeups and episodes of each, but not the files of its samples.
///
/// # Errors
/// If the bucket cannot be listed.
pub fn listed(bucket: &Bucket) -> anyhow::Result<Vec<RemoteRecording>> {
    let mut files_of: BTreeMap<Key, Vec<RemoteFile>> = BTreeMap::new();
    let listing = async {
        let mut listing = bucket.store.list(Some(&bucket.prefix));
        while let Some(meta) = listing.try_next().await? {
            let directory = above(&meta.location);
            let is_sample = directory
                .parts()
                .next_back()
                .is_some_and(|part| part.as_ref() == SAMPLES);
            if let (false, Some(name)) = (is_sample, meta.location.filename()) {
                files_of.entry(directory).or_default().push(RemoteFile {
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
    let has = |files: &[RemoteFile], name: &str| files.iter().any(|file| &*file.name == name);
    files_of.retain(|_, files| has(files, MANIFEST) || has(files, MANIFEST_START));
    let recordings = files_of.into_iter().map(|(key, files)| RemoteRecording {
        url: bucket.url(&key),
        stamp: stamp(&files),
        is_whole: has(&files, MANIFEST),
        at: key,
        files,
    });
    Ok(recordings.collect())
}

/// Returns the time of the newest file, the number of files, and their size.
fn stamp(files: &[RemoteFile]) -> String {
    let newest = files.iter().map(|file| file.changed_us).max();
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    format!("{}/{}/{bytes}", newest.unwrap_or_default(), files.len())
}

/// Fetches these recordings into directories of `dir`. Returns the path of each, or the reason of
/// the failure.
///
/// # Errors
/// If several consecutive recordings fail. The rest is then not requested.
pub fn bring(
    bucket: &Bucket,
    recordings: &[&RemoteRecording],
    dir: &Path,
) -> anyhow::Result<Vec<anyhow::Result<PathBuf>>> {
    let downloads = async {
        let under_way = recordings.iter().enumerate().map(|(number, recording)| {
            let place = dir.join(number.to_string());
            async move { bring_one(bucket, recording, &place).await.map(|()| place) }
        });
        let mut under_way = stream::iter(under_way).buffered(AT_A_TIME);
        let mut brought = Vec::with_capacity(recordings.len());
        let mut failures = 0;
        while let Some(came) = under_way.next().await {
            failures = if came.is_ok() { 0 } else { failures + 1 };
            match came {
                Err(last) if failures == MAX_REFUSALS => {
                    let what = format!(
                        "{MAX_REFUSALS} recordings in a row could not be fetched, so the rest was not tried"
                    );
                    return Err(last.context(what));
                }
                came => brought.push(came),
            }
        }
        Ok(brought)
    };
    bucket.runtime.block_on(downloads)
}

async fn bring_one(
    bucket: &Bucket,
    recording: &RemoteRecording,
    place: &Path,
) -> anyhow::Result<()> {
    DirBuilder::new()
        .mode(0o700)
        .create(place)
        .with_context(|| format!("cannot create the directory `{}`", place.display()))?;
    for file in &recording.files {
        let name = PathPart::parse(&file.name).context("cannot read a key")?;
        let key = recording.at.clone().join(name);
        get(bucket, &key, file.bytes, &place.join(&*file.name)).await?;
    }
    Ok(())
}
