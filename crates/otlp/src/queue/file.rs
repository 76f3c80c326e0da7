//! Request in a file: a header of 32 bytes, then the compressed request.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crc32fast::Hasher;
use nix::fcntl::OFlag;

use crate::span::unix_ns;

/// First bytes of a file, with the version of the format.
const MAGIC: [u8; 8] = *b"LAGOTLP1";
const HEAD: usize = 32;
/// Name during the write.
const PARTIAL: &str = "part";
const ENDING: &str = ".traces";

/// Header of a file.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) spans: u64,
    pub(super) made: SystemTime,
    /// Size of the whole file in bytes.
    pub(super) bytes: u64,
}

pub(super) fn name(number: u64) -> String {
    format!("{number:020}{ENDING}")
}

/// Returns the number in the name of a queue file.
pub(super) fn number(file: &OsStr) -> Option<u64> {
    let number = file.to_str()?.strip_suffix(ENDING)?.parse().ok()?;
    (name(number).as_str() == file).then_some(number)
}

pub(super) fn is_begun(name: &OsStr) -> bool {
    name == PARTIAL
}

/// Writes a file completely or not at all, and returns its size.
pub(super) fn write(
    dir: &Path,
    number: u64,
    body: &[u8],
    spans: u64,
    made: SystemTime,
) -> io::Result<u64> {
    let begun = dir.join(PARTIAL);
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
    // Left by a failed write. A link with this name is removed, not followed.
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

/// Reads the header of a file and checks the file's size.
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

/// Returns the request in a file of at most `max` bytes.
pub(super) fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open(path)?
        .take(max.saturating_add(1))
        .read_to_end(&mut content)?;
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    if content.len() < HEAD || content.len() as u64 > max {
        return Err(invalid());
    }
    let body = content.split_off(HEAD);
    let (head, sum) = content.split_at(HEAD - 4);
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

/// Follows no link and does not block on a pipe.
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
