//! `laggard digest`: summaries of recordings for reports over many.

use std::io::{self, BufRead as _, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use laggard_view::trust;

use crate::args::DigestArgs;
use crate::exit::Exit;
use crate::pipe;

/// Length of a path that Linux and Windows can open, bytes.
const MAX_PATH_BYTES: u64 = 65_536;

/// Writes a line for each recording, in their order, and before the next one is read. After a
/// crash, the reader knows which recording caused it.
pub(crate) fn digest(args: &DigestArgs) -> anyhow::Result<Exit> {
    for dir in &args.recordings {
        if !write(dir, args.without_samples)? {
            return Ok(Exit::Ok);
        }
    }
    if args.stdin0 {
        let mut input = io::stdin().lock();
        let mut path = Vec::new();
        loop {
            let mut limited = (&mut input).take(MAX_PATH_BYTES + 1);
            if limited
                .read_until(0, &mut path)
                .context("cannot read paths")?
                == 0
            {
                break;
            }
            if path.last() == Some(&0) {
                path.pop();
            }
            anyhow::ensure!(
                !path.is_empty() && path.len() as u64 <= MAX_PATH_BYTES,
                "a path on standard input has {} bytes, not 1 to {MAX_PATH_BYTES}; terminate each path with a NUL byte (find -print0)",
                path.len()
            );
            if !write(&path_of(std::mem::take(&mut path))?, args.without_samples)? {
                break;
            }
        }
    }
    Ok(Exit::Ok)
}

/// On this system, a path may contain any bytes.
#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> anyhow::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    Ok(std::ffi::OsString::from_vec(bytes).into())
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> anyhow::Result<PathBuf> {
    let text = String::from_utf8(bytes).context("a path on standard input is not UTF-8")?;
    Ok(text.into())
}

/// Returns true while there is a reader.
fn write(dir: &Path, without_samples: bool) -> anyhow::Result<bool> {
    let digest = if without_samples {
        laggard_answer::digest_without_samples(dir, trust::reasons)
    } else {
        laggard_answer::digest(dir, trust::reasons)
    };
    pipe::try_print(&pipe::json_line(&digest)?)
}
