//! Man pages of `clap_mangen`, with values in the synopsis and with literal examples.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use clap::{Arg, Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use crate::args::Args;
use crate::exit::Exit;

/// Writes a man page per command.
pub(crate) fn man(dir: &Path) -> anyhow::Result<Exit> {
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    let context = || format!("cannot write man pages to `{}`", dir.display());
    if !dir.exists() {
        return Err(anyhow::anyhow!(
            "the directory does not exist; create it with `mkdir -p {}`",
            dir.display()
        ))
        .with_context(context);
    }
    write_all(&command, dir).with_context(context)?;
    Ok(Exit::Ok)
}

fn write_all(command: &Command, dir: &Path) -> anyhow::Result<()> {
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
    {
        write_all(subcommand, dir)?;
    }
    let name = Man::new(command.clone()).get_filename();
    let page = page(command)?;
    laggard_files::write(&dir.join(name), "man page", &page)
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    man.render_description_section(&mut text)?;
    if command
        .get_arguments()
        .any(|get_argument| !get_argument.is_hide_set())
    {
        man.render_options_section(&mut text)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    if let Some(help) = command.get_after_help() {
        sections(&help.to_string()).to_writer(&mut text)?;
    }
    Ok(text)
}

/// Returns every option with the name of its value. Required options are written without brackets.
fn synopsis(command: &Command) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["SYNOPSIS"]);
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut line = vec![bold(name)];
    let shown = |arg: &&Arg| !arg.is_hide_set();
    let options = command
        .get_arguments()
        .filter(|get_argument| !get_argument.is_positional());
    for option in options.filter(shown) {
        let name = match (option.get_short(), option.get_long()) {
            (Some(short), Some(long)) => vec![
                bold(format!("-{short}")),
                roman("|"),
                bold(format!("--{long}")),
            ],
            (Some(short), None) => vec![bold(format!("-{short}"))],
            (None, Some(long)) => vec![bold(format!("--{long}"))],
            (None, None) => Vec::new(),
        };
        line.extend(in_brackets(option, [name, value(option, " ")].concat()));
    }
    for positional in command.get_positionals().filter(shown) {
        line.extend(in_brackets(positional, value(positional, "")));
    }
    if command.has_subcommands() {
        line.extend([roman(" "), italic("COMMAND")]);
    }
    roff.text(line);
    roff
}

/// An argument in the synopsis, in brackets unless it is needed.
fn in_brackets(arg: &Arg, inner: Vec<Inline>) -> Vec<Inline> {
    let (open, close) = if arg.is_required_set() {
        (" ", "")
    } else {
        (" [", "]")
    };
    [vec![roman(open)], inner, vec![roman(close)]].concat()
}

/// Returns the values of an argument, after `before`; empty for a flag.
fn value(arg: &Arg, before: &str) -> Vec<Inline> {
    let takes = arg.get_num_args().unwrap_or_default();
    if !takes.takes_values() {
        return Vec::new();
    }
    let names = arg.get_value_names().unwrap_or_default();
    let many = if takes.max_values() > names.len().max(1) {
        "..."
    } else {
        ""
    };
    vec![roman(before), italic(names.join(" ")), roman(many)]
}

/// Formats the text below the options: sections with its headings (lines that end in a colon), and
/// literal lines.
fn sections(help: &str) -> Roff {
    let mut roff = Roff::default();
    for (number, part) in help.split("\n\n").enumerate() {
        let (first, rest) = part.split_once('\n').unwrap_or((part, ""));
        match first.strip_suffix(':').filter(|_| !rest.is_empty()) {
            Some(heading) => {
                roff.control("SH", [heading.to_uppercase().as_str()]);
                as_written(&mut roff, rest);
            }
            None if number == 0 => {
                roff.control("SH", ["NOTES"]);
                as_written(&mut roff, part);
            }
            None => {
                roff.control("PP", []);
                as_written(&mut roff, part);
            }
        }
    }
    roff
}

/// Lines that no formatter may fill.
fn as_written(roff: &mut Roff, lines: &str) {
    roff.control("nf", []);
    for line in lines.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str) -> String {
        let mut root = Args::command().disable_help_subcommand(true);
        root.build();
        let command = root.find_subcommand(command).unwrap();
        String::from_utf8(page(command).unwrap()).unwrap()
    }

    /// A terminal of standard width. The text after the options must not be wrapped either.
    #[test]
    fn help_is_no_wider_than_80_columns() {
        fn widest(command: &mut Command, lines: &mut Vec<String>) {
            let after = command.get_after_help().map(ToString::to_string);
            let help = command.render_long_help().to_string();
            for line in help.lines().chain(after.unwrap_or_default().lines()) {
                if line.chars().count() > 80 {
                    lines.push(format!("{}: {line}", command.get_name()));
                }
            }
            for subcommand in command.get_subcommands_mut() {
                widest(subcommand, lines);
            }
        }
        let mut lines = Vec::new();
        widest(&mut Args::command(), &mut lines);

        assert_eq!(lines, Vec::<String>::new());
    }

    #[test]
    fn the_synopsis_names_the_values() {
        let page = of("qos");

        for part in ["\\fIDIR\\fR", "\\fINAME|FILE\\fR", "\\fITIME\\fR"] {
            let synopsis = page.split(".SH DESCRIPTION").next().unwrap();
            assert!(synopsis.contains(part), "{part} in\n{synopsis}");
        }
    }

    #[test]
    fn examples_are_lines_that_no_formatter_fills() {
        let page = of("sched");

        let examples = page.split(".SH EXAMPLES\n.nf\n").nth(1).unwrap();
        let lines: Vec<&str> = examples.lines().take(3).collect();
        assert_eq!(
            lines,
            [
                "  laggard sched busy.laggard \\-\\-tasks robot.toml",
                "  laggard sched busy.laggard \\-\\-tasks rt\\-app.json",
                ".fi"
            ]
        );
        assert!(page.contains(".SH \"A TASK SET\"\n.nf\n"), "{page}");
    }
}
