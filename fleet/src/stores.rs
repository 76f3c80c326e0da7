//! Stores of an answer: directories, and places in object stores.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use laggard_model::{Digest, DigestContent};
use laggard_ship::Bucket;
use laggard_ship::figures::{RemoteRecording, bring, listed};
use tempfile::TempDir;

use crate::reader::{self, Samples};
use crate::store::{self, Place};

/// Maximum number of recordings of a bucket that are on this machine at a time.
const AT_A_TIME: usize = 256;
/// Maximum length of the name of a directory.
const MAX_NAME_LENGTH: usize = 200;

/// Source of recordings.
#[derive(Debug)]
enum Store {
    Folder(PathBuf),
    Bucket(Bucket, String),
}

/// All stores of an answer.
#[derive(Debug)]
pub struct Stores(Vec<Store>);

/// Recordings of all stores.
#[derive(Debug)]
pub struct SeenRecordings {
    /// Recordings. A recording in a bucket has its URL as path.
    pub places: Vec<Place>,
    /// Directories and recordings that could not be read, with the reason. A reading adds more.
    pub refused: RefCell<Vec<(String, String)>>,
    /// Recordings in buckets, with the number of their store.
    there: BTreeMap<PathBuf, (usize, RemoteRecording)>,
}

impl Stores {
    /// Opens directories, and places that start with `s3:`.
    ///
    /// # Errors
    /// If a directory does not exist, or a place is invalid.
    pub fn open<'a>(named: impl Iterator<Item = &'a Path>) -> anyhow::Result<Self> {
        let open = |path: &Path| match Bucket::named(path) {
            Some(url) => anyhow::Ok(Store::Bucket(Bucket::open(url)?, url.to_owned())),
            None => Ok(Store::Folder(path.canonicalize().with_context(|| {
                format!("cannot search the store `{}`", path.display())
            })?)),
        };
        Ok(Self(named.map(open).collect::<anyhow::Result<_>>()?))
    }

    /// Returns the names of the stores.
    pub fn text(&self) -> String {
        let names = self.0.iter().map(|store| match store {
            Store::Folder(dir) => dir.display().to_string(),
            Store::Bucket(_, url) => url.clone(),
        });
        names.collect::<Vec<_>>().join(" and ")
    }

    /// Returns the default directory of the catalogue: in the store, if that is one directory,
    /// otherwise in the cache of this user, because it can be rebuilt.
    ///
    /// # Errors
    /// If the directory does not exist, or if its name would be too long.
    pub fn home(&self) -> anyhow::Result<PathBuf> {
        if let [Store::Folder(dir)] = &*self.0 {
            return Ok(dir.join(".fleet"));
        }
        let var = |name| std::env::var_os(name).map(PathBuf::from);
        let cache = var("XDG_CACHE_HOME").or_else(|| Some(var("HOME")?.join(".cache")));
        let name = folder_name(&self.text());
        cache
            .filter(|cache| cache.is_absolute() && name.len() <= MAX_NAME_LENGTH)
            .map(|cache| cache.join("laggard-fleet").join(name))
            .with_context(|| {
                format!(
                    "there is no cache directory for the figures of {}; name a directory with --catalogue",
                    self.text()
                )
            })
    }

    /// Finds the recordings.
    ///
    /// # Errors
    /// If a store cannot be read at all.
    pub fn look(&self) -> anyhow::Result<SeenRecordings> {
        let (mut places, mut refused) = (Vec::new(), Vec::new());
        let mut there = BTreeMap::new();
        for (number, store) in self.0.iter().enumerate() {
            match store {
                Store::Folder(dir) => {
                    let content = store::look(dir)
                        .with_context(|| format!("cannot read the store `{}`", dir.display()))?;
                    places.extend(content.places);
                    let why = |(path, why): (PathBuf, String)| (path.display().to_string(), why);
                    refused.extend(content.refused.into_iter().map(why));
                }
                Store::Bucket(bucket, _) => {
                    for recording in listed(bucket)? {
                        if !recording.is_whole {
                            let why = "it is incomplete in the object store, because it is still being sent";
                            refused.push((recording.url, why.into()));
                            continue;
                        }
                        let path = PathBuf::from(&recording.url);
                        places.push(Place {
                            path: path.clone(),
                            stamp: recording.stamp.clone(),
                        });
                        there.insert(path, (number, recording));
                    }
                }
            }
        }
        Ok(SeenRecordings {
            places,
            refused: RefCell::new(refused),
            there,
        })
    }

    /// Lets `laggard` read these recordings. Recordings of a bucket are fetched into the directory
    /// `scratch`. Returns `None` for a recording that could not be fetched, and adds it to the
    /// refused ones.
    ///
    /// # Errors
    /// If `laggard` cannot be run, or if a bucket stops responding.
    pub fn read(
        &self,
        laggard: &Path,
        seen: &SeenRecordings,
        paths: &[&Path],
        scratch: &Path,
    ) -> anyhow::Result<Vec<Option<Digest>>> {
        let mut digests: Vec<Option<Digest>> = vec![None; paths.len()];
        let is_there = |place: &usize| seen.there.contains_key(paths[*place]);
        let (far, near): (Vec<usize>, Vec<usize>) = (0..paths.len()).partition(is_there);
        let near_paths: Vec<&Path> = near.iter().map(|&place| paths[place]).collect();
        let read = reader::read(laggard, &near_paths, Samples::Here)?;
        for (place, digest) in near.into_iter().zip(read) {
            digests[place] = Some(digest);
        }
        for (number, store) in self.0.iter().enumerate() {
            let Store::Bucket(bucket, _) = store else {
                continue;
            };
            let own: Vec<usize> = far
                .iter()
                .copied()
                .filter(|&place| seen.there[paths[place]].0 == number)
                .collect();
            for part in own.chunks(AT_A_TIME) {
                let batch: Vec<&RemoteRecording> = part
                    .iter()
                    .map(|&place| &seen.there[paths[place]].1)
                    .collect();
                for (&place, digest) in part.iter().zip(fetched(laggard, bucket, &batch, scratch)?)
                {
                    match digest {
                        Ok(digest) => digests[place] = Some(digest),
                        Err(error) => {
                            let url = paths[place].display().to_string();
                            let why = format!("it could not be fetched: {error:#}");
                            seen.refused.borrow_mut().push((url, why));
                        }
                    }
                }
            }
        }
        Ok(digests)
    }
}

/// Returns the digests of these recordings, which are on this machine only during the call.
fn fetched(
    laggard: &Path,
    bucket: &Bucket,
    recordings: &[&RemoteRecording],
    scratch: &Path,
) -> anyhow::Result<Vec<anyhow::Result<Digest>>> {
    fs::create_dir_all(scratch)
        .with_context(|| format!("cannot create `{}`", scratch.display()))?;
    let dir = TempDir::new_in(scratch)
        .with_context(|| format!("cannot create a directory in `{}`", scratch.display()))?;
    let came = bring(bucket, recordings, dir.path())?;
    let here: Vec<&Path> = came.iter().flatten().map(PathBuf::as_path).collect();
    let mut read = reader::read(laggard, &here, Samples::Elsewhere)?.into_iter();
    let named = |(place, recording): (anyhow::Result<PathBuf>, &&RemoteRecording)| {
        let place = place?;
        let mut digest = read
            .next()
            .context("`laggard digest` printed too few lines")?;
        digest.path.clone_from(&recording.url);
        if let DigestContent::Refused(refusal) = &mut digest.content {
            let own = place.display().to_string();
            refusal.reason = refusal.reason.replace(&own, &recording.url);
        }
        Ok(digest)
    };
    Ok(came.into_iter().zip(recordings).map(named).collect())
}

/// Returns a unique name of a directory for any text.
fn folder_name(text: &str) -> String {
    let mut name = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(byte.into()),
            other => write!(name, "%{other:02x}").expect("text takes text"),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_names_are_unique_and_without_slash() {
        let texts = [
            "s3://a/b",
            "s3://a-b",
            "s3://a and s3://b",
            "s3://a%2fb",
            "/a/b",
        ];
        let names: std::collections::BTreeSet<String> = texts.map(folder_name).into();

        assert_eq!(names.len(), texts.len());
        assert!(
            names.iter().all(|name| !name.contains(['/', ' '])),
            "{names:?}"
        );
    }
}
