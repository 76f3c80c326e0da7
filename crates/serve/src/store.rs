//! Store of recordings: a directory with a size limit, whose entries are named by time.

mod held;
mod keeper;
mod recordings;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use laggard_record::{Destination, Recorder};
use nix::sys::statvfs::statvfs;
use nix::unistd::geteuid;

use super::early_end::{EarlyEnd, EarlyEndRequest};
use super::metrics::StoreSeries;
use held::{HeldDir, LOCK, is_same, locked_file};
use keeper::{MIN_RECORDING_SIZE, StoreKeeper};
use laggard_console::pipe;
use recordings::{TIME_FORMAT, write_name};

/// Time between two measurements of the size of the store.
const SIZE_EVERY: Duration = Duration::from_secs(30);
/// Time between two checks whether the directory is still the store.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Time between two trials to write, while the store cannot be written.
const TRY_EVERY: Duration = Duration::from_secs(5);
/// Parts of a recording that exist from its start and are not rewritten.
const PARTS: [&str; 2] = ["manifest-start.json", "samples"];

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
    /// A test write failed. Recording starts again when one succeeds.
    Retries,
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
    /// If the store cannot be used: it cannot be created or read, another process writes it, it is
    /// on another file system, or it belongs to another user.
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
        let now = Timestamp::now().strftime(TIME_FORMAT).to_string();
        // The clock may have been set back to a second that is already used.
        let mut names = (1..).map(|number| write_name(&now, number));
        let free = names.find(|name| fs::symlink_metadata(self.dir.join(name)).is_err());
        free.expect("the numbers do not end")
    }

    /// If the disk is full, removes the oldest recordings until there is room for one more. A limit
    /// above the free disk space does not stop the recording.
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

#[cfg(test)]
mod tests;
