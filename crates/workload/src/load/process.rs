//! Load as a process tree that is observed and ended completely.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::READY;
use super::error::{Ended, LaunchError};
use super::guard::{GRACE, Guard};
use super::stopped::{Halt, halt, killed};

/// Running load with all processes that it started, including processes that left its process
/// group, if they keep their environment.
///
/// They end with this value, and also when this process is killed: SIGTERM first,
/// SIGKILL two seconds later, or ten if the load was [held](super::Launch::held).
#[derive(Debug)]
pub struct LoadProcess {
    name: String,
    main: Child,
    guard: Guard,
    output: Option<File>,
    /// Time to end by itself after SIGTERM.
    grace: Duration,
    /// Pipe for the signal to start; `None` if none is needed or it was sent.
    word: Option<ChildStdin>,
    ended: Option<Ended>,
}

/// Interval of the checks of a stopping load.
const POLL: Duration = Duration::from_millis(5);

impl LoadProcess {
    pub(super) fn new(
        name: String,
        mut main: Child,
        guard: Guard,
        output: Option<File>,
        grace: Duration,
    ) -> Self {
        Self {
            word: main.stdin.take(),
            name,
            main,
            guard,
            output,
            grace,
            ended: None,
        }
    }

    /// Returns the process ID of the load's first process.
    pub fn id(&self) -> u32 {
        self.main.id()
    }

    /// Returns whether a load that was started [held](super::Launch::held) is set up
    /// and waits for the signal to start. A load that has ended is not.
    ///
    /// # Errors
    /// If its output cannot be read.
    pub fn is_ready(&self) -> Result<bool, LaunchError> {
        const LINE: usize = READY.len() + 1;
        let Some(output) = &self.output else {
            return Ok(false);
        };
        // The load's file offset moves with its writes; this read does not use it.
        let mut line = [0; LINE];
        let read = output
            .read_at(&mut line, 0)
            .map_err(|err| LaunchError::Output("memory".into(), err))?;
        Ok(read == LINE && line.starts_with(READY.as_bytes()))
    }

    /// Waits until a held load is set up; returns `false` if interrupted.
    ///
    /// # Errors
    /// If it has ended by itself, or its output cannot be read.
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

    /// Sends the start signal to a held or delayed load. It does not affect other loads, or a load
    /// that has ended.
    pub fn begin(&mut self) {
        if let Some(mut word) = self.word.take() {
            // If the load has ended, `poll` returns its result.
            let _ = word.write_all(b"begin\n");
        }
    }

    /// Returns the result of the load, or `None` while it runs.
    ///
    /// A load has ended when its first process has. Processes that it left in its
    /// process group are killed.
    ///
    /// # Errors
    /// If the process cannot be waited for.
    pub fn poll(&mut self) -> Result<Option<Ended>, LaunchError> {
        if self.ended.is_none()
            && let Some(status) = self.main.try_wait().map_err(|err| self.lost(err))?
        {
            self.clean_up(status)?;
        }
        Ok(self.ended.clone())
    }

    /// Returns whether its first process is stopped, or was since the previous call.
    pub fn halt(&mut self) -> Halt {
        match self.ended {
            None => halt(self.id()),
            Some(_) => Halt::No,
        }
    }

    /// Ends the load: SIGTERM to all its processes, and SIGKILL to the rest after its
    /// grace time or after the end of the first process.
    ///
    /// # Errors
    /// If a process cannot be signalled or waited for.
    pub fn stop(mut self) -> Result<Ended, LaunchError> {
        self.end()
    }

    fn end(&mut self) -> Result<Ended, LaunchError> {
        // A load that still waits for the start signal gets end of file.
        self.word = None;
        if self.poll()?.is_none() {
            self.guard
                .signal(Signal::SIGTERM)
                .map_err(|err| self.lost(err))?;
        }
        let deadline = Instant::now() + self.grace;
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
                // The line READY is not an error message.
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
        // A process that is being killed may be starting another.
        let enough = Instant::now() + GRACE;
        while self.guard.kill_strays() && Instant::now() < enough {
            thread::sleep(POLL);
        }
        // Killed processes that are not our children disappear when init has reaped
        // them. With an init that does not reap, they stay dead forever.
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
        // A failure cannot be reported here, and the guard still ends the load when
        // this process ends.
        let _ = self.end();
    }
}

/// Returns the last non-blank line of the last 64 KB.
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
