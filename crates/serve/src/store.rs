//! The folder of recordings: named by time, and never larger than it may be.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use jiff::civil::DateTime;
use laggard_record::Destination;
use nix::fcntl::OFlag;

use super::metrics::StoreSeries;
use laggard_console::pipe;

/// Between two looks at what the store takes.
const LOOK_EVERY: Duration = Duration::from_secs(30);
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

    fn current(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the store kept small from now on, by a thread of its own.
    pub(crate) fn watch(&self) -> io::Result<()> {
        let keeper = StoreKeeper {
            dir: self.dir.clone(),
            keep: self.keep,
            series: self.series.clone(),
            current: self.current.clone(),
        };
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
        let mut all = recordings(&self.dir).with_context(|| format!("read the store `{shown}`"))?;
        let mut bytes: u64 = all.iter().map(|one| one.bytes).sum();
        let current = self
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // What has a later name than the one that is being made was there before it: the
        // clock was set back. So it is older than all that were made since.
        if let Some(now) = current.as_deref().and_then(age) {
            let later = all.partition_point(|one| one.age <= now);
            all.rotate_left(later);
        }
        let mut stays = None;
        for one in all {
            if bytes <= self.keep {
                break;
            }
            if current.as_ref() == Some(&one.name) {
                continue;
            }
            let path = self.dir.join(&one.name);
            let removed = match one.stays {
                Some(why) => Err(why),
                None => fs::remove_dir_all(&path).map_err(|err| err.to_string()),
            };
            if let Err(why) = removed {
                stays.get_or_insert((path, why));
                continue;
            }
            bytes -= one.bytes;
            self.series.removed.inc();
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
mod tests {
    use super::*;

    /// A folder that looks like a recording, of 64 KiB.
    fn recording(dir: &Path, name: &str) {
        let path = dir.join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("data"), vec![7; 64 << 10]).unwrap();
    }

    fn keeper(dir: &Path, keep: u64, current: Option<&str>) -> StoreKeeper {
        StoreKeeper {
            dir: dir.to_owned(),
            keep,
            series: StoreSeries::default(),
            current: Arc::new(Mutex::new(current.map(str::to_owned))),
        }
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_go_first_and_what_is_not_ours_stays() {
        let dir = tempfile::TempDir::new().unwrap();
        for name in [
            "serve-2026-01-01T00-00-00Z.laggard",
            "serve-2026-01-01T01-00-00Z.laggard",
            "serve-2026-01-01T02-00-00Z.laggard",
            "mine.laggard",
            "serve-baseline.laggard",
            "serve-2026-01-01T00-00-00Z-old.laggard",
            "serve-2026-01-01.laggard",
        ] {
            recording(dir.path(), name);
        }
        std::os::unix::fs::symlink(
            "mine.laggard",
            dir.path().join("serve-2025-01-01T00-00-00Z.laggard"),
        )
        .unwrap();
        let keeper = keeper(dir.path(), 160 << 10, None);

        keeper.tidy().unwrap();

        assert_eq!(
            names(dir.path()),
            [
                "mine.laggard",
                "serve-2025-01-01T00-00-00Z.laggard",
                "serve-2026-01-01.laggard",
                "serve-2026-01-01T00-00-00Z-old.laggard",
                "serve-2026-01-01T01-00-00Z.laggard",
                "serve-2026-01-01T02-00-00Z.laggard",
                "serve-baseline.laggard",
            ]
        );
        assert_eq!(keeper.series.removed.get(), 1);
    }

    #[test]
    fn what_is_being_made_is_never_removed_though_its_name_is_the_oldest() {
        let dir = tempfile::TempDir::new().unwrap();
        let current = "serve-1999-01-01T00-00-00Z.laggard";
        recording(dir.path(), current);
        recording(dir.path(), "serve-2026-01-01T01-00-00Z.laggard");

        let refused = keeper(dir.path(), 1, Some(current)).tidy().unwrap_err();

        assert_eq!(names(dir.path()), [current]);
        assert!(refused.to_string().contains("--keep"), "{refused}");
    }

    /// The newest were removed as if they were the oldest.
    #[test]
    fn where_the_clock_was_set_back_what_was_made_before_goes_first() {
        let dir = tempfile::TempDir::new().unwrap();
        let before = ["2026-05-01T00-00-00Z", "2026-05-01T01-00-00Z"];
        let since = ["2026-04-01T00-00-00Z", "2026-04-01T01-00-00Z"];
        let name = |time: &str| format!("serve-{time}.laggard");
        for time in before.into_iter().chain(since) {
            recording(dir.path(), &name(time));
        }
        let keeper = keeper(dir.path(), 160 << 10, Some(&name(since[1])));

        keeper.tidy().unwrap();

        assert_eq!(names(dir.path()), since.map(name));
    }

    /// It was not said.
    #[test]
    fn an_old_recording_that_cannot_be_removed_is_said_and_others_go_instead() {
        let name = |hour: u32| format!("serve-2026-01-01T0{hour}-00-00Z.laggard");
        for is_bind in [false, true] {
            // A blank, which the kernel escapes.
            let dir = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
            let (own, store) = (dir.path().join("own"), dir.path().join("store"));
            fs::create_dir(&own).unwrap();
            fs::write(own.join("precious"), "x").unwrap();
            fs::create_dir(&store).unwrap();
            for hour in 0..3 {
                recording(&store, &name(hour));
            }
            let mounted = store.join(name(0)).join("mounted");
            fs::create_dir(&mounted).unwrap();
            // Of the same file system, or another.
            let how = match is_bind {
                true => vec!["--bind", own.to_str().unwrap()],
                false => vec!["-t", "tmpfs", "tmpfs"],
            };
            let run = |program: &str, args: &[&str]| {
                let mut command = std::process::Command::new(program);
                command.args(args).arg(&mounted).output()
            };
            if !run("mount", &how).is_ok_and(|output| output.status.success()) {
                println!("\nskipped: nothing can be mounted here");
                return;
            }

            let said = keeper(&store, 80 << 10, None).tidy();
            let left = names(&store);
            assert!(run("umount", &[]).unwrap().status.success());

            assert_eq!(left, [name(0), name(2)], "{how:?}");
            let said = said.unwrap_err().to_string();
            assert!(
                said.contains(&name(0)) && said.contains("mounted"),
                "{said}"
            );
            assert!(own.join("precious").exists(), "{how:?}");
        }
    }

    /// A folder of any other name, mounted anywhere, kept all recordings for ever.
    #[test]
    fn where_something_is_mounted_is_read_whatever_its_name() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = dir.path().join("mountinfo");
        let odd = b"36 35 0:5 / /x\xffy rw - tmpfs tmpfs rw\n37 35 0:6 / /a\\040b rw - ext4 /dev/vda rw\n";
        fs::write(&file, odd).unwrap();

        let found = mount_points(&file).unwrap();

        let odd = OsString::from_vec(b"/x\xffy".to_vec());
        assert_eq!(found, [PathBuf::from(odd), PathBuf::from("/a b")]);
    }

    #[test]
    fn a_store_has_one_writer_and_no_name_twice() {
        let dir = tempfile::TempDir::new().unwrap();
        let open = || Store::open(dir.path(), 1 << 20, StoreSeries::default());
        let store = open().unwrap();

        let refused = open().unwrap_err();

        assert!(refused.to_string().contains("another"), "{refused}");
        let first = store.next().path().to_owned();
        fs::create_dir(&first).unwrap();
        assert_ne!(store.next().path(), first);
    }

    #[test]
    fn a_recording_is_known_by_the_whole_of_its_name_and_the_second_of_a_second_is_newer() {
        let name = |rest: &str| format!("serve-2026-01-01T00-00-00Z{rest}.laggard");

        let ages: Vec<_> = ["", "-2", "-10"].map(|rest| age(&name(rest))).into();

        assert!(
            ages.iter().all(Option::is_some) && ages.is_sorted(),
            "{ages:?}"
        );
        for foreign in ["-1", "-02", "-x", "-", "x", " ", "-2-3"] {
            assert_eq!(age(&name(foreign)), None, "{foreign}");
        }
        assert_eq!(age("serve-2026-02-30T00-00-00Z.laggard"), None);
        assert_eq!(age("serve-2026-1-1T00-00-00Z.laggard"), None);
    }

    /// Root's own files were emptied by it.
    #[test]
    fn a_link_in_the_place_of_the_lock_is_not_followed_and_a_file_there_not_emptied() {
        let dir = tempfile::TempDir::new().unwrap();
        let (store, precious) = (dir.path().join("store"), dir.path().join("precious"));
        fs::create_dir(&store).unwrap();
        fs::write(&precious, "x").unwrap();
        let open = || Store::open(&store, 1 << 20, StoreSeries::default());
        std::os::unix::fs::symlink(&precious, store.join(".lock")).unwrap();

        let refused = open().unwrap_err();
        fs::remove_file(store.join(".lock")).unwrap();
        fs::hard_link(&precious, store.join(".lock")).unwrap();
        open().unwrap();

        assert!(refused.to_string().contains(".lock"), "{refused}");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "x");
    }

    #[test]
    fn what_is_mounted_in_a_recording_makes_it_none_of_ours_to_remove() {
        let dir = tempfile::TempDir::new().unwrap();
        recording(dir.path(), "r");
        let device = fs::metadata(dir.path()).unwrap().dev();

        let own = size(&dir.path().join("r"), device).unwrap();

        assert!(own >= Some(64 << 10), "{own:?}");
        assert_eq!(size(&dir.path().join("r"), device + 1).unwrap(), None);
        assert_eq!(size(&dir.path().join("gone"), device).unwrap(), Some(0));
    }
}
