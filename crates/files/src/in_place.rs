//! Files that are overwritten because they cannot be replaced.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};

use crate::{system, unfinished};

/// Overwrites `target` with all of `content`. Room for it is reserved first, so that a
/// full disk leaves the file as it was, and a signal that ends the program waits for it.
pub(crate) fn overwrite(mut content: File, mut target: File) -> anyhow::Result<()> {
    content.seek(SeekFrom::Start(0))?;
    let bytes = content.metadata()?.len();
    unfinished::undisturbed(|| {
        system::reserve(&target, bytes).map_err(with_remedy)?;
        io::copy(&mut content, &mut target).map_err(with_remedy)?;
        target.set_len(bytes)?;
        Ok(target.sync_all().map_err(with_remedy)?)
    })
}

/// Adds the remedy to an error about a full disk.
pub(crate) fn with_remedy(error: io::Error) -> io::Error {
    let is = |kind| error.kind() == kind;
    let remedy = if is(io::ErrorKind::StorageFull) || is(io::ErrorKind::QuotaExceeded) {
        "free some space, or write to another disk"
    } else if is(io::ErrorKind::FileTooLarge) {
        "raise the limit on files (`ulimit -f unlimited`)"
    } else {
        return error;
    };
    io::Error::new(error.kind(), format!("{error}; {remedy}"))
}
