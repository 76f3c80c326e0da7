//! Writing to the terminal, which may be a pipe that closes early.
//!
//! Text from elsewhere (names of threads, loads, hosts, folders) can be in all
//! that is written, so nothing that a terminal would obey passes here. That a
//! name has no line of its own is up to who writes it.

use std::io::{self, Write as _};

use laggard_model::{printable, printable_json, printable_lines, without_commands};
use serde::Serialize;

use crate::system;

/// Prints `text`; a reader that has gone away (`| head`) is no error.
///
/// # Errors
/// When it cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    try_print(text).map(|_| ())
}

/// Prints `text`. Returns whether there still is a reader.
///
/// # Errors
/// When it cannot be written.
pub fn try_print(text: &str) -> anyhow::Result<bool> {
    write(&without_commands(&printable_lines(text).to_string()))
}

/// Prints a document of ours, or one that the user asked to see, with its tabs.
///
/// # Errors
/// When it cannot be written.
pub fn print_document(text: &str) -> anyhow::Result<()> {
    let parts: Vec<String> = text
        .split('\t')
        .map(|part| printable_lines(part).to_string())
        .collect();
    write(&without_commands(&parts.join("\t"))).map(|_| ())
}

/// Prints what was made printable where it was written.
///
/// # Errors
/// When it cannot be written.
pub fn print_as_it_is(text: &str) -> anyhow::Result<()> {
    write(&without_commands(text)).map(|_| ())
}

/// Prints commands for a system that runs builds.
///
/// # Errors
/// When it cannot be written.
pub fn print_commands(text: &str) -> anyhow::Result<()> {
    write(&printable_lines(text).to_string()).map(|_| ())
}

/// A value as JSON that can be printed.
///
/// # Errors
/// When JSON has no words for it.
pub fn json(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    Ok(format!("{}\n", printable_json(&text)))
}

/// The same in one line.
///
/// # Errors
/// When JSON has no words for it.
pub fn json_line(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string(value)?;
    Ok(format!("{}\n", printable_json(&text)))
}

/// Tells the person something that is no result.
pub fn say(text: &str) {
    say_as_it_is(&format!("laggard: {}\n", printable(text)));
}

/// Writes a text of ours beside the results. That nobody hears it, because the
/// terminal is gone or `2>&1 | head` has read enough, ends nothing.
pub fn say_as_it_is(text: &str) {
    let _ = io::stderr().write_all(without_commands(text).as_bytes());
}

/// Standard output.
///
/// # Errors
/// If it was closed when this program was started: what is written would be lost.
pub fn stdout() -> io::Result<io::Stdout> {
    if system::output_was_closed() {
        return Err(io::Error::other(
            "standard output is closed; redirect it to a file, or to /dev/null",
        ));
    }
    Ok(io::stdout())
}

fn write(text: &str) -> anyhow::Result<bool> {
    let mut out = stdout()?.lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        result => Ok(result.map(|()| true)?),
    }
}
