//! Queue of requests in files, so that they outlive this program.
//!
//! A file holds one request. It is written under another name and then renamed, so that it is
//! complete or absent. A checksum detects corruption on disk. If the disk is not writable, a small
//! amount is kept in memory. If the queue is full, the oldest requests are dropped.

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

/// Maximum size in bytes of requests in memory.
const MAX_IN_MEMORY_BYTES: u64 = 1 << 20;

#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// Maximum size in bytes.
    pub bytes: u64,
    /// Maximum age of a request.
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

/// Reason why the queue on disk is missing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenQueueError {
    /// It is not a directory of this user.
    #[error(
        "cannot use `{0}` as the send queue: it is a link or not a directory of this user; move it away"
    )]
    Foreign(PathBuf),
    /// Another program uses it.
    #[error(
        "the send queue `{0}` is in use by another program; end that program, or use another --store"
    )]
    Taken(PathBuf),
    /// It is not readable or writable.
    #[error("cannot use `{path}` as the send queue")]
    Io { path: PathBuf, source: io::Error },
}

#[derive(Debug)]
struct QueuedRequest {
    number: u64,
    /// Size on disk or in memory.
    bytes: u64,
    spans: u64,
    made: SystemTime,
    /// Body, if the request is not on disk.
    body: Option<Vec<u8>>,
}

/// Request that is to be sent now.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) body: Vec<u8>,
    pub(crate) spans: u64,
}

/// Queue of requests, the oldest first.
#[derive(Debug)]
pub struct SpanQueue {
    dir: Option<PathBuf>,
    /// Lock, held until the queue is dropped or its directory is created again.
    lock: Option<File>,
    limits: QueueLimits,
    waiting: VecDeque<QueuedRequest>,
    bytes: u64,
    next: u64,
    series: OtlpSeries,
    /// Reason why the disk is not writable, if it is not.
    pub(crate) unwritten: Option<String>,
}

impl SpanQueue {
    /// Opens the queue in `dir`, which is created if it does not exist, with its existing
    /// requests; or a queue in memory.
    ///
    /// # Errors
    ///
    /// Returns an error if `dir` does not belong to this user, if another program uses it, or if
    /// it is not readable.
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
                    bytes: limits.bytes.min(MAX_IN_MEMORY_BYTES),
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

    /// Adds the requests of an earlier run.
    fn find(&mut self, dir: &Path) -> io::Result<()> {
        let mut requests = Vec::new();
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name();
            if file::is_begun(&name) {
                // An earlier run was killed during a write.
                fs::remove_file(dir.join(&name))?;
            } else if let Some(number) = file::number(&name) {
                requests.push(number);
            }
        }
        requests.sort_unstable();
        for number in requests {
            self.next = self.next.max(number.saturating_add(1));
            let path = dir.join(file::name(number));
            match file::read_head(&path) {
                Ok(Head { spans, made, bytes }) => self.add(QueuedRequest {
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

    /// Adds a request with `spans` spans.
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
        self.add(QueuedRequest {
            number,
            bytes: on_disk.unwrap_or(body.len() as u64),
            spans,
            made: now,
            body: on_disk.is_none().then_some(body),
        });
        self.trim(now);
    }

    /// Returns the oldest request, which stays until [`Self::done`]. Damaged or expired requests
    /// are counted and skipped.
    pub(crate) fn first(&mut self, now: SystemTime) -> Option<Due> {
        self.trim(now);
        loop {
            let oldest = self.waiting.front()?;
            let spans = oldest.spans;
            if let Some(body) = &oldest.body {
                let body = body.clone();
                return Some(Due { body, spans });
            }
            let dir = self.dir.as_ref()?;
            match file::read(&dir.join(file::name(oldest.number)), self.limits.bytes) {
                Ok(body) => return Some(Due { body, spans }),
                Err(_) => {
                    self.series.lose_file();
                    self.lose_first(Loss::damaged);
                }
            }
        }
    }

    /// Removes the oldest request.
    pub(crate) fn done(&mut self) {
        let Some(request) = self.waiting.pop_front() else {
            return;
        };
        self.forget(&request);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of spans that are not on disk.
    pub(crate) fn spans_in_memory(&self) -> u64 {
        let in_memory = self.waiting.iter().filter(|request| request.body.is_some());
        in_memory.map(|request| request.spans).sum()
    }

    fn add(&mut self, request: QueuedRequest) {
        self.bytes = self.bytes.saturating_add(request.bytes);
        self.waiting.push_back(request);
        self.note_size();
    }

    fn forget(&mut self, request: &QueuedRequest) {
        self.bytes = self.bytes.saturating_sub(request.bytes);
        if let (Some(dir), None) = (&self.dir, &request.body) {
            remove(&dir.join(file::name(request.number)));
        }
        self.note_size();
    }

    fn note_size(&self) {
        let bytes = self.bytes.try_into().unwrap_or(i64::MAX);
        self.series.queue_bytes.set(bytes);
    }

    fn lose_first(&mut self, reason: Loss) {
        if let Some(request) = self.waiting.front() {
            self.series.lose(reason, request.spans);
        }
        self.done();
    }

    /// Enforces the limits.
    fn trim(&mut self, now: SystemTime) {
        // A clock that was set back does not make requests old.
        let age = |request: &QueuedRequest| now.duration_since(request.made).unwrap_or_default();
        while self
            .waiting
            .front()
            .is_some_and(|request| age(request) > self.limits.age)
        {
            self.lose_first(Loss::old);
        }
        while self.bytes > self.limits.bytes {
            self.lose_first(Loss::full);
        }
        let in_memory =
            |request: &QueuedRequest| request.body.as_ref().map_or(0, |body| body.len() as u64);
        let mut memory: u64 = self.waiting.iter().map(in_memory).sum();
        while memory > MAX_IN_MEMORY_BYTES {
            let Some(index) = self
                .waiting
                .iter()
                .position(|request| request.body.is_some())
            else {
                return;
            };
            if let Some(request) = self.waiting.remove(index) {
                memory -= in_memory(&request);
                self.series.lose(Loss::full, request.spans);
                self.forget(&request);
            }
        }
    }
}

/// A file that cannot be removed is found again at the next start; sending it twice repeats the
/// same spans.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

/// Creates the directory if it does not exist, and refuses one that others may change.
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
    let metadata = fs::symlink_metadata(dir).map_err(io)?;
    let is_own = geteuid().as_raw() == metadata.uid();
    if metadata.is_dir() && is_own && metadata.mode() & 0o022 == 0 {
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
