//! Errors of test hosts.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{Mode, death};

/// Reason why a kernel or a guest program could not be fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The name is not the name of a test kernel.
    #[error(
        "`{0}` is not a test kernel; use 6.1, 6.12 or 7.2, arm64-6.1 or arm64-6.12, one of them followed by -rt, or arm64-6.12-16k"
    )]
    UnknownKernel(String),
    /// A program is missing on this machine.
    #[error("`{program}` is not installed; install the Debian package {package}")]
    NotInstalled {
        program: &'static str,
        /// Debian package of the program.
        package: &'static str,
    },
    /// Apt's sources contain no Debian archive.
    #[error("apt has no Debian archive; set one in LAGGARD_DEBIAN_MIRROR")]
    NoMirror,
    /// The archive lacks the package.
    #[error("the archive has no package {0}; its newest versions may have moved to another suite")]
    NoPackage(String),
    /// A package lacks a file that it used to have.
    #[error("package {package} has no file {path}; the package has changed its layout")]
    NoFile {
        package: String,
        /// Path inside the package.
        path: String,
    },
    /// A program failed.
    #[error("`{command}` ended with {status}: {stderr}")]
    Command {
        /// Command with its first arguments.
        command: String,
        status: String,
        /// End of its standard error.
        stderr: String,
    },
    /// A file of the cache is not readable or writable.
    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl FetchError {
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// Returns whether a prerequisite (a program, the network, a package) is missing, as opposed
    /// to a fault of the project. A test may then be skipped.
    pub fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::NotInstalled { .. } | Self::NoMirror | Self::NoPackage(_) | Self::Command { .. }
        )
    }
}

/// Reason why a test host did not run its command to the end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// The programs of every guest could not be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The directory for the results contains results of another run.
    #[error("{0} already contains results; remove it, or choose another directory")]
    ResultsExist(PathBuf),
    /// The guest did not report its clock, so the time of a stall is unknown.
    #[error("the guest did not report its clock before and after the command")]
    ClockUnknown,
    /// A stall was requested in virtual time. A guest cannot notice it there.
    #[error("a guest in virtual time cannot notice a stall; use `Mode::Smp`")]
    StallUnseen,
    /// The files for the guest do not fit into its memory.
    #[error(
        "the guest's files have {bytes} bytes, more than the {limit} that fit; \
         give it more memory or strip the programs"
    )]
    FilesTooBig {
        /// Size of the files.
        bytes: u64,
        /// Maximum size.
        limit: u64,
    },
    /// A file is not readable or writable.
    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// QEMU did not start, or does not respond.
    #[error("qemu: {0}")]
    Qemu(String),
    /// QEMU ended before the guest.
    #[error("qemu ended early, {how}: {words}\nwhat the guest's console shows:\n{}", tail(.console))]
    Emulator {
        /// Exit status, or the signal that ended it.
        how: String,
        /// Whether QEMU itself failed.
        is_own_fault: bool,
        /// Its standard error.
        words: String,
        /// Text of the console.
        console: String,
    },
    /// QEMU refused a command, or did not respond.
    #[error("qemu refuses `{command}`: {reason}")]
    Monitor {
        command: String,
        /// Answer of QEMU.
        reason: String,
    },
    /// The command or the whole guest exceeded its time.
    #[error(
        "the guest had not ended after {}s{}; its console:\n{}\noutput of its command:\n{}",
        .after.as_secs(),
        if output.is_some() { "" } else { " and does not answer" },
        tail(console),
        output.as_deref().map_or("(unknown)", tail),
    )]
    Deadline {
        /// Maximum time.
        after: Duration,
        /// Text of the console.
        console: String,
        /// Output of the command, if the guest was still able to return it.
        output: Option<String>,
    },
    /// The guest switched off without results: its kernel panicked, or the command caused it.
    #[error("the guest ended without results, {} its command started: {}; the end of its console:\n{}",
        if *.began { "after" } else { "before" },
        death::cause(console).unwrap_or("its kernel said nothing of a fault"),
        tail(.console))]
    NoResults {
        /// Whether the command had started.
        began: bool,
        /// Text of the console.
        console: String,
    },
    /// The results of the command are too large.
    #[error("the guest's results have {bytes} bytes, more than the {limit} that fit")]
    ResultsTooBig {
        /// Size of the results.
        bytes: u64,
        /// Maximum size.
        limit: u64,
    },
}

impl GuestError {
    /// Returns whether the emulator caused the error, so that another attempt may succeed. On two
    /// CPUs this applies to every kernel that dies during the boot and to a kernel that meets one
    /// of its breakpoints.
    pub(super) fn may_pass(&self, mode: Mode) -> bool {
        match self {
            Self::NoResults { began, console } => {
                mode == Mode::Smp && (!began || death::is_forgotten_breakpoint(console))
            }
            Self::Emulator { is_own_fault, .. } => *is_own_fault,
            _ => false,
        }
    }

    /// Returns the error in one line.
    pub(super) fn in_short(&self) -> String {
        let text = self.to_string();
        text.lines().next().unwrap_or_default().to_owned()
    }

    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

/// Returns the last 40 lines, which contain a kernel's last messages.
fn tail(text: &str) -> &str {
    let start = text
        .trim_end()
        .rmatch_indices('\n')
        .nth(39)
        .map_or(0, |(newline, _)| newline + 1);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn died(began: bool, console: &str) -> GuestError {
        GuestError::NoResults {
            began,
            console: console.into(),
        }
    }

    #[test]
    fn error_of_a_dead_guest_names_cause_and_time() {
        let text = died(
            true,
            "[ 7.2] Kernel panic - not syncing: sysrq triggered crash\n",
        );

        assert_eq!(
            text.in_short(),
            "the guest ended without results, after its command started: Kernel panic - not syncing: sysrq triggered crash; the end of its console:"
        );
    }

    #[test]
    fn only_faults_of_the_emulator_are_tried_again() {
        let emulator = |is_own_fault| GuestError::Emulator {
            how: String::new(),
            is_own_fault,
            words: String::new(),
            console: String::new(),
        };
        let breakpoint = "[ 7.2] int3: 0000 [#1] SMP\n";
        for (error, mode, expected) in [
            (died(false, ""), Mode::Smp, true),
            (died(true, ""), Mode::Smp, false),
            (died(true, breakpoint), Mode::Smp, true),
            // A kernel that dies in virtual time dies again.
            (died(true, breakpoint), Mode::Icount, false),
            (died(false, ""), Mode::Icount, false),
            (emulator(true), Mode::Icount, true),
            (emulator(false), Mode::Smp, false),
        ] {
            assert_eq!(error.may_pass(mode), expected, "{mode:?} {error}");
        }
    }

    #[test]
    fn error_of_a_hung_guest_shows_the_end_of_its_console() {
        let console: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let text = GuestError::Deadline {
            after: Duration::from_secs(90),
            console,
            output: None,
        }
        .to_string();

        assert!(text.starts_with("the guest had not ended after 90s and does not answer"));
        assert!(text.contains("\nline 60\n") && text.contains("\nline 99\n"));
        assert!(!text.contains("\nline 59\n"));
    }
}
