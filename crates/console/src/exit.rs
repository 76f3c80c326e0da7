//! How a program ends that went wrong.

use std::process::ExitCode;

use laggard_model::printable_error;

use crate::{pipe, system};

/// The exit code of an error.
pub const ERROR: u8 = 2;

/// Has a panic show its message without line breaks, if there are any: it may quote a name.
/// For the start of a program.
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

/// What a program ends with: the code of its result, or that which `code_of` gives an
/// error. Says what went wrong.
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
        pipe::say(&format!("{refused}; measuring ended there"));
        return ExitCode::from(ERROR);
    }
    // What a system call or a library in C was refused says less.
    if let Some(refused) = is_vague.then(system::is_short).flatten() {
        pipe::say(&refused);
    }
    code
}

fn tell(err: &anyhow::Error) {
    let told = printable_error(&in_words(&format!("{err:#}")));
    pipe::say_as_it_is(&format!("laggard: {told}\n"));
}

/// Without the numbers that the system gives its errors: they follow the words
/// for them.
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
    fn an_error_is_told_in_words() {
        let told = in_words("open `x`: No such file or directory (os error 2); check (it)");

        assert_eq!(told, "open `x`: No such file or directory; check (it)");
    }
}
