//! Files of a recording: their names, and atomic replacement.

use std::io::Write;

use crate::WriteError;
use crate::folder::{Folder, SAMPLES};

pub(crate) const MANIFEST: &str = "manifest.json";
/// Manifest at the start, in case the other one is lost.
pub(crate) const MANIFEST_START: &str = "manifest-start.json";
/// Reserved space, so that a full disk can still take the last manifest.
pub(crate) const RESERVE: &str = "reserve";

/// Returns the file name of closed segment `number`.
pub(crate) fn segment_name(number: u32) -> String {
    format!("{SAMPLES}/{number:06}.parquet")
}

/// Returns the file name of the journal of the rows that will become segment `number`.
pub(crate) fn journal_name(number: u32) -> String {
    format!("open-{number:06}.journal")
}

/// Returns the file name of the histograms of one hour.
pub(crate) fn histograms_name(hour: u32) -> String {
    format!("histograms-{hour:06}.parquet")
}

/// Returns the file name of the largest latencies of one hour's minutes.
pub(crate) fn largest_name(hour: u32) -> String {
    format!("largest-{hour:06}.parquet")
}

/// Facts common to all episodes.
pub(crate) const EPISODE_NOTES: &str = "episodes.json";

/// Returns the name of episodes file `number`.
pub(crate) fn episodes_name(number: u32) -> String {
    format!("episodes-{number:06}.jsonl.zst")
}

/// Returns the number in `name` if it consists of `prefix`, digits and `suffix`.
pub(crate) fn number_in(name: &str, prefix: &str, suffix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}

/// Returns whether a reader of a recording uses a file or directory of this name.
pub(crate) fn is_of_a_recording(name: &str) -> bool {
    let whole = [MANIFEST, MANIFEST_START, RESERVE, SAMPLES, EPISODE_NOTES];
    let numbered = [
        ("samples-", ".parquet"),
        ("open-", ".journal"),
        ("histograms-", ".parquet"),
        ("largest-", ".parquet"),
        ("episodes-", ".jsonl.zst"),
    ];
    let is_numbered = |(prefix, suffix)| number_in(name, prefix, suffix).is_some();
    whole.contains(&name) || numbered.into_iter().any(is_numbered)
}

/// Returns whether a writer of a recording creates this name: a part of the recording,
/// or an incomplete file ([`place`]).
pub(crate) fn is_written(name: &str) -> bool {
    is_of_a_recording(name) || name.starts_with('.') && name.ends_with(".part")
}

/// Returns whether this name is part of a recording, or of a directory with recordings
/// and an answer.
#[cfg(unix)]
pub(crate) fn is_part(name: &str) -> bool {
    const ENDS: [&str; 6] = [
        ".parquet",
        ".journal",
        ".jsonl.zst",
        ".part",
        ".laggard",
        ".json",
    ];
    name == SAMPLES || name == RESERVE || ENDS.iter().any(|end| name.ends_with(end))
}

/// Writes a file under another name, syncs it, and renames it, so that a reader sees
/// either the old or the new content.
pub(crate) fn place(folder: &Folder, name: &str, content: &[u8]) -> Result<(), WriteError> {
    put(folder, name, content, true)
}

/// Writes an answer next to recordings, with the access rights of `folder`, atomically.
/// An existing file or link of this name is replaced.
///
/// # Errors
/// If the system refuses; an existing file is then unchanged.
pub fn put_answer(folder: &Folder, name: &str, content: &[u8]) -> Result<(), WriteError> {
    place(folder, name, content)
}

/// Writes as [`place`] does, without waiting for the disk: the file survives a kill,
/// but perhaps not a power cut.
pub(crate) fn place_soon(folder: &Folder, name: &str, content: &[u8]) -> Result<(), WriteError> {
    put(folder, name, content, false)
}

fn put(folder: &Folder, name: &str, content: &[u8], is_synced: bool) -> Result<(), WriteError> {
    // Not next to the file: a program that reads the whole samples' directory would
    // read an incomplete file, too.
    let part = format!(".{}.part", name.replace('/', "-"));
    // An incomplete file may remain after a kill. Usually it does not exist.
    let _ = folder.remove_file(&part);
    let written = folder
        .new_file(&part)
        .and_then(|mut part| {
            part.write_all(content)?;
            if is_synced { part.sync_all() } else { Ok(()) }
        })
        .and_then(|()| folder.rename(&part, name))
        .and_then(|()| if is_synced { folder.sync(name) } else { Ok(()) });
    written.map_err(|error| {
        // Best effort: on a full disk the incomplete file would occupy the remaining
        // space. Readers ignore it.
        let _ = folder.remove_file(&part);
        folder.error(name, error)
    })
}
