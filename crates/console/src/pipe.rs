//! Output to the terminal, which may be a pipe that closes early.
//!
//! Text from other sources (names of threads, loads, hosts, directories) can be in any output, so
//! no control sequence passes. The caller ensures that a name does not contain a line break.

use std::io::{self, Write as _};

use laggard_model::{printable, printable_json, printable_lines, without_commands};
use serde::Serialize;

use crate::system;

/// Prints `text`. A closed reader (`| head`) is not an error.
///
/// # Errors
///
/// Returns an error if the text cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    try_print(text).map(|_| ())
}

/// Prints `text`, and returns whether the reader still exists.
///
/// # Errors
///
/// Returns an error if the text cannot be written.
pub fn try_print(text: &str) -> anyhow::Result<bool> {
    write(&without_commands(&printable_lines(text).to_string()))
}

/// Prints a document from laggard, or a document that the user requested, with its tabs.
///
/// # Errors
///
/// Returns an error if the text cannot be written.
pub fn print_document(text: &str) -> anyhow::Result<()> {
    let parts: Vec<String> = text
        .split('\t')
        .map(|part| printable_lines(part).to_string())
        .collect();
    write(&without_commands(&parts.join("\t"))).map(|_| ())
}

/// Prints text that is already printable.
///
/// # Errors
///
/// Returns an error if the text cannot be written.
pub fn print_as_it_is(text: &str) -> anyhow::Result<()> {
    write(&without_commands(text)).map(|_| ())
}

/// Prints commands for a build system.
///
/// # Errors
///
/// Returns an error if the text cannot be written.
pub fn print_commands(text: &str) -> anyhow::Result<()> {
    write(&printable_lines(text).to_string()).map(|_| ())
}

/// Returns a value as printable JSON.
///
/// # Errors
///
/// Returns an error if the value cannot be written as JSON.
pub fn json(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    Ok(format!("{}\n", printable_json(&text)))
}

/// Returns a value as JSON in one line.
///
/// # Errors
///
/// Returns an error if the value cannot be written as JSON.
pub fn json_line(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string(value)?;
    Ok(format!("{}\n", printable_json(&text)))
}

/// Prints a message for the user to standard error.
pub fn say(text: &str) {
    say_as_it_is(&format!("laggard: {}\n", printable(text)));
}

/// Writes printable text to standard error. Errors are ignored, because the terminal may be gone
/// or `2>&1 | head` may have read enough.
pub fn say_as_it_is(text: &str) {
    let _ = io::stderr().write_all(without_commands(text).as_bytes());
}

/// Returns standard output.
///
/// # Errors
///
/// Returns an error if it was closed when this program was started: the output would be lost.
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
