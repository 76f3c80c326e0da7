//! Parser of the command line.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use laggard_model::printable;

use crate::{exit, pipe};

/// Parses the command line of this program with `try_parse`. If it is wrong or requests help,
/// prints clap's text and returns the exit code.
///
/// clap quotes words unchanged. Words with control characters are therefore parsed again in
/// printable form, so that a line break in a word does not start a line.
///
/// # Errors
///
/// Returns the exit code if the program is done.
pub fn parse<T>(
    try_parse: impl Fn(Vec<OsString>) -> Result<T, clap::Error>,
) -> Result<T, ExitCode> {
    let words: Vec<OsString> = std::env::args_os().collect();
    let mut refused = match try_parse(words.clone()) {
        Ok(parsed) => return Ok(parsed),
        Err(refused) => refused,
    };
    let shown: Vec<OsString> = words
        .iter()
        .map(|word| printable(&word.to_string_lossy()).to_string().into())
        .collect();
    if shown != words {
        refused = match try_parse(shown) {
            Err(refused) => refused,
            Ok(_) => clap::Error::raw(refused.kind(), printable(&refused.to_string())),
        };
    }
    Err(print(&explained(refused)))
}

/// Replaces the suggestion for an argument that starts with a minus and a digit: no argument can be negative.
fn explained(mut refused: clap::Error) -> clap::Error {
    let argument = refused.get(ContextKind::InvalidArg);
    let is_negative = argument.is_some_and(|argument| {
        let mut characters = match argument {
            ContextValue::String(text) => text.chars(),
            _ => "".chars(),
        };
        characters.next() == Some('-')
            && characters.next().is_some_and(|next| next.is_ascii_digit())
    });
    if is_negative {
        let reason = "a time or a number cannot be negative".into();
        refused.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![reason]),
        );
    }
    refused
}

/// Prints an error or help, and returns the exit code.
fn print(refused: &clap::Error) -> ExitCode {
    let code = u8::try_from(refused.exit_code()).unwrap_or(exit::ERROR);
    let printed = if refused.use_stderr() {
        // Without standard error, it cannot be reported.
        return refused
            .print()
            .map_or(ExitCode::from(exit::ERROR), |()| code.into());
    } else {
        pipe::stdout().and_then(|_| refused.print())
    };
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            pipe::say(&format!("cannot write to standard output: {error}"));
            exit::ERROR.into()
        }
        _ => code.into(),
    }
}
