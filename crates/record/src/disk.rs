//! Files of a recording: their names, and how they are put in place whole.

use std::io::Write;

use crate::WriteError;
use crate::folder::{Folder, SAMPLES};

pub(crate) const MANIFEST: &str = "manifest.json";
/// The manifest as it was at the start, in case the other is lost.
pub(crate) const MANIFEST_START: &str = "manifest-start.json";
/// Space set aside so that a full disk can still take the last manifest.
pub(crate) const RESERVE: &str = "reserve";

/// The file of closed segment `number`.
pub(crate) fn segment_name(number: u32) -> String {
    format!("{SAMPLES}/{number:06}.parquet")
}

/// The journal of the rows that will become segment `number`.
pub(crate) fn journal_name(number: u32) -> String {
    format!("open-{number:06}.journal")
}

/// The histograms of one hour.
pub(crate) fn histograms_name(hour: u32) -> String {
    format!("histograms-{hour:06}.parquet")
}

/// The largest latencies of one hour's minutes.
pub(crate) fn largest_name(hour: u32) -> String {
    format!("largest-{hour:06}.parquet")
}

/// What is to be known of all episodes.
pub(crate) const EPISODE_NOTES: &str = "episodes.json";

/// File `number` of the episodes.
pub(crate) fn episodes_name(number: u32) -> String {
    format!("episodes-{number:06}.jsonl.zst")
}

/// The number in `name`, where it is `prefix`, digits and `suffix`.
pub(crate) fn number_in(name: &str, prefix: &str, suffix: &str) -> Option<u32> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}

/// Whether a reader of a recording looks at a file, or folder, of this name.
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

/// Whether who writes a recording gives such a name: that of a part of it, or of one
/// that is not whole yet ([`place`]).
pub(crate) fn is_written(name: &str) -> bool {
    is_of_a_recording(name) || name.starts_with('.') && name.ends_with(".part")
}

/// Whether a recording, or a folder of recordings with an answer, has such a
/// name in it.
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

/// Writes a file under another name, syncs it, and renames it, so that a
/// reader sees the old content or the new, never a part.
pub(crate) fn place(folder: &Folder, name: &str, content: &[u8]) -> Result<(), WriteError> {
    put(folder, name, content, true)
}

/// Leaves an answer beside recordings, as open as `folder`, whole or not at all. What
/// has this name already is replaced, a link itself too.
///
/// # Errors
/// When the system refuses; what had this name is then as it was.
pub fn put_answer(folder: &Folder, name: &str, content: &[u8]) -> Result<(), WriteError> {
    place(folder, name, content)
}

/// As [`place`], without waiting for the disk: it survives a kill, but perhaps
/// not a power cut.
pub(crate) fn place_soon(folder: &Folder, name: &str, content: &[u8]) -> Result<(), WriteError> {
    put(folder, name, content, false)
}

fn put(folder: &Folder, name: &str, content: &[u8], is_synced: bool) -> Result<(), WriteError> {
    // Not beside the file: who reads the samples' folder as a whole would read
    // a part, too.
    let part = format!(".{}.part", name.replace('/', "-"));
    // One of a kill is in the way, or of nobody: then there is nothing to remove.
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
        // Best effort: on a full disk the part would keep what space is left,
        // and a reader ignores it either way.
        let _ = folder.remove_file(&part);
        folder.error(name, error)
    })
}
