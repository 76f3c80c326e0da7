//! What waits to be sent: in files, so that it outlives this program.
//!
//! A file has one request. It is written under another name and renamed, so that it is
//! whole or not there; its checksum tells where a disk gave back something else. Where
//! the disk takes nothing, a little is kept in memory. Where there is no room any more,
//! the oldest goes.

mod file;

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use crate::series::{Loss, OtlpSeries};
use file::Head;

/// Bytes in memory, of what is on no disk.
const IN_MEMORY: u64 = 1 << 20;

/// What a queue keeps.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// Bytes at most.
    pub bytes: u64,
    /// For so long at most.
    pub age: Duration,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            bytes: 16 << 20,
            age: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// Why there is no queue on disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenQueueError {
    /// It is no folder of ours.
    #[error(
        "`{0}` is to keep what waits to be sent, and is a link or no folder of this user; move it away"
    )]
    Foreign(PathBuf),
    /// Somebody else sends from it.
    #[error("`{0}` has what another program waits to send; end that one, or use another --store")]
    Taken(PathBuf),
    /// It cannot be read or written.
    #[error("keep what waits to be sent in `{path}`")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// One request that waits.
#[derive(Debug)]
struct Waiting {
    number: u64,
    /// On disk, or in memory.
    bytes: u64,
    spans: u64,
    made: SystemTime,
    /// Where it is on no disk.
    body: Option<Vec<u8>>,
}

/// A request that is to be sent now.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) body: Vec<u8>,
    pub(crate) spans: u64,
}

/// What waits to be sent, the oldest first.
#[derive(Debug)]
pub struct SpanQueue {
    dir: Option<PathBuf>,
    /// Held as long as the queue is, or until its directory is made again.
    lock: Option<File>,
    limits: QueueLimits,
    waiting: VecDeque<Waiting>,
    bytes: u64,
    next: u64,
    series: OtlpSeries,
    /// Why the disk takes nothing, where it does not.
    pub(crate) unwritten: Option<String>,
}

impl SpanQueue {
    /// In the folder `dir`, which is made where it is not there, with what is in it; or
    /// in memory.
    ///
    /// # Errors
    /// When `dir` is not this user's, another program has it, or it cannot be read.
    pub fn open(
        dir: Option<&Path>,
        limits: QueueLimits,
        series: OtlpSeries,
    ) -> Result<Self, OpenQueueError> {
        let mut queue = Self {
            dir: dir.map(Path::to_owned),
            lock: None,
            limits: match dir {
                Some(_) => limits,
                None => QueueLimits {
                    bytes: limits.bytes.min(IN_MEMORY),
                    ..limits
                },
            },
            waiting: VecDeque::new(),
            bytes: 0,
            next: 1,
            series,
            unwritten: None,
        };
        if let Some(dir) = dir {
            let io = |source| OpenQueueError::Io {
                path: dir.to_owned(),
                source,
            };
            make_own(dir)?;
            queue.lock = Some(lock(dir)?);
            queue.find(dir).map_err(io)?;
        }
        queue.trim(SystemTime::now());
        Ok(queue)
    }

    /// Takes in what an earlier run left.
    fn find(&mut self, dir: &Path) -> io::Result<()> {
        let mut found = Vec::new();
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name();
            if file::is_begun(&name) {
                // A run was killed while it wrote.
                fs::remove_file(dir.join(&name))?;
            } else if let Some(number) = file::number(&name) {
                found.push(number);
            }
        }
        found.sort_unstable();
        for number in found {
            self.next = self.next.max(number.saturating_add(1));
            let path = dir.join(file::name(number));
            match file::read_head(&path) {
                Ok(Head { spans, made, bytes }) => self.add(Waiting {
                    number,
                    bytes,
                    spans,
                    made,
                    body: None,
                }),
                Err(_) => {
                    self.series.lose_file();
                    remove(&path);
                }
            }
        }
        Ok(())
    }

    /// Takes in a request with so many spans.
    pub(crate) fn push(&mut self, body: Vec<u8>, spans: u64, now: SystemTime) {
        let number = self.next;
        self.next += 1;
        let write = |dir: &Path| file::write(dir, number, &body, spans, now).map(Some);
        let written = match &self.dir {
            Some(dir) => match write(dir) {
                Err(err) if err.kind() == io::ErrorKind::NotFound => {
                    // The directory was removed during the run.
                    match make_own(dir).and_then(|()| lock(dir)) {
                        Ok(lock) => {
                            self.lock = Some(lock);
                            write(dir)
                        }
                        Err(_) => Err(err),
                    }
                }
                written => written,
            },
            None => Ok(None),
        };
        let on_disk = match written {
            Ok(on_disk) => {
                self.unwritten = None;
                on_disk
            }
            Err(err) => {
                self.unwritten = Some(err.to_string());
                None
            }
        };
        self.add(Waiting {
            number,
            bytes: on_disk.unwrap_or(body.len() as u64),
            spans,
            made: now,
            body: on_disk.is_none().then_some(body),
        });
        self.trim(now);
    }

    /// The oldest, which stays until it is [done](Self::done). What is damaged or too old
    /// is counted, and is none.
    pub(crate) fn first(&mut self, now: SystemTime) -> Option<Due> {
        self.trim(now);
        loop {
            let one = self.waiting.front()?;
            let spans = one.spans;
            if let Some(body) = &one.body {
                let body = body.clone();
                return Some(Due { body, spans });
            }
            let dir = self.dir.as_ref()?;
            match file::read(&dir.join(file::name(one.number)), self.limits.bytes) {
                Ok(body) => return Some(Due { body, spans }),
                Err(_) => {
                    self.series.lose_file();
                    self.lose_first(Loss::damaged);
                }
            }
        }
    }

    /// The oldest need not wait any more.
    pub(crate) fn done(&mut self) {
        let Some(one) = self.waiting.pop_front() else {
            return;
        };
        self.forget(&one);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Spans that are on no disk.
    pub(crate) fn spans_in_memory(&self) -> u64 {
        let all = self.waiting.iter().filter(|one| one.body.is_some());
        all.map(|one| one.spans).sum()
    }

    fn add(&mut self, one: Waiting) {
        self.bytes = self.bytes.saturating_add(one.bytes);
        self.waiting.push_back(one);
        self.note_size();
    }

    fn forget(&mut self, one: &Waiting) {
        self.bytes = self.bytes.saturating_sub(one.bytes);
        if let (Some(dir), None) = (&self.dir, &one.body) {
            remove(&dir.join(file::name(one.number)));
        }
        self.note_size();
    }

    fn note_size(&self) {
        let bytes = self.bytes.try_into().unwrap_or(i64::MAX);
        self.series.queue_bytes.set(bytes);
    }

    fn lose_first(&mut self, reason: Loss) {
        if let Some(one) = self.waiting.front() {
            self.series.lose(reason, one.spans);
        }
        self.done();
    }

    /// Keeps the limits.
    fn trim(&mut self, now: SystemTime) {
        // A clock that was set back makes nothing old.
        let age = |one: &Waiting| now.duration_since(one.made).unwrap_or_default();
        while self
            .waiting
            .front()
            .is_some_and(|one| age(one) > self.limits.age)
        {
            self.lose_first(Loss::old);
        }
        while self.bytes > self.limits.bytes {
            self.lose_first(Loss::full);
        }
        let in_memory = |one: &Waiting| one.body.as_ref().map_or(0, |body| body.len() as u64);
        let mut memory: u64 = self.waiting.iter().map(in_memory).sum();
        while memory > IN_MEMORY {
            let Some(index) = self.waiting.iter().position(|one| one.body.is_some()) else {
                return;
            };
            if let Some(one) = self.waiting.remove(index) {
                memory -= in_memory(&one);
                self.series.lose(Loss::full, one.spans);
                self.forget(&one);
            }
        }
    }
}

/// What cannot be removed is met again at the next start: sent twice, it is the same
/// spans.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

/// Makes the folder where it is not there, and refuses one that others may change.
fn make_own(dir: &Path) -> Result<(), OpenQueueError> {
    let io = |source| OpenQueueError::Io {
        path: dir.to_owned(),
        source,
    };
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
        Err(err) => return Err(io(err)),
    }
    let found = fs::symlink_metadata(dir).map_err(io)?;
    let is_own = geteuid().as_raw() == found.uid();
    if found.is_dir() && is_own && found.mode() & 0o022 == 0 {
        Ok(())
    } else {
        Err(OpenQueueError::Foreign(dir.to_owned()))
    }
}

fn lock(dir: &Path) -> Result<File, OpenQueueError> {
    let io = |source| OpenQueueError::Io {
        path: dir.to_owned(),
        source,
    };
    let mut options = File::options();
    let lock = options
        .write(true)
        .create(true)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(dir.join(".lock"))
        .map_err(io)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(OpenQueueError::Taken(dir.to_owned())),
        Err(fs::TryLockError::Error(err)) => Err(io(err)),
    }
}

#[cfg(test)]
mod tests;
