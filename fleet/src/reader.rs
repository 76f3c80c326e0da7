//! Conversion of recordings into digests by `laggard digest`.
//!
//! The program that writes recordings also reads them, in separate processes. All answers therefore
//! interpret them in the same way. Its `parquet` and the `parquet` of the query engine have
//! different versions and must not be in the same program. A recording that crashes its reader does
//! not affect others.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::Context as _;
use laggard_model::{DIGEST_SCHEMA, Digest, DigestContent, DigestRefusal, RefusedBecause};

/// Exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

/// Location of the samples of recordings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Samples {
    /// In the recordings. A recording without samples is damaged.
    Here,
    /// Left in an object store.
    Elsewhere,
}

/// Returns the path of `laggard`: next to this program, otherwise its name, which the system
/// searches for.
pub fn program() -> PathBuf {
    if let Some(named) = std::env::var_os("LAGGARD") {
        return named.into();
    }
    let beside = std::env::current_exe()
        .ok()
        .map(|own| own.with_file_name("laggard"));
    beside
        .filter(|beside| beside.is_file())
        .unwrap_or_else(|| "laggard".into())
}

/// Reads recordings with one process per CPU. Returns one digest for each, in their order.
///
/// # Errors
/// If `laggard` cannot be run, or has another version.
pub fn read(laggard: &Path, paths: &[&Path], samples: Samples) -> anyhow::Result<Vec<Digest>> {
    let readers = thread::available_parallelism().map_or(1, usize::from);
    let each = paths.len().div_ceil(readers).max(1);
    let read = thread::scope(|scope| {
        let parts = paths
            .chunks(each)
            .map(|part| scope.spawn(move || read_part(laggard, part, samples)));
        let started: Vec<_> = parts.collect();
        let done = started
            .into_iter()
            .map(|reader| reader.join().expect("a reader does not panic"));
        done.collect::<anyhow::Result<Vec<_>>>()
    })?;
    Ok(read.into_iter().flatten().collect())
}

/// Reads some recordings. A recording that crashes the process is refused, and a new process
/// continues.
fn read_part(laggard: &Path, paths: &[&Path], samples: Samples) -> anyhow::Result<Vec<Digest>> {
    let mut digests = Vec::with_capacity(paths.len());
    while digests.len() < paths.len() {
        let before = digests.len();
        let ended = read_some(laggard, &paths[before..], samples, &mut digests)?;
        if let Some(culprit) = paths.get(digests.len()) {
            anyhow::ensure!(
                before < digests.len() || ended.is_of_one,
                "`{} digest` printed no result: {}; use the same version of laggard and laggard-fleet",
                laggard.display(),
                ended.how
            );
            let reason = format!(
                "`laggard digest` ended while it read this recording: {}",
                ended.how
            );
            digests.push(refused(culprit, reason));
        }
    }
    Ok(digests)
}

fn refused(path: &Path, reason: String) -> Digest {
    Digest {
        schema: DIGEST_SCHEMA,
        path: path.display().to_string(),
        content: DigestContent::Refused(DigestRefusal {
            because: RefusedBecause::Unreadable,
            reason,
        }),
    }
}

struct ProcessEnd {
    how: String,
    /// True if it ended by a signal or a panic: the recording was the cause, not the command line.
    is_of_one: bool,
}

fn read_some(
    laggard: &Path,
    paths: &[&Path],
    samples: Samples,
    digests: &mut Vec<Digest>,
) -> anyhow::Result<ProcessEnd> {
    let start = || -> std::io::Result<Child> {
        let mut command = Command::new(laggard);
        command.args(["digest", "--stdin0"]);
        if samples == Samples::Elsewhere {
            command.arg("--without-samples");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    };
    let mut child = start().with_context(|| {
        format!("cannot run `{}`, which reads the recordings; install it next to laggard-fleet, or set LAGGARD to its path", laggard.display())
    })?;
    let mut input = child.stdin.take().expect("was asked for");
    let output = BufReader::new(child.stdout.take().expect("was asked for"));
    let read = thread::scope(|scope| {
        scope.spawn(move || {
            for path in paths {
                // The process is gone. The missing lines of output show this.
                if input
                    .write_all(&[path.as_os_str().as_bytes(), b"\0"].concat())
                    .is_err()
                {
                    break;
                }
            }
        });
        let mut read = Vec::new();
        for line in output.lines().take(paths.len()) {
            let digest: Digest = serde_json::from_str(
                &line.context("cannot read the output of `laggard digest`")?,
            )
            .context("cannot parse the output of `laggard digest`; use the same version of laggard and laggard-fleet")?;
            anyhow::ensure!(
                digest.schema == DIGEST_SCHEMA,
                "`{} digest` writes schema {}, and this program reads {DIGEST_SCHEMA}; use the same version of laggard and laggard-fleet",
                laggard.display(),
                digest.schema
            );
            read.push(digest);
        }
        Ok(read)
    });
    if read.is_err() {
        // Its output is useless, and it may not end without a signal.
        let _ = child.kill();
    }
    let status = child.wait().context("cannot wait for `laggard digest`")?;
    digests.extend(read?);
    Ok(ProcessEnd {
        how: status.to_string(),
        is_of_one: matches!(status.code(), None | Some(PANICKED)),
    })
}
