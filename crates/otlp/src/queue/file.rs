//! A request in a file: 32 bytes that say what it is, then the request, packed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crc32fast::Hasher;
use nix::fcntl::OFlag;

use crate::span::unix_ns;

/// What a file begins with, and the version of what follows.
const MAGIC: [u8; 8] = *b"LAGOTLP1";
const HEAD: usize = 32;
/// While it is written.
const BEGUN: &str = "part";
const ENDING: &str = ".traces";

/// What the beginning of a file says.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) spans: u64,
    pub(super) made: SystemTime,
    /// All of the file.
    pub(super) bytes: u64,
}

pub(super) fn name(number: u64) -> String {
    format!("{number:020}{ENDING}")
}

/// The number in the name of a file of ours.
pub(super) fn number(file: &OsStr) -> Option<u64> {
    let number = file.to_str()?.strip_suffix(ENDING)?.parse().ok()?;
    (name(number).as_str() == file).then_some(number)
}

pub(super) fn is_begun(name: &OsStr) -> bool {
    name == BEGUN
}

/// Writes a file, whole or not at all; how large it is.
pub(super) fn write(
    dir: &Path,
    number: u64,
    body: &[u8],
    spans: u64,
    made: SystemTime,
) -> io::Result<u64> {
    let begun = dir.join(BEGUN);
    let written = write_begun(&begun, body, spans, made)
        .and_then(|()| fs::rename(&begun, dir.join(name(number))));
    match written {
        Ok(()) => Ok((HEAD + body.len()) as u64),
        Err(err) => {
            let _ = fs::remove_file(&begun);
            Err(err)
        }
    }
}

fn write_begun(path: &Path, body: &[u8], spans: u64, made: SystemTime) -> io::Result<()> {
    // Left behind by a write that failed; a link of this name is removed, not followed.
    match fs::remove_file(path) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
        _ => {}
    }
    let mut options = File::options();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let mut head = Vec::with_capacity(HEAD);
    head.extend(MAGIC);
    head.extend(unix_ns(made).to_le_bytes());
    head.extend(u32::try_from(spans).unwrap_or(u32::MAX).to_le_bytes());
    let length = u64::try_from(body.len()).map_err(io::Error::other)?;
    head.extend(length.to_le_bytes());
    head.extend(checksum(&head, body).to_le_bytes());
    file.write_all(&head)?;
    file.write_all(body)
}

fn checksum(head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(head);
    hasher.update(body);
    hasher.finalize()
}

/// What a file says of itself, where its size agrees.
pub(super) fn read_head(path: &Path) -> io::Result<Head> {
    let mut file = open(path)?;
    let mut head = [0; HEAD];
    file.read_exact(&mut head)?;
    let bytes = file.metadata()?.len();
    let length = u64::from_le_bytes(part(&head, 20));
    let is_whole = head.starts_with(&MAGIC) && length.checked_add(HEAD as u64) == Some(bytes);
    let made = Duration::from_nanos(u64::from_le_bytes(part(&head, 8)));
    let made = SystemTime::UNIX_EPOCH.checked_add(made);
    match made.filter(|_| is_whole) {
        Some(made) => Ok(Head {
            spans: u32::from_le_bytes(part(&head, 16)).into(),
            made,
            bytes,
        }),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The request in a file of at most so many bytes.
pub(super) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    open(path)?
        .take(most.saturating_add(1))
        .read_to_end(&mut all)?;
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    if all.len() < HEAD || all.len() as u64 > most {
        return Err(invalid());
    }
    let body = all.split_off(HEAD);
    let (head, sum) = all.split_at(HEAD - 4);
    if checksum(head, &body).to_le_bytes() == sum {
        Ok(body)
    } else {
        Err(invalid())
    }
}

fn part<const N: usize>(head: &[u8; HEAD], from: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&head[from..from + N]);
    part
}

/// No link is followed, and no pipe waited for.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let file = options.read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}
