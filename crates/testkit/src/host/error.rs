//! Why a test host could not be had, or did not end as it should.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{Mode, death};

/// Why a kernel or a guest program could not be fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The name is not that of a kernel that we test.
    #[error("`{0}` is not a test kernel; use 6.1, 6.12 or 7.2, or one of them followed by -rt")]
    UnknownKernel(String),
    /// A program of this machine is needed.
    #[error("`{program}` is not installed; install the Debian package {package}")]
    NotInstalled {
        /// What was to be run.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// Apt's sources name no Debian archive.
    #[error("apt knows no Debian archive; name one in LAGGARD_DEBIAN_MIRROR")]
    NoMirror,
    /// The archive has no such package.
    #[error("the archive has no package {0}; its newest versions may have moved to another suite")]
    NoPackage(String),
    /// A package lacks a file that it used to have.
    #[error("package {package} has no file {path}; the package has changed its layout")]
    NoFile {
        /// The package.
        package: String,
        /// The path inside it.
        path: String,
    },
    /// A program ended with an error.
    #[error("`{command}` ended with {status}: {stderr}")]
    Command {
        /// The command with its first arguments.
        command: String,
        /// Its exit status.
        status: String,
        /// The end of what it wrote to standard error.
        stderr: String,
    },
    /// A file of the cache cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl FetchError {
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// Whether something is missing around us - a program, the network, a
    /// package - rather than wrong with us. A test may then be skipped.
    pub fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::NotInstalled { .. } | Self::NoMirror | Self::NoPackage(_) | Self::Command { .. }
        )
    }
}

/// Why a test host did not run its command to the end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuestError {
    /// The programs that every guest has could not be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The directory for the results holds those of another run.
    #[error("{0} already holds results; remove it, or name another directory")]
    ResultsExist(PathBuf),
    /// The guest did not tell its clock, so nobody can say when, for it, a
    /// stall was.
    #[error("the guest did not tell its clock before and after the command")]
    ClockUnknown,
    /// A stall was asked for in virtual time, which no guest can notice.
    #[error("a guest in virtual time cannot see a stall; use `Mode::Smp`")]
    StallUnseen,
    /// The files for the guest do not fit its memory.
    #[error(
        "the guest's files have {bytes} bytes, more than the {limit} that fit; \
         give it more memory or strip the programs"
    )]
    FilesTooBig {
        /// What they have.
        bytes: u64,
        /// What they may have.
        limit: u64,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// QEMU did not start, or does not answer.
    #[error("qemu: {0}")]
    Qemu(String),
    /// QEMU ended before the guest did.
    #[error("qemu ended early, {how}: {words}\nwhat the guest's console shows:\n{}", tail(.console))]
    Emulator {
        /// Its exit status, or the signal that ended it.
        how: String,
        /// Whether it made a mistake itself.
        is_own_fault: bool,
        /// What it wrote to standard error.
        words: String,
        /// Everything that the console showed.
        console: String,
    },
    /// QEMU refused a command, or did not answer.
    #[error("qemu does not do `{command}`: {reason}")]
    Monitor {
        /// The command.
        command: String,
        /// What it answers.
        reason: String,
    },
    /// The command, or the whole guest, had not ended when its time was up.
    #[error(
        "the guest had not ended after {}s{}; what its console shows:\n{}\nand its command wrote:\n{}",
        .after.as_secs(),
        if output.is_some() { "" } else { " and does not answer" },
        tail(console),
        output.as_deref().map_or("(unknown)", tail),
    )]
    Deadline {
        /// The time that it had.
        after: Duration,
        /// Everything that the console showed.
        console: String,
        /// What the command wrote, if the guest could still tell.
        output: Option<String>,
    },
    /// The guest switched itself off without results: its kernel panicked, or
    /// the command did it.
    #[error("the guest ended without results, {} its command began: {}; the end of its console:\n{}",
        if *.began { "after" } else { "before" },
        death::cause(console).unwrap_or("its kernel said nothing of a fault"),
        tail(.console))]
    NoResults {
        /// Whether the command had begun.
        began: bool,
        /// Everything that the console showed.
        console: String,
    },
    /// The command left more than fits.
    #[error("the guest's results have {bytes} bytes, more than the {limit} that fit")]
    ResultsTooBig {
        /// What they have.
        bytes: u64,
        /// What they may have.
        limit: u64,
    },
}

impl GuestError {
    /// Whether the emulator is to blame, so that another try may well end
    /// otherwise. On two CPUs it is for every kernel that dies while it boots and
    /// for one that meets a breakpoint of its own.
    pub(super) fn may_pass(&self, mode: Mode) -> bool {
        match self {
            Self::NoResults { began, console } => {
                mode == Mode::Smp && (!began || death::is_forgotten_breakpoint(console))
            }
            Self::Emulator { is_own_fault, .. } => *is_own_fault,
            Self::Fetch(_)
            | Self::ResultsExist(_)
            | Self::ClockUnknown
            | Self::StallUnseen
            | Self::FilesTooBig { .. }
            | Self::Io { .. }
            | Self::Qemu(_)
            | Self::Monitor { .. }
            | Self::Deadline { .. }
            | Self::ResultsTooBig { .. } => false,
        }
    }

    /// What happened, in a line.
    pub(super) fn in_short(&self) -> String {
        let text = self.to_string();
        text.lines().next().unwrap_or_default().to_owned()
    }

    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}

/// The last 40 lines: enough for a kernel's last words.
fn tail(text: &str) -> &str {
    let start = text
        .trim_end()
        .rmatch_indices('\n')
        .nth(39)
        .map_or(0, |(at, _)| at + 1);
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
    fn a_guest_that_dies_says_of_what_and_when() {
        let text = died(
            true,
            "[ 7.2] Kernel panic - not syncing: sysrq triggered crash\n",
        );

        assert_eq!(
            text.in_short(),
            "the guest ended without results, after its command began: Kernel panic - not syncing: sysrq triggered crash; the end of its console:"
        );
    }

    #[test]
    fn only_what_the_emulator_did_is_tried_again() {
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
            // What dies in virtual time dies again.
            (died(true, breakpoint), Mode::Icount, false),
            (died(false, ""), Mode::Icount, false),
            (emulator(true), Mode::Icount, true),
            (emulator(false), Mode::Smp, false),
        ] {
            assert_eq!(error.may_pass(mode), expected, "{mode:?} {error}");
        }
    }

    #[test]
    fn a_hung_guest_shows_the_end_of_its_console() {
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
