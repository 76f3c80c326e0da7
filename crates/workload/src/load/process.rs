//! A load as a process: watched, and ended with all it started.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::error::{Ended, LaunchError};
use super::guard::{GRACE, Guard};
use super::stopped::{Halt, halt, killed};

/// A running load and all processes that it started, also those that left its
/// process group, as far as they keep their environment.
///
/// They end with this value, and also when this process is killed: SIGTERM
/// first, SIGKILL two seconds later.
#[derive(Debug)]
pub struct LoadProcess {
    name: String,
    main: Child,
    guard: Guard,
    output: Option<File>,
    /// Where the word to begin goes; `None` where it needs none, or has it.
    word: Option<ChildStdin>,
    ended: Option<Ended>,
}

/// What a held load writes once it is set up, as a line.
pub const READY: &str = "ready";

/// How often a stopping load is looked at.
const POLL: Duration = Duration::from_millis(5);

impl LoadProcess {
    pub(super) fn new(name: String, mut main: Child, guard: Guard, output: Option<File>) -> Self {
        Self {
            word: main.stdin.take(),
            name,
            main,
            guard,
            output,
            ended: None,
        }
    }

    /// The process id of the load's first process.
    pub fn id(&self) -> u32 {
        self.main.id()
    }

    /// Whether a load that was started [held](super::Launch::held) is set up and
    /// waits for the word to begin. One that has ended is not.
    ///
    /// # Errors
    /// When its output cannot be read.
    pub fn is_ready(&self) -> Result<bool, LaunchError> {
        const LINE: usize = READY.len() + 1;
        let Some(output) = &self.output else {
            return Ok(false);
        };
        // Its own end of the file moves on as it writes; this does not.
        let mut line = [0; LINE];
        let read = output
            .read_at(&mut line, 0)
            .map_err(|err| LaunchError::Output("memory".into(), err))?;
        Ok(read == LINE && line.starts_with(READY.as_bytes()))
    }

    /// Waits until a held load is set up; `false` when interrupted meanwhile.
    ///
    /// # Errors
    /// When it has ended by itself, or its output cannot be read.
    pub fn wait_until_ready(&mut self, interrupted: &AtomicBool) -> Result<bool, LaunchError> {
        const POLL: Duration = Duration::from_millis(10);
        while !interrupted.load(Ordering::Relaxed) {
            if self.is_ready()? {
                return Ok(true);
            }
            if let Some(ended) = self.poll()? {
                return Err(LaunchError::EndedEarly(ended));
            }
            thread::sleep(POLL);
        }
        Ok(false)
    }

    /// Gives a load that is held or to be told the word to begin. To one that
    /// has ended, or needs no word, it means nothing.
    pub fn begin(&mut self) {
        if let Some(mut word) = self.word.take() {
            // Gone: `poll` says how it ended.
            let _ = word.write_all(b"begin\n");
        }
    }

    /// How the load ended, or `None` while it runs.
    ///
    /// A load has ended when its first process has; what that one left behind
    /// in its process group is killed.
    ///
    /// # Errors
    /// When the process cannot be waited for.
    pub fn poll(&mut self) -> Result<Option<Ended>, LaunchError> {
        if self.ended.is_none()
            && let Some(status) = self.main.try_wait().map_err(|err| self.lost(err))?
        {
            self.clean_up(status)?;
        }
        Ok(self.ended.clone())
    }

    /// Whether its first process is kept from running, or was since the latest call.
    pub fn halt(&mut self) -> Halt {
        match self.ended {
            None => halt(self.id()),
            Some(_) => Halt::No,
        }
    }

    /// Ends the load: SIGTERM to all its processes, and SIGKILL to those that
    /// are left after two seconds or when the first process is gone.
    ///
    /// # Errors
    /// When a process cannot be signalled or waited for.
    pub fn stop(mut self) -> Result<Ended, LaunchError> {
        self.end()
    }

    fn end(&mut self) -> Result<Ended, LaunchError> {
        // One that still waits for the word waits no longer.
        self.word = None;
        if self.poll()?.is_none() {
            self.guard
                .signal(Signal::SIGTERM)
                .map_err(|err| self.lost(err))?;
        }
        let deadline = Instant::now() + GRACE;
        loop {
            if let Some(ended) = self.poll()? {
                return Ok(ended);
            }
            if Instant::now() >= deadline {
                self.main.kill().map_err(|err| self.lost(err))?;
                let status = killed(&mut self.main).map_err(|err| self.lost(err))?;
                return self.clean_up(status);
            }
            thread::sleep(POLL);
        }
    }

    /// Kills the rest of the group and reads the output.
    fn clean_up(&mut self, status: ExitStatus) -> Result<Ended, LaunchError> {
        let (throughput, last_words) = match self.output.take().map(last_line) {
            None | Some(Ok(None)) => (None, None),
            Some(Err(err)) => return Err(LaunchError::Output("memory".into(), err)),
            Some(Ok(Some(line))) => match serde_json::from_str(&line) {
                Ok(throughput) => (Some(throughput), None),
                // That it was ready is no word on how it ended.
                Err(_) => (None, (line != READY).then_some(line)),
            },
        };
        let ended = Ended {
            status,
            throughput,
            last_words,
        };
        self.ended = Some(ended.clone());
        self.guard.end().map_err(|err| self.lost(err))?;
        // What is killed may be starting another.
        let enough = Instant::now() + GRACE;
        while self.guard.kill_strays() && Instant::now() < enough {
            thread::sleep(POLL);
        }
        // Killed processes that are not our children vanish when init has
        // reaped them; an init that does not reap leaves them dead for good.
        let deadline = Instant::now() + GRACE;
        while !self.guard.is_empty() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        Ok(ended)
    }

    fn lost(&self, err: io::Error) -> LaunchError {
        LaunchError::Lost(self.name.clone(), err)
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure, and the guard still ends the
        // load when this process ends.
        let _ = self.end();
    }
}

/// The last line that is not blank, of the last 64 KB.
fn last_line(mut output: File) -> io::Result<Option<String>> {
    const WINDOW: u64 = 64 * 1024;
    let length = output.seek(io::SeekFrom::End(0))?;
    output.seek(io::SeekFrom::Start(length.saturating_sub(WINDOW)))?;
    let mut bytes = Vec::new();
    output.take(WINDOW).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes)
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .map(|line| line.trim().to_owned()))
}
