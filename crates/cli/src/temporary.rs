//! Private directory for temporary files. It is removed with the program, also if that is killed.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, io, process};

use anyhow::Context as _;
use laggard_files::{AtSignal, Removal, Unfinished};
use laggard_record::{Access, Folder};

use crate::system::{self, TemporaryLock};

/// Prefix of the directory's name.
const PREFIX: &str = "laggard-copies-";
/// Time until the creator has locked its directory.
const SETTLED: Duration = Duration::from_secs(60);
/// Number of attempts to remove a directory into which a file is written, and the pause between
/// two: one second in total.
const TRIES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(10);

/// A folder that is removed with this value, and when a signal ends the program.
#[derive(Debug)]
pub(crate) struct Temporary {
    folder: Folder,
    /// Removes it.
    _unfinished: Unfinished,
    /// Says that it is in use, until this program is gone however that ended.
    _lock: TemporaryLock,
}

impl Temporary {
    /// Creates a directory, and removes the directories of killed programs.
    pub(crate) fn make() -> anyhow::Result<Self> {
        let around = env::temp_dir();
        // Best effort: another time, or by who cleans the folder around it.
        let _ = remove_left(&around);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_nanos();
        let path = around.join(format!("{PREFIX}{}-{now}", process::id()));
        let context = || {
            format!(
                "cannot create the directory `{}` for copies",
                path.display()
            )
        };
        let ((folder, lock), unfinished) = Unfinished::begin(AtSignal::Ends, || {
            let folder = Folder::make(&path, Access::Private).with_context(context)?;
            let lock = TemporaryLock::new(&path).with_context(context)?;
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

/// Removes the directory if possible. Other users cannot read it, and it is among other temporary
/// files.
fn remove(folder: &Folder) {
    system::leave(folder.path());
    for _ in 0..TRIES {
        match folder.remove_with_all() {
            Ok(()) => break,
            Err(_) => std::thread::sleep(BETWEEN),
        }
    }
}

/// Removes the folders that killed programs of this user left in `around`.
fn remove_left(around: &Path) -> io::Result<()> {
    if !system::is_safe_around(around)? {
        return Ok(());
    }
    for entry in fs::read_dir(around)? {
        let entry = entry?;
        let is_named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_named && system::is_left(&entry.path(), SETTLED)? {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}
