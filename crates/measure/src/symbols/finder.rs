//! Search for the file of each address of a process, while the process lives.
//!
//! A process can block readers of its list of mappings, for example while one of its threads
//! changes a mapping of a FUSE file whose server does not answer. A thread of normal priority
//! therefore reads the list, and laggard abandons it if it does not return. The thread makes only
//! calls that a kill interrupts, so that it does not keep laggard from exiting.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use laggard_model::Address;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use super::file::{HeldFile, open_process, without_deleted};
use super::label;
use super::mappings::{self, Mapping};
use super::patience::{CHECK_INTERVAL, Patience};

/// Maximum time for one process.
const LOOK_LIMIT: Duration = Duration::from_secs(2);
/// Maximum number of abandoned threads that have not returned.
const MAX_ABANDONED: usize = 4;
/// Maximum number of files of one process that are held for one late wakeup.
const MAX_FILES_PER_PROCESS: usize = 64;
/// Stack of the thread in bytes.
const STACK_BYTES: usize = 128 << 10;

/// Abandoned threads that are still blocked.
static ABANDONED: Mutex<Vec<Weak<()>>> = Mutex::new(Vec::new());

/// Place of an address: an index into [`ProcessFiles::files`] and an offset in bytes, or the
/// reason why it is unknown.
pub(super) type AddressPlace = Result<(usize, u64), String>;

/// Files of the addresses of one process.
#[derive(Debug, Default)]
pub(super) struct ProcessFiles {
    pub(super) places: Vec<(Address, AddressPlace)>,
    pub(super) files: Vec<MappedFile>,
    /// User that started the process.
    pub(super) user: Option<u32>,
}

#[derive(Debug)]
pub(super) struct MappedFile {
    pub(super) file: HeldFile,
    /// Last part of the path.
    pub(super) module: String,
}

#[derive(Debug)]
struct LocateRequest {
    process: u32,
    addresses: Vec<u64>,
}

/// Function that locates addresses of a process. An error is the reason why it cannot.
type Locate = fn(u32, &[u64]) -> Result<ProcessFiles, String>;

/// Handle of the thread that searches. The first request starts the thread.
#[derive(Debug)]
pub(super) struct Finder {
    locate: Locate,
    thread: Option<FinderThread>,
}

impl Default for Finder {
    fn default() -> Self {
        Self {
            locate: locate_in_proc,
            thread: None,
        }
    }
}

#[derive(Debug)]
struct FinderThread {
    asks: Sender<LocateRequest>,
    answers: Receiver<Result<ProcessFiles, String>>,
    /// Shared with the thread until it ends.
    life: Arc<()>,
}

impl Finder {
    /// Locates the files of these addresses.
    ///
    /// # Errors
    ///
    /// Returns the reason if the process cannot be examined.
    pub(super) fn locate(
        &mut self,
        process: u32,
        addresses: &BTreeSet<Address>,
        patience: &mut Patience,
        interrupted: &AtomicBool,
    ) -> Result<ProcessFiles, String> {
        let until = Instant::now() + LOOK_LIMIT;
        if patience.left(until, interrupted).is_none() {
            return Err("laggard was stopped before it examined the process".into());
        }
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None => FinderThread::start(self.locate)?,
        };
        let addresses = addresses.iter().map(|address| address.0).collect();
        let ended = |_| "cannot examine the process: a thread of laggard ended".to_owned();
        thread
            .asks
            .send(LocateRequest { process, addresses })
            .map_err(|_| ended(()))?;
        loop {
            let Some(left) = patience.left(until, interrupted) else {
                thread.abandon();
                return Err(if patience.is_interrupted() {
                    "laggard was stopped while it examined the process".into()
                } else {
                    format!(
                        "cannot examine the process: it did not respond for {} s",
                        LOOK_LIMIT.as_secs()
                    )
                });
            };
            match thread.answers.recv_timeout(left.min(CHECK_INTERVAL)) {
                Ok(located) => {
                    self.thread = Some(thread);
                    return located;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(ended(())),
            }
        }
    }
}

impl FinderThread {
    fn start(locate: Locate) -> Result<Self, String> {
        let mut waiting = ABANDONED.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|life| life.strong_count() > 0);
        if waiting.len() >= MAX_ABANDONED {
            return Err(format!(
                "cannot examine the process: {MAX_ABANDONED} others do not respond"
            ));
        }
        drop(waiting);
        let (asks, requests) = channel::<LocateRequest>();
        let (sender, answers) = channel();
        let life = Arc::new(());
        let held = Arc::clone(&life);
        std::thread::Builder::new()
            .name("laggard/symbols".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                for request in requests {
                    if sender
                        .send(locate(request.process, &request.addresses))
                        .is_err()
                    {
                        break;
                    }
                }
                drop(held);
            })
            .map_err(|err| format!("cannot examine the process: cannot start a thread: {err}"))?;
        Ok(Self {
            asks,
            answers,
            life,
        })
    }

    /// Abandons the thread, which ends when it returns.
    fn abandon(self) {
        let mut waiting = ABANDONED.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(Arc::downgrade(&self.life));
    }
}

fn locate_in_proc(process: u32, addresses: &[u64]) -> Result<ProcessFiles, String> {
    let refused = |err: io::Error| {
        format!(
            "cannot examine the process: {}",
            crate::linux::reason_of(&err)
        )
    };
    // From here everything refers to this process, even if another process gets its number.
    let directory = open_process(process).map_err(refused)?;
    let maps = open_for_reading(directory.as_fd(), "maps").map_err(refused)?;
    let mappings = mappings::find(&maps, addresses).map_err(refused)?;
    let mut located = ProcessFiles {
        user: user_of(directory.as_fd()),
        ..ProcessFiles::default()
    };
    let mut held: Vec<(Mapping, Result<usize, String>)> = Vec::new();
    for (mapping, inside) in mappings {
        let file = match held.iter().find(|(other, _)| is_same_file(other, &mapping)) {
            Some((_, file)) => file.clone(),
            None => {
                let file = located.hold(directory.as_fd(), &mapping);
                held.push((mapping.clone(), file.clone()));
                file
            }
        };
        for address in inside {
            let offset = (address - mapping.start).wrapping_add(mapping.offset);
            let place = file.clone().map(|file| (file, offset));
            located.places.push((Address(address), place));
        }
    }
    let covered: BTreeSet<Address> = located.places.iter().map(|(address, _)| *address).collect();
    let missing = addresses.iter().map(|&address| Address(address));
    for address in missing.filter(|address| !covered.contains(address)) {
        let reason = "the process has no memory at this address".into();
        located.places.push((address, Err(reason)));
    }
    Ok(located)
}

/// Returns whether two mappings of a process have the same file. Two files of btrfs may show the
/// same inode, but not the same path.
fn is_same_file(first: &Mapping, other: &Mapping) -> bool {
    first.file.is_some() && first.file == other.file && first.name == other.name
}

impl ProcessFiles {
    /// Holds the file of a mapping. Returns its index or the reason why it is not held.
    fn hold(&mut self, directory: BorrowedFd<'_>, mapping: &Mapping) -> Result<usize, String> {
        let name = without_deleted(&mapping.name);
        let Some(mapped) = mapping.file else {
            return Err(match name.as_bytes() {
                [] => "it is not in a file".into(),
                _ => format!("it is not in a file ({})", label::module(name)),
            });
        };
        if self.files.len() == MAX_FILES_PER_PROCESS {
            return Err(format!(
                "its file was not held: the process has more than {MAX_FILES_PER_PROCESS} files"
            ));
        }
        let file = HeldFile::hold(directory, mapping, mapped)
            .map_err(|reason| label::harmless(&format!("{}: {reason}", name.to_string_lossy())))?;
        let module = label::module(name);
        self.files.push(MappedFile { file, module });
        Ok(self.files.len() - 1)
    }
}

/// Opens a file of `/proc` for reading.
fn open_for_reading(directory: BorrowedFd<'_>, name: &str) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    Ok(File::from(openat(directory, name, flags, Mode::empty())?))
}

/// Returns the user that started a process. The process cannot change this: a set-user-ID program
/// keeps it.
fn user_of(directory: BorrowedFd<'_>) -> Option<u32> {
    const MAX_STATUS_BYTES: u64 = 64 << 10;

    let status = open_for_reading(directory, "status").ok()?;
    // The name of a process need not be UTF-8.
    let mut text = Vec::new();
    status.take(MAX_STATUS_BYTES).read_to_end(&mut text).ok()?;
    let status = String::from_utf8_lossy(&text);
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::thread::sleep;

    use super::*;

    /// Ends the waits of the fake processes of this test.
    static IS_RELEASED: AtomicBool = AtomicBool::new(false);

    fn hang(process: u32, _: &[u64]) -> Result<ProcessFiles, String> {
        while process == 1 && !IS_RELEASED.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(1));
        }
        Ok(ProcessFiles::default())
    }

    /// Checks the limit. The test runs in a separate process, because the limit on abandoned
    /// threads is per process and other tests resolve addresses at the same time.
    #[test]
    fn process_that_does_not_respond_is_abandoned_up_to_a_limit() {
        const ALONE: &str = "LAGGARD_TEST_ALONE";
        const NAME: &str = "symbols::finder::tests::\
                            process_that_does_not_respond_is_abandoned_up_to_a_limit";
        if std::env::var_os(ALONE).is_some() {
            return abandon_threads();
        }
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", NAME])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.contains("1 passed"), "{stdout}");
    }

    fn abandon_threads() {
        let mut finder = Finder {
            locate: hang,
            thread: None,
        };
        let interrupted = AtomicBool::new(false);
        let mut locate = |process, patience: &mut Patience, interrupted: &AtomicBool| {
            let addresses = [Address(1)].into();
            let located = finder.locate(process, &addresses, patience, interrupted);
            located.map(|_| ())
        };
        let mut patience = Patience::default();

        let first = locate(1, &mut patience, &interrupted).unwrap_err();
        let other = locate(2, &mut patience, &interrupted);
        // After laggard is interrupted, all searches together have less than a second.
        let ended = AtomicBool::new(true);
        let mut short = Patience::default();
        let reasons: Vec<String> = (0..MAX_ABANDONED)
            .map(|_| locate(1, &mut short, &ended).unwrap_err())
            .collect();
        for _ in 0..MAX_ABANDONED - 2 {
            locate(1, &mut patience, &interrupted).unwrap_err();
        }
        let last = locate(1, &mut patience, &interrupted).unwrap_err();
        IS_RELEASED.store(true, Ordering::Relaxed);

        assert!(first.contains("it did not respond for 2 s"), "{first}");
        assert_eq!(other, Ok(()));
        assert_eq!(
            reasons[0],
            "laggard was stopped while it examined the process"
        );
        assert!(reasons[1].contains("before it examined"), "{reasons:?}");
        assert!(last.contains("4 others do not respond"), "{last}");
    }
}
