//! Exit codes. They are part of the interface, and therefore defined in one place.

use std::process::ExitCode;

use laggard_answer::Load;
use laggard_answer::check::{CheckError, CheckReport, TestVerdict};
use laggard_answer::compare::CompareError;
use laggard_console::exit;

use crate::system;

/// Successful end of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// Success.
    Ok,
    /// A requirement is not met or is unknown, or the answer is missing.
    Unmet,
    /// The measurement is not trustworthy.
    Untrustworthy,
    /// The measurement does not decide a requirement.
    Undecided,
    /// The user's command failed, with this exit code.
    Command(u8),
}

impl Exit {
    /// Returns the exit of a command that answered from `loads`.
    pub(crate) fn from_loads(loads: &[Load]) -> Self {
        if loads.iter().all(Load::is_trusted) {
            Self::Ok
        } else {
            Self::Untrustworthy
        }
    }

    pub(crate) fn of_check(report: &CheckReport) -> Self {
        match report.verdict {
            TestVerdict::Fail => Self::Unmet,
            TestVerdict::Unknown if !report.passes => Self::Undecided,
            TestVerdict::Unknown | TestVerdict::Pass => Self::Ok,
        }
    }

    /// Returns `Unmet` if this is `Ok` and `is_unmet` is set.
    pub(crate) fn unless_unmet(self, is_unmet: bool) -> Self {
        if self == Self::Ok && is_unmet {
            Self::Unmet
        } else {
            self
        }
    }
}

/// Description of the exit codes in `--help`.
pub(crate) const CODES: &str = "\
Exit codes:
  0  success
  1  a requirement fails or is unknown; a service, load, fault or timer is not
     available; or there is no result (forecast, import)
  2  error: wrong arguments, an unreadable recording, a full disk, no memory
  3  the measurement is not trustworthy (losses or overhead), or it is too short
     to decide a requirement (check)
If the command after `--` fails, laggard exits with its code (128 plus the
number of a signal).";

/// Reports that no command was given, which is a wrong argument.
pub(crate) fn nothing_asked() -> ExitCode {
    ExitCode::from(exit::ERROR)
}

/// Converts a command's result to the exit code, and prints the error.
pub(crate) fn report(result: anyhow::Result<Exit>) -> ExitCode {
    exit::ended(result.map(code).map_err(with_reasons), code_of)
}

/// Adds the reasons why a recording cannot be trusted.
fn with_reasons(err: anyhow::Error) -> anyhow::Error {
    let compared = err.downcast_ref().or_else(|| match err.downcast_ref() {
        Some(CheckError::Compare(error)) => Some(error),
        _ => None,
    });
    let Some(CompareError::Untrustworthy { dir, reasons }) = compared else {
        return err;
    };
    let reasons = laggard_view::trust::joined(reasons);
    let text = format!("`{}` is not trustworthy: {reasons}", dir.display());
    err.context(text)
}

fn code(exit: Exit) -> ExitCode {
    match exit {
        Exit::Ok => ExitCode::SUCCESS,
        Exit::Unmet => ExitCode::from(1),
        Exit::Untrustworthy | Exit::Undecided => ExitCode::from(3),
        Exit::Command(code) => ExitCode::from(code),
    }
}

fn code_of(err: &anyhow::Error) -> u8 {
    let compared = err.downcast_ref().map(CompareError::is_untrustworthy);
    let checked = err.downcast_ref().map(CheckError::is_untrustworthy);
    match (system::is_unmet(err), compared.or(checked)) {
        (true, _) => 1,
        (_, Some(true)) => 3,
        _ => exit::ERROR,
    }
}
