//! The finished recordings of one machine, sent to a bucket.
//!
//! A recording is whole there when its manifest is, which is written last. What was
//! sent before an end is not sent again: its files are there with their sizes, beside
//! the same manifest-start.json. Nothing is removed, here or there, and no recording
//! there is written over by another.

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

use crate::finished::{Finished, Part, folders};
use crate::{Bucket, MANIFEST, MANIFEST_START};

/// Files larger than that, in bytes, are sent in pieces of it.
const PIECE: usize = 8 << 20;
/// Pieces under way at a time.
const PIECES: usize = 2;
/// After so many refusals by the store, one after another, the rest is for later.
pub(crate) const ENOUGH: usize = 3;
/// How long to wait at most when sending fails again and again.
const LONGEST_PAUSE: Duration = Duration::from_secs(15 * 60);

/// What one look at the folder came to.
#[derive(Debug, Default)]
pub struct Round {
    /// Sent now, by what it is called there, and how many bytes of it.
    pub sent: Vec<(String, u64)>,
    /// Recordings that were there already.
    pub there: usize,
    /// Recordings that have not ended.
    pub open: Vec<PathBuf>,
    /// Recordings that were not sent, and why.
    pub failed: Vec<(PathBuf, String)>,
    /// Recordings that were not tried, because the store refused those before.
    pub untried: usize,
}

impl Round {
    /// Whether all that has ended is there.
    pub fn is_whole(&self) -> bool {
        self.failed.is_empty() && self.untried == 0
    }

    /// What there is to say.
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
            let said = format!("{}: {why}", path.display());
            let _ = writeln!(text, "NOT SENT: {}", printable(&said));
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

/// Why a recording is not there.
enum Failed {
    /// What is here cannot be read.
    Here(anyhow::Error),
    /// The store does not take it.
    There(anyhow::Error),
}

/// Sends what has ended in `dir` and is not in `done`, which it then is. What is in the
/// folder no more leaves `done`.
///
/// # Errors
/// When the folder cannot be read.
pub fn round(bucket: &Bucket, dir: &Path, done: &mut BTreeSet<PathBuf>) -> anyhow::Result<Round> {
    let mut round = Round::default();
    let mut refusals = 0;
    let all = folders(dir)?;
    done.retain(|path| all.binary_search(path).is_ok());
    for path in all {
        if done.contains(&path) {
            round.there += 1;
            continue;
        }
        if refusals == ENOUGH {
            round.untried += 1;
            continue;
        }
        let finished = match Finished::read(&path) {
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

/// Sends for ever. Looks for what has ended once in `every`, and after each failure in
/// a row half as often. What a round did is told where it did anything.
///
/// # Errors
/// When the folder cannot be read.
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

/// The longest wait after so many failures in a row. Half to all of it is waited, so
/// that machines which failed at the same time do not come back at the same time.
pub(crate) fn pause(every: Duration, failures: u32) -> Duration {
    let doubled = 2_u32.checked_pow(failures).unwrap_or(u32::MAX);
    every.saturating_mul(doubled).min(LONGEST_PAUSE.max(every))
}

/// What a recording is called there and how many bytes were sent; `None`: it was there.
async fn send(
    bucket: &Bucket,
    dir: &Path,
    finished: &Finished,
) -> Result<Option<(String, u64)>, Failed> {
    let name = dir.file_name().and_then(|name| name.to_str());
    let name = name
        .context("its name is no UTF-8; rename it")
        .map_err(Failed::Here)?;
    let at = bucket
        .prefix
        .clone()
        .join(finished.node.as_str())
        .join(name);
    let there = there(bucket, &at).await?;
    for (name, own) in [
        (MANIFEST, Some(&finished.manifest)),
        (MANIFEST_START, finished.manifest_start.as_ref()),
    ] {
        if let (true, Some(own)) = (there.contains_key(name), own) {
            let its = get(bucket, &key(&at, name)).await?;
            if its != *own {
                let url = bucket.url(&at);
                let why = anyhow::anyhow!(
                    "another recording is at {url}; rename this folder, or send it to another prefix"
                );
                return Err(Failed::Here(why));
            }
            if name == MANIFEST {
                return Ok(None);
            }
        }
    }
    // Without it, nobody knows of which recording these files are.
    let is_begun = finished.manifest_start.is_some() && there.contains_key(MANIFEST_START);
    let mut bytes = 0;
    for part in &finished.parts {
        if !(is_begun && there.get(&part.name) == Some(&part.bytes)) {
            put(bucket, &key(&at, &part.name), dir, part).await?;
            bytes += part.bytes;
        }
    }
    Ok(Some((bucket.url(&at), bytes)))
}

fn refused(act: &str, url: &str, error: &object_store::Error) -> Failed {
    Failed::There(refusal(act, url, error))
}

/// What the store said: its own words, and the last reason where they leave it out.
pub(crate) fn refusal(act: &str, url: &str, error: &object_store::Error) -> anyhow::Error {
    let said = error.to_string();
    let mut last = error.source();
    while let Some(deeper) = last.and_then(std::error::Error::source) {
        last = Some(deeper);
    }
    let last = last.map_or_else(String::new, |last| format!(": {last}"));
    let more = if said.ends_with(&last) { "" } else { &last };
    let who = match std::env::var_os("AWS_ACCESS_KEY_ID") {
        Some(_) => "",
        None => " (AWS_ACCESS_KEY_ID is not set)",
    };
    anyhow::anyhow!("{act} {url}{who}: {said}{more}")
}

/// The key of a part; every name in it is escaped as keys need it.
fn key(at: &Key, name: &str) -> Key {
    name.split('/').fold(at.clone(), |key, part| key.join(part))
}

/// Which files are there, and their sizes in bytes.
async fn there(bucket: &Bucket, at: &Key) -> Result<BTreeMap<String, u64>, Failed> {
    let listed: Vec<_> = bucket
        .store
        .list(Some(at))
        .try_collect()
        .await
        .map_err(|error| refused("list", &bucket.url(at), &error))?;
    let below = |meta: &object_store::ObjectMeta| {
        let parts: Vec<String> = meta
            .location
            .prefix_match(at)?
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

/// Sends a file; it is there wholly or not at all.
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
            // Why it failed is what counts; pieces that stay are the bucket's to expire.
            let _ = writer.abort().await;
            Err(failed)
        }
    }
}

fn is_as_it_was(part: &Part, sent: u64) -> Result<(), Failed> {
    match sent == part.bytes {
        true => Ok(()),
        false => Err(Failed::Here(anyhow::anyhow!(
            "`{}` changed while it was sent",
            part.name
        ))),
    }
}

/// The next bytes of a file, at most a piece.
fn piece(file: &mut File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(PIECE as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_with_every_failure_and_end_at_a_quarter_of_an_hour() {
        let every = Duration::from_secs(60);
        let pauses = [0, 1, 2, 3, 4, 40].map(|failures| pause(every, failures).as_secs());

        assert_eq!(pauses, [60, 120, 240, 480, 900, 900]);
    }
}
