//! Tests that the programs of a load exist and work.
//!
//! A program of the right name can be another one, a stand-in, or broken. So each is
//! run once with arguments that do no work, and its output is compared.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::{Need, Recipe, RecipeError, search_path};
use crate::load::LoadUser;

/// Interval of the checks of a running program.
const POLL: Duration = Duration::from_millis(5);
/// Maximum output that is compared, bytes.
const MAX_OUTPUT: u64 = 64 << 10;
/// Maximum output that is shown, characters.
const MAX_SHOWN: usize = 100;

/// Parameters of the tests.
#[derive(Clone, Copy, Debug)]
pub struct ProgramTrial {
    /// Time limit of a program.
    pub patience: Duration,
    /// User that runs it, if it is not the caller.
    pub user: Option<LoadUser>,
}

/// Program that a load needs and that cannot be used.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Unusable {
    pub program: String,
    /// Debian package that contains it.
    pub package: String,
    /// Reason.
    pub why: String,
    /// Whether PATH lacks the program.
    pub is_missing: bool,
}

impl Recipe {
    /// Tests every program of the load, all at once.
    ///
    /// # Errors
    /// [`RecipeError::Missing`] if programs are missing, and [`RecipeError::Unusable`]
    /// if one exists and does not work.
    pub fn try_programs(&self, trial: ProgramTrial) -> Result<(), RecipeError> {
        self.refuse(&self.unusable(trial))
    }

    /// Returns the programs of the load that cannot be used.
    #[must_use]
    pub fn unusable(&self, trial: ProgramTrial) -> Vec<Unusable> {
        let needs = self.needs();
        thread::scope(|scope| {
            let start = |need| scope.spawn(move || unusable(need, trial));
            let trials: Vec<_> = needs.into_iter().map(start).collect();
            let ended = trials.into_iter().filter_map(|trial| trial.join().ok());
            ended.flatten().collect()
        })
    }

    fn refuse(&self, unusable: &[Unusable]) -> Result<(), RecipeError> {
        let missing = unusable.iter().filter(|program| program.is_missing);
        let names = |name: fn(&Unusable) -> &String| -> Vec<String> {
            let names: BTreeSet<&String> = missing.clone().map(name).collect();
            names.into_iter().cloned().collect()
        };
        let programs = names(|program| &program.program);
        if !programs.is_empty() {
            return Err(RecipeError::Missing {
                load: self.name.clone(),
                programs,
                packages: names(|program| &program.package),
            });
        }
        match unusable.first() {
            None => Ok(()),
            Some(program) => Err(RecipeError::Unusable {
                load: self.name.clone(),
                program: program.clone(),
            }),
        }
    }

    fn needs(&self) -> BTreeSet<&Need> {
        let steps = self.prepare.iter().chain(&self.step).chain(&self.clean);
        steps.flat_map(|step| &step.needs).collect()
    }
}

/// Returns the reason why a program cannot be used; `None` if it can.
fn unusable(need: &Need, trial: ProgramTrial) -> Option<Unusable> {
    let unusable = |why: String, is_missing| Unusable {
        program: need.program.clone(),
        package: need.package.clone(),
        why,
        is_missing,
    };
    let Some(path) = path_of(&need.program) else {
        return Some(unusable("PATH does not have it".into(), true));
    };
    let test = need.test.as_ref()?;
    let path = path.display();
    match run(test, trial) {
        Err(error) => Some(unusable(format!("`{test}` cannot be run: {error}"), false)),
        Ok(TrialOutcome::Late) => {
            let patience = trial.patience.as_secs();
            let why = format!("{path} did not end within {patience} s of `{test}`");
            Some(unusable(why, false))
        }
        Ok(TrialOutcome::Ended(status, output)) => {
            let shown = match first_line(&output) {
                Some(line) => format!("wrote `{line}`"),
                None => "wrote nothing".into(),
            };
            let expected = need.shows.as_deref().unwrap_or_default();
            if !status.success() {
                let why = format!("`{test}` ended with {status} and {shown} ({path})");
                Some(unusable(why, false))
            } else if !output.contains(expected) {
                let why =
                    format!("`{test}` {shown}, without `{expected}`: {path} is another program");
                Some(unusable(why, false))
            } else {
                None
            }
        }
    }
}

/// Returns the first program of this name in PATH that can be run.
fn path_of(program: &str) -> Option<PathBuf> {
    let paths = search_path();
    let mut paths = std::env::split_paths(&paths).map(|folder| folder.join(program));
    paths.find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

enum TrialOutcome {
    Ended(ExitStatus, String),
    Late,
}

/// Runs a command in a separate directory, until the time limit of `trial`.
fn run(command: &str, trial: ProgramTrial) -> io::Result<TrialOutcome> {
    let folder = tempfile::Builder::new().prefix("laggard-try-").tempdir()?;
    let mut shell = Command::new("/bin/sh");
    shell
        // One stream, to keep the order of the output.
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(folder.path())
        .env("PATH", search_path())
        .env("HOME", folder.path())
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    if let Some(user) = trial.user
        && fs::metadata(folder.path())?.uid() != user.user
    {
        chown(folder.path(), Some(user.user), Some(user.group))?;
        shell.uid(user.user).gid(user.group);
    }
    let mut child = shell.spawn()?;
    let (sender, receiver) = mpsc::channel();
    let stdout = child.stdout.take();
    // The thread reads until every process with the pipe has ended; it is not waited
    // for.
    thread::spawn(move || {
        let mut output = Vec::new();
        if let Some(stdout) = stdout {
            // Output before an error still counts.
            let _ = stdout.take(MAX_OUTPUT).read_to_end(&mut output);
        }
        // The receiver no longer exists if the program was late.
        let _ = sender.send(output);
    });
    let deadline = Instant::now() + trial.patience;
    let status = wait(&mut child, deadline)?;
    // Kill its children too. They have a separate group, which may be empty by now.
    let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
    let Some(status) = status else {
        child.wait()?;
        return Ok(TrialOutcome::Late);
    };
    let left = deadline.saturating_duration_since(Instant::now()) + POLL;
    let output = receiver.recv_timeout(left).unwrap_or_default();
    let output = String::from_utf8_lossy(&output).into_owned();
    Ok(TrialOutcome::Ended(status, output))
}

fn wait(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

fn first_line(output: &str) -> Option<String> {
    let line = output
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())?;
    Some(line.chars().take(MAX_SHOWN).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIAL: ProgramTrial = ProgramTrial {
        patience: Duration::from_secs(60),
        user: None,
    };

    fn need(program: &str, test: &str, shows: &str) -> Need {
        Need {
            program: program.into(),
            package: "some-package".into(),
            test: Some(test.into()),
            shows: Some(shows.into()),
        }
    }

    fn why(need: &Need, trial: ProgramTrial) -> Option<String> {
        unusable(need, trial).map(|program| program.why)
    }

    #[test]
    fn program_is_usable_if_it_succeeds_with_the_expected_output() {
        assert_eq!(
            why(&need("sh", "echo the real one >&2", "real"), TRIAL),
            None
        );
        let untested = Need {
            test: None,
            ..need("sh", "", "")
        };
        assert_eq!(why(&untested, TRIAL), None);
    }

    #[test]
    fn failing_or_wrong_program_is_unusable_with_its_output() {
        let why = |test: &str| why(&need("sh", test, "real"), TRIAL).unwrap();

        let other = why("echo; echo a stand-in");
        assert!(
            other.starts_with("`echo; echo a stand-in` wrote `a stand-in`, without `real`: /"),
            "{other}"
        );
        let failed = why("echo real; exit 7");
        assert!(
            failed.contains("ended with exit status: 7 and wrote `real`"),
            "{failed}"
        );
        assert!(why("true").contains("wrote nothing"));
        // Ended when it writes more than is read.
        let endless = why("yes other");
        assert!(endless.contains("wrote `other`"), "{endless}");
    }

    #[test]
    fn program_that_does_not_end_is_unusable_and_ended() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let test = format!("echo $$ > {}; exec sleep 1000", pid.display());
        let trial = ProgramTrial {
            patience: Duration::from_secs(2),
            ..TRIAL
        };

        let late = why(&need("sh", &test, ""), trial).unwrap();

        assert!(late.contains("did not end within 2 s"), "{late}");
        // On a very slow machine it may not have written its ID.
        if let Ok(pid) = fs::read_to_string(&pid) {
            assert!(
                !Path::new("/proc").join(pid.trim()).exists(),
                "{pid} still runs"
            );
        }
    }

    #[test]
    fn file_that_cannot_be_run_is_no_program() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tool");
        fs::write(&file, "#!/bin/sh\n").unwrap();

        assert!(!is_program(&file));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_program(&file));
        assert!(!is_program(folder.path()));
    }
}
