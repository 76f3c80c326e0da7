//! Command that runs on a late wakeup.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Seek as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use laggard_measure::linux::reason_of;
use laggard_workload::load::Guard;
use nix::errno::Errno;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::Signal;
use nix::unistd::{AccessFlags, eaccess};

use super::{LateCommandOutput, LateInput};

/// Maximum run time of a command.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(1);
/// Interval of the checks whether the command has ended.
const POLL: Duration = Duration::from_millis(5);
/// `MFD_NOEXEC_SEAL` of Linux 6.3.
const MFD_NOEXEC_SEAL: u32 = 8;
/// Directories of programs if the environment lacks `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Environment variables that the command gets from laggard.
const KEPT_VARIABLES: [&str; 4] = ["PATH", "LANG", "LC_ALL", "TZ"];

/// Command that exists.
#[derive(Debug)]
pub(super) struct LateCommand {
    program: PathBuf,
    arguments: Vec<String>,
    output: LateCommandOutput,
    limit: Duration,
}

impl LateCommand {
    /// Finds the program of a command.
    ///
    /// # Errors
    ///
    /// Returns the reason if it does not exist or may not be executed.
    pub(super) fn find(words: &[String], output: LateCommandOutput) -> Result<Self, String> {
        let (name, arguments) = words.split_first().ok_or("there is no command")?;
        let program = if name.contains('/') {
            let path = PathBuf::from(name);
            // It distinguishes a missing file from a directory without permission.
            fs::metadata(&path).map_err(|err| reason_of(&err))?;
            if !is_program(&path) {
                return Err("it is not an executable file (`chmod +x` makes it one)".into());
            }
            path
        } else {
            let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(DEFAULT_PATH));
            std::env::split_paths(&path)
                .map(|directory| directory.join(name))
                .find(|path| is_program(path))
                .ok_or("no such command in PATH")?
        };
        Ok(Self {
            program,
            arguments: arguments.to_vec(),
            output,
            limit: TIME_LIMIT,
        })
    }

    /// Runs the command with `input` as standard input, and calls `started` once it runs.
    /// `is_cancelled` ends it.
    ///
    /// # Errors
    ///
    /// Returns the reason if it cannot be run, fails or takes too long.
    pub(super) fn run(
        &self,
        input: &LateInput,
        is_cancelled: &AtomicBool,
        started: impl FnOnce(),
    ) -> Result<(), String> {
        let stdin = file_of(&input.json).map_err(|err| format!("cannot write its input: {err}"))?;
        let stdout = match self.output {
            LateCommandOutput::Discarded => None,
            LateCommandOutput::StandardError => io::stderr().as_fd().try_clone_to_owned().ok(),
        };
        let is_shown = stdout.is_some();
        let kept = KEPT_VARIABLES
            .iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)));
        // Ends the command and its children if laggard is killed.
        let mut guard = Guard::new(None).map_err(|err| format!("cannot guard it: {err}"))?;
        let spawned = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .envs(kept)
            .envs(input.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(stdin))
            .stdout(stdout.map_or_else(Stdio::null, Stdio::from))
            .stderr(if is_shown {
                Stdio::inherit()
            } else {
                Stdio::null()
            })
            .process_group(guard.group())
            .spawn();
        let ran = match spawned {
            Ok(child) => {
                started();
                self.wait(child, &guard, is_cancelled)
                    .map_err(|err| format!("cannot wait for it: {err}"))
            }
            Err(err) => Err(format!("cannot run it: {err}")),
        };
        guard.end().map_err(|err| format!("cannot end it: {err}"))?;
        let (status, is_in_time) = ran?;
        if !is_in_time && is_cancelled.load(Ordering::Relaxed) {
            return Err("it was ended with laggard".into());
        }
        if !is_in_time {
            let seconds = self.limit.as_secs_f64();
            return Err(format!("it took longer than {seconds} s and was ended"));
        }
        if status.success() {
            Ok(())
        } else {
            Err(status.to_string())
        }
    }

    /// Waits for the command, and ends it at the time limit. Returns its status, and whether
    /// it ended in time.
    fn wait(
        &self,
        mut child: Child,
        guard: &Guard,
        is_cancelled: &AtomicBool,
    ) -> io::Result<(ExitStatus, bool)> {
        let is_in_time = wait_at_most(&mut child, self.limit, is_cancelled)?;
        if !is_in_time {
            guard.signal(Signal::SIGTERM)?;
            wait_at_most(&mut child, GRACE, &AtomicBool::new(false))?;
            guard.signal(Signal::SIGKILL)?;
        }
        Ok((child.wait()?, is_in_time))
    }
}

/// Waits until a process has ended, for at most `limit` or until `is_cancelled`. Returns
/// whether it has.
fn wait_at_most(child: &mut Child, limit: Duration, is_cancelled: &AtomicBool) -> io::Result<bool> {
    let since = Instant::now();
    loop {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        let left = limit.saturating_sub(since.elapsed());
        if left.is_zero() || is_cancelled.load(Ordering::Relaxed) {
            return Ok(false);
        }
        sleep(POLL.min(left));
    }
}

/// Returns a file in memory with this content. Unlike a pipe, it takes any amount of data at once.
fn file_of(bytes: &[u8]) -> io::Result<File> {
    // vm.memfd_noexec=2 refuses a file that could be executed; kernels before 6.3 refuse the flag.
    let sealed = MFdFlags::MFD_CLOEXEC | MFdFlags::from_bits_retain(MFD_NOEXEC_SEAL);
    let memory = match memfd_create(c"late-wakeup", sealed) {
        Err(Errno::EINVAL) => memfd_create(c"late-wakeup", MFdFlags::MFD_CLOEXEC),
        created => created,
    };
    let mut file = File::from(memory?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file()) && eaccess(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> LateCommand {
        let words = shlex::split(text).unwrap();
        LateCommand::find(&words, LateCommandOutput::Discarded).unwrap()
    }

    fn input(json: &str) -> LateInput {
        LateInput {
            json: json.into(),
            variables: vec![("LAGGARD_CPU", "3".into())],
        }
    }

    #[test]
    fn command_gets_the_input_and_a_clean_environment() {
        let dir = tempfile::tempdir().unwrap();
        let output = dir.path().join("output");
        let script = format!("sh -c 'cat > {0}; env > {0}.env'", output.display());
        let json = "x".repeat(1 << 20);
        let mut has_started = false;

        let ran = command(&script).run(&input(&json), &AtomicBool::new(false), || {
            has_started = true
        });

        assert_eq!(ran, Ok(()));
        assert!(has_started);
        assert_eq!(fs::read_to_string(&output).unwrap(), json);
        let environment = fs::read_to_string(output.with_extension("env")).unwrap();
        assert!(environment.contains("LAGGARD_CPU=3"), "{environment}");
        assert!(!environment.contains("CARGO"), "{environment}");
    }

    #[test]
    fn command_that_does_not_end_is_ended_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("child");
        // Both ignore SIGTERM.
        let script = format!(
            "sh -c 'trap \"\" TERM; sleep 60 & echo $! > {}; wait'",
            file.display()
        );
        let stubborn = LateCommand {
            limit: Duration::from_millis(300),
            ..command(&script)
        };

        let ran = stubborn.run(&input(""), &AtomicBool::new(false), || ());

        assert_eq!(ran, Err("it took longer than 0.3 s and was ended".into()));
        let child = fs::read_to_string(&file).unwrap();
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.trim()));
        // Reaped by its new parent, or a zombie until then.
        assert!(stat.is_err() || stat.unwrap().contains(" Z "));
    }

    #[test]
    fn failure_has_its_status() {
        let ran = command("sh -c 'exit 7'").run(&input(""), &AtomicBool::new(false), || ());

        assert_eq!(ran, Err("exit status: 7".into()));
    }

    #[test]
    fn missing_program_is_refused_before_it_is_needed() {
        let find = |text: &str| {
            let words = vec![text.to_owned()];
            LateCommand::find(&words, LateCommandOutput::Discarded)
                .map(|_| ())
                .unwrap_err()
        };

        assert_eq!(find("laggard-no-such-command"), "no such command in PATH");
        assert_eq!(find("/no/such/file"), "no such file or directory");
        assert_eq!(find("/etc/passwd/x"), "not a directory");
        assert!(find("/etc/passwd").contains("chmod +x"));
    }
}
