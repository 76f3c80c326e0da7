//! The folder of recordings: named by time, and never larger than it may be.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use jiff::Timestamp;
use jiff::civil::DateTime;
use laggard_record::Destination;
use nix::fcntl::OFlag;

use super::metrics::StoreSeries;
use laggard_console::pipe;

/// Between two looks at what the store takes.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// What a recording takes at least, bytes: it holds back 1 MiB for its end.
const LEAST: u64 = 4 << 20;
/// What begins and ends the names of our recordings, and the time between, by UTC:
/// nothing else is ever removed.
const BEGINS: &str = "serve-";
const TIME: &str = "%Y-%m-%dT%H-%M-%SZ";
const ENDS: &str = ".laggard";

/// A folder of recordings that this process alone writes.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    /// Bytes.
    keep: u64,
    series: StoreSeries,
    /// The recording that is being made: it is not removed.
    current: Arc<Mutex<Option<String>>>,
    _lock: File,
}

impl Store {
    /// Opens the folder, or makes it.
    ///
    /// # Errors
    /// When it cannot be written, or another process writes it.
    pub(crate) fn open(dir: &Path, keep: u64, series: StoreSeries) -> anyhow::Result<Self> {
        let shown = dir.display();
        ensure!(
            !dir.as_os_str().as_encoded_bytes().starts_with(b"s3://"),
            "the store `{shown}` is no folder; keep it in one, and send what has ended there by `laggard-ship DIR {shown} --follow` (docs/fleet.md)"
        );
        fs::create_dir_all(dir).with_context(|| format!("make the store `{shown}`"))?;
        let lock = lock_file(&dir.join(".lock"))
            .with_context(|| format!("write `.lock` in the store `{shown}`"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                bail!("another `laggard serve` writes the store `{shown}`; give each its own")
            }
            Err(fs::TryLockError::Error(err)) => {
                return Err(err).with_context(|| format!("lock the store `{shown}`"));
            }
        }
        Ok(Self {
            dir: dir.to_owned(),
            keep,
            series,
            current: Arc::default(),
            _lock: lock,
        })
    }

    /// Where the recording that begins now is made.
    pub(crate) fn next(&self) -> Destination {
        let now = Timestamp::now().strftime(TIME);
        let mut name = format!("{BEGINS}{now}{ENDS}");
        // A clock that was set back comes to the same second again.
        for number in 2.. {
            if !self.dir.join(&name).exists() {
                break;
            }
            name = format!("{BEGINS}{now}-{number}{ENDS}");
        }
        *self.current() = Some(name.clone());
        self.dir.join(name).into()
    }

    /// Removes the oldest recordings until there is room for one more, where the disk is
    /// full: that it may be larger than the disk is is no reason to keep nothing new.
    ///
    /// # Errors
    /// When they cannot be read or removed, or would not be enough.
    pub(crate) fn make_room(&self) -> anyhow::Result<u64> {
        self.keeper().make_room(|dir| {
            let disk = nix::sys::statvfs::statvfs(dir)?;
            Ok(disk.blocks_available() * disk.fragment_size())
        })
    }

    fn keeper(&self) -> StoreKeeper {
        StoreKeeper {
            dir: self.dir.clone(),
            keep: self.keep,
            series: self.series.clone(),
            current: self.current.clone(),
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the store kept small from now on, by a thread of its own.
    pub(crate) fn watch(&self) -> io::Result<()> {
        let keeper = self.keeper();
        super::thread("laggard/store", move || {
            let mut told = None;
            loop {
                let result = keeper.tidy().map_err(|err| format!("{err:#}"));
                // Once, as long as it is the same.
                if let Err(why) = &result
                    && told.as_ref() != Some(why)
                {
                    pipe::say(why);
                }
                told = result.err();
                std::thread::sleep(LOOK_EVERY);
            }
        })
    }
}

/// Removes what is too old.
#[derive(Debug)]
struct StoreKeeper {
    dir: PathBuf,
    keep: u64,
    series: StoreSeries,
    current: Arc<Mutex<Option<String>>>,
}

impl StoreKeeper {
    /// Removes the oldest recordings until the rest are no larger than they may be. One
    /// that cannot be removed keeps no other from it.
    fn tidy(&self) -> anyhow::Result<()> {
        let shown = self.dir.display();
        let all = self.oldest_first()?;
        let mut bytes: u64 = all.iter().map(|one| one.bytes).sum();
        let current = self.being_made();
        let mut stays = None;
        for one in all {
            if bytes <= self.keep {
                break;
            }
            if current.as_ref() == Some(&one.name) {
                continue;
            }
            match self.remove(&one) {
                Ok(()) => bytes -= one.bytes,
                Err(why) => {
                    stays.get_or_insert((self.dir.join(&one.name), why));
                }
            }
        }
        self.series
            .bytes
            .set(i64::try_from(bytes).unwrap_or(i64::MAX));
        if let Some((path, why)) = stays {
            bail!(
                "the old recording `{}` cannot be removed: {why}; others go instead of it",
                path.display()
            );
        }
        if bytes <= self.keep {
            return Ok(());
        }
        bail!(
            "the recording that is being made is larger than the store `{shown}` may be; \
             give --keep more, or --every less"
        );
    }

    /// Our recordings, the oldest first.
    fn oldest_first(&self) -> anyhow::Result<Vec<Stored>> {
        let shown = self.dir.display();
        let mut all = recordings(&self.dir).with_context(|| format!("read the store `{shown}`"))?;
        // What has a later name than the one that is being made was there before it: the
        // clock was set back. So it is older than all that were made since.
        if let Some(now) = self.being_made().as_deref().and_then(age) {
            let later = all.partition_point(|one| one.age <= now);
            all.rotate_left(later);
        }
        Ok(all)
    }

    fn being_made(&self) -> Option<String> {
        let current = self.current.lock();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remove(&self, one: &Stored) -> Result<(), String> {
        if let Some(why) = &one.stays {
            return Err(why.clone());
        }
        fs::remove_dir_all(self.dir.join(&one.name)).map_err(|err| err.to_string())?;
        self.series.removed.inc();
        Ok(())
    }

    /// Removes the oldest until `free` says that there is room for one more; how many.
    /// The last one that was begun is left, and all where the disk is full of others' things.
    fn make_room(&self, free: impl Fn(&Path) -> nix::Result<u64>) -> anyhow::Result<u64> {
        let shown = self.dir.display();
        let all = self.oldest_first()?;
        let wanted = room_for_one(all.iter().map(|one| one.bytes));
        let last = self.being_made();
        let goes = |one: &&Stored| last.as_ref() != Some(&one.name) && one.stays.is_none();
        let room = || free(&self.dir).with_context(|| format!("see how full `{shown}` is"));
        let mut there = room()?;
        let ours: u64 = all.iter().filter(goes).map(|one| one.bytes).sum();
        if there + ours < wanted {
            bail!("the disk of `{shown}` is full of other things, so no recording is removed");
        }
        let mut removed = 0;
        for one in all.iter().filter(goes) {
            if there >= wanted {
                break;
            }
            self.remove(one).map_err(|why| {
                anyhow!("the old recording `{}` cannot be removed: {why}", one.name)
            })?;
            removed += 1;
            there = room()?;
        }
        Ok(removed)
    }
}

/// How much room one more takes, where `bytes` are what the others have: twice the
/// largest, and no less than [`LEAST`].
fn room_for_one(bytes: impl Iterator<Item = u64>) -> u64 {
    (2 * bytes.max().unwrap_or_default()).max(LEAST)
}

/// The file whose lock says that the store has a writer. A link in its place is not
/// followed, nor is anything in it changed: who may write in the folder need not be
/// who serves.
fn lock_file(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false);
    options.custom_flags(flags.bits()).open(path)
}

/// One of our recordings.
#[derive(Debug)]
struct Stored {
    name: String,
    age: Age,
    /// 0 where that is not known.
    bytes: u64,
    /// Why it is not to be removed.
    stays: Option<String>,
}

/// When a recording began, by its name, and which it is of those of the same second.
type Age = (DateTime, u32);

/// Our recordings in `dir`, the oldest by its name first.
fn recordings(dir: &Path) -> io::Result<Vec<Stored>> {
    let device = fs::metadata(dir)?.dev();
    let whole = fs::canonicalize(dir)?;
    let mounted = mount_points(Path::new("/proc/self/mountinfo"));
    let mut all = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        // Not where a link leads.
        if let Some(age) = age(&name)
            && entry.file_type()?.is_dir()
        {
            // A part of the same file system can be mounted in it, too.
            let path = whole.join(&name);
            let is_free = |mounted: &Vec<PathBuf>| !mounted.iter().any(|at| at.starts_with(&path));
            let (bytes, stays) = match size(&entry.path(), device) {
                Ok(Some(_)) if mounted.as_ref().is_ok_and(|all| !is_free(all)) => {
                    (0, Some("something is mounted in it".to_owned()))
                }
                Ok(Some(bytes)) if let Err(err) = &mounted => {
                    let why = "whether something is mounted in it is not known";
                    (bytes, Some(format!("{why}: {err}")))
                }
                Ok(Some(bytes)) => (bytes, None),
                Ok(None) => (0, Some("something is mounted in it".to_owned())),
                // What cannot be looked at may be mounted.
                Err(err) => (0, Some(err.to_string())),
            };
            all.push(Stored {
                name,
                age,
                bytes,
                stays,
            });
        }
    }
    all.sort_by_key(|one| one.age);
    Ok(all)
}

/// Where something is mounted: proc(5), `mountinfo`.
fn mount_points(file: &Path) -> io::Result<Vec<PathBuf>> {
    // Names of folders need not be UTF-8, and the kernel escapes blanks alone.
    let text = fs::read(file)?;
    let lines = text.split(|&byte| byte == b'\n');
    let points = lines.filter_map(|line| line.split(|&byte| byte == b' ').nth(4));
    Ok(points.map(|point| unescaped(point).into()).collect())
}

/// Without the kernel's escapes of blanks: `\040`.
fn unescaped(bytes: &[u8]) -> OsString {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes
            .get(at..at + 4)
            .and_then(|one| one.strip_prefix(b"\\"))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    OsString::from_vec(plain)
}

/// When one of our recordings began, and which it is of those that began in the same
/// second; `None`: this is no name that [`Store::next`] gives.
fn age(name: &str) -> Option<Age> {
    let rest = name.strip_prefix(BEGINS)?.strip_suffix(ENDS)?;
    let (time, number) = match rest.split_once("Z-") {
        Some((time, number)) => (format!("{time}Z"), number.parse().ok()?),
        None => (rest.to_owned(), 1),
    };
    let time = DateTime::strptime(TIME, &time).ok()?;
    let again = match number {
        1 => format!("{BEGINS}{}{ENDS}", time.strftime(TIME)),
        _ => format!("{BEGINS}{}-{number}{ENDS}", time.strftime(TIME)),
    };
    (again == name).then_some((time, number))
}

/// What a folder of the file system `device` takes on disk, bytes, with all that is in
/// it; `None` where something else is mounted there. What vanishes meanwhile takes
/// nothing.
fn size(path: &Path, device: u64) -> io::Result<Option<u64>> {
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

#[cfg(test)]
mod tests;
