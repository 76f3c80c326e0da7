//! The folder of recordings: named by time, and never larger than it may be.

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
/// Parts of a recording that are there from its beginning and are not written again.
const PARTS: [&str; 2] = ["manifest-start.json", "samples"];
/// Name of the file whose lock marks a store in use.
const LOCK: &str = ".lock";
/// What a recording takes at least, bytes: it holds back 1 MiB for its end.
const LEAST: u64 = 4 << 20;
/// What begins and ends the names of our recordings, and the time between, by UTC:
/// nothing else is ever removed.
const BEGINS: &str = "serve-";
const TIME: &str = "%Y-%m-%dT%H-%M-%SZ";
const ENDS: &str = ".laggard";

/// Directory of recordings that only this process writes.
#[derive(Debug)]
pub(crate) struct Store {
    dir: PathBuf,
    /// Size limit, bytes.
    keep: u64,
    series: StoreSeries,
    /// Name of the recording that is being made. It is not removed.
    current: Arc<Mutex<Option<String>>>,
    /// Owner of the path at the start. With root and this user, one of those who may put
    /// another directory or link in its place.
    owner: u32,
    held: Mutex<HeldDir>,
    task: Mutex<StoreTask>,
}

/// What the store is used for at the moment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
enum StoreTask {
    /// Between two recordings, or waiting for the next try.
    #[default]
    Idle,
    /// A recording of this name is being written.
    Records(String),
    /// A trial to write failed. Recording starts again as soon as one succeeds.
    Tries,
}

/// Directory that is locked by this process: the lock ends with the process, however
/// that ends.
#[derive(Debug)]
struct HeldDir {
    dir: File,
    /// For file systems without locks of directories, and for earlier versions.
    lock: File,
}

impl HeldDir {
    /// Locks `dir` for this process.
    ///
    /// # Errors
    /// If it is not a directory, cannot be written, or another process has locked it.
    fn lock(dir: &Path) -> anyhow::Result<Self> {
        let shown = dir.display();
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlag::O_DIRECTORY.bits());
        let opened = options
            .open(dir)
            .with_context(|| format!("open the store `{shown}`"))?;
        // The directory itself is locked, too: its file can be removed by others.
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
    /// Whether `dir` is on the file system of this directory, which was mounted again: that
    /// keeps its identity and the inode of the lock file. A lock file below the mount point
    /// or on another disk is another one, although its inode can have the same number.
    fn is_mounted_again(&self, dir: &Path) -> bool {
        let lock = fs::symlink_metadata(dir.join(LOCK)).ok();
        let held_lock = self.lock.metadata().ok();
        let inode = |lock: Option<fs::Metadata>| lock.map(|lock| lock.ino());
        let system = |disk: nix::Result<Statvfs>| disk.ok().map(|disk| disk.filesystem_id());
        let is_same_lock = inode(lock) == inode(held_lock);
        is_same_lock && system(statvfs(dir)) == system(fstatvfs(&self.dir))
    }
}

/// Makes and locks the file that marks a store in use.
fn locked_file(dir: &Path) -> anyhow::Result<File> {
    let shown = dir.display();
    let lock = lock_file(&dir.join(LOCK))
        .with_context(|| format!("write `{LOCK}` in the store `{shown}`"))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(taken(dir)),
        Err(fs::TryLockError::Error(err)) => {
            Err(err).with_context(|| format!("lock the store `{shown}`"))
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
    /// Opens the directory, or makes it.
    ///
    /// # Errors
    /// When it cannot be written, or another process writes it.
    pub(crate) fn open(dir: &Path, keep: u64, series: StoreSeries) -> anyhow::Result<Self> {
        let shown = dir.display();
        ensure!(
            !dir.as_os_str().as_encoded_bytes().starts_with(b"s3://"),
            "the store `{shown}` is no folder; keep it in one, and send what has ended there by `laggard-ship DIR {shown} --follow` (docs/how-to/fleet.md)"
        );
        fs::create_dir_all(dir).with_context(|| format!("make the store `{shown}`"))?;
        let held = HeldDir::lock(dir)?;
        let owner = fs::symlink_metadata(dir).with_context(|| format!("read the store `{shown}`"));
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

    /// Makes the store again if its directory was removed, and locks what is in its place
    /// if that may be the store.
    ///
    /// # Errors
    /// If nothing can be stored there: it cannot be made or read, another process writes
    /// it, it is on another file system, or it belongs to another user.
    pub(crate) fn restore(&self) -> anyhow::Result<()> {
        let shown = self.dir.display();
        let mut held = locked(&self.held);
        let device = held.dir.metadata();
        let device = device
            .with_context(|| format!("read the store `{shown}`"))?
            .dev();
        match fs::symlink_metadata(&self.dir) {
            Ok(metadata) => {
                let target = fs::metadata(&self.dir);
                let target = target.with_context(|| format!("read the store `{shown}`"))?;
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
                    "the store `{shown}` is on another file system now; mount the one that it was \
                     on, or restart laggard"
                );
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                // Not the directories around it: a file system may be unmounted.
                fs::create_dir(&self.dir)
                    .with_context(|| format!("make the store `{shown}` again"))?;
                let made =
                    fs::metadata(&self.dir).with_context(|| format!("read the store `{shown}`"))?;
                if made.dev() != device {
                    fs::remove_dir(&self.dir)
                        .with_context(|| format!("remove the directory `{shown}`"))?;
                    bail!(
                        "the store `{shown}` was removed, and its directory is on another file \
                         system now; mount the one that it was on, or restart laggard"
                    );
                }
            }
            Err(err) => return Err(err).with_context(|| format!("read the store `{shown}`")),
        }
        *held = HeldDir::lock(&self.dir)?;
        Ok(())
    }

    /// Checks whether the path still leads to the locked directory, and whether the
    /// directory of the recording `name` and its `parts` are still in it. Returns the
    /// fault.
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
                        "the recording `{name}`, or a part of it, was removed from `{shown}`"
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
        // Its directory is locked, too. Only an earlier version could take the file.
        self.restore().err().map(|err| format!("{err:#}"))
    }

    /// Returns the fault if the recording `name` failed because it was removed or
    /// replaced. A recording that failed as it started need not have its parts.
    pub(crate) fn loss(&self, name: &str) -> Option<String> {
        self.fault(name, &[])
    }

    /// Tries whether a recording could be begun.
    ///
    /// # Errors
    /// The reason why not.
    fn try_to_write(&self) -> anyhow::Result<()> {
        self.restore()?;
        let free = free_bytes(&self.dir)?;
        ensure!(
            free >= LEAST,
            "the disk of `{}` is full: {free} bytes are free, and a recording takes {LEAST}",
            self.dir.display()
        );
        let place = Destination::from(self.dir.join(self.next_name()));
        Recorder::check(&place).context("begin a recording")?;
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

    /// Notes that recording failed. If a trial to write fails too, its success will show
    /// that recording can start again.
    pub(crate) fn note_failure(&self) {
        *locked(&self.task) = match self.try_to_write() {
            Ok(()) => StoreTask::Idle,
            Err(_) => StoreTask::Tries,
        };
    }

    /// Checks the store. Returns the reason to end the piece that is measured, if there is
    /// one. `tried` is the time of the last trial to write.
    fn check(&self, tried: &mut Instant) -> Option<EarlyEnd> {
        let task = locked(&self.task).clone();
        match task {
            StoreTask::Idle => None,
            StoreTask::Records(name) => self.fault(&name, &PARTS).map(EarlyEnd::StoreLost),
            StoreTask::Tries if tried.elapsed() < TRY_EVERY => None,
            StoreTask::Tries => {
                *tried = Instant::now();
                self.try_to_write().is_ok().then_some(EarlyEnd::StoreBack)
            }
        }
    }

    /// Where the recording that begins now is made.
    pub(crate) fn next(&self) -> Destination {
        let name = self.next_name();
        *locked(&self.current) = Some(name.clone());
        self.dir.join(name).into()
    }

    fn next_name(&self) -> String {
        let now = Timestamp::now().strftime(TIME);
        let mut name = format!("{BEGINS}{now}{ENDS}");
        // A clock that was set back comes to the same second again.
        for number in 2.. {
            if fs::symlink_metadata(self.dir.join(&name)).is_err() {
                break;
            }
            name = format!("{BEGINS}{now}-{number}{ENDS}");
        }
        name
    }

    /// Removes the oldest recordings until there is room for one more, where the disk is
    /// full: that it may be larger than the disk is is no reason to keep nothing new.
    ///
    /// # Errors
    /// When they cannot be read or removed, or would not be enough.
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

    /// Starts the thread that keeps the store small and asks for the end of a piece when
    /// the store was lost or can be written again.
    pub(crate) fn watch(self: &Arc<Self>, cut: EarlyEndRequest) -> io::Result<()> {
        let store = self.clone();
        super::thread("laggard/store", move || {
            let keeper = store.keeper();
            let mut told = None;
            let mut sized: Option<Instant> = None;
            let mut tried = Instant::now();
            loop {
                if let Some(reason) = store.check(&mut tried) {
                    cut.ask(reason);
                }
                if sized.is_none_or(|sized| sized.elapsed() >= SIZE_EVERY) {
                    sized = Some(Instant::now());
                    let result = keeper.tidy().map_err(|err| format!("{err:#}"));
                    // Once, as long as it is the same.
                    if let Err(why) = &result
                        && told.as_ref() != Some(why)
                    {
                        pipe::say(why);
                    }
                    told = result.err();
                }
                std::thread::sleep(CHECK_EVERY);
            }
        })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that this user can still write to the file system of `dir`.
fn free_bytes(dir: &Path) -> nix::Result<u64> {
    let disk = statvfs(dir)?;
    Ok(disk.blocks_available() * disk.fragment_size())
}

/// Whether `metadata` is that of an open file or directory.
fn is_same(metadata: &fs::Metadata, open: &File) -> bool {
    let identity = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    open.metadata()
        .is_ok_and(|open| identity(&open) == identity(metadata))
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
        locked(&self.current).clone()
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
