//! Recordings of a store: their names, ages and sizes.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;

/// Prefix and suffix of the names of recordings, and the format of the time (UTC) between them.
/// Entries with other names are never removed.
const NAME_PREFIX: &str = "serve-";
pub(super) const TIME_FORMAT: &str = "%Y-%m-%dT%H-%M-%SZ";
const NAME_SUFFIX: &str = ".laggard";

#[derive(Debug)]
pub(super) struct StoredRecording {
    pub(super) name: String,
    pub(super) age: Age,
    /// 0 if unknown.
    pub(super) bytes: u64,
    /// Reason not to remove it.
    pub(super) keep_reason: Option<String>,
}

/// Start of a recording according to its name, and its number among recordings of the same second.
pub(super) type Age = (DateTime, u32);

/// Returns our recordings in `dir`, oldest first according to their names.
pub(super) fn recordings(dir: &Path) -> io::Result<Vec<StoredRecording>> {
    let device = fs::metadata(dir)?.dev();
    let whole = fs::canonicalize(dir)?;
    let mounted = mount_points(Path::new("/proc/self/mountinfo"));
    let mut stored = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        // A link is not followed.
        if let Some(age) = parse_name(&name)
            && entry.file_type()?.is_dir()
        {
            // A directory of the same file system can also be mounted in it.
            let path = whole.join(&name);
            let is_unmounted =
                |mounted: &Vec<PathBuf>| !mounted.iter().any(|point| point.starts_with(&path));
            let (bytes, keep_reason) = match size(&entry.path(), device) {
                Ok(Some(_)) if mounted.as_ref().is_ok_and(|stored| !is_unmounted(stored)) => {
                    (0, Some("something is mounted in it".to_owned()))
                }
                Ok(Some(bytes)) if let Err(err) = &mounted => {
                    let why = "whether something is mounted in it is not known";
                    (bytes, Some(format!("{why}: {err}")))
                }
                Ok(Some(bytes)) => (bytes, None),
                Ok(None) => (0, Some("something is mounted in it".to_owned())),
                // A directory that cannot be examined may be a mount point.
                Err(err) => (0, Some(err.to_string())),
            };
            stored.push(StoredRecording {
                name,
                age,
                bytes,
                keep_reason,
            });
        }
    }
    stored.sort_by_key(|recording| recording.age);
    Ok(stored)
}

/// Returns all mount points: proc(5), `mountinfo`.
pub(super) fn mount_points(file: &Path) -> io::Result<Vec<PathBuf>> {
    // Names of directories need not be UTF-8, and the kernel escapes only blanks.
    let text = fs::read(file)?;
    let lines = text.split(|&byte| byte == b'\n');
    let points = lines.filter_map(|line| line.split(|&byte| byte == b' ').nth(4));
    Ok(points.map(|point| unescaped(point).into()).collect())
}

/// Decodes the kernel's escapes of blanks: `\040`.
fn unescaped(bytes: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut position = 0;
    while position < bytes.len() {
        let code = bytes
            .get(position..position + 4)
            .and_then(|escape| escape.strip_prefix(b"\\"))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.unwrap_or(bytes[position]));
        position += if code.is_some() { 4 } else { 1 };
    }
    OsString::from_vec(plain)
}

/// Returns the name of a recording with this number among recordings of the same second.
pub(super) fn write_name(time: &str, number: u32) -> String {
    match number {
        1 => format!("{NAME_PREFIX}{time}{NAME_SUFFIX}"),
        _ => format!("{NAME_PREFIX}{time}-{number}{NAME_SUFFIX}"),
    }
}

/// Returns the start of a recording, and its number among recordings of the same second; `None` if
/// [`Store::next`] does not produce this name.
pub(super) fn parse_name(name: &str) -> Option<Age> {
    let rest = name.strip_prefix(NAME_PREFIX)?.strip_suffix(NAME_SUFFIX)?;
    let (time, number) = match rest.split_once("Z-") {
        Some((time, number)) => (format!("{time}Z"), number.parse().ok()?),
        None => (rest.to_owned(), 1),
    };
    let time = DateTime::strptime(TIME_FORMAT, &time).ok()?;
    let again = write_name(&time.strftime(TIME_FORMAT).to_string(), number);
    (again == name).then_some((time, number))
}

/// Returns the disk space of a directory on the file system `device`, with its content, bytes;
/// `None` if another file system is mounted there. Entries that disappear during the call do not
/// count.
pub(super) fn size(path: &Path, device: u64) -> io::Result<Option<u64>> {
    let is_gone = |err: &io::Error| err.kind() == io::ErrorKind::NotFound;
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(err) if is_gone(&err) => return Ok(Some(0)),
        Err(err) => return Err(err),
    };
    if metadata.dev() != device {
        return Ok(None);
    }
    let mut bytes = metadata.blocks() * 512;
    if metadata.is_dir() {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(err) if is_gone(&err) => return Ok(Some(bytes)),
            Err(err) => return Err(err),
        };
        for entry in entries {
            match size(&entry?.path(), device)? {
                Some(of_entry) => bytes += of_entry,
                None => return Ok(None),
            }
        }
    }
    Ok(Some(bytes))
}
