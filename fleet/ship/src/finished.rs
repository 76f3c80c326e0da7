//! Finished recording of this machine, and the files of its directory.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use crate::{MANIFEST, MANIFEST_START};

/// Maximum depth of directories in a recording.
const MAX_DEPTH: usize = 8;
/// Maximum size of a manifest, bytes.
const MAX_MANIFEST_BYTES: u64 = 16 << 20;

/// File of a recording.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Part {
    /// Path in the recording, with `/` between directories.
    pub name: String,
    pub bytes: u64,
}

/// Content of a recording.
#[derive(Debug)]
pub(crate) struct FinishedRecording {
    /// Host name of its machine.
    pub node: String,
    pub manifest: Vec<u8>,
    pub manifest_start: Option<Vec<u8>>,
    /// Files in the order of sending: the manifest last.
    pub parts: Vec<Part>,
}

/// Returns the directories in `dir` that look like recordings, by name.
pub(crate) fn folders(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = || format!("read `{}`", dir.display());
    let mut directories = Vec::new();
    for entry in fs::read_dir(dir).with_context(read)? {
        let entry = entry.with_context(read)?;
        let is_dir = entry.file_type().with_context(read)?.is_dir();
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        let path = entry.path();
        let has = |name| fs::symlink_metadata(path.join(name)).is_ok();
        let is_named = path.extension().is_some_and(|ending| ending == "laggard");
        if is_dir && !is_hidden && (is_named || has(MANIFEST) || has(MANIFEST_START)) {
            directories.push(path);
        }
    }
    directories.sort();
    Ok(directories)
}

impl FinishedRecording {
    /// Reads the content of a directory. Returns `None` if the recording is still running or was
    /// killed.
    pub(crate) fn read(dir: &Path) -> anyhow::Result<Option<Self>> {
        let manifest = small(&dir.join(MANIFEST))?
            .with_context(|| format!("it has no {MANIFEST}; restore it from a copy"))?;
        let manifest_json: Value = serde_json::from_slice(&manifest)
            .with_context(|| format!("cannot parse its {MANIFEST}"))?;
        // The state is a word. A failed recording has an object with the error.
        match &manifest_json["state"] {
            Value::String(state) if state == "running" => return Ok(None),
            Value::String(_) | Value::Object(_) => {}
            _ => anyhow::bail!("its {MANIFEST} has no valid `state`"),
        }
        let mut parts = Vec::new();
        list(dir, "", 0, &mut parts)?;
        parts.sort_by_key(|part| {
            let place = match part.name.as_str() {
                MANIFEST_START => 0,
                MANIFEST => 2,
                _ => 1,
            };
            (place, part.name.clone())
        });
        let node = manifest_json["host"]["node"].as_str().unwrap_or_default();
        let node = if node.is_empty() { "unnamed" } else { node };
        Ok(Some(Self {
            node: node.to_owned(),
            manifest,
            manifest_start: small(&dir.join(MANIFEST_START))?,
            parts,
        }))
    }
}

/// Reads a manifest. Returns `None` if it does not exist.
fn small(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let read = || format!("read `{}`", path.display());
    let meta = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        meta => meta.with_context(read)?,
    };
    anyhow::ensure!(
        meta.is_file() && meta.len() <= MAX_MANIFEST_BYTES,
        "`{}` is not a regular file of at most {} MiB",
        path.display(),
        MAX_MANIFEST_BYTES >> 20
    );
    let mut bytes = Vec::new();
    let file = laggard_files::open_regular(path).with_context(read)?;
    file.take(MAX_MANIFEST_BYTES)
        .read_to_end(&mut bytes)
        .with_context(read)?;
    Ok(Some(bytes))
}

fn list(dir: &Path, below: &str, depth: usize, parts: &mut Vec<Part>) -> anyhow::Result<()> {
    anyhow::ensure!(
        depth < MAX_DEPTH,
        "it is more than {MAX_DEPTH} folders deep"
    );
    let read = || format!("read `{}`", dir.display());
    for entry in fs::read_dir(dir).with_context(read)? {
        let entry = entry.with_context(read)?;
        let own = entry.file_name();
        // Files in progress have these names. In a finished recording they are leftovers.
        if own.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let path = entry.path();
        let own = own
            .to_str()
            .with_context(|| format!("the name of `{}` is not UTF-8", path.display()))?;
        let name = format!("{below}{own}");
        // Metadata of the entry itself: a link could lead to any file of this machine.
        let meta = entry.metadata().with_context(read)?;
        if meta.is_dir() {
            list(&path, &format!("{name}/"), depth + 1, parts)?;
        } else {
            anyhow::ensure!(
                meta.is_file(),
                "`{}` is not a regular file; only regular files are sent",
                path.display()
            );
            parts.push(Part {
                name,
                bytes: meta.len(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(manifest: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("samples")).unwrap();
        for (name, text) in [
            (MANIFEST, manifest),
            (MANIFEST_START, "{}"),
            ("histograms-000000.parquet", "rows"),
            ("samples/000001.parquet", "more rows"),
            (".manifest.json.part", "rest"),
        ] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    #[test]
    fn manifest_is_the_last_part_and_its_copy_the_first() {
        let dir = made(r#"{"state": {"failed": {"error": "e"}}, "host": {"node": "a"}}"#);

        let finished = FinishedRecording::read(dir.path()).unwrap().unwrap();

        let names: Vec<&str> = finished.parts.iter().map(|part| &*part.name).collect();
        assert_eq!(
            names,
            [
                MANIFEST_START,
                "histograms-000000.parquet",
                "samples/000001.parquet",
                MANIFEST
            ]
        );
        assert_eq!(finished.node, "a");
    }

    #[test]
    fn running_recording_is_not_finished_and_an_unknown_state_is_refused() {
        let running = made(r#"{"state": "running"}"#);
        let silent = made(r#"{"status": "complete"}"#);

        assert!(FinishedRecording::read(running.path()).unwrap().is_none());
        assert!(FinishedRecording::read(silent.path()).is_err());
    }

    #[test]
    fn recording_with_a_link_is_refused() {
        let dir = made(r#"{"state": "complete"}"#);
        std::os::unix::fs::symlink("/etc/hostname", dir.path().join("largest")).unwrap();

        let error = FinishedRecording::read(dir.path()).unwrap_err().to_string();

        assert!(
            error.ends_with("is not a regular file; only regular files are sent"),
            "{error}"
        );
    }
}
