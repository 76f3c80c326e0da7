//! What the command line says where nothing is measured.

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Args;

/// What to type, for who typed `laggard` alone.
pub(crate) const BEGIN: &str = "\
laggard says how late a machine ran your code, and who made it late. Who made it
late is told on Linux alone; here it is measured how late, and recordings are asked:

  laggard record                     30 s of this machine as it is
  laggard show busy.laggard          is the machine fit, and how late is it?
  laggard why busy.laggard           who made it late
  laggard report busy.laggard        all of it as a page for a browser
  laggard timers                     which timer of this machine does what it says
  laggard doctor                     what spoils latency here

All commands: laggard --help
";

/// Commands that measure, or try, the machine they run on.
const MEASURING: [&str; 8] = [
    "top", "serve", "rehearse", "attach", "switch", "rtos", "load", "provoke",
];

/// Parses the command line.
///
/// # Errors
/// The exit code, if it is wrong or asks for help.
pub(crate) fn parsed() -> Result<Args, ExitCode> {
    laggard_console::args::parse(|words| Args::try_parse_from(words).map_err(explained))
}

/// The same error; of a command that there is on Linux, that it is there.
fn explained(err: clap::Error) -> clap::Error {
    let name = match err.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) if MEASURING.contains(&&**name) => name,
        _ => return err,
    };
    clap::Error::raw(
        ErrorKind::InvalidSubcommand,
        format!(
            "`laggard {name}` is not on this system yet: it needs Linux; here laggard records, tries timers and answers from recordings, see `laggard --help`\n"
        ),
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn no_help_tells_of_programs_that_there_are_not_here() {
        let mut all = Args::command();
        all.build();

        for command in all.get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            for linux in ["taskset", "sudo", "systemd"] {
                assert!(!help.contains(linux), "{linux}: {help}");
            }
        }
    }

    #[test]
    fn a_command_that_needs_linux_says_so_and_another_is_unknown() {
        let said = |name| {
            let err = Args::try_parse_from(["laggard", name]).unwrap_err();
            explained(err).to_string()
        };

        for name in MEASURING {
            assert!(said(name).contains("it needs Linux"), "{}", said(name));
        }
        assert!(!said("recrod").contains("it needs Linux"));
    }
}
