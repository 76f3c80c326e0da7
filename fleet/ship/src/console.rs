//! Arguments and output of the programs that read and send recordings of many machines.
//!
//! Names of machines and recordings come from other machines. Characters that control a terminal or
//! a build system are escaped.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use laggard_model::{printable, printable_error, printable_lines, without_commands};

/// Exit code of an error.
const ERROR: u8 = 2;

/// Parses the command line. If it is wrong or asks for help, prints the text of clap.
///
/// clap quotes arguments literally. Arguments with control characters are therefore parsed again in
/// their printable form.
///
/// # Errors
/// The exit code, if the program must end.
pub fn parse<T: clap::Parser>() -> Result<T, ExitCode> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let refusal = match T::try_parse_from(&words) {
        Ok(parsed) => return Ok(parsed),
        Err(refusal) => refusal,
    };
    let shown: Vec<OsString> = words
        .iter()
        .map(|word| printable(&word.to_string_lossy()).to_string().into())
        .collect();
    let refusal = if shown == words {
        refusal
    } else {
        match T::try_parse_from(shown) {
            Err(refusal) => refusal,
            Ok(_) => clap::Error::raw(refusal.kind(), printable(&refusal.to_string())),
        }
    };
    Err(print_refusal(T::command().get_name(), &refusal))
}

/// Prints an error of the command line, or help.
fn print_refusal(program: &str, refusal: &clap::Error) -> ExitCode {
    let code = u8::try_from(refusal.exit_code()).unwrap_or(ERROR);
    if refusal.use_stderr() {
        // Standard error may be closed. It cannot be reported elsewhere.
        let _ = refusal.print();
        return code.into();
    }
    let printed = check_output().and_then(|()| Ok(refusal.print()?));
    match printed {
        Err(error) if !is_closed_pipe(&error) => fail(program, &error),
        _ => code.into(),
    }
}

/// Refuses a standard output that was closed when the program started: a result would be
/// lost without an error.
///
/// # Errors
/// If it was closed.
pub fn check_output() -> anyhow::Result<()> {
    #[cfg(target_os = "linux")]
    anyhow::ensure!(
        !laggard_files::output_was_closed(),
        "standard output is closed; redirect it to a file, or to /dev/null"
    );
    Ok(())
}

/// Prints a result. A reader that has gone away (`| head`) is not an error.
///
/// # Errors
/// If it cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    check_output()?;
    let text = without_commands(&printable_lines(text).to_string()).into_owned();
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Prints an error of `program` and returns the exit code.
pub fn fail(program: &str, error: &anyhow::Error) -> ExitCode {
    let text = printable_error(&format!("{error:#}"));
    // Standard error may be closed or full. It cannot be reported elsewhere.
    let _ = writeln!(io::stderr(), "{program}: {text}");
    ERROR.into()
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
