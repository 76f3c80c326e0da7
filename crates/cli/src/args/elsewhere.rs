//! Command line on systems other than Linux.

use std::process::ExitCode;

use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Args;

/// Help for `laggard` without arguments.
pub(crate) const BEGIN: &str = "\
laggard measures how late this machine runs your code. On this system it records
latencies without their causes, and analyses recordings of every system:

  laggard record                     measure for 30 s
  laggard show busy.laggard          summarise a recording
  laggard why busy.laggard           show what caused the late wakeups
  laggard report busy.laggard        write an HTML report
  laggard bench timers               compare the timers of this machine
  laggard bench switch               measure context switches
  laggard bench rtos                 test the criteria of a real-time system
  laggard doctor                     check which settings hurt latency

All commands: laggard --help
";

/// Commands that exist only on Linux.
const MEASURING: [&str; 6] = ["top", "serve", "rehearse", "attach", "study", "provoke"];

/// Parses the command line.
///
/// # Errors
/// Returns the exit code if the command line is wrong or asks for help.
pub(crate) fn parsed() -> Result<Args, ExitCode> {
    laggard_console::args::parse(|words| Args::try_parse_from(words).map_err(explained))
}

/// Replaces the error of a command that exists only on Linux.
fn explained(err: clap::Error) -> clap::Error {
    let name = match err.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(name)) if MEASURING.contains(&&**name) => name,
        _ => return err,
    };
    clap::Error::raw(
        ErrorKind::InvalidSubcommand,
        format!(
            "`laggard {name}` is not available on this system: it needs Linux; `laggard --help` lists the commands that are\n"
        ),
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn help_names_only_existing_programs() {
        let mut root = Args::command();
        root.build();

        for command in root.get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            for linux in ["taskset", "sudo", "systemd"] {
                assert!(!help.contains(linux), "{linux}: {help}");
            }
        }
    }

    #[test]
    fn error_of_a_linux_command_names_linux() {
        let message_of = |name| {
            let err = Args::try_parse_from(["laggard", name]).unwrap_err();
            explained(err).to_string()
        };

        for name in MEASURING {
            assert!(
                message_of(name).contains("it needs Linux"),
                "{}",
                message_of(name)
            );
        }
        assert!(!message_of("recrod").contains("it needs Linux"));
    }
}
