//! Writing files that a user named.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Writes `what` to `file`, under another name first, so that a reader never
/// sees half of it. What the file held before is replaced; a link stays, and so
/// does a device or a pipe, to which it is written.
pub(crate) fn write(file: &Path, what: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let context = || format!("write the {what} `{}`", file.display());
    // What does not exist yet is no link.
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let file = target.as_path();
    // A file put in the place of `/dev/null` would take it from all others.
    if file.exists() && !file.is_file() && !file.is_dir() {
        let opened = File::options().write(true).open(file);
        return opened
            .and_then(|mut opened| opened.write_all(bytes))
            .with_context(context);
    }
    let mut name = file
        .file_name()
        .ok_or_else(|| anyhow::anyhow!("give the name of a file, not of a folder"))
        .with_context(context)?
        .to_owned();
    name.push(".part");
    let part = file.with_file_name(name);
    let written = fs::File::create(&part)
        .and_then(|mut part| part.write_all(bytes))
        .and_then(|()| fs::rename(&part, file));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&part);
    }
    written.with_context(context)
}

/// A file that appears under its name only when it is whole.
#[derive(Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    part: PathBuf,
    file: File,
    may_replace: bool,
    is_kept: bool,
}

impl NewFile {
    /// Begins `path`, which must not exist unless it `may_replace` it.
    pub(crate) fn create(path: &Path, may_replace: bool) -> anyhow::Result<Self> {
        let context = || format!("write `{}`", path.display());
        let mut name = path
            .file_name()
            .ok_or_else(|| anyhow::anyhow!("give the name of a file, not of a folder"))
            .with_context(context)?
            .to_owned();
        name.push(".part");
        let part = path.with_file_name(name);
        Self::refuse(path, may_replace)?;
        Ok(Self {
            file: File::create(&part).with_context(context)?,
            path: path.to_owned(),
            part,
            may_replace,
            is_kept: false,
        })
    }

    fn refuse(path: &Path, may_replace: bool) -> anyhow::Result<()> {
        anyhow::ensure!(
            !path.is_dir(),
            "`{}` is a folder; give the name of a file",
            path.display()
        );
        // To replace a device or a pipe would take it from all others.
        anyhow::ensure!(
            path.is_file() || !path.exists(),
            "`{}` is no regular file; write to standard output (`-`) and redirect that",
            path.display()
        );
        anyhow::ensure!(
            may_replace || !path.exists(),
            "`{}` exists; give another name, or replace it with `--force`",
            path.display()
        );
        Ok(())
    }

    /// Gives it its name.
    pub(crate) fn keep(mut self) -> anyhow::Result<()> {
        // It may have been made meanwhile.
        Self::refuse(&self.path, self.may_replace)?;
        fs::rename(&self.part, &self.path)
            .with_context(|| format!("write `{}`", self.path.display()))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // Best effort: what went wrong before is what matters.
            let _ = fs::remove_file(&self.part);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn a_pipe_is_written_to_and_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(
            Command::new("mkfifo")
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let from = pipe.clone();
        let reader = std::thread::spawn(move || {
            let is_pipe = || fs::metadata(&from).unwrap().file_type().is_fifo();
            is_pipe().then(|| fs::read_to_string(&from).unwrap())
        });

        write(&pipe, "picture", b"drawn").unwrap();

        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
        assert_eq!(reader.join().unwrap().as_deref(), Some("drawn"));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    }

    #[test]
    fn what_a_link_points_to_is_replaced_and_the_link_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "before").unwrap();
        symlink(&file, &link).unwrap();

        write(&link, "picture", b"after").unwrap();

        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "after");
    }
}
