//! Store of recordings: a directory with a size limit, whose entries are named by time.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use jiff::Timestamp;
use jiff::civil::DateTime;
use laggard_record::{Destination, Recorder};
use nix::fcntl::OFlag;
use nix::sys::statvfs::{Statvfs, fstatvfs, statvfs};
use nix::unistd::geteuid;

use super::early_end::{EarlyEnd, EarlyEndRequest};
use super::metrics::StoreSeries;
use laggard_console::pipe;

/// Time between two measurements of the size of the store.
const SIZE_EVERY: Duration = Duration::from_secs(30);
/// Time between two checks whether the directory is still the store.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Time between two trials to write, while the store cannot be written.
const TRY_EVERY: Duration = Duration::from_secs(5);
/// Parts of a recording that exist from its start and are not rewritten.
const PARTS: [&str; 2] = ["manifest-start.json", "samples"];
/// Name of the file whose lock marks a store in use.
const LOCK: &str = ".lock";
/// Minimum size of a recording, bytes. A recording reserves 1 MiB for its end.
const MIN_RECORDING_SIZE: u64 = 4 << 20;
/// Prefix and suffix of the names of recordings, and the format of the time (UTC) between them.
/// Entries with other names are never removed.
const NAME_PREFIX: &str = "serve-";
const TIME_FORMAT: &str = "%Y-%m-%dT%H-%M-%SZ";
const NAME_SUFFIX: &str = ".laggard";

/// Directory of recordings that only this process writes.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    /// Size limit, bytes.
    keep: u64,
    series: StoreSeries,
    /// Name of the recording in progress. It is not removed.
    current: Arc<Mutex<Option<String>>>,
    /// Owner of the path at the start. Root, this user and this owner may replace it with another
    /// directory or link.
    owner: u32,
    held: Mutex<HeldDir>,
    task: Mutex<StoreTask>,
}

/// Current use of the store.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
enum StoreTask {
    /// Between two recordings, or waiting for the next attempt.
    #[default]
    Idle,
    /// A recording of this name is being written.
    Records(String),
    /// A test write failed. Recording starts again as soon as one succeeds.
    Retries,
}

/// Directory that is locked by this process. The kernel releases the lock when the process ends,
/// for any reason.
#[derive(Debug)]
struct HeldDir {
    dir: File,
    /// For file systems without locks on directories, and for earlier versions.
    lock: File,
}

impl HeldDir {
    /// Locks `dir` for this process.
    ///
    /// # Errors
    /// If it is not a directory, if it cannot be written, or if another process has locked
    /// it.
    fn lock(dir: &Path) -> anyhow::Result<Self> {
        let shown = dir.display();
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlag::O_DIRECTORY.bits());
        let opened = options
            .open(dir)
            .with_context(|| format!("cannot open the store `{shown}`"))?;
        // The directory itself is locked, too, because other users can remove its lock file.
        if let Err(fs::TryLockError::WouldBlock) = opened.try_lock() {
            return Err(taken(dir));
        }
        Ok(Self {
            dir: opened,
            lock: locked_file(dir)?,
        })
    }
}

impl HeldDir {
    /// Returns true if `dir` is on the file system of this directory, which was mounted again.
    /// Mounting keeps the identity of the file system and the inode of the lock file. A lock file
    /// below the mount point or on another disk is a different file, even if its inode has the same
    /// number.
    fn is_mounted_again(&self, dir: &Path) -> bool {
        let lock = fs::symlink_metadata(dir.join(LOCK)).ok();
        let held_lock = self.lock.metadata().ok();
        let inode = |lock: Option<fs::Metadata>| lock.map(|lock| lock.ino());
        let system = |disk: nix::Result<Statvfs>| disk.ok().map(|disk| disk.filesystem_id());
        let is_same_lock = inode(lock) == inode(held_lock);
        is_same_lock && system(statvfs(dir)) == system(fstatvfs(&self.dir))
    }
}

/// Creates and locks the file that marks a store in use.
fn locked_file(dir: &Path) -> anyhow::Result<File> {
    let shown = dir.display();
    let lock = lock_file(&dir.join(LOCK))
        .with_context(|| format!("cannot write `{LOCK}` in the store `{shown}`"))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(taken(dir)),
        Err(fs::TryLockError::Error(err)) => {
            Err(err).with_context(|| format!("cannot lock the store `{shown}`"))
        }
    }
}

fn taken(dir: &Path) -> anyhow::Error {
    anyhow!(
        "another `laggard serve` writes the store `{}`; give each its own",
        dir.display()
    )
}

impl Store {
    /// Opens the directory, or creates it.
    ///
    /// # Errors
    /// If it cannot be written, or if another process writes it.
    pub(crate) fn open(dir: &Path, keep: u64, series: StoreSeries) -> anyhow::Result<Self> {
        let shown = dir.display();
        ensure!(
            !dir.as_os_str().as_encoded_bytes().starts_with(b"s3://"),
            "the store `{shown}` is not a directory; use a local one, and send its finished recordings with `laggard-ship DIR {shown} --follow` (docs/how-to/fleet.md)"
        );
        fs::create_dir_all(dir).with_context(|| format!("cannot create the store `{shown}`"))?;
        let held = HeldDir::lock(dir)?;
        let owner =
            fs::symlink_metadata(dir).with_context(|| format!("cannot read the store `{shown}`"));
        Ok(Self {
            dir: dir.to_owned(),
            keep,
            series,
            current: Arc::default(),
            owner: owner?.uid(),
            held: Mutex::new(held),
            task: Mutex::default(),
        })
    }

    /// Creates the store again if its directory was removed. Locks a replacement of the directory
    /// if it is usable as the store.
    ///
    /// # Errors
    /// If nothing can be stored there: it cannot be created or read, another process
    /// writes it, it is on another file system, or it belongs to another user.
    pub(crate) fn restore(&self) -> anyhow::Result<()> {
        let shown = self.dir.display();
        let mut held = locked(&self.held);
        let device = held.dir.metadata();
        let device = device
            .with_context(|| format!("cannot read the store `{shown}`"))?
            .dev();
        match fs::symlink_metadata(&self.dir) {
            Ok(metadata) => {
                let target = fs::metadata(&self.dir);
                let target = target.with_context(|| format!("cannot read the store `{shown}`"))?;
                if is_same(&target, &held.dir) {
                    let lock = fs::symlink_metadata(self.dir.join(LOCK));
                    if !lock.is_ok_and(|lock| is_same(&lock, &held.lock)) {
                        held.lock = locked_file(&self.dir)?;
                    }
                    return Ok(());
                }
                for owner in [metadata.uid(), target.uid()] {
                    ensure!(
                        [0, geteuid().as_raw(), self.owner].contains(&owner),
                        "the store `{shown}` was replaced by a directory or link of user {owner}; \
                         remove it"
                    );
                }
                ensure!(
                    target.dev() == device || held.is_mounted_again(&self.dir),
                    "the store `{shown}` is now on another file system; mount the previous one, or restart laggard"
                );
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                // Parent directories are not created, because a file system may be unmounted.
                fs::create_dir(&self.dir)
                    .with_context(|| format!("cannot create the store `{shown}` again"))?;
                let made = fs::metadata(&self.dir)
                    .with_context(|| format!("cannot read the store `{shown}`"))?;
                if made.dev() != device {
                    fs::remove_dir(&self.dir)
                        .with_context(|| format!("cannot remove the directory `{shown}`"))?;
                    bail!(
                        "the store `{shown}` was removed, and its directory is now on another file system; mount the previous one, or restart laggard"
                    );
                }
            }
            Err(err) => {
                return Err(err).with_context(|| format!("cannot read the store `{shown}`"));
            }
        }
        *held = HeldDir::lock(&self.dir)?;
        Ok(())
    }

    /// Checks that the path still leads to the locked directory, and that the directory of the
    /// recording `name` and its `parts` are still in it. Returns the fault.
    fn fault(&self, name: &str, parts: &[&str]) -> Option<String> {
        let shown = self.dir.display();
        let held = locked(&self.held);
        match fs::metadata(&self.dir) {
            Ok(metadata) if is_same(&metadata, &held.dir) => {}
            Ok(_) => return Some(format!("the store `{shown}` was replaced")),
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                return Some(format!("the store `{shown}` was removed"));
            }
            Err(err) => return Some(format!("the store `{shown}` cannot be read: {err}")),
        }
        for part in [""].iter().chain(parts) {
            match fs::symlink_metadata(self.dir.join(name).join(part)) {
                Ok(metadata) if part.is_empty() && !metadata.is_dir() => {
                    return Some(format!("the recording `{name}` in `{shown}` was replaced"));
                }
                Ok(_) => {}
                Err(err) if err.kind() == io::ErrorKind::NotFound => {
                    return Some(format!(
                        "another program removed the recording `{name}`, or a part of it, from `{shown}`"
                    ));
                }
                Err(err) => {
                    return Some(format!(
                        "the recording `{name}` in `{shown}` cannot be read: {err}"
                    ));
                }
            }
        }
        drop(held);
        // The directory is locked, too. Only an earlier version could take the lock file.
        self.restore().err().map(|err| format!("{err:#}"))
    }

    /// Returns the fault if the recording `name` failed because it was removed or replaced. A
    /// recording that failed at its start may lack its parts.
    pub(crate) fn loss(&self, name: &str) -> Option<String> {
        self.fault(name, &[])
    }

    /// Tests whether a recording could be started.
    ///
    /// # Errors
    /// The reason for the failure.
    fn try_to_write(&self) -> anyhow::Result<()> {
        self.restore()?;
        let free = free_bytes(&self.dir)?;
        ensure!(
            free >= MIN_RECORDING_SIZE,
            "the disk of `{}` is full: {free} bytes are free, and a recording takes {MIN_RECORDING_SIZE}",
            self.dir.display()
        );
        let place = Destination::from(self.dir.join(self.next_name()));
        Recorder::check(&place).context("cannot start a recording")?;
        Ok(())
    }

    /// Notes that the recording `name` is being written.
    pub(crate) fn note_recording(&self, name: &str) {
        *locked(&self.task) = StoreTask::Records(name.to_owned());
    }

    /// Notes that no recording is being written.
    pub(crate) fn note_idle(&self) {
        *locked(&self.task) = StoreTask::Idle;
    }

    /// Notes that recording failed. If a test write fails too, a later success shows that recording
    /// can start again.
    pub(crate) fn note_failure(&self) {
        *locked(&self.task) = match self.try_to_write() {
            Ok(()) => StoreTask::Idle,
            Err(_) => StoreTask::Retries,
        };
    }

    /// Checks the store. Returns the reason to end the current piece, if there is one. `tried` is
    /// the time of the last test write.
    fn check(&self, tried: &mut Instant) -> Option<EarlyEnd> {
        let task = locked(&self.task).clone();
        match task {
            StoreTask::Idle => None,
            StoreTask::Records(name) => self.fault(&name, &PARTS).map(EarlyEnd::StoreLost),
            StoreTask::Retries if tried.elapsed() < TRY_EVERY => None,
            StoreTask::Retries => {
                *tried = Instant::now();
                self.try_to_write().is_ok().then_some(EarlyEnd::StoreBack)
            }
        }
    }

    /// Returns the place of a recording that starts now.
    pub(crate) fn next(&self) -> Destination {
        let name = self.next_name();
        *locked(&self.current) = Some(name.clone());
        self.dir.join(name).into()
    }

    fn next_name(&self) -> String {
        let now = Timestamp::now().strftime(TIME_FORMAT);
        let mut name = format!("{NAME_PREFIX}{now}{NAME_SUFFIX}");
        // The clock may have been set back to a second that is already used.
        for number in 2.. {
            if fs::symlink_metadata(self.dir.join(&name)).is_err() {
                break;
            }
            name = format!("{NAME_PREFIX}{now}-{number}{NAME_SUFFIX}");
        }
        name
    }

    /// If the disk is full, removes the oldest recordings until there is room for one more. A limit
    /// above the free disk space is no reason to stop recording.
    ///
    /// # Errors
    /// If they cannot be read or removed, or if their removal would not free enough.
    pub(crate) fn make_room(&self) -> anyhow::Result<u64> {
        self.keeper().make_room(free_bytes)
    }

    fn keeper(&self) -> StoreKeeper {
        StoreKeeper {
            dir: self.dir.clone(),
            keep: self.keep,
            series: self.series.clone(),
            current: self.current.clone(),
        }
    }

    /// Starts the thread that limits the size of the store. It also requests the end of a piece
    /// when the store was lost or can be written again.
    pub(crate) fn watch(self: &Arc<Self>, cut: EarlyEndRequest) -> io::Result<()> {
        let store = self.clone();
        super::thread("laggard/store", move || {
            let keeper = store.keeper();
            let mut printed = None;
            let mut sized: Option<Instant> = None;
            let mut tried = Instant::now();
            loop {
                if let Some(reason) = store.check(&mut tried) {
                    cut.ask(reason);
                }
                if sized.is_none_or(|sized| sized.elapsed() >= SIZE_EVERY) {
                    sized = Some(Instant::now());
                    let result = keeper.tidy().map_err(|err| format!("{err:#}"));
                    // An unchanged reason is printed once.
                    if let Err(why) = &result
                        && printed.as_ref() != Some(why)
                    {
                        pipe::say(why);
                    }
                    printed = result.err();
                }
                std::thread::sleep(CHECK_EVERY);
            }
        })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of bytes that this user can still write to the file system of `dir`.
fn free_bytes(dir: &Path) -> nix::Result<u64> {
    let disk = statvfs(dir)?;
    Ok(disk.blocks_available() * disk.fragment_size())
}

/// Returns true if `metadata` belongs to the open file or directory.
fn is_same(metadata: &fs::Metadata, open: &File) -> bool {
    let identity = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    open.metadata()
        .is_ok_and(|open| identity(&open) == identity(metadata))
}

/// Removes old recordings.
#[derive(Debug)]
struct StoreKeeper {
    dir: PathBuf,
    keep: u64,
    series: StoreSeries,
    current: Arc<Mutex<Option<String>>>,
}

impl StoreKeeper {
    /// Removes the oldest recordings until the rest are within the limit. A recording that cannot
    /// be removed does not prevent the removal of others.
    fn tidy(&self) -> anyhow::Result<()> {
        let shown = self.dir.display();
        let recordings = self.oldest_first()?;
        let mut bytes: u64 = recordings.iter().map(|recording| recording.bytes).sum();
        let current = self.being_made();
        let mut keep_reason = None;
        for recording in recordings {
            if bytes <= self.keep {
                break;
            }
            if current.as_ref() == Some(&recording.name) {
                continue;
            }
            match self.remove(&recording) {
                Ok(()) => bytes -= recording.bytes,
                Err(why) => {
                    keep_reason.get_or_insert((self.dir.join(&recording.name), why));
                }
            }
        }
        self.series
            .bytes
            .set(i64::try_from(bytes).unwrap_or(i64::MAX));
        if let Some((path, why)) = keep_reason {
            bail!(
                "cannot remove the old recording `{}`: {why}; other recordings are removed instead",
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

    /// Returns our recordings, oldest first.
    fn oldest_first(&self) -> anyhow::Result<Vec<Stored>> {
        let shown = self.dir.display();
        let mut recordings =
            recordings(&self.dir).with_context(|| format!("cannot read the store `{shown}`"))?;
        // A recording with a later name than the recording in progress already existed, and the
        // clock was set back. It is therefore older than all recordings since.
        if let Some(now) = self.being_made().as_deref().and_then(parse_name) {
            let later = recordings.partition_point(|recording| recording.parse_name <= now);
            recordings.rotate_left(later);
        }
        Ok(recordings)
    }

    fn being_made(&self) -> Option<String> {
        locked(&self.current).clone()
    }

    fn remove(&self, recording: &Stored) -> Result<(), String> {
        if let Some(why) = &recording.keep_reason {
            return Err(why.clone());
        }
        fs::remove_dir_all(self.dir.join(&recording.name)).map_err(|err| err.to_string())?;
        self.series.removed.inc();
        Ok(())
    }

    /// Removes the oldest recordings until `free` reports room for one more. Returns the number of
    /// removed recordings. Keeps the most recent one, and removes none if other files fill the
    /// disk.
    fn make_room(&self, free: impl Fn(&Path) -> nix::Result<u64>) -> anyhow::Result<u64> {
        let shown = self.dir.display();
        let recordings = self.oldest_first()?;
        let wanted = room_for_next(recordings.iter().map(|recording| recording.bytes));
        let last = self.being_made();
        let is_removable = |recording: &&Stored| {
            last.as_ref() != Some(&recording.name) && recording.keep_reason.is_none()
        };
        let room =
            || free(&self.dir).with_context(|| format!("cannot read the free space of `{shown}`"));
        let mut there = room()?;
        let ours: u64 = recordings
            .iter()
            .filter(is_removable)
            .map(|recording| recording.bytes)
            .sum();
        if there + ours < wanted {
            bail!("the disk of `{shown}` is full of other things, so no recording is removed");
        }
        let mut removed = 0;
        for recording in recordings.iter().filter(is_removable) {
            if there >= wanted {
                break;
            }
            self.remove(recording).map_err(|why| {
                anyhow!(
                    "the old recording `{}` cannot be removed: {why}",
                    recording.name
                )
            })?;
            removed += 1;
            there = room()?;
        }
        Ok(removed)
    }
}

/// Returns the room for one more recording: twice the largest of `bytes`, the sizes of the others,
/// and at least [`MIN_RECORDING_SIZE`].
fn room_for_next(bytes: impl Iterator<Item = u64>) -> u64 {
    (2 * bytes.max().unwrap_or_default()).max(MIN_RECORDING_SIZE)
}

/// Opens the file whose lock shows that the store has a writer. Does not follow a link and does not
/// change the content: users that may write to the directory may differ from the user that serves.
fn lock_file(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut options = OpenOptions::new();
    options.create(true).write(true).truncate(false);
    options.custom_flags(flags.bits()).open(path)
}

/// Recording of the store.
#[derive(Debug)]
struct Stored {
    name: String,
    parse_name: Age,
    /// 0 if unknown.
    bytes: u64,
    /// Reason not to remove it.
    keep_reason: Option<String>,
}

/// Start of a recording according to its name, and its number among recordings of the same second.
type Age = (DateTime, u32);

/// Returns our recordings in `dir`, oldest first according to their names.
fn recordings(dir: &Path) -> io::Result<Vec<Stored>> {
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
        if let Some(parse_name) = parse_name(&name)
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
            stored.push(Stored {
                name,
                parse_name,
                bytes,
                keep_reason,
            });
        }
    }
    stored.sort_by_key(|recording| recording.parse_name);
    Ok(stored)
}

/// Returns all mount points: proc(5), `mountinfo`.
fn mount_points(file: &Path) -> io::Result<Vec<PathBuf>> {
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

/// Returns the start of a recording, and its number among recordings of the same second; `None` if
/// [`Store::next`] does not produce this name.
fn parse_name(name: &str) -> Option<Age> {
    let rest = name.strip_prefix(NAME_PREFIX)?.strip_suffix(NAME_SUFFIX)?;
    let (time, number) = match rest.split_once("Z-") {
        Some((time, number)) => (format!("{time}Z"), number.parse().ok()?),
        None => (rest.to_owned(), 1),
    };
    let time = DateTime::strptime(TIME_FORMAT, &time).ok()?;
    let again = match number {
        1 => format!("{NAME_PREFIX}{}{NAME_SUFFIX}", time.strftime(TIME_FORMAT)),
        _ => format!(
            "{NAME_PREFIX}{}-{number}{NAME_SUFFIX}",
            time.strftime(TIME_FORMAT)
        ),
    };
    (again == name).then_some((time, number))
}

/// Returns the disk space of a directory on the file system `device`, with its content, bytes;
/// `None` if another file system is mounted there. Entries that disappear during the call do not
/// count.
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
