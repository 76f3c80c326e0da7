//! Writing files that a user named.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::system::{self, LeftFile};
use crate::unfinished::{AtSignal, Removal, Unfinished};

/// Who may read and write a file, as far as the user's umask allows.
const ALL: u32 = 0o666;
/// How often a file is begun anew because others begin, and leave, the same.
const TRIES: u32 = 10;

/// Writes `what` to `file`, under another name first, so that a reader never
/// sees half of it. What the file held before is replaced; a link stays, and so
/// does a device or a pipe, to which it is written.
pub(crate) fn write(file: &Path, what: &str, bytes: &[u8]) -> anyhow::Result<()> {
    UserFile::begin(file, AtSignal::Ends)
        .and_then(|mut output| {
            output.write_all(bytes)?;
            output.keep()
        })
        .with_context(|| format!("write the {what} `{}`", file.display()))
}

/// What a user named, replaced when it is whole: what it held before stays until
/// then. A link stays, too, and so does a device or a pipe, which is written to.
#[derive(Debug)]
pub(crate) enum UserFile {
    /// A file, and what will have its name.
    File(PathBuf, HalfFile),
    /// A device or a pipe.
    Device(File),
}

impl UserFile {
    /// Begins to write to `file`.
    pub(crate) fn begin(file: &Path, at_signal: AtSignal) -> anyhow::Result<Self> {
        // What does not exist yet is no link.
        let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        // A file put in the place of `/dev/null` would take it from all others.
        if target.exists() && !target.is_file() && !target.is_dir() {
            return Ok(Self::Device(File::options().write(true).open(target)?));
        }
        let part = HalfFile::begin(&target, ALL, at_signal)?;
        Ok(Self::File(target, part))
    }

    /// Gives it its name.
    pub(crate) fn keep(self) -> anyhow::Result<()> {
        match self {
            Self::File(target, part) => part.keep(&target),
            Self::Device(_) => Ok(()),
        }
    }
}

impl Write for UserFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(_, part) => part.file.write(bytes).map_err(no_room),
            Self::Device(device) => device.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(_, HalfFile { file, .. }) | Self::Device(file) => file.flush(),
        }
    }
}

/// Says what helps where there is no room for a file.
fn no_room(error: io::Error) -> io::Error {
    let is = |kind| error.kind() == kind;
    let helps = if is(io::ErrorKind::StorageFull) || is(io::ErrorKind::QuotaExceeded) {
        "free some space, or write to another disk"
    } else if is(io::ErrorKind::FileTooLarge) {
        "raise the limit on files (`ulimit -f unlimited`)"
    } else {
        return error;
    };
    io::Error::new(error.kind(), format!("{error}; {helps}"))
}

/// Writes a file whole, in place of the one that has its name; `mode`: who may read
/// and write it, as far as the user's umask allows.
pub(crate) fn put(file: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    let mut part = HalfFile::begin(file, mode, AtSignal::Ends)?;
    part.file.write_all(bytes).map_err(no_room)?;
    part.keep(file)
}

/// Says at once what [`write()`] would say of `file` after long work: that it is a folder,
/// or that its folder is not there.
pub(crate) fn check(file: &Path, what: &str) -> anyhow::Result<()> {
    let shown = file.display();
    anyhow::ensure!(
        !file.is_dir(),
        "the {what} `{shown}` is a folder; give the name of a file"
    );
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    anyhow::ensure!(
        folder.is_none_or(Path::is_dir),
        "write the {what} `{shown}`: its folder is not there; make it, or give another name"
    );
    Ok(())
}

/// A file that appears under its name only when it is whole.
#[derive(Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    part: HalfFile,
    may_replace: bool,
}

impl NewFile {
    /// Begins `path`, which must not exist unless it `may_replace` it.
    pub(crate) fn create(path: &Path, may_replace: bool) -> anyhow::Result<Self> {
        let context = || format!("write `{}`", path.display());
        if path.file_name().is_some() {
            Self::refuse(path, may_replace)?;
        }
        Ok(Self {
            path: path.to_owned(),
            part: HalfFile::begin(path, ALL, AtSignal::Ends).with_context(context)?,
            may_replace,
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
    pub(crate) fn keep(self) -> anyhow::Result<()> {
        // It may have been made meanwhile.
        Self::refuse(&self.path, self.may_replace)?;
        let kept = self.part.keep(&self.path);
        kept.with_context(|| format!("write `{}`", self.path.display()))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.part.file.write(bytes).map_err(no_room)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.part.file.flush()
    }
}

/// A file beside the one that it will be, `NAME.part`, which is locked as long as
/// somebody writes to it. It goes with this value, and with the program where a
/// signal ends that at once; one of a killed program is in nobody's way.
#[derive(Debug)]
pub(crate) struct HalfFile {
    path: PathBuf,
    /// Removes it, while it is locked.
    unfinished: Unfinished,
    file: File,
}

impl HalfFile {
    /// Begins what is to be `whole`.
    fn begin(whole: &Path, mode: u32, at_signal: AtSignal) -> anyhow::Result<Self> {
        let Some(name) = whole.file_name() else {
            bail!("give the name of a file, not of a folder");
        };
        let mut name = name.to_owned();
        name.push(".part");
        let path = whole.with_file_name(name);
        let ((path, file), unfinished) = Unfinished::begin(at_signal, || {
            let file = new_file(&path, mode)?;
            let theirs = path.clone();
            // One that is gone need not be removed.
            let removal: Removal = Box::new(move || drop(fs::remove_file(&theirs)));
            Ok(((path, file), removal))
        })?;
        Ok(Self {
            path,
            unfinished,
            file,
        })
    }

    /// Gives it its name.
    fn keep(self, whole: &Path) -> anyhow::Result<()> {
        let Self {
            path,
            unfinished,
            file,
        } = self;
        // Some disks say only now that they are full; what is there is whole still.
        file.sync_all().map_err(no_room)?;
        Ok(unfinished.finish(|| fs::rename(path, whole).map_err(system::of_replacing))?)
    }
}

/// Makes the file `path`, and locks it. What a killed program left there is
/// replaced; whatever else is there, a link too, is neither followed nor written to.
fn new_file(path: &Path, mode: u32) -> anyhow::Result<File> {
    for _ in 0..TRIES {
        match system::new_file(path, mode) {
            // Who found it in this instant takes it for one that was left.
            Ok(file) if is_held(&file) => {}
            Ok(file) => return Ok(file),
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => remove_left(path)?,
            Err(err) => return Err(err.into()),
        }
    }
    bail!("others write it again and again; give another name")
}

/// Locks `file`; `true`: somebody else has. Where a file system knows no locks, nobody
/// is seen.
fn is_held(file: &File) -> bool {
    matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Removes a half-made file to which nobody writes any more.
fn remove_left(path: &Path) -> anyhow::Result<()> {
    let left = match LeftFile::open(path) {
        Ok(left) => left,
        // It has its name, or is removed, by now.
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(_) => return Err(in_the_way(path)),
    };
    if !left.is_ours() {
        return Err(in_the_way(path));
    }
    if is_held(left.file()) {
        bail!("another laggard is writing it; wait for that one to end, or give another name");
    }
    // Only who has locked what is there may replace it.
    if left.is_still(path) {
        fs::remove_file(path)?;
    }
    Ok(())
}

fn in_the_way(path: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "`{}` is in the way; remove it, or give another name",
        path.display()
    )
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

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

    fn part_of(dir: &tempfile::TempDir) -> (PathBuf, PathBuf) {
        (
            dir.path().join("page.html"),
            dir.path().join("page.html.part"),
        )
    }

    #[test]
    fn what_a_killed_program_left_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (page, part) = part_of(&dir);
        fs::write(&part, "half of another, longer than this one").unwrap();

        write(&page, "report", b"whole").unwrap();

        assert_eq!(fs::read_to_string(&page).unwrap(), "whole");
        assert!(!part.exists());
    }

    #[test]
    fn what_another_writes_at_this_time_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let (page, part) = part_of(&dir);
        let mut other = NewFile::create(&page, false).unwrap();
        other.write_all(b"theirs").unwrap();

        let refused = write(&page, "report", b"ours").unwrap_err();

        let told = format!("{refused:#}");
        assert!(told.contains("another laggard is writing it"), "{told}");
        assert_eq!(fs::read_to_string(&part).unwrap(), "theirs");
        other.keep().unwrap();
        assert_eq!(fs::read_to_string(&page).unwrap(), "theirs");
    }

    /// Whoever may write to the folder could have put it there.
    #[test]
    fn no_link_leads_what_is_written_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let (page, part) = part_of(&dir);
        let precious = dir.path().join("precious");
        fs::write(&precious, "theirs").unwrap();

        let links: [fn(&Path, &Path) -> io::Result<()>; 2] = [
            |from, to| symlink(from, to),
            |from, to| fs::hard_link(from, to),
        ];
        for link in links {
            link(&precious, &part).unwrap();

            let refused = write(&page, "report", b"ours").unwrap_err();

            let told = format!("{refused:#}");
            assert!(told.contains("page.html.part` is in the way"), "{told}");
            assert_eq!(fs::read_to_string(&precious).unwrap(), "theirs");
            fs::remove_file(&part).unwrap();
        }
    }

    /// The file that this program, started again, begins and does not finish.
    const BEGUN: &str = "LAGGARD_TEST_BEGUN";
    /// A limit against hanging.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_signal_that_ends_the_program_leaves_no_half_file() {
        if let Some(page) = std::env::var_os(BEGUN) {
            let mut new = NewFile::create(Path::new(&page), false).unwrap();
            new.write_all(b"half").unwrap();
            return std::thread::sleep(LONG);
        }
        let dir = tempfile::tempdir().unwrap();
        let (page, part) = part_of(&dir);
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            let name = "file::tests::a_signal_that_ends_the_program_leaves_no_half_file";
            // Who runs the tests by `nohup`, or behind other commands, has some ignored,
            // and what is ignored ends nothing.
            let mut program = Command::new("env")
                .arg("--default-signal")
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", name])
                .env(BEGUN, &page)
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            while !part.exists() && program.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(1));
            }

            let id = Pid::from_raw(program.id().try_into().unwrap());
            kill(id, signal).unwrap();

            let ended = program.wait().unwrap();
            assert_eq!(ended.signal(), Some(signal as i32), "{ended}");
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "{signal}");
        }
    }

    #[test]
    fn a_file_that_is_not_finished_goes() {
        let dir = tempfile::tempdir().unwrap();
        let (page, part) = part_of(&dir);

        let mut new = NewFile::create(&page, false).unwrap();
        new.write_all(b"half").unwrap();
        assert!(part.exists());
        drop(new);

        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    }
}
