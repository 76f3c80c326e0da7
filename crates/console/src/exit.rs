//! End of a program after an error.

use std::process::ExitCode;

use laggard_model::printable_error;

use crate::{pipe, system};

/// Exit code of an error.
pub const ERROR: u8 = 2;

/// Makes a panic print its message without line breaks, because it may quote a name. Call it at
/// the start of a program.
pub fn make_panics_printable() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload_as_str().unwrap_or_default();
        let shown = printable_error(payload);
        if shown == payload && !payload.trim_start().starts_with("::") {
            return usual(panic);
        }
        let place = panic.location().map(ToString::to_string);
        let place = place.unwrap_or_default();
        pipe::say_as_it_is(&format!("laggard: panicked at {place}: {shown}\n"));
    }));
}

/// Returns the exit code of a program: the code of its result, or `code_of` of its error. Prints
/// the error.
pub fn ended(
    result: anyhow::Result<ExitCode>,
    code_of: impl FnOnce(&anyhow::Error) -> u8,
) -> ExitCode {
    let is_vague = matches!(&result, Err(err) if !system::is_of_memory(err));
    let code = match result {
        Ok(code) => code,
        Err(err) => {
            tell(&err);
            ExitCode::from(code_of(&err))
        }
    };
    if let Some(refused) = system::ran_out() {
        pipe::say(&format!("{refused}; the measurement ended there"));
        return ExitCode::from(ERROR);
    }
    // An error of a system call or a C library has less information.
    if let Some(refused) = is_vague.then(system::is_short).flatten() {
        pipe::say(&refused);
    }
    code
}

fn tell(err: &anyhow::Error) {
    let message = printable_error(&in_words(&format!("{err:#}")));
    pipe::say_as_it_is(&format!("laggard: {message}\n"));
}

/// Removes the numbers of system errors, which follow their texts.
fn in_words(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut words = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (_, rest) = part.split_once(')').unwrap_or_default();
        words += rest;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_is_printed_without_its_number() {
        let text = in_words("open `x`: No such file or directory (os error 2); check (it)");

        assert_eq!(text, "open `x`: No such file or directory; check (it)");
    }
}
