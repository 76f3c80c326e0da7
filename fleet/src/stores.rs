//! Where recordings are: folders and places in object stores, of which one answer is.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use laggard_model::{Digest, DigestContent};
use laggard_ship::Bucket;
use laggard_ship::figures::{ThereRecording, bring, listed};
use tempfile::TempDir;

use crate::reader::{self, Samples};
use crate::store::{self, Place};

/// Recordings of a bucket that are here at a time, until they are read.
const AT_A_TIME: usize = 256;
/// A longer name is none of a folder.
const LONGEST_NAME: usize = 200;

/// A store.
#[derive(Debug)]
enum Store {
    Folder(PathBuf),
    Bucket(Bucket, String),
}

/// All stores of an answer.
#[derive(Debug)]
pub struct Stores(Vec<Store>);

/// What they hold.
#[derive(Debug)]
pub struct SeenRecordings {
    /// Recordings; those of a bucket by what they are called there.
    pub places: Vec<Place>,
    /// What could not be looked into or had, and why.
    pub refused: RefCell<Vec<(String, String)>>,
    /// Those of buckets, and of which store they are.
    there: BTreeMap<PathBuf, (usize, ThereRecording)>,
}

impl Stores {
    /// Opens folders, and places that begin with `s3:`.
    ///
    /// # Errors
    /// When a folder is not there, or a place is none.
    pub fn open<'a>(named: impl Iterator<Item = &'a Path>) -> anyhow::Result<Self> {
        let open = |one: &Path| match Bucket::named(one) {
            Some(url) => anyhow::Ok(Store::Bucket(Bucket::open(url)?, url.to_owned())),
            None => Ok(Store::Folder(one.canonicalize().with_context(|| {
                format!("look for the store `{}`", one.display())
            })?)),
        };
        Ok(Self(named.map(open).collect::<anyhow::Result<_>>()?))
    }

    /// What they are called.
    pub fn text(&self) -> String {
        let names = self.0.iter().map(|store| match store {
            Store::Folder(dir) => dir.display().to_string(),
            Store::Bucket(_, url) => url.clone(),
        });
        names.collect::<Vec<_>>().join(" and ")
    }

    /// Where what they tell is kept unless asked otherwise: within a folder, or in one of
    /// this user's for what can be had again.
    ///
    /// # Errors
    /// When there is no such folder, or its name would be too long.
    pub fn home(&self) -> anyhow::Result<PathBuf> {
        if let [Store::Folder(dir)] = &*self.0 {
            return Ok(dir.join(".fleet"));
        }
        let var = |name| std::env::var_os(name).map(PathBuf::from);
        let cache = var("XDG_CACHE_HOME").or_else(|| Some(var("HOME")?.join(".cache")));
        let name = folder_name(&self.text());
        cache
            .filter(|cache| cache.is_absolute() && name.len() <= LONGEST_NAME)
            .map(|cache| cache.join("laggard-fleet").join(name))
            .with_context(|| {
                format!(
                    "name a folder with --catalogue, in which to keep what {} tell",
                    self.text()
                )
            })
    }

    /// Looks for recordings.
    ///
    /// # Errors
    /// When a store cannot be read at all.
    pub fn look(&self) -> anyhow::Result<SeenRecordings> {
        let (mut places, mut refused) = (Vec::new(), Vec::new());
        let mut there = BTreeMap::new();
        for (number, store) in self.0.iter().enumerate() {
            match store {
                Store::Folder(dir) => {
                    let found = store::look(dir)
                        .with_context(|| format!("read the store `{}`", dir.display()))?;
                    places.extend(found.places);
                    let why = |(path, why): (PathBuf, String)| (path.display().to_string(), why);
                    refused.extend(found.refused.into_iter().map(why));
                }
                Store::Bucket(bucket, _) => {
                    for one in listed(bucket)? {
                        if !one.is_whole {
                            let why = "it is not whole there: it was not sent to its end yet";
                            refused.push((one.url, why.into()));
                            continue;
                        }
                        let path = PathBuf::from(&one.url);
                        places.push(Place {
                            path: path.clone(),
                            stamp: one.stamp.clone(),
                        });
                        there.insert(path, (number, one));
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

    /// Has `laggard` read these; those of a bucket are in the folder `scratch` meanwhile. `None`: it could not be had from its bucket, which is
    /// among what was refused then.
    ///
    /// # Errors
    /// When `laggard` cannot be run, or a bucket gives nothing any more.
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
        let at: Vec<&Path> = near.iter().map(|&place| paths[place]).collect();
        let read = reader::read(laggard, &at, Samples::Here)?;
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
                let all: Vec<&ThereRecording> = part
                    .iter()
                    .map(|&place| &seen.there[paths[place]].1)
                    .collect();
                for (&place, digest) in part.iter().zip(fetched(laggard, bucket, &all, scratch)?) {
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

/// The digests of these, which are here for as long as that takes.
fn fetched(
    laggard: &Path,
    bucket: &Bucket,
    recordings: &[&ThereRecording],
    scratch: &Path,
) -> anyhow::Result<Vec<anyhow::Result<Digest>>> {
    fs::create_dir_all(scratch).with_context(|| format!("make `{}`", scratch.display()))?;
    let dir = TempDir::new_in(scratch)
        .with_context(|| format!("make a folder in `{}`", scratch.display()))?;
    let came = bring(bucket, recordings, dir.path())?;
    let here: Vec<&Path> = came.iter().flatten().map(PathBuf::as_path).collect();
    let mut read = reader::read(laggard, &here, Samples::Elsewhere)?.into_iter();
    let named = |(place, one): (anyhow::Result<PathBuf>, &&ThereRecording)| {
        let place = place?;
        let mut digest = read.next().context("laggard told less than it was asked")?;
        digest.path.clone_from(&one.url);
        if let DigestContent::Refused(refusal) = &mut digest.content {
            let own = place.display().to_string();
            refusal.reason = refusal.reason.replace(&own, &one.url);
        }
        Ok(digest)
    };
    Ok(came.into_iter().zip(recordings).map(named).collect())
}

/// A folder's name for any text; no two have the same.
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
    fn folders_of_different_stores_have_different_names_and_no_slash() {
        let all = [
            "s3://a/b",
            "s3://a-b",
            "s3://a and s3://b",
            "s3://a%2fb",
            "/a/b",
        ];
        let names: std::collections::BTreeSet<String> = all.map(folder_name).into();

        assert_eq!(names.len(), all.len());
        assert!(
            names.iter().all(|name| !name.contains(['/', ' '])),
            "{names:?}"
        );
    }
}
