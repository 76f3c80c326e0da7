//! Writing files that a user named.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

/// Writes `what` to `file`, under another name first, so that a reader never
/// sees half of it. What the file held before is replaced.
pub(crate) fn write(file: &Path, what: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let context = || format!("write the {what} `{}`", file.display());
    let mut name = file
        .file_name()
        .ok_or_else(|| anyhow::anyhow!("give the name of a file, not of a folder"))
        .with_context(context)?
        .to_owned();
    name.push(".part");
    let part = file.with_file_name(name);
    let written = fs::File::create(&part)
        .and_then(|mut part| part.write_all(bytes))
        .and_then(|()| fs::rename(&part, file));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&part);
    }
    written.with_context(context)
}
