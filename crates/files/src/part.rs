//! Files that are not complete yet.

use std::fs::{File, TryLockError};
use std::io;

use anyhow::bail;

use crate::in_place::{overwrite, with_remedy};
use crate::system::{self, LeftFile, OutputPlace};
use crate::unfinished::{AtSignal, Removal, Unfinished};

/// Permissions of a new file, less the umask.
const NEW_FILE_MODE: u32 = 0o666;
/// Number of attempts to create a part while other processes create and abandon it.
const MAX_TRIES: u32 = 10;

/// File next to the one that it will replace, `NAME.part`, which is locked while a
/// process writes to it. It is removed with this value, and by a signal that ends the
/// program. The next program replaces one that a killed program left.
#[derive(Debug)]
pub(crate) struct PartFile {
    /// Final file.
    whole: OutputPlace,
    part: OutputPlace,
    /// Removes the part, while it is locked.
    unfinished: Unfinished,
    file: File,
}

impl PartFile {
    /// Creates the part of `whole`, with the owner and the permissions of the file that it
    /// replaces.
    ///
    /// # Errors
    /// If it cannot be created, or the owner cannot be kept.
    pub(crate) fn begin(whole: &OutputPlace, at_signal: AtSignal) -> anyhow::Result<Self> {
        let part = whole.with_suffix(".part");
        let (file, unfinished) = Unfinished::begin(at_signal, || {
            let file = new_part(&part, whole)?;
            let left = part.clone();
            // A part that was already removed is not an error.
            let removal: Removal = Box::new(move || drop(left.remove()));
            Ok((file, removal))
        })?;
        let this = Self {
            whole: whole.clone(),
            part,
            unfinished,
            file,
        };
        whole.adopt_owner(&this.file)?;
        Ok(this)
    }

    /// Makes the file readable by its owner only.
    #[cfg(unix)]
    pub(crate) fn set_private(&self) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;

        self.file
            .set_permissions(std::fs::Permissions::from_mode(0o600))
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "as on Unix")]
    pub(crate) const fn set_private(&self) -> io::Result<()> {
        Ok(())
    }

    pub(crate) const fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Renames it to the final name.
    ///
    /// # Errors
    /// If the disk is full, or the system refuses.
    pub(crate) fn keep(self) -> anyhow::Result<()> {
        let Self {
            whole,
            part,
            unfinished,
            file,
        } = self;
        // Some disks report only now that they are full; the old file is still
        // complete.
        file.sync_all().map_err(with_remedy)?;
        let renamed = unfinished.try_finish(|| part.rename(&whole));
        match renamed {
            Ok(()) => Ok(()),
            // A file that is a mount point, as in containers, cannot be replaced.
            Err((error, unfinished)) if error.kind() == io::ErrorKind::ResourceBusy => {
                let content = part.open_to_read()?;
                let target = whole.open_existing()?;
                let written = target.map_or(Err(error.into()), |target| overwrite(content, target));
                drop(unfinished);
                written
            }
            Err((error, _unfinished)) => Err(system::with_remedy_for_open_files(error).into()),
        }
    }
}

/// Creates `part` and locks it. One that a killed program left is replaced. Any other
/// file of that name, also a link, is neither followed nor written to.
fn new_part(part: &OutputPlace, whole: &OutputPlace) -> anyhow::Result<File> {
    // Until it has the permissions of the old file, no other user may read it.
    let mode = if whole.exists() { 0o600 } else { NEW_FILE_MODE };
    for _ in 0..MAX_TRIES {
        match part.create(mode) {
            // Another process took it for an abandoned one at this moment.
            Ok(file) if is_locked(&file) => {}
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                remove_left(part, whole)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    bail!("other programs write it again and again; give another name")
}

/// Locks `file`. Returns true if another process has locked it. A file system without locks does
/// not detect other processes.
fn is_locked(file: &File) -> bool {
    matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Removes a part without a writing process.
fn remove_left(part: &OutputPlace, whole: &OutputPlace) -> anyhow::Result<()> {
    let left = match LeftFile::open(part) {
        Ok(left) => left,
        // It was renamed or removed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => return Err(in_the_way(part)),
    };
    if !left.is_ours(whole) {
        return Err(in_the_way(part));
    }
    if is_locked(left.file()) {
        bail!("another laggard is writing it; wait for that one to end, or give another name");
    }
    // The lock makes sure that no other process replaces it.
    if left.is_still(part) {
        part.remove()?;
    }
    Ok(())
}

fn in_the_way(part: &OutputPlace) -> anyhow::Error {
    anyhow::anyhow!(
        "`{}` is in the way; remove it, or give another name",
        part.shown().display()
    )
}
