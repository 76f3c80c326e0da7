//! A load as a process: started, watched, and ended with all it started.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use laggard_model::{CpuList, Throughput};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::Builtin;
use super::guard::{GRACE, Guard};

/// What becomes of a load's output.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Output {
    /// It is thrown away.
    #[default]
    Null,
    /// Both streams go to this file, which is made or emptied.
    File(PathBuf),
    /// Both streams are kept in memory; the last line goes into [`Ended`].
    /// For programs that write little.
    Memory,
}

/// A load that is to be started.
#[derive(Clone, Debug)]
pub struct Launch {
    command: Vec<OsString>,
    cpus: Option<CpuList>,
    output: Output,
}

/// Why a load did not start or could not be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no command.
    #[error("the load's command is empty; give one after `--`")]
    Empty,
    /// The program could not be run.
    #[error("cannot start the load `{0}`; check its name and that it is in PATH")]
    Start(String, #[source] io::Error),
    /// The shell that ends the load when we die could not be run.
    #[error("cannot start /bin/sh, which ends the load should this program be killed")]
    Guard(#[source] io::Error),
    /// The output has nowhere to go.
    #[error("cannot write the load's output to {0}; choose another file")]
    Output(String, #[source] io::Error),
    /// The load cannot run on these CPUs.
    #[error("cannot run the load on CPUs {0}; choose from those in /sys/devices/system/cpu/online")]
    Cpus(CpuList, #[source] io::Error),
    /// Normal scheduling was refused.
    #[error("cannot give the load normal (SCHED_OTHER) scheduling")]
    Scheduling(#[source] io::Error),
    /// Somebody else reaped our child, or a signal was refused.
    #[error("lost track of the load `{0}`; look with ps whether it still runs")]
    Lost(String, #[source] io::Error),
}

impl Launch {
    /// A load that runs `command`: a program and its arguments.
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            cpus: None,
            output: Output::Null,
        }
    }

    /// A built-in load, run by `program` (this very program) as
    /// `program load run NAME`. It must call [`run`](super::run) until
    /// SIGTERM, then print the throughput as one line of JSON.
    pub fn builtin(program: PathBuf, load: Builtin) -> Self {
        let words = ["load", "run", load.name()];
        let command = std::iter::once(program.into_os_string())
            .chain(words.map(OsString::from))
            .collect();
        Self::new(command).output(Output::Memory)
    }

    /// Keeps the load on these CPUs; otherwise it runs where we may.
    pub fn cpus(mut self, cpus: CpuList) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Says what becomes of the load's output.
    pub fn output(mut self, output: Output) -> Self {
        self.output = output;
        self
    }

    /// Starts the load with normal scheduling (`SCHED_OTHER`), whatever the
    /// policy of the calling thread.
    ///
    /// # Errors
    /// When the program, its output or its CPUs cannot be had; nothing is
    /// left running then.
    pub fn start(self) -> Result<LoadProcess, LoadError> {
        // A child inherits policy and CPUs from the thread that starts it, so
        // that is a thread of its own, which may change both.
        thread::scope(|scope| {
            let starter = thread::Builder::new()
                .name("load-start".into())
                .spawn_scoped(scope, || self.start_here())
                .map_err(|source| LoadError::Start(self.name(), source))?;
            starter
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn start_here(&self) -> Result<LoadProcess, LoadError> {
        let [program, arguments @ ..] = self.command.as_slice() else {
            return Err(LoadError::Empty);
        };
        schedule_normally().map_err(LoadError::Scheduling)?;
        let mut guard = Guard::new().map_err(LoadError::Guard)?;
        let started = self.spawn(program, arguments, guard.group());
        match started {
            Ok((main, output)) => Ok(LoadProcess {
                name: self.name(),
                main,
                guard,
                output,
                ended: None,
            }),
            Err(err) => {
                guard.end().map_err(LoadError::Guard)?;
                Err(err)
            }
        }
    }

    fn spawn(
        &self,
        program: &OsString,
        arguments: &[OsString],
        group: i32,
    ) -> Result<(Child, Option<File>), LoadError> {
        if let Some(cpus) = &self.cpus {
            pin(cpus).map_err(|source| LoadError::Cpus(cpus.clone(), source))?;
        }
        let (file, kept) = self.open_output()?;
        let (out, err) = match file {
            None => (Stdio::null(), Stdio::null()),
            Some((out, err)) => (out.into(), err.into()),
        };
        let main = Command::new(program)
            .args(arguments)
            .process_group(group)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .map_err(|source| LoadError::Start(self.name(), source))?;
        Ok((main, kept))
    }

    /// Two handles for the child, and one to read from later.
    #[allow(clippy::type_complexity)]
    fn open_output(&self) -> Result<(Option<(File, File)>, Option<File>), LoadError> {
        let (name, file) = match &self.output {
            Output::Null => return Ok((None, None)),
            Output::File(path) => (path.display().to_string(), File::create(path)),
            Output::Memory => (
                "memory".into(),
                memfd_create("load-output", MFdFlags::MFD_CLOEXEC)
                    .map(File::from)
                    .map_err(io::Error::from),
            ),
        };
        let refused = |source| LoadError::Output(name.clone(), source);
        let file = file.map_err(refused)?;
        let second = file.try_clone().map_err(refused)?;
        let kept = match self.output {
            Output::Memory => Some(file.try_clone().map_err(refused)?),
            _ => None,
        };
        Ok((Some((file, second)), kept))
    }

    fn name(&self) -> String {
        self.command
            .first()
            .map(|program| program.to_string_lossy().into_owned())
            .unwrap_or_default()
    }
}

/// How a load ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its first process's exit status.
    pub status: ExitStatus,
    /// What it did, where it told.
    pub throughput: Option<Throughput>,
    /// The last line that it wrote, where its output was kept in memory and
    /// that line is not the throughput: often an error text.
    pub last_words: Option<String>,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => write!(f, "exit status {code}")?,
            (_, Some(signal)) => write!(f, "killed by signal {signal}")?,
            (None, None) => write!(f, "{}", self.status)?,
        }
        match &self.last_words {
            Some(words) => write!(f, ": {words}"),
            None => Ok(()),
        }
    }
}

/// A running load and all processes that it started, as far as they stay in
/// its process group.
///
/// They end with this value, and also when this process is killed: SIGTERM
/// first, SIGKILL two seconds later.
#[derive(Debug)]
pub struct LoadProcess {
    name: String,
    main: Child,
    guard: Guard,
    output: Option<File>,
    ended: Option<Ended>,
}

/// How often a stopping load is looked at.
const POLL: Duration = Duration::from_millis(5);

impl LoadProcess {
    /// Starts `command` as a load; its output is thrown away.
    ///
    /// # Errors
    /// As [`Launch::start`].
    pub fn spawn(command: Vec<OsString>) -> Result<Self, LoadError> {
        Launch::new(command).start()
    }

    /// The process id of the load's first process.
    pub fn id(&self) -> u32 {
        self.main.id()
    }

    /// How the load ended, or `None` while it runs.
    ///
    /// A load has ended when its first process has; what that one left behind
    /// in its process group is killed.
    ///
    /// # Errors
    /// When the process cannot be waited for.
    pub fn poll(&mut self) -> Result<Option<Ended>, LoadError> {
        if self.ended.is_none()
            && let Some(status) = self.main.try_wait().map_err(|err| self.lost(err))?
        {
            self.clean_up(status)?;
        }
        Ok(self.ended.clone())
    }

    /// Ends the load: SIGTERM to all its processes, and SIGKILL to those that
    /// are left after two seconds or when the first process is gone.
    ///
    /// # Errors
    /// When a process cannot be signalled or waited for.
    pub fn stop(mut self) -> Result<Ended, LoadError> {
        self.end()
    }

    fn end(&mut self) -> Result<Ended, LoadError> {
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
                let status = self.main.wait().map_err(|err| self.lost(err))?;
                return self.clean_up(status);
            }
            thread::sleep(POLL);
        }
    }

    /// Kills the rest of the group and reads the output.
    fn clean_up(&mut self, status: ExitStatus) -> Result<Ended, LoadError> {
        let (throughput, last_words) = match self.output.take().map(last_line) {
            None | Some(Ok(None)) => (None, None),
            Some(Err(err)) => return Err(LoadError::Output("memory".into(), err)),
            Some(Ok(Some(line))) => match serde_json::from_str(&line) {
                Ok(throughput) => (Some(throughput), None),
                Err(_) => (None, Some(line)),
            },
        };
        let ended = Ended {
            status,
            throughput,
            last_words,
        };
        self.ended = Some(ended.clone());
        self.guard.end().map_err(|err| self.lost(err))?;
        // Killed processes that are not our children vanish when init has
        // reaped them; an init that does not reap leaves them dead for good.
        let deadline = Instant::now() + GRACE;
        while !self.guard.is_empty() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        Ok(ended)
    }

    fn lost(&self, err: io::Error) -> LoadError {
        LoadError::Lost(self.name.clone(), err)
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

/// Gives the calling thread normal scheduling, which its children inherit.
fn schedule_normally() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: `param` outlives the call and is only read; 0 is this thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Keeps the calling thread, and the children that it starts, on `cpus`.
fn pin(cpus: &CpuList) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.as_slice() {
        set.set(usize::try_from(cpu.0).map_err(io::Error::other)?)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_built_in_load_is_this_program_started_again() {
        let launch = Launch::builtin("/usr/bin/laggard".into(), Builtin::FileIo);

        assert_eq!(
            launch.command,
            ["/usr/bin/laggard", "load", "run", "fileio"]
        );
        assert_eq!(launch.output, Output::Memory);
    }
}
