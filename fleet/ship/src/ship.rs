//! Sends the finished recordings of one machine to a bucket.
//!
//! A recording in the bucket is complete if it has its manifest, which is sent last. An interrupted
//! recording is continued: files next to the same manifest-start.json with the right sizes are not
//! sent again. Nothing is removed on either side, and a recording is never overwritten by another.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::error::Error as _;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use futures_util::TryStreamExt as _;
use laggard_model::printable;
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt as _, WriteMultipart};

use crate::finished::{FinishedRecording, Part, folders};
use crate::{Bucket, MANIFEST, MANIFEST_START};

/// Size of the pieces of larger files, bytes.
const PIECE: usize = 8 << 20;
/// Number of simultaneous pieces.
const PIECES: usize = 2;
/// The pass ends after this number of consecutive refusals by the store.
pub(crate) const MAX_REFUSALS: usize = 3;
/// Maximum pause after repeated failures.
const MAX_PAUSE: Duration = Duration::from_secs(15 * 60);

/// Result of one pass over the directory.
#[derive(Debug, Default)]
pub struct Round {
    /// Recordings sent in this pass, with their URLs and sizes in bytes.
    pub sent: Vec<(String, u64)>,
    /// Number of recordings that were already in the bucket.
    pub there: usize,
    /// Recordings in progress.
    pub open: Vec<PathBuf>,
    /// Recordings that could not be sent, with the reason.
    pub failed: Vec<(PathBuf, String)>,
    /// Number of recordings that were not attempted after repeated refusals.
    pub untried: usize,
}

impl Round {
    /// Returns true if all finished recordings are in the bucket.
    pub fn is_whole(&self) -> bool {
        self.failed.is_empty() && self.untried == 0
    }

    /// Formats the result.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (url, bytes) in &self.sent {
            let _ = writeln!(text, "sent {} ({bytes} bytes)", printable(url));
        }
        for path in &self.open {
            let path = path.display().to_string();
            let _ = writeln!(text, "not ended, not sent: {}", printable(&path));
        }
        for (path, why) in &self.failed {
            let message = format!("{}: {why}", path.display());
            let _ = writeln!(text, "NOT SENT: {}", printable(&message));
        }
        let _ = writeln!(
            text,
            "{} sent, {} there before, {} not ended, {} not sent, {} not tried",
            self.sent.len(),
            self.there,
            self.open.len(),
            self.failed.len(),
            self.untried
        );
        text
    }
}

/// Failure of a recording.
enum Failed {
    /// A local file cannot be read.
    Here(anyhow::Error),
    /// The store refuses it.
    There(anyhow::Error),
}

/// Sends the finished recordings in `dir` that are not in `done`, and adds them to it. Removes
/// recordings from `done` that have left the directory.
///
/// # Errors
/// If the directory cannot be read.
pub fn round(bucket: &Bucket, dir: &Path, done: &mut BTreeSet<PathBuf>) -> anyhow::Result<Round> {
    let mut round = Round::default();
    let mut refusals = 0;
    let directories = folders(dir)?;
    done.retain(|path| directories.binary_search(path).is_ok());
    for path in directories {
        if done.contains(&path) {
            round.there += 1;
            continue;
        }
        if refusals == MAX_REFUSALS {
            round.untried += 1;
            continue;
        }
        let finished = match FinishedRecording::read(&path) {
            Ok(Some(finished)) => finished,
            Ok(None) => {
                round.open.push(path);
                continue;
            }
            Err(error) => {
                round.failed.push((path, format!("{error:#}")));
                continue;
            }
        };
        match bucket.runtime.block_on(send(bucket, &path, &finished)) {
            Ok(sent) => {
                refusals = 0;
                match sent {
                    Some(sent) => round.sent.push(sent),
                    None => round.there += 1,
                }
                done.insert(path);
            }
            Err(failed) => {
                let (more, error) = match failed {
                    Failed::Here(error) => (0, error),
                    Failed::There(error) => (1, error),
                };
                refusals += more;
                round.failed.push((path, format!("{error:#}")));
            }
        }
    }
    Ok(round)
}

/// Sends forever. Makes a pass every `every`; each consecutive failure doubles this time. Reports
/// each pass that had an effect.
///
/// # Errors
/// If the directory cannot be read.
pub fn follow(
    bucket: &Bucket,
    dir: &Path,
    every: Duration,
    mut tell: impl FnMut(&Round),
) -> anyhow::Result<Infallible> {
    let mut done = BTreeSet::new();
    let mut failures = 0;
    loop {
        let round = round(bucket, dir, &mut done)?;
        failures = if round.is_whole() { 0 } else { failures + 1 };
        if !round.sent.is_empty() || !round.is_whole() {
            tell(&round);
        }
        std::thread::sleep(pause(every, failures).mul_f64(rand::random_range(0.5..1.0)));
    }
}

/// Returns the maximum pause after this number of consecutive failures. The actual pause is random,
/// between half and all of it, so that machines that failed simultaneously do not retry
/// simultaneously.
pub(crate) fn pause(every: Duration, failures: u32) -> Duration {
    let doubled = 2_u32.checked_pow(failures).unwrap_or(u32::MAX);
    every.saturating_mul(doubled).min(MAX_PAUSE.max(every))
}

/// Returns the URL of a recording and the number of sent bytes; `None` if it was complete.
async fn send(
    bucket: &Bucket,
    dir: &Path,
    finished: &FinishedRecording,
) -> Result<Option<(String, u64)>, Failed> {
    let name = dir.file_name().and_then(|name| name.to_str());
    let name = name
        .context("its name is not UTF-8; rename it")
        .map_err(Failed::Here)?;
    let recording_key = bucket
        .prefix
        .clone()
        .join(finished.node.as_str())
        .join(name);
    let there = there(bucket, &recording_key).await?;
    for (name, own) in [
        (MANIFEST, Some(&finished.manifest)),
        (MANIFEST_START, finished.manifest_start.as_ref()),
    ] {
        if let (true, Some(own)) = (there.contains_key(name), own) {
            let its = get(bucket, &key(&recording_key, name)).await?;
            if its != *own {
                let url = bucket.url(&recording_key);
                let why = anyhow::anyhow!(
                    "another recording is at {url}; rename this directory, or send it to another prefix"
                );
                return Err(Failed::Here(why));
            }
            if name == MANIFEST {
                return Ok(None);
            }
        }
    }
    // Without it, the recording of these files is unknown.
    let is_begun = finished.manifest_start.is_some() && there.contains_key(MANIFEST_START);
    let mut bytes = 0;
    for part in &finished.parts {
        if !(is_begun && there.get(&part.name) == Some(&part.bytes)) {
            put(bucket, &key(&recording_key, &part.name), dir, part).await?;
            bytes += part.bytes;
        }
    }
    Ok(Some((bucket.url(&recording_key), bytes)))
}

fn refused(act: &str, url: &str, error: &object_store::Error) -> Failed {
    Failed::There(refusal(act, url, error))
}

/// Returns the error of the store in its own words, with the last cause if they omit it.
pub(crate) fn refusal(act: &str, url: &str, error: &object_store::Error) -> anyhow::Error {
    let message = error.to_string();
    let mut last = error.source();
    while let Some(deeper) = last.and_then(std::error::Error::source) {
        last = Some(deeper);
    }
    let last = last.map_or_else(String::new, |last| format!(": {last}"));
    let more = if message.ends_with(&last) { "" } else { &last };
    let who = match std::env::var_os("AWS_ACCESS_KEY_ID") {
        Some(_) => "",
        None => " (AWS_ACCESS_KEY_ID is not set)",
    };
    anyhow::anyhow!("{act} {url}{who}: {message}{more}")
}

/// Returns the key of a part. Its names are escaped as keys require.
fn key(prefix: &Key, name: &str) -> Key {
    name.split('/')
        .fold(prefix.clone(), |key, part| key.join(part))
}

/// Returns the files in the bucket, with their sizes in bytes.
async fn there(bucket: &Bucket, recording_key: &Key) -> Result<BTreeMap<String, u64>, Failed> {
    let listed: Vec<_> = bucket
        .store
        .list(Some(recording_key))
        .try_collect()
        .await
        .map_err(|error| refused("list", &bucket.url(recording_key), &error))?;
    let below = |meta: &object_store::ObjectMeta| {
        let parts: Vec<String> = meta
            .location
            .prefix_match(recording_key)?
            .map(|part| part.as_ref().to_owned())
            .collect();
        Some((parts.join("/"), meta.size))
    };
    Ok(listed.iter().filter_map(below).collect())
}

async fn get(bucket: &Bucket, key: &Key) -> Result<Vec<u8>, Failed> {
    let got = async { bucket.store.get(key).await?.bytes().await };
    got.await
        .map(Vec::from)
        .map_err(|error| refused("read", &bucket.url(key), &error))
}

/// Sends a file. It appears in the bucket completely or not at all.
async fn put(bucket: &Bucket, key: &Key, dir: &Path, part: &Part) -> Result<(), Failed> {
    let path = dir.join(&part.name);
    let here = |error: std::io::Error| {
        Failed::Here(anyhow::Error::new(error).context(format!("read `{}`", path.display())))
    };
    let refused = |error| refused("write", &bucket.url(key), &error);
    let mut file = laggard_files::open_regular(&path).map_err(here)?;
    let first = piece(&mut file).map_err(here)?;
    let mut sent = first.len() as u64;
    if first.len() < PIECE {
        is_as_it_was(part, sent)?;
        let put = bucket.store.put(key, first.into()).await;
        return put.map(drop).map_err(refused);
    }
    let upload = bucket.store.put_multipart(key).await.map_err(refused)?;
    let mut writer = WriteMultipart::new_with_chunk_size(upload, PIECE);
    writer.put(first.into());
    let rest = async {
        loop {
            let next = piece(&mut file).map_err(here)?;
            if next.is_empty() {
                return is_as_it_was(part, sent);
            }
            sent += next.len() as u64;
            writer.wait_for_capacity(PIECES).await.map_err(refused)?;
            writer.put(next.into());
        }
    };
    match rest.await {
        Ok(()) => writer.finish().await.map(drop).map_err(refused),
        Err(failed) => {
            // The first error is reported. Abandoned pieces expire by the rules of the bucket.
            let _ = writer.abort().await;
            Err(failed)
        }
    }
}

fn is_as_it_was(part: &Part, sent: u64) -> Result<(), Failed> {
    if sent == part.bytes {
        Ok(())
    } else {
        Err(Failed::Here(anyhow::anyhow!(
            "`{}` changed while it was sent",
            part.name
        )))
    }
}

/// Reads the next bytes of a file, at most one piece.
fn piece(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(PIECE as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_quarter_of_an_hour() {
        let every = Duration::from_secs(60);
        let pauses = [0, 1, 2, 3, 4, 40].map(|failures| pause(every, failures).as_secs());

        assert_eq!(pauses, [60, 120, 240, 480, 900, 900]);
    }
}
