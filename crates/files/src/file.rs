//! Files that a user named.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::in_place::{overwrite, with_remedy};
use crate::part::PartFile;
use crate::system::{self, OutputPlace};
use crate::unfinished::AtSignal;

/// Writes `bytes` to `file`, under another name first, so that a reader never sees half
/// of it. See [`OutputFile`] for links, devices and permissions. `what` names the content
/// in errors ("report").
///
/// # Errors
/// If the file cannot be written; then it is as it was before.
pub fn write(file: &Path, what: &str, bytes: &[u8]) -> anyhow::Result<()> {
    OutputFile::begin(file, AtSignal::Ends)
        .and_then(|mut output| {
            output.write_all(bytes)?;
            output.keep()
        })
        .with_context(|| format!("cannot write the {what} `{}`", file.display()))
}

/// Reports before long work the errors of [`write()`]: a directory, a missing parent
/// directory, a link or a FIFO of another user.
///
/// # Errors
/// If `file` cannot be written to. Later changes by another process are not covered.
pub fn check(file: &Path, what: &str) -> anyhow::Result<()> {
    let shown = file.display();
    anyhow::ensure!(
        !file.is_dir(),
        "the {what} `{shown}` is a directory; give the name of a file"
    );
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    anyhow::ensure!(
        folder.is_none_or(Path::is_dir),
        "cannot write the {what} `{shown}`: its directory does not exist; create it, or give another name"
    );
    let place =
        OutputPlace::find(file).with_context(|| format!("cannot write the {what} `{shown}`"))?;
    drop(place);
    Ok(())
}

/// Reports the errors of [`check`], and refuses a device or a FIFO, which can block.
///
/// # Errors
/// If `file` cannot be written to, or is not a regular file.
pub fn check_regular(file: &Path, what: &str) -> anyhow::Result<()> {
    check(file, what)?;
    OutputPlace::find(file)
        .map_err(Into::into)
        .and_then(|place| regular(&place))
        .with_context(|| format!("cannot write the {what} `{}`", file.display()))
}

fn regular(place: &OutputPlace) -> anyhow::Result<()> {
    anyhow::ensure!(
        place.is_regular(),
        "it is not a regular file; give another name"
    );
    Ok(())
}

/// A file that a user named. It is replaced when the new content is whole; until then the
/// old content stays.
///
/// - A file that is replaced keeps its owner, group and permissions. A new file gets the
///   permissions that the umask gives.
/// - A link stays, and its target is replaced. A device or a FIFO is written to.
/// - In a directory such as `/tmp` a link, a FIFO or a file of another user is refused.
/// - If the directory does not permit a new file, or the owner cannot be kept, an existing
///   file is overwritten once the new content is complete and there is room for it.
#[derive(Debug)]
pub struct OutputFile(Output);

#[derive(Debug)]
enum Output {
    /// Temporary file next to the file that it replaces.
    Part(PartFile),
    /// Content that waits without a name, and the file that it goes to.
    Waiting { content: File, target: File },
    /// A device or a FIFO.
    Device(File),
}

impl OutputFile {
    /// Starts to write to `file`.
    ///
    /// # Errors
    /// If it cannot be written to, or must not be.
    pub fn begin(file: &Path, at_signal: AtSignal) -> anyhow::Result<Self> {
        Self::begin_at(OutputPlace::find(file)?, at_signal)
    }

    /// Starts to write to `file`, which must not be a device or a FIFO. Only its owner can
    /// read a new file.
    ///
    /// # Errors
    /// If it cannot be written to, or must not be.
    pub fn begin_private(file: &Path, at_signal: AtSignal) -> anyhow::Result<Self> {
        let place = OutputPlace::find(file)?;
        regular(&place)?;
        let is_new = !place.exists();
        let output = Self::begin_at(place, at_signal)?;
        if let (Output::Part(part), true) = (&output.0, is_new) {
            part.set_private()?;
        }
        Ok(output)
    }

    fn begin_at(place: OutputPlace, at_signal: AtSignal) -> anyhow::Result<Self> {
        let place = match place.into_device()? {
            Ok(device) => return Ok(Self(Output::Device(device))),
            Err(place) => place,
        };
        let refused = match PartFile::begin(&place, at_signal) {
            Ok(part) => return Ok(Self(Output::Part(part))),
            Err(refused) => refused,
        };
        let is_refused_there = refused
            .downcast_ref::<io::Error>()
            .is_some_and(system::is_of_directory);
        if !is_refused_there {
            return Err(refused);
        }
        let Some(target) = place.open_existing()? else {
            return Err(anyhow::anyhow!(
                "{refused:#}; choose a directory where you may create files"
            ));
        };
        let content = tempfile::tempfile().context("cannot create a temporary file")?;
        Ok(Self(Output::Waiting { content, target }))
    }

    /// Puts the content in place.
    ///
    /// # Errors
    /// If the disk is full, or the system refuses; then the file is as it was before.
    pub fn keep(self) -> anyhow::Result<()> {
        match self.0 {
            Output::Part(part) => part.keep(),
            Output::Waiting { content, target } => overwrite(content, target),
            Output::Device(_) => Ok(()),
        }
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &mut self.0 {
            Output::Part(part) => part.file().seek(to),
            Output::Waiting { content, .. } => content.seek(to),
            Output::Device(device) => device.seek(to),
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Output::Part(part) => part.file().write(bytes).map_err(with_remedy),
            Output::Waiting { content, .. } => content.write(bytes).map_err(with_remedy),
            Output::Device(device) => device.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Output::Part(part) => part.file().flush(),
            Output::Waiting {
                content: device, ..
            }
            | Output::Device(device) => device.flush(),
        }
    }
}

/// Regular file that appears under its name when it is complete, for content that
/// cannot go to a device or a FIFO by name.
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    output: OutputFile,
    may_replace: bool,
}

impl NewFile {
    /// Starts to write to `path`, which must not exist unless `may_replace`.
    ///
    /// # Errors
    /// If it exists and is not a regular file, or if it cannot be written.
    pub fn create(path: &Path, may_replace: bool) -> anyhow::Result<Self> {
        let context = || format!("cannot write `{}`", path.display());
        if path.file_name().is_some() {
            Self::refuse(path, may_replace)?;
        }
        Ok(Self {
            path: path.to_owned(),
            output: OutputFile::begin(path, AtSignal::Ends).with_context(context)?,
            may_replace,
        })
    }

    fn refuse(path: &Path, may_replace: bool) -> anyhow::Result<()> {
        anyhow::ensure!(
            !path.is_dir(),
            "`{}` is a directory; give the name of a file",
            path.display()
        );
        anyhow::ensure!(
            path.is_file() || !path.exists(),
            "`{}` is not a regular file; write to standard output (`-`) and redirect it",
            path.display()
        );
        anyhow::ensure!(
            may_replace || !path.exists(),
            "`{}` exists; give another name, or replace it with `--force`",
            path.display()
        );
        Ok(())
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// If another process created a file of this name, or the system refuses.
    pub fn keep(self) -> anyhow::Result<()> {
        // It may have been created during the work.
        Self::refuse(&self.path, self.may_replace)?;
        let kept = self.output.keep();
        kept.with_context(|| format!("cannot write `{}`", self.path.display()))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// A new file that grows under its own name, so that others can read it during a
/// measurement and a full disk costs only the end of it.
#[derive(Debug)]
pub struct LogFile {
    place: OutputPlace,
    file: File,
}

impl LogFile {
    /// Creates `path`, which must not exist.
    ///
    /// # Errors
    /// If it exists, or the system refuses.
    pub fn create(path: &Path) -> io::Result<Self> {
        let place = OutputPlace::find(path)?;
        let file = place.new_file()?;
        Ok(Self { place, file })
    }

    /// Removes it.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn discard(self) -> io::Result<()> {
        drop(self.file);
        self.place.remove()
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(with_remedy)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
