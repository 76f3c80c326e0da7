//! Recordings of a store: a directory of recordings at any depth.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Files that make a directory a recording. The second is a copy of the first.
const MANIFESTS: [&str; 2] = ["manifest.json", "manifest-start.json"];
/// Suffix of the name of a recording, even if it has lost both files.
const ENDING: &str = ".laggard";
/// Maximum depth of nested directories.
const MAX_DEPTH: usize = 32;

/// Recording in a store.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Place {
    /// Path of its directory.
    pub path: PathBuf,
    /// Changes whenever a file of the recording is written. Renaming a file into place changes the
    /// directory. The manifest is checked separately.
    pub stamp: String,
}

/// Content of a store.
#[derive(Debug, Default)]
pub struct Found {
    /// Recordings, in the order of their paths.
    pub places: Vec<Place>,
    /// Directories that cannot be examined, with the reason.
    pub refused: Vec<(PathBuf, String)>,
}

/// Finds the recordings below `store`, which can be a recording itself. Skips directories whose
/// names start with a dot, and does not follow links.
///
/// # Errors
/// If `store` itself cannot be read.
pub fn look(store: &Path) -> io::Result<Found> {
    fs::read_dir(store)?;
    let mut content = Found::default();
    let mut next = vec![(store.to_path_buf(), 0)];
    while let Some((dir, depth)) = next.pop() {
        if let Some(place) = place(&dir) {
            content.places.push(place);
            continue;
        }
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) => {
                content.refused.push((dir, error.to_string()));
                continue;
            }
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    content.refused.push((dir.clone(), error.to_string()));
                    break;
                }
            };
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            // Type of the entry itself, without following a link.
            let is_dir = match entry.file_type() {
                Ok(kind) => kind.is_dir(),
                Err(error) => {
                    content.refused.push((entry.path(), error.to_string()));
                    continue;
                }
            };
            if is_hidden || !is_dir {
                continue;
            }
            // The catalogue identifies recordings by their paths as text.
            if entry.file_name().to_str().is_none() {
                let why = "its name is not UTF-8; rename it".to_owned();
                content.refused.push((entry.path(), why));
                continue;
            }
            match depth {
                MAX_DEPTH => content.refused.push((
                    entry.path(),
                    format!("it is more than {MAX_DEPTH} directories deep"),
                )),
                _ => next.push((entry.path(), depth + 1)),
            }
        }
    }
    content.places.sort();
    Ok(content)
}

fn place(dir: &Path) -> Option<Place> {
    let mut manifests = MANIFESTS.iter();
    let manifest = manifests.find_map(|name| fs::symlink_metadata(dir.join(name)).ok());
    let is_named = dir.extension().is_some()
        && dir
            .as_os_str()
            .as_encoded_bytes()
            .ends_with(ENDING.as_bytes());
    // `switch -o` and `timers -o` write a directory of recordings with any name.
    if manifest.is_none() && (!is_named || has_recordings(dir)) {
        return None;
    }
    let time = |meta: Metadata| format!("{}.{:09}/{}", meta.mtime(), meta.mtime_nsec(), meta.len());
    let folder = fs::symlink_metadata(dir).ok().map(time);
    let parts = [folder, manifest.map(time)];
    Some(Place {
        path: dir.into(),
        stamp: parts.map(Option::unwrap_or_default).join(" "),
    })
}

fn has_recordings(dir: &Path) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.any(|entry| place(&entry.path()).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let file = dir.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "{}").unwrap();
        }
        dir
    }

    #[test]
    fn recordings_are_found_at_any_depth_and_not_inside_recordings() {
        let dir = store(&[
            "one/2026-11-23T02.laggard/manifest.json",
            "rack/7/two/hour/manifest-start.json",
            "rack/7/two/hour/inner.laggard/manifest.json",
            "three.laggard/samples/000001.parquet",
            "rows.laggard/yield-2.laggard/manifest.json",
            ".fleet/recordings/manifest.json",
            "notes/readme.txt",
        ]);
        std::os::unix::fs::symlink(dir.path(), dir.path().join("again")).unwrap();

        let content = look(dir.path()).unwrap();

        let paths: Vec<&Path> = content
            .places
            .iter()
            .map(|place| place.path.strip_prefix(dir.path()).unwrap())
            .collect();
        assert_eq!(
            paths,
            [
                "one/2026-11-23T02.laggard",
                "rack/7/two/hour",
                "rows.laggard/yield-2.laggard",
                "three.laggard"
            ]
            .map(Path::new)
        );
        assert!(content.refused.is_empty());
    }

    #[test]
    fn directory_with_a_non_utf8_name_is_reported() {
        use std::os::unix::ffi::OsStrExt as _;
        let dir = store(&["one.laggard/manifest.json"]);
        let name = |bytes: &[u8]| dir.path().join(std::ffi::OsStr::from_bytes(bytes));
        fs::create_dir(name(b"two\xff.laggard")).unwrap();
        fs::write(name(b"three\xff"), "").unwrap();

        let content = look(dir.path()).unwrap();

        assert_eq!(content.places.len(), 1);
        assert_eq!(content.refused.len(), 1, "{content:?}");
        assert_eq!(content.refused[0].0, name(b"two\xff.laggard"));
    }

    #[test]
    fn file_renamed_into_a_recording_changes_its_stamp() {
        let dir = store(&["one.laggard/manifest.json", "new"]);
        let before = look(dir.path()).unwrap().places;

        fs::rename(
            dir.path().join("new"),
            dir.path().join("one.laggard/histograms-000000.parquet"),
        )
        .unwrap();

        assert_ne!(before, look(dir.path()).unwrap().places);
    }
}
