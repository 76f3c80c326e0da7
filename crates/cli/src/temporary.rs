//! A folder for what only this program needs, and nobody else may see. It goes
//! with the program, also where that is ended.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, io, process};

use anyhow::Context as _;
use laggard_record::{Access, Folder};
use nix::fcntl::OFlag;

use crate::unfinished::{AtSignal, Removal, Unfinished};

/// What such a folder's name begins with.
const PREFIX: &str = "laggard-copies-";
/// Who makes one has locked it long before this.
const SETTLED: Duration = Duration::from_secs(60);
/// How often it is tried to remove a folder into which something is written, and
/// how long between two tries: a second in all.
const TRIES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(10);

/// A folder that is removed with this value, and when a signal ends the program.
#[derive(Debug)]
pub(crate) struct Temporary {
    folder: Folder,
    /// Removes it.
    _unfinished: Unfinished,
    /// Says that it is in use, until this program is gone however that ended.
    _lock: File,
}

impl Temporary {
    /// Makes one, and removes those of programs that were killed.
    pub(crate) fn make() -> anyhow::Result<Self> {
        let around = env::temp_dir();
        // Best effort: another time, or by who cleans the folder around it.
        let _ = remove_left(&around);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_nanos();
        let path = around.join(format!("{PREFIX}{}-{now}", process::id()));
        let context = || format!("make the folder `{}` for copies", path.display());
        let ((folder, lock), unfinished) = Unfinished::begin(AtSignal::Ends, || {
            let folder = Folder::make(&path, Access::Private).with_context(context)?;
            let lock = File::open(&path).with_context(context)?;
            lock.lock().with_context(context)?;
            let theirs = folder.clone();
            let removal: Removal = Box::new(move || remove(&theirs));
            Ok(((folder, lock), removal))
        })?;
        Ok(Self {
            folder,
            _unfinished: unfinished,
            _lock: lock,
        })
    }

    pub(crate) const fn folder(&self) -> &Folder {
        &self.folder
    }
}

/// Removes the folder. Best effort: nobody else can read it, and it lies where
/// others' do.
fn remove(folder: &Folder) {
    for _ in 0..TRIES {
        match folder.remove_with_all() {
            Ok(()) => break,
            Err(_) => std::thread::sleep(BETWEEN),
        }
    }
}

/// Removes the folders that killed programs of this user left in `around`.
fn remove_left(around: &Path) -> io::Result<()> {
    let user = nix::unistd::geteuid().as_raw();
    let here = fs::metadata(around)?;
    // Where anybody may rename what is ours, a name can stand for anything.
    let is_safe = here.mode() & 0o1000 != 0 || here.mode() & 0o022 == 0;
    if !is_safe || ![user, 0].contains(&here.uid()) {
        return Ok(());
    }
    for entry in fs::read_dir(around)? {
        let entry = entry?;
        let is_named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_named && is_left(&entry.path(), user)? {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Whether a folder is this user's, nobody else's to read, and of a program that
/// has ended.
fn is_left(path: &Path, user: u32) -> io::Result<bool> {
    let folder = File::options()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY).bits())
        .open(path)?;
    let data = folder.metadata()?;
    let age = SystemTime::now().duration_since(data.modified()?);
    let is_settled = age.is_ok_and(|age| age >= SETTLED);
    if data.uid() != user || data.mode() & 0o077 != 0 || !is_settled {
        return Ok(false);
    }
    match folder.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
