//! Loads on other systems than Linux: a process of laggard that ends with this one.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use laggard_model::{Cpu, Throughput};

use super::{Builtin, READY};

/// Time to end after the end of its input.
const GRACE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// Reason why a load did not start or could not be observed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// This program could not be started.
    #[error("cannot start the load `{0}`; check that this program can start processes")]
    Start(Builtin, #[source] io::Error),
    /// It ended by itself.
    #[error(
        "the load `{0}` ended before it started to work; run `laggard load run {0}` to see why"
    )]
    EndedEarly(Builtin),
    /// The process cannot be waited for.
    #[error("lost track of the load `{0}`; check whether it still runs")]
    Lost(Builtin, #[source] io::Error),
}

/// Running load. It ends with this value, and when this process ends, because its input ends then.
#[derive(Debug)]
pub struct LoadProcess {
    load: Builtin,
    main: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl LoadProcess {
    /// Starts `program load run NAME --hold`, on this CPU or on all CPUs, and waits until it is set
    /// up or `interrupted`.
    ///
    /// # Errors
    /// If it cannot be started, or ends by itself.
    pub fn start(
        program: &Path,
        load: Builtin,
        cpu: Option<Cpu>,
        interrupted: &AtomicBool,
    ) -> Result<Self, LaunchError> {
        let mut command = Command::new(program);
        command.args(["load", "run", load.name(), "--hold"]);
        if let Some(cpu) = cpu {
            command.args(["--cpu", &cpu.to_string()]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let refused = |source| LaunchError::Start(load, source);
        let mut main = command.spawn().map_err(refused)?;
        let (sender, lines) = channel();
        if let Some(output) = main.stdout.take() {
            let read = move || {
                let lines = BufReader::new(output).lines().map_while(Result::ok);
                // A receiver that is gone needs no more lines.
                lines
                    .take_while(|line| sender.send(line.clone()).is_ok())
                    .for_each(drop);
            };
            std::thread::Builder::new().spawn(read).map_err(refused)?;
        }
        let process = Self {
            load,
            input: main.stdin.take(),
            main,
            lines,
        };
        while !interrupted.load(Ordering::Relaxed) {
            match process.lines.recv_timeout(POLL) {
                Ok(line) if line.trim() == READY => break,
                Err(RecvTimeoutError::Timeout) => {}
                Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(LaunchError::EndedEarly(load));
                }
            }
        }
        Ok(process)
    }

    /// Sends the start signal.
    pub fn begin(&mut self) {
        if let Some(input) = &mut self.input {
            // If the load has ended, `poll` returns its result.
            let _ = input.write_all(b"begin\n").and_then(|()| input.flush());
        }
    }

    /// Returns its exit status, or `None` while it runs.
    ///
    /// # Errors
    /// If the process cannot be waited for.
    pub fn poll(&mut self) -> Result<Option<ExitStatus>, LaunchError> {
        let lost = |source| LaunchError::Lost(self.load, source);
        self.main.try_wait().map_err(lost)
    }

    /// Ends the load and returns its throughput, if it was reported.
    ///
    /// # Errors
    /// If the process cannot be waited for.
    pub fn stop(mut self) -> Result<Option<Throughput>, LaunchError> {
        self.input = None;
        let deadline = Instant::now() + GRACE;
        while self.poll()?.is_none() && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
        let lines = self.lines.try_iter();
        Ok(lines
            .filter_map(|line| serde_json::from_str(&line).ok())
            .last())
    }
}

impl Drop for LoadProcess {
    fn drop(&mut self) {
        self.input = None;
        // It may have ended; a failure cannot be reported here.
        let _ = self.main.kill();
        let _ = self.main.wait();
    }
}
