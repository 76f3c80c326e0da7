//! Start of a load: its command, CPUs, user and output.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use laggard_model::CpuList;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::geteuid;

use super::error::LaunchError;
use super::guard::{GRACE, Guard};
use super::process::LoadProcess;
use crate::scheduling::{self, Policy};

/// Destination of a load's output.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Output {
    /// Discarded.
    #[default]
    Null,
    /// Both streams go to this file, which is created or emptied.
    File(PathBuf),
    /// Both streams are kept in memory; the last line goes into
    /// [`Ended`](super::Ended). For programs that write little.
    Memory,
}

/// Time for a held load to end by itself. It removes its files and then prints its throughput,
/// which takes seconds on a busy machine.
const HELD_GRACE: Duration = Duration::from_secs(10);

/// Load to start.
#[derive(Clone, Debug)]
pub struct Launch {
    command: Vec<OsString>,
    cpus: Option<CpuList>,
    output: Output,
    is_held: bool,
    /// True if it waits for a signal to start.
    is_told: bool,
    open_files: Option<u64>,
    user: Option<LoadUser>,
}

/// User and group of a load.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LoadUser {
    pub user: u32,
    pub group: u32,
}

impl LoadUser {
    /// Returns the user who started this program as root with `sudo`.
    #[must_use]
    pub fn of_sudo() -> Option<Self> {
        let (user, group) = laggard_files::sudo_caller()?;
        Some(Self { user, group })
    }
}

impl LoadProcess {
    /// Starts `command` as a load and discards its output.
    ///
    /// # Errors
    /// As for [`Launch::start`].
    pub fn spawn(command: Vec<OsString>) -> Result<Self, LaunchError> {
        Launch::new(command).start()
    }
}

impl Launch {
    /// Creates a load that runs `command`: a program and its arguments.
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            cpus: None,
            output: Output::Null,
            is_held: false,
            is_told: false,
            open_files: None,
            user: None,
        }
    }

    /// Runs the load as another user, which needs root, with that user's groups and the
    /// environment of a login.
    #[must_use]
    pub fn user(mut self, user: Option<LoadUser>) -> Self {
        self.user = user;
        self
    }

    /// Creates the load `name`, run by `program` as `program load run NAME`. The
    /// program must call [`NamedLoad::run`](super::NamedLoad::run) until SIGTERM, then
    /// print the throughput as one line of JSON, as laggard itself does.
    pub fn named(program: PathBuf, name: &str) -> Self {
        let words = ["load", "run", name];
        let command = std::iter::once(program.into_os_string())
            .chain(words.map(OsString::from))
            .collect();
        Self::new(command).output(Output::Memory)
    }

    /// Makes the load only set itself up. Its command gets `--hold` as its last
    /// argument. It must then write [`READY`](super::READY) as its first line, and
    /// start after it has read a line.
    pub fn held(mut self) -> Self {
        self.command.push("--hold".into());
        self.is_held = true;
        self.output(Output::Memory)
    }

    /// Delays the command until [`LoadProcess::begin`]; until then a shell waits in its
    /// place.
    #[must_use]
    pub fn told(mut self) -> Self {
        self.is_told = true;
        self
    }

    /// Sets the soft limit on open files of the load. Some programs do not work with a
    /// high limit.
    #[must_use]
    pub fn open_files(mut self, most: Option<u64>) -> Self {
        self.open_files = most;
        self
    }

    /// Restricts the load to these CPUs; by default it runs on the CPUs of this
    /// process.
    pub fn cpus(mut self, cpus: CpuList) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Sets the destination of the load's output.
    pub fn output(mut self, output: Output) -> Self {
        self.output = output;
        self
    }

    /// Starts the load with normal scheduling (`SCHED_OTHER`), for any policy of the
    /// calling thread.
    ///
    /// # Errors
    /// If the program, its output or its CPUs are not available; no process is left
    /// running then.
    pub fn start(self) -> Result<LoadProcess, LaunchError> {
        // A child inherits policy and CPUs from the thread that starts it, so a
        // separate thread changes both.
        thread::scope(|scope| {
            let starter = thread::Builder::new()
                .name("load-start".into())
                .spawn_scoped(scope, || self.start_here())
                .map_err(|source| LaunchError::Start(self.name(), source))?;
            starter
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn start_here(&self) -> Result<LoadProcess, LaunchError> {
        let [program, arguments @ ..] = self.command.as_slice() else {
            return Err(LaunchError::Empty);
        };
        scheduling::set(Policy::Other).map_err(LaunchError::Scheduling)?;
        let mut guard = Guard::new(self.user.map(|user| user.user)).map_err(LaunchError::Guard)?;
        let started = self.spawn(program, arguments, &guard);
        match started {
            Ok((main, output)) => {
                let grace = if self.is_held { HELD_GRACE } else { GRACE };
                Ok(LoadProcess::new(self.name(), main, guard, output, grace))
            }
            Err(err) => {
                guard.end().map_err(LaunchError::Guard)?;
                Err(err)
            }
        }
    }

    fn spawn(
        &self,
        program: &OsString,
        arguments: &[OsString],
        guard: &Guard,
    ) -> Result<(Child, Option<File>), LaunchError> {
        if let Some(cpus) = &self.cpus {
            scheduling::pin(cpus).map_err(|source| LaunchError::Cpus(cpus.clone(), source))?;
        }
        let (file, kept) = self.open_output()?;
        let (out, err) = match file {
            None => (Stdio::null(), Stdio::null()),
            Some((out, err)) => (out.into(), err.into()),
        };
        let mut words: Vec<OsString> = Vec::new();
        if let Some(LoadUser { user, group }) = self.user {
            if !geteuid().is_root() {
                return Err(LaunchError::NotRoot);
            }
            // `Command::uid` would fork this process.
            let setpriv = own(SETPRIV, &SYSTEM).ok_or(LaunchError::NoSetpriv)?;
            if !is_of_util_linux(&setpriv) {
                return Err(LaunchError::OtherSetpriv(setpriv));
            }
            words.push(setpriv.into());
            words.extend(["--init-groups", "--reset-env"].map(OsString::from));
            words.extend(
                [format!("--reuid={user}"), format!("--regid={group}")].map(OsString::from),
            );
            words.extend(["env", guard.mark()].map(OsString::from));
        }
        if self.is_told {
            // After the signal to start, an error about a wrong name would come too
            // late.
            find(program).map_err(|source| LaunchError::Start(self.name(), source))?;
            words.extend(["/bin/sh", "-c", WAIT, "laggard-load"].map(OsString::from));
        }
        words.push(program.clone());
        let mut command = Command::new(&words[0]);
        guard.put_mark(&mut command);
        let main = command
            .args(&words[1..])
            .args(arguments)
            .process_group(guard.group())
            .stdin(if self.is_held || self.is_told {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .stdout(out)
            .stderr(err)
            .spawn()
            .map_err(|source| LaunchError::Start(self.name(), source))?;
        if let Some(most) = self.open_files {
            // A process that has already ended does not need a limit.
            let _ = scheduling::limit_open_files(main.id(), most);
        }
        Ok((main, kept))
    }

    /// Returns two handles for the child and one for reading later.
    #[allow(clippy::type_complexity, reason = "used once, and said above")]
    fn open_output(&self) -> Result<(Option<(File, File)>, Option<File>), LaunchError> {
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
        let refused = |source| LaunchError::Output(name.clone(), source);
        let file = file.map_err(refused)?;
        let second = file.try_clone().map_err(refused)?;
        let kept = match self.output {
            Output::Memory => Some(file.try_clone().map_err(refused)?),
            Output::Null | Output::File(_) => None,
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

/// Program of util-linux that starts a command as another user.
const SETPRIV: &str = "setpriv";

/// Directories of the system's programs. Root does not use PATH here, because the user
/// who calls it may have set it.
const SYSTEM: [&str; 3] = ["/usr/bin", "/bin", "/run/current-system/sw/bin"];

/// Returns the program `name` in the first of `folders` that has it.
fn own(name: &str, folders: &[&str]) -> Option<PathBuf> {
    let mut paths = folders.iter().map(|folder| Path::new(folder).join(name));
    paths.find(|path| path.is_file())
}

/// Returns true if `setpriv` belongs to util-linux. The one of Busybox lacks the options, and the
/// load would end at once with a usage text.
fn is_of_util_linux(setpriv: &Path) -> bool {
    let version = Command::new(setpriv).arg("--version").env_clear().output();
    version.is_ok_and(|output| {
        let words = String::from_utf8_lossy(&output.stdout);
        output.status.success() && words.contains("util-linux")
    })
}

/// Shell code that waits in the place of a delayed command.
const WAIT: &str = r#"read -r _ && exec "$@" </dev/null"#;

/// Checks that `program` can be run, with the search rules of `execvp`.
fn find(program: &OsString) -> io::Result<()> {
    let can_run = |path: &Path| {
        let metadata = path.metadata()?;
        if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::PermissionDenied))
        }
    };
    let path = Path::new(program);
    if path.components().count() > 1 || path.is_absolute() {
        return can_run(path);
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for folder in std::env::split_paths(&folders) {
        match can_run(&folder.join(path)) {
            Ok(()) => return Ok(()),
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => refused = err,
            Err(_) => {}
        }
    }
    Err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busybox_setpriv_is_not_taken_for_util_linux() {
        let dir = tempfile::tempdir().unwrap();
        let is_accepted = |name: &str, script: &str| {
            let file = dir.path().join(name);
            std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
            is_of_util_linux(&file)
        };

        assert!(is_accepted("theirs", "echo setpriv from util-linux 2.38.1"));
        assert!(!is_accepted(
            "busybox",
            "echo 'setpriv: unrecognized option: version' >&2; echo 'BusyBox v1.36.1' >&2; exit 1"
        ));
        assert!(!is_of_util_linux(&dir.path().join("none")));
    }

    #[test]
    fn named_load_is_this_program_started_again() {
        let launch = Launch::named("/usr/bin/laggard".into(), "fileio");

        assert_eq!(
            launch.command,
            ["/usr/bin/laggard", "load", "run", "fileio"]
        );
        assert_eq!(launch.output, Output::Memory);
    }
}
