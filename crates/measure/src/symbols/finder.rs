//! Finding out which file an address of a process is in, while the process lives.
//!
//! A process can make others wait for its list of mappings, for example while a thread of
//! it changes a mapping of a FUSE file whose server does not answer. So a thread of normal
//! priority looks, and is left behind when it does not come back. It only makes calls
//! during which it can be killed, so that it does not keep laggard from ending.

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
use super::patience::{LOOK_EVERY, Patience};

/// Limit on the time that one process may take.
const LOOK_LIMIT: Duration = Duration::from_secs(2);
/// Limit on threads of this program that were left behind and did not come back.
const MAX_LEFT_BEHIND: usize = 4;
/// Limit on files of one process that are looked at for one late activation.
const MAX_FILES_PER_LOOK: usize = 64;
/// Stack of the thread, bytes.
const STACK_BYTES: usize = 128 << 10;

/// The threads that were left behind and still wait.
static LEFT_BEHIND: Mutex<Vec<Weak<()>>> = Mutex::new(Vec::new());

/// Place of an address: a file of [`Look::files`] and an offset in it, bytes, or why none
/// is known.
pub(super) type FoundPlace = Result<(usize, u64), String>;

/// What was found of a process.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) places: Vec<(Address, FoundPlace)>,
    pub(super) files: Vec<FoundFile>,
    /// User that started the process.
    pub(super) user: Option<u32>,
}

/// File that a process has mapped.
#[derive(Debug)]
pub(super) struct FoundFile {
    pub(super) file: HeldFile,
    /// Last part of its path.
    pub(super) module: String,
}

#[derive(Debug)]
struct Ask {
    process: u32,
    addresses: Vec<u64>,
}

/// Looks at addresses of a process; an error is the reason why it cannot.
type LookAt = fn(u32, &[u64]) -> Result<Look, String>;

/// Thread that looks, once there was something to look at.
#[derive(Debug)]
pub(super) struct Finder {
    look: LookAt,
    thread: Option<FinderThread>,
}

impl Default for Finder {
    fn default() -> Self {
        Self { look, thread: None }
    }
}

#[derive(Debug)]
struct FinderThread {
    asks: Sender<Ask>,
    answers: Receiver<Result<Look, String>>,
    /// Held by the thread, too, until it ends.
    life: Arc<()>,
}

impl Finder {
    /// Finds the files of these addresses.
    ///
    /// # Errors
    /// When the process cannot be looked at: the reason.
    pub(super) fn look(
        &mut self,
        process: u32,
        addresses: &BTreeSet<Address>,
        patience: &mut Patience,
        interrupted: &AtomicBool,
    ) -> Result<Look, String> {
        let until = Instant::now() + LOOK_LIMIT;
        if patience.left(until, interrupted).is_none() {
            return Err("laggard was ended before it looked at the process".into());
        }
        let thread = match self.thread.take() {
            Some(thread) => thread,
            None => FinderThread::start(self.look)?,
        };
        let addresses = addresses.iter().map(|address| address.0).collect();
        let ended = |_| "the process could not be looked at: a thread of laggard ended".to_owned();
        thread
            .asks
            .send(Ask { process, addresses })
            .map_err(|_| ended(()))?;
        loop {
            let Some(left) = patience.left(until, interrupted) else {
                thread.leave_behind();
                return Err(if patience.is_interrupted() {
                    "laggard was ended while it looked at the process".into()
                } else {
                    format!(
                        "the process could not be looked at: it kept laggard waiting for {} s",
                        LOOK_LIMIT.as_secs()
                    )
                });
            };
            match thread.answers.recv_timeout(left.min(LOOK_EVERY)) {
                Ok(look) => {
                    self.thread = Some(thread);
                    return look;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(ended(())),
            }
        }
    }
}

impl FinderThread {
    fn start(look: LookAt) -> Result<Self, String> {
        let mut waiting = LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|life| life.strong_count() > 0);
        if waiting.len() >= MAX_LEFT_BEHIND {
            return Err(format!(
                "the process was not looked at: {MAX_LEFT_BEHIND} others keep laggard waiting"
            ));
        }
        drop(waiting);
        let (asks, asked) = channel::<Ask>();
        let (told, answers) = channel();
        let life = Arc::new(());
        let held = Arc::clone(&life);
        std::thread::Builder::new()
            .name("laggard/symbols".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                for ask in asked {
                    if told.send(look(ask.process, &ask.addresses)).is_err() {
                        break;
                    }
                }
                drop(held);
            })
            .map_err(|err| format!("the process could not be looked at: no thread: {err}"))?;
        Ok(Self {
            asks,
            answers,
            life,
        })
    }

    /// Forgets the thread, which ends when it comes back.
    fn leave_behind(self) {
        let mut waiting = LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(Arc::downgrade(&self.life));
    }
}

fn look(process: u32, addresses: &[u64]) -> Result<Look, String> {
    let refused = |err: io::Error| {
        format!(
            "the process could not be looked at: {}",
            crate::linux::reason_of(&err)
        )
    };
    // All that follows is of this process, even if another gets its number.
    let directory = open_process(process).map_err(refused)?;
    let maps = open_for_reading(directory.as_fd(), "maps").map_err(refused)?;
    let mappings = mappings::find(&maps, addresses).map_err(refused)?;
    let mut look = Look {
        user: user_of(directory.as_fd()),
        ..Look::default()
    };
    let mut held: Vec<(Mapping, Result<usize, String>)> = Vec::new();
    for (mapping, inside) in mappings {
        let file = match held.iter().find(|(other, _)| is_same_file(other, &mapping)) {
            Some((_, file)) => file.clone(),
            None => {
                let file = look.hold(directory.as_fd(), &mapping);
                held.push((mapping.clone(), file.clone()));
                file
            }
        };
        for address in inside {
            let offset = (address - mapping.start).wrapping_add(mapping.offset);
            let place = file.clone().map(|file| (file, offset));
            look.places.push((Address(address), place));
        }
    }
    let found: BTreeSet<Address> = look.places.iter().map(|(address, _)| *address).collect();
    let missing = addresses.iter().map(|&address| Address(address));
    for address in missing.filter(|address| !found.contains(address)) {
        let reason = "the process has no memory there".into();
        look.places.push((address, Err(reason)));
    }
    Ok(look)
}

/// Whether two mappings of a process have the same file. Two files of btrfs may show the
/// same inode, but not under the same path.
fn is_same_file(one: &Mapping, other: &Mapping) -> bool {
    one.file.is_some() && one.file == other.file && one.name == other.name
}

impl Look {
    /// Holds the file of a mapping. Returns its index, or why it is not held.
    fn hold(&mut self, directory: BorrowedFd<'_>, mapping: &Mapping) -> Result<usize, String> {
        let name = without_deleted(&mapping.name);
        let Some(mapped) = mapping.file else {
            return Err(match name.as_bytes() {
                [] => "it is in no file".into(),
                _ => format!("it is in no file ({})", label::module(name)),
            });
        };
        if self.files.len() == MAX_FILES_PER_LOOK {
            return Err(format!(
                "its file was not held: the process has more than {MAX_FILES_PER_LOOK}"
            ));
        }
        let file = HeldFile::hold(directory, mapping, mapped)
            .map_err(|reason| label::harmless(&format!("{}: {reason}", name.to_string_lossy())))?;
        let module = label::module(name);
        self.files.push(FoundFile { file, module });
        Ok(self.files.len() - 1)
    }
}

/// Opens a file of `/proc` for reading.
fn open_for_reading(directory: BorrowedFd<'_>, name: &str) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    Ok(File::from(openat(directory, name, flags, Mode::empty())?))
}

/// The user who started a process, which it cannot change: a program with set-user-ID
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

    /// What the processes of this test wait for.
    static IS_RELEASED: AtomicBool = AtomicBool::new(false);

    fn hang(process: u32, _: &[u64]) -> Result<Look, String> {
        while process == 1 && !IS_RELEASED.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(1));
        }
        Ok(Look::default())
    }

    /// Runs in a separate process: the limit on threads that were left behind is one for
    /// the whole process, and other tests resolve addresses at the same time.
    #[test]
    fn process_that_keeps_laggard_waiting_is_left_and_so_are_few_threads() {
        const ALONE: &str = "LAGGARD_TEST_ALONE";
        const NAME: &str = "symbols::finder::tests::\
                            process_that_keeps_laggard_waiting_is_left_and_so_are_few_threads";
        if std::env::var_os(ALONE).is_some() {
            return leave_threads_behind();
        }
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", NAME])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(stdout.contains("1 passed"), "{stdout}");
    }

    fn leave_threads_behind() {
        let mut finder = Finder {
            look: hang,
            thread: None,
        };
        let interrupted = AtomicBool::new(false);
        let mut look = |process, patience: &mut Patience, interrupted: &AtomicBool| {
            let addresses = [Address(1)].into();
            let look = finder.look(process, &addresses, patience, interrupted);
            look.map(|_| ())
        };
        let mut patience = Patience::default();

        let first = look(1, &mut patience, &interrupted).unwrap_err();
        let other = look(2, &mut patience, &interrupted);
        // Once laggard is to end, all looks together have less than a second.
        let ended = AtomicBool::new(true);
        let mut short = Patience::default();
        let reasons: Vec<String> = (0..MAX_LEFT_BEHIND)
            .map(|_| look(1, &mut short, &ended).unwrap_err())
            .collect();
        for _ in 0..MAX_LEFT_BEHIND - 2 {
            look(1, &mut patience, &interrupted).unwrap_err();
        }
        let last = look(1, &mut patience, &interrupted).unwrap_err();
        IS_RELEASED.store(true, Ordering::Relaxed);

        assert!(first.contains("it kept laggard waiting for 2 s"), "{first}");
        assert_eq!(other, Ok(()));
        assert_eq!(
            reasons[0],
            "laggard was ended while it looked at the process"
        );
        assert!(reasons[1].contains("before it looked"), "{reasons:?}");
        assert!(last.contains("4 others keep laggard waiting"), "{last}");
    }
}
