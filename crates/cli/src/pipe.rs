//! Writing to standard output, which may be a pipe that closes early.

use std::io::{self, Write as _};

/// Prints `text`; a reader that has gone away (`| head`) is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    try_print(text).map(|_| ())
}

/// Prints `text`. Returns whether there still is a reader.
pub(crate) fn try_print(text: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        result => Ok(result.map(|()| true)?),
    }
}
