//! Reading of symbol tables in a process without rights.
//!
//! The files belong to other users. They can write anything into the files, change them during the
//! read, and mount file systems that never answer. A separate process therefore reads them, and
//! laggard kills it if it takes too long. The names in the file that it was reading stay unknown,
//! and another process continues with the other files.
//!
//! The process is laggard's own program, started again from `/proc/self/exe`. laggard has several
//! threads and locked memory, so `fork` would make all pages of the measuring threads
//! copy-on-write. `Command` uses `vfork` if it does not have to run code in the child. Starting
//! from `/proc/self/exe` also works if the program's file was deleted or replaced, and no path can
//! lead to another program.

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
use super::patience::{CHECK_INTERVAL, Patience};
use message::{FileRequest, ReaderMessage, send_file, send_no_more_files, send_request};
pub(super) use message::{MAX_FILES, MAX_OFFSETS};

/// Name that starts the program as the process that reads symbols.
const NAME: &str = "laggard-symbols";
/// Maximum time for one file.
const FILE_LIMIT: Duration = Duration::from_secs(5);
/// Maximum time for the files of one user.
const USER_LIMIT: Duration = Duration::from_secs(8);
/// Maximum time for all files.
const TOTAL_LIMIT: Duration = Duration::from_secs(20);
/// Maximum CPU time of a process in s.
const MAX_CPU_S: u64 = 20;
/// Maximum lifetime of a process in s. It ends itself if laggard cannot end it.
const MAX_LIFE_S: u32 = 60;
/// Maximum time for a killed process to end.
const END_LIMIT: Duration = Duration::from_millis(200);
/// Maximum number of killed processes that have not ended. A process that waits for a FUSE server
/// ends when the server answers.
const MAX_NOT_ENDED: usize = 4;

/// Whether this program can start itself as the process that reads symbols.
static IS_READER: AtomicBool = AtomicBool::new(false);
/// Killed processes that have not ended yet.
static NOT_ENDED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Runs the process that reads symbols, if the program was started as this process, and returns
/// its exit code. Call it first in `main` with the name of the program as it was called. Otherwise
/// it records that the program can start itself this way.
///
/// Without this call, functions of programs are not named.
pub fn read_symbols_as(name: Option<&OsStr>) -> Option<ExitCode> {
    if name.is_some_and(|name| name == NAME) {
        return Some(child::answer());
    }
    IS_READER.store(true, Ordering::Relaxed);
    None
}

/// File whose functions are looked up.
#[derive(Debug)]
pub(super) struct FileQuery<'a> {
    pub(super) file: &'a HeldFile,
    /// Offsets in the file in bytes.
    pub(super) offsets: Vec<u64>,
}

/// Name of a function, or the reason why it is unknown.
pub(super) type Name = Result<String, String>;

/// Reader of the files of all users, with the remaining time and the files in progress.
#[derive(Debug)]
pub(super) struct SymbolReader<'a> {
    patience: Patience,
    interrupted: &'a AtomicBool,
    until: Instant,
}

impl<'a> SymbolReader<'a> {
    pub(super) fn new(patience: Patience, interrupted: &'a AtomicBool) -> Self {
        Self {
            patience,
            interrupted,
            until: Instant::now() + TOTAL_LIMIT,
        }
    }

    /// Looks up the functions of the files of one user, in separate processes, so that a file
    /// that blocks does not use up the time of other users' files. Returns a name for each offset
    /// of each file.
    pub(super) fn read(&mut self, files: &[FileQuery<'_>], is_of_root: bool) -> Vec<Vec<Name>> {
        let until = self.until.min(Instant::now() + USER_LIMIT);
        // Root's files do not wait for other users.
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
    files: &[FileQuery<'_>],
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

/// Reason why a process did not complete its reply.
#[derive(Debug)]
enum Failure {
    NotStarted(String),
    Ended(ExitStatus),
    /// The reply does not match the request.
    Damaged,
    TookTooLong,
    NoTimeLeft,
    Interrupted,
}

impl Failure {
    /// Returns whether the file that the process was reading caused the failure.
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
            Self::NotStarted(reason) => write!(f, "cannot start {process}: {reason}"),
            Self::Ended(status) => match status.signal() {
                Some(signal) => write!(f, "{process} was ended by signal {signal}"),
                None => write!(
                    f,
                    "{process} ended with exit code {}",
                    status.code().unwrap_or_default()
                ),
            },
            Self::Damaged => write!(f, "{process} sent a damaged message"),
            Self::TookTooLong => write!(
                f,
                "reading its symbols took longer than {} s",
                FILE_LIMIT.as_secs()
            ),
            Self::NoTimeLeft => write!(
                f,
                "its symbols were not read: other files used up the limit of {} s per user or {} s in total",
                USER_LIMIT.as_secs(),
                TOTAL_LIMIT.as_secs()
            ),
            Self::Interrupted => {
                f.write_str("its symbols were not read: laggard was stopped first")
            }
        }
    }
}

/// Work of one process.
struct Round<'a> {
    /// Index of each file of the request in the caller's list.
    numbers: Vec<usize>,
    asks: Vec<&'a FileQuery<'a>>,
    /// Names received for each file, and whether the file is complete.
    names: Vec<(Vec<Option<Name>>, bool)>,
    /// File that the process is reading.
    current: Option<usize>,
    file_until: Instant,
}

impl<'a> Round<'a> {
    fn new(files: &'a [FileQuery<'a>], numbers: Vec<usize>) -> Self {
        let asks: Vec<&FileQuery<'_>> = numbers.iter().map(|&number| &files[number]).collect();
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
            // It has ended; its exit status has more information.
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
                state: ask.file.state,
                offsets: ask.offsets.clone(),
            })
            .collect();
        send_request(stream, &requests)
    }

    /// Receives messages until the process ends or no time is left.
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
            let wait = left.min(CHECK_INTERVAL);
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
            while let Some(answer) =
                ReaderMessage::take(&mut received).map_err(|_| Failure::Damaged)?
            {
                self.note(answer).ok_or(Failure::Damaged)?;
            }
        }
    }

    /// Stores a message; returns `None` if it does not match the request.
    fn note(&mut self, answer: ReaderMessage) -> Option<()> {
        match answer {
            ReaderMessage::Start(file) => {
                let (_, is_whole) = self.names.get(file)?;
                self.current = Some(file).filter(|_| !is_whole);
                self.file_until = Instant::now() + FILE_LIMIT;
            }
            ReaderMessage::Function(file, offset, name) => {
                let current = self.current.filter(|&current| current == file)?;
                let (names, _) = &mut self.names[current];
                // The length is bounded by the message. The text is made harmless because the
                // process may be compromised.
                let name = match name {
                    Ok(name) => Ok(label::harmless(&name)),
                    Err(reason) => Err(label::harmless(&reason)),
                };
                *names.get_mut(offset)? = Some(name);
            }
            ReaderMessage::Refused(file, reason) => {
                self.current.take().filter(|&current| current == file)?;
                self.close(file, &label::harmless(&reason));
            }
            ReaderMessage::End(file) => {
                self.current.take().filter(|&current| current == file)?;
                self.close(file, "the process that reads symbols did not look it up");
            }
        }
        Some(())
    }

    /// Stores this reason for every offset of a file without a name.
    fn close(&mut self, file: usize, reason: &str) {
        let (names, is_whole) = &mut self.names[file];
        for name in names {
            name.get_or_insert_with(|| Err(reason.to_owned()));
        }
        *is_whole = true;
    }

    /// Closes the file that the process was reading, if the failure is due to it.
    fn blame(&mut self, failure: &Failure) -> Option<usize> {
        let file = self.current.take().filter(|_| failure.is_of_file())?;
        self.close(file, &failure.to_string());
        Some(file)
    }

    /// Returns the files whose replies are complete.
    fn answered(self) -> impl Iterator<Item = (usize, Vec<Name>)> {
        let files = self.numbers.into_iter().zip(self.names);
        files
            .filter(|(_, (_, is_whole))| *is_whole)
            .map(|(number, (names, _))| (number, names.into_iter().flatten().collect()))
    }
}

/// Returns whether more data may come in spite of an error.
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

/// Returns the number of killed processes that have not ended.
pub(super) fn not_ended() -> usize {
    let mut waiting = NOT_ENDED.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    waiting.len()
}

/// Starts a process and returns it with its connection.
fn start() -> Result<(Child, UnixStream), String> {
    let reason = |err: io::Error| crate::linux::reason_of(&err);
    let (own, other) = UnixStream::pair().map_err(reason)?;
    let child = command()?
        .stdin(Stdio::from(OwnedFd::from(other)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()
        .map_err(reason)?;
    Ok((child, own))
}

/// Returns a command that starts this program as the process that reads symbols.
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

/// Returns a command that starts this test program, which replies in a test.
#[cfg(test)]
#[expect(clippy::unnecessary_wraps, reason = "the other `command` can fail")]
fn command() -> Result<Command, String> {
    let mut command = Command::new("/proc/self/exe");
    command
        .args(["--exact", "symbols::reader::tests::process_that_reads"])
        .env(NAME, "1");
    Ok(command)
}

/// Child process that is killed on drop.
struct KilledChild(Option<Child>);

impl KilledChild {
    /// Ends the process and returns its exit status, or `None` if it does not end. `by_itself`:
    /// it is about to end without a kill.
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
    // The process may have ended already.
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
mod tests;
