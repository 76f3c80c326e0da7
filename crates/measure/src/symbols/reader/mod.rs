//! Reading symbol tables in a process without rights.
//!
//! The files belong to other users, who can write anything into them, change them while
//! they are read, and mount file systems that never answer. So a separate process reads
//! them, and laggard ends it when it takes too long; the file that it was at stays without
//! names, and another process goes on with the rest.
//!
//! The process is laggard's own program, started anew from `/proc/self/exe`: laggard has
//! several threads and locked memory, a copy of which (`fork`) would make all pages of the
//! measuring threads copy-on-write. `Command` starts it by `vfork`, as long as nothing has
//! to run in the copy. It also works when the program's file was deleted or replaced, and
//! no path leads to another program.

mod child;
mod message;

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::file::HeldFile;
use super::label;
use super::patience::{LOOK_EVERY, Patience};
use message::{Answer, FileRequest, send_file, send_no_more_files, send_request};
pub(super) use message::{MAX_FILES, MAX_OFFSETS};

/// Name of the process, by which the program knows what it is to do.
const NAME: &str = "laggard-symbols";
/// Limit on the time for one file.
const FILE_LIMIT: Duration = Duration::from_secs(5);
/// Limit on the time for the files of one user.
const USER_LIMIT: Duration = Duration::from_secs(8);
/// Limit on the time for all files.
const TOTAL_LIMIT: Duration = Duration::from_secs(20);
/// Limit on the CPU time of a process, s.
const MAX_CPU_S: u64 = 20;
/// Limit on the life of a process, s: it ends itself if laggard cannot end it.
const MAX_LIFE_S: u32 = 60;
/// Time for a process to end once it is killed.
const END_LIMIT: Duration = Duration::from_millis(200);
/// Limit on processes that were killed and have not ended: one that waits for a FUSE
/// server ends when the server answers.
const MAX_NOT_ENDED: usize = 4;

/// Whether this program can be started as the process that reads symbols.
static IS_READER: AtomicBool = AtomicBool::new(false);
/// Processes that were killed and have not ended yet.
static NOT_ENDED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// To be called first in `main`, with the name by which the program was called. If another
/// process started it to read symbols, it does, and returns the exit code. Otherwise it
/// notes that it can be started so.
///
/// Without that call, functions of programs stay without names.
pub fn read_symbols_as(name: Option<&OsStr>) -> Option<ExitCode> {
    if name.is_some_and(|name| name == NAME) {
        return Some(child::answer());
    }
    IS_READER.store(true, Ordering::Relaxed);
    None
}

/// File whose functions are looked up.
#[derive(Debug)]
pub(super) struct FileAsk<'a> {
    pub(super) file: &'a HeldFile,
    /// Offsets in it, bytes.
    pub(super) offsets: Vec<u64>,
}

/// Name of a function, or the reason why it is not known.
pub(super) type Name = Result<String, String>;

/// Time for the files of all users, and which of them are being read.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    patience: Patience,
    interrupted: &'a AtomicBool,
    until: Instant,
}

impl<'a> Reading<'a> {
    pub(super) fn new(patience: Patience, interrupted: &'a AtomicBool) -> Self {
        Self {
            patience,
            interrupted,
            until: Instant::now() + TOTAL_LIMIT,
        }
    }

    /// Looks up the functions of the files of one user, in processes of their own: what
    /// keeps these waiting takes no time of other users' files. Returns a name for each
    /// offset of each file.
    pub(super) fn read(&mut self, files: &[FileAsk<'_>], is_of_root: bool) -> Vec<Vec<Name>> {
        let until = self.until.min(Instant::now() + USER_LIMIT);
        // Root's files wait for no other user.
        let max_not_ended = if is_of_root {
            usize::MAX
        } else {
            MAX_NOT_ENDED
        };
        read(
            files,
            (until, max_not_ended),
            &mut self.patience,
            self.interrupted,
        )
    }
}

fn read(
    files: &[FileAsk<'_>],
    (until, max_not_ended): (Instant, usize),
    patience: &mut Patience,
    interrupted: &AtomicBool,
) -> Vec<Vec<Name>> {
    let mut names: Vec<Option<Vec<Name>>> = files.iter().map(|_| None).collect();
    loop {
        let left: Vec<usize> = (0..files.len())
            .filter(|&file| names[file].is_none())
            .collect();
        if left.is_empty() {
            break;
        }
        let mut round = Round::new(files, left);
        let ended = if not_ended() >= max_not_ended {
            Err(Failure::NotStarted(format!(
                "{MAX_NOT_ENDED} earlier ones wait for file systems that do not answer"
            )))
        } else {
            round.run(until, patience, interrupted)
        };
        let blamed = match &ended {
            Ok(()) => None,
            Err(failure) => round.blame(failure),
        };
        let goes_on = ended.is_ok() || blamed.is_some();
        for (file, answered) in round.answered() {
            names[file] = Some(answered);
        }
        if let (false, Err(failure)) = (goes_on, ended) {
            let reason = failure.to_string();
            for (file, names) in files.iter().zip(&mut names) {
                names.get_or_insert_with(|| vec![Err(reason.clone()); file.offsets.len()]);
            }
        }
    }
    names.into_iter().map(Option::unwrap_or_default).collect()
}

/// Why a process did not answer all.
#[derive(Debug)]
enum Failure {
    NotStarted(String),
    Ended(ExitStatus),
    /// It answered what was not asked.
    Damaged,
    TookTooLong,
    NoTimeLeft,
    Interrupted,
}

impl Failure {
    /// Whether it is due to the file that the process was at.
    const fn is_of_file(&self) -> bool {
        match self {
            Self::Ended(_) | Self::Damaged | Self::TookTooLong => true,
            Self::NotStarted(_) | Self::NoTimeLeft | Self::Interrupted => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = "the process that reads symbols";
        match self {
            Self::NotStarted(reason) => write!(f, "{process} could not be started: {reason}"),
            Self::Ended(status) => match status.signal() {
                Some(signal) => write!(f, "{process} was ended by signal {signal}"),
                None => write!(
                    f,
                    "{process} ended with exit code {}",
                    status.code().unwrap_or_default()
                ),
            },
            Self::Damaged => write!(f, "{process} gave an answer that is damaged"),
            Self::TookTooLong => write!(
                f,
                "reading its symbols took longer than {} s",
                FILE_LIMIT.as_secs()
            ),
            Self::NoTimeLeft => write!(
                f,
                "its symbols were not read: those of other files took the {} s that a user's files may take, or the {} s for all",
                USER_LIMIT.as_secs(),
                TOTAL_LIMIT.as_secs()
            ),
            Self::Interrupted => {
                f.write_str("its symbols were not read: laggard was ended before that")
            }
        }
    }
}

/// The work of one process.
struct Round<'a> {
    /// Numbers of the files that it was asked, as the caller counts them.
    numbers: Vec<usize>,
    asks: Vec<&'a FileAsk<'a>>,
    /// What came for each file, and whether that is all.
    names: Vec<(Vec<Option<Name>>, bool)>,
    /// The file that the process is at.
    current: Option<usize>,
    file_until: Instant,
}

impl<'a> Round<'a> {
    fn new(files: &'a [FileAsk<'a>], numbers: Vec<usize>) -> Self {
        let asks: Vec<&FileAsk<'_>> = numbers.iter().map(|&number| &files[number]).collect();
        let names = asks
            .iter()
            .map(|ask| (vec![None; ask.offsets.len()], false))
            .collect();
        Self {
            numbers,
            asks,
            names,
            current: None,
            file_until: Instant::now() + FILE_LIMIT,
        }
    }

    fn run(
        &mut self,
        until: Instant,
        patience: &mut Patience,
        interrupted: &AtomicBool,
    ) -> Result<(), Failure> {
        if patience.left(until, interrupted).is_none() {
            return Err(no_time(patience));
        }
        let (child, stream) = start().map_err(Failure::NotStarted)?;
        let child = KilledChild(Some(child));
        let sent = self.send(&stream);
        let received = match sent {
            Ok(()) => self.receive(&stream, until, patience, interrupted),
            // It has ended, and how says more.
            Err(_) => Ok(()),
        };
        let has_all = self.names.iter().all(|(_, is_whole)| *is_whole);
        let status = child.end(received.is_ok());
        match (received, has_all, status) {
            (Err(failure), ..) => Err(failure),
            (Ok(()), true, _) => Ok(()),
            (Ok(()), false, Some(status)) => Err(Failure::Ended(status)),
            (Ok(()), false, None) => Err(Failure::TookTooLong),
        }
    }

    fn send(&self, stream: &UnixStream) -> io::Result<()> {
        stream.set_write_timeout(Some(FILE_LIMIT))?;
        for ask in &self.asks {
            let held: BorrowedFd<'_> = std::os::fd::AsFd::as_fd(&ask.file.held);
            send_file(stream, held)?;
        }
        send_no_more_files(stream)?;
        let requests: Vec<FileRequest> = self
            .asks
            .iter()
            .map(|ask| FileRequest {
                mapped: ask.file.mapped,
                look: ask.file.look,
                offsets: ask.offsets.clone(),
            })
            .collect();
        send_request(stream, &requests)
    }

    /// Receives answers until the process ends or has no time left.
    fn receive(
        &mut self,
        mut stream: &UnixStream,
        until: Instant,
        patience: &mut Patience,
        interrupted: &AtomicBool,
    ) -> Result<(), Failure> {
        let mut received = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let Some(left) = patience.left(until, interrupted) else {
                return Err(no_time(patience));
            };
            if Instant::now() >= self.file_until {
                return Err(Failure::TookTooLong);
            }
            let wait = left.min(LOOK_EVERY);
            let bytes = match stream
                .set_read_timeout(Some(wait))
                .and_then(|()| stream.read(&mut buffer))
            {
                Ok(0) => return Ok(()),
                Ok(bytes) => bytes,
                Err(err) if is_for_now(&err) => continue,
                Err(_) => return Ok(()),
            };
            received.extend_from_slice(&buffer[..bytes]);
            while let Some(answer) = Answer::take(&mut received).map_err(|_| Failure::Damaged)? {
                self.note(answer).ok_or(Failure::Damaged)?;
            }
        }
    }

    /// Takes in an answer; `None`: nobody asked for it.
    fn note(&mut self, answer: Answer) -> Option<()> {
        match answer {
            Answer::Start(file) => {
                let (_, is_whole) = self.names.get(file)?;
                self.current = Some(file).filter(|_| !is_whole);
                self.file_until = Instant::now() + FILE_LIMIT;
            }
            Answer::Function(file, offset, name) => {
                let current = self.current.filter(|&current| current == file)?;
                let (names, _) = &mut self.names[current];
                // Bounded by its message, and made harmless by a process that may not be
                // what it was.
                let name = match name {
                    Ok(name) => Ok(label::harmless(&name)),
                    Err(reason) => Err(label::harmless(&reason)),
                };
                *names.get_mut(offset)? = Some(name);
            }
            Answer::Refused(file, reason) => {
                self.current.take().filter(|&current| current == file)?;
                self.close(file, &label::harmless(&reason));
            }
            Answer::End(file) => {
                self.current.take().filter(|&current| current == file)?;
                self.close(file, "the process that reads symbols did not look it up");
            }
        }
        Some(())
    }

    /// Gives what has no name in a file this reason.
    fn close(&mut self, file: usize, reason: &str) {
        let (names, is_whole) = &mut self.names[file];
        for name in names {
            name.get_or_insert_with(|| Err(reason.to_owned()));
        }
        *is_whole = true;
    }

    /// Closes the file that the process was at, if the failure is due to it.
    fn blame(&mut self, failure: &Failure) -> Option<usize> {
        let file = self.current.take().filter(|_| failure.is_of_file())?;
        self.close(file, &failure.to_string());
        Some(file)
    }

    /// The files of which all was answered.
    fn answered(self) -> impl Iterator<Item = (usize, Vec<Name>)> {
        let files = self.numbers.into_iter().zip(self.names);
        files
            .filter(|(_, (_, is_whole))| *is_whole)
            .map(|(number, (names, _))| (number, names.into_iter().flatten().collect()))
    }
}

/// Whether more may come in spite of an error.
fn is_for_now(err: &io::Error) -> bool {
    matches!(
        err.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

const fn no_time(patience: &Patience) -> Failure {
    if patience.is_interrupted() {
        Failure::Interrupted
    } else {
        Failure::NoTimeLeft
    }
}

/// Number of processes that were killed and have not ended.
pub(super) fn not_ended() -> usize {
    let mut waiting = NOT_ENDED.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    waiting.len()
}

/// Starts a process, and returns it with the connection to it.
fn start() -> Result<(Child, UnixStream), String> {
    let said = |err: io::Error| crate::linux::reason_of(&err);
    let (own, other) = UnixStream::pair().map_err(said)?;
    let child = command()?
        .stdin(Stdio::from(OwnedFd::from(other)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()
        .map_err(said)?;
    Ok((child, own))
}

/// This program, as the process that reads symbols.
#[cfg(not(test))]
fn command() -> Result<Command, String> {
    use std::os::unix::process::CommandExt as _;

    if !IS_READER.load(Ordering::Relaxed) {
        return Err("this program does not call `read_symbols_as`".into());
    }
    let mut command = Command::new("/proc/self/exe");
    command.arg0(NAME).env_clear();
    Ok(command)
}

/// The program of these tests, which answers in a test.
#[cfg(test)]
#[expect(clippy::unnecessary_wraps, reason = "the other one may fail")]
fn command() -> Result<Command, String> {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["--exact", "symbols::reader::tests::process_that_reads"])
        .env(NAME, "1");
    Ok(command)
}

/// Process that does not outlive its use.
struct KilledChild(Option<Child>);

impl KilledChild {
    /// Ends it and returns how it ended; `None`: it does not end. `by_itself`: it is about
    /// to.
    fn end(mut self, by_itself: bool) -> Option<ExitStatus> {
        self.0.take().and_then(|child| reap(child, by_itself))
    }
}

impl Drop for KilledChild {
    fn drop(&mut self) {
        if let Some(child) = self.0.take() {
            reap(child, false);
        }
    }
}

fn reap(mut child: Child, by_itself: bool) -> Option<ExitStatus> {
    if by_itself && let Some(status) = wait(&mut child) {
        return Some(status);
    }
    // It may have ended.
    let _ = child.kill();
    let status = wait(&mut child);
    if status.is_none() {
        let mut waiting = NOT_ENDED.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(child);
    }
    status
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let until = Instant::now() + END_LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < until => sleep(Duration::from_millis(1)),
            Ok(None) | Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use super::super::finder::Finder;
    use super::*;
    use laggard_model::Address;

    /// Does nothing, unless [`command`] started this program as the process that reads.
    #[test]
    fn process_that_reads() {
        if std::env::var_os(NAME).is_some() {
            let _ = child::answer();
            std::process::exit(0);
        }
    }

    /// The C library, as this process has it mapped, and the offset of `getpid` in it.
    fn libc_of_this_process() -> (HeldFile, u64) {
        let getpid = Address(libc::getpid as *const () as u64);
        let look = Finder::default().look(
            std::process::id(),
            &[getpid].into(),
            &mut Patience::default(),
            &AtomicBool::new(false),
        );
        let mut look = look.unwrap();
        let (file, offset) = look.places.remove(0).1.unwrap();
        (look.files.remove(file).file, offset)
    }

    fn hold(file: &File) -> HeldFile {
        let mapped = libc_of_this_process().0.mapped;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = nix::fcntl::OFlag::O_PATH | nix::fcntl::OFlag::O_CLOEXEC;
        let held = nix::fcntl::open(path.as_str(), flags, nix::sys::stat::Mode::empty()).unwrap();
        let look = crate::linux::look::look(&held).unwrap();
        HeldFile { held, mapped, look }
    }

    fn read_now(asks: &[FileAsk<'_>], interrupted: bool) -> Vec<Vec<Name>> {
        Reading::new(Patience::default(), &AtomicBool::new(interrupted)).read(asks, true)
    }

    fn ask(file: &HeldFile, offset: u64) -> FileAsk<'_> {
        FileAsk {
            file,
            offsets: vec![offset],
        }
    }

    #[test]
    fn file_that_is_not_the_mapped_one_has_no_names_and_the_next_has() {
        let mut other = tempfile::tempfile().unwrap();
        other.write_all(b"other").unwrap();
        let other = hold(&other);
        let (libc, getpid) = libc_of_this_process();

        let names = read_now(&[ask(&other, 0), ask(&libc, getpid)], false);

        let reason = names[0][0].as_ref().unwrap_err();
        assert_eq!(reason, "another file is at its path now");
        assert!(
            names[1][0].as_ref().unwrap().contains("getpid"),
            "{names:?}"
        );
    }

    #[test]
    fn file_that_was_changed_since_it_was_held_has_no_names() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"before").unwrap();
        let held = hold(&file);
        file.write_all(b"and after").unwrap();

        let names = read_now(&[ask(&held, 0)], false);

        let reason = names[0][0].as_ref().unwrap_err();
        assert_eq!(reason, "the file was changed while it was measured");
    }

    /// The reader is ended by the request: more offsets than there may be.
    #[test]
    fn process_that_ends_leaves_files_without_names_and_says_how_it_ended() {
        let (libc, getpid) = libc_of_this_process();
        let asks = [FileAsk {
            file: &libc,
            offsets: vec![getpid; MAX_OFFSETS + 1],
        }];

        let names = read_now(&asks, false);

        let reason = names[0][0].as_ref().unwrap_err();
        assert!(
            reason.contains("the process that reads symbols ended"),
            "{reason}"
        );
    }

    #[test]
    fn file_that_the_process_was_at_is_blamed_and_keeps_what_came() {
        let (libc, getpid) = libc_of_this_process();
        let files = [
            ask(&libc, getpid),
            FileAsk {
                offsets: vec![1, 2],
                ..ask(&libc, 0)
            },
        ];
        let mut round = Round::new(&files, vec![0, 1]);
        let first = Answer::Function(1, 0, Ok("name\n".into()));

        for answer in [Answer::Start(1), first] {
            round.note(answer).unwrap();
        }
        assert_eq!(round.blame(&Failure::Interrupted), None);
        round.note(Answer::Start(1)).unwrap();
        assert_eq!(round.blame(&Failure::TookTooLong), Some(1));

        let answered: Vec<_> = round.answered().collect();
        let reason = "reading its symbols took longer than 5 s".to_owned();
        assert_eq!(answered, [(1, vec![Ok("name\\n".into()), Err(reason)])]);
    }

    #[test]
    fn answers_that_nobody_asked_for_are_damage() {
        let (libc, getpid) = libc_of_this_process();
        let files = [ask(&libc, getpid)];
        let name = || Ok("name".into());

        for answers in [
            vec![Answer::Start(1)],
            vec![Answer::Function(0, 0, name())],
            vec![Answer::Start(0), Answer::Function(0, 1, name())],
            vec![Answer::Start(0), Answer::End(1)],
            vec![
                Answer::Start(0),
                Answer::End(0),
                Answer::Function(0, 0, name()),
            ],
            vec![Answer::Refused(0, String::new())],
        ] {
            let mut round = Round::new(&files, vec![0]);
            let notes: Vec<_> = answers
                .iter()
                .map(|answer| round.note(answer.clone()))
                .collect();
            assert_eq!(notes.last(), Some(&None), "{answers:?}");
        }
    }
}
