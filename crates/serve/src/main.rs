//! Program with only `laggard serve`. All code and data of a measuring program are locked into
//! memory, so this program is smaller.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use laggard_console::args::parse;
use laggard_console::{exit, stack, system};
use laggard_serve::{SERVE_EXAMPLES, ServeArgs, serve};
use laggard_session::SessionError;

/// Measure this machine for months, and serve metrics for Prometheus
///
/// Does the same as `laggard serve`, and needs less memory.
#[derive(Debug, Parser)]
#[command(name = "laggard-serve", version, max_term_width = 80)]
struct Program {
    #[command(flatten)]
    serve: ServeArgs,
}

fn main() -> ExitCode {
    if let Some(code) = system::read_symbols_if_asked() {
        return code;
    }
    // Must come first: threads inherit a policy that `chrt` has set.
    system::become_normal();
    stack::enough(run)
}

fn run() -> ExitCode {
    system::survive_file_limit();
    exit::make_panics_printable();
    laggard_record::hush_damage();
    let examples = SERVE_EXAMPLES.replace("laggard serve", "laggard-serve");
    let parsed = parse(|words| {
        let command = Program::command().after_help(examples.clone());
        Program::from_arg_matches(&command.try_get_matches_from(words)?)
    });
    let program = match parsed {
        Ok(program) => program,
        Err(code) => return code,
    };
    let result = system::has_room().and_then(|()| serve(&program.serve));
    exit::ended(result.map(|()| ExitCode::SUCCESS), |err| {
        if err.downcast_ref().is_some_and(SessionError::is_unmet) {
            1
        } else {
            exit::ERROR
        }
    })
}
