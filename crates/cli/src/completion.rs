//! Shell completion: the shell runs the program, so that it proposes applications, loads and
//! directories that are recordings.

use std::ffi::OsStr;
use std::path::Path;

use clap_complete::Shell;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use clap_complete::env::{CompleteEnv, Shells};
use laggard_answer::qos::catalogue;
use laggard_model::{HandOver, LOADS_OF_OURS, RtosCriterion, TimerApi};

use crate::exit::Exit;
use crate::pipe;

/// Set by a shell that requests completions.
const VARIABLE: &str = "LAGGARD_COMPLETE";
const NAME: &str = "laggard";
/// Groups of services whose names are proposed.
const SERVICES: [&str; 7] = [
    "irq", "softirq", "worker", "fifo:90", "fifo:50", "other", "kthread",
];

/// Answers a shell's request for completions of `command`. Returns whether there was a request.
///
/// # Errors
/// When the answer cannot be written.
pub(crate) fn answer(command: fn() -> clap::Command) -> anyhow::Result<bool> {
    let environment = CompleteEnv::with_factory(command).var(VARIABLE);
    let directory = std::env::current_dir().ok();
    let has_asked = environment.try_complete(std::env::args_os(), directory.as_deref())?;
    if has_asked {
        // Output that stays in the buffer is lost without an error when the program ends.
        pipe::print("")?;
    }
    Ok(has_asked)
}

/// Writes the completion script of a shell.
pub(crate) fn script(shell: Shell) -> anyhow::Result<Exit> {
    let shells = Shells::builtins();
    let shell = shell.to_string();
    let asks = shells
        .completer(&shell)
        .ok_or_else(|| anyhow::anyhow!("completion for `{shell}` is not available"))?;
    let mut script = Vec::new();
    asks.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
    pipe::print_document(&String::from_utf8(script)?)?;
    Ok(Exit::Ok)
}

/// Proposes these names with their descriptions.
fn named<'a>(
    current: &OsStr,
    all: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    all.filter(|(name, _)| name.starts_with(&*current))
        .map(|(name, about)| CompletionCandidate::new(name).help(Some(about.to_owned().into())))
        .collect()
}

/// Files of this kind, and folders on the way to them.
fn files(current: &OsStr, is_wanted: fn(&Path) -> bool) -> Vec<CompletionCandidate> {
    PathCompleter::any().filter(is_wanted).complete(current)
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "toml")
}

/// Folders that hold a recording.
pub(crate) fn recordings() -> ArgValueCompleter {
    let is_recording = |path: &Path| path.join("manifest.json").is_file();
    ArgValueCompleter::new(move |current: &OsStr| files(current, is_recording))
}

/// Proposes the applications of the catalogue, and files.
pub(crate) fn applications() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let catalogue_entries = catalogue().unwrap_or_default();
        let mut candidates = named(
            current,
            catalogue_entries
                .iter()
                .map(|entry| (&*entry.name, &*entry.about)),
        );
        candidates.extend(files(current, is_toml));
        candidates
    })
}

/// Proposes the loads, and files.
pub(crate) fn loads() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let mut candidates = named(current, LOADS_OF_OURS.into_iter());
        candidates.extend(files(current, is_toml));
        candidates
    })
}

pub(crate) fn tasks() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        files(current, |path| {
            is_toml(path) || path.extension().is_some_and(|kind| kind == "json")
        })
    })
}

pub(crate) fn timers() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let timers = TimerApi::HERE.iter().map(|api| (api.name(), api.about()));
        named(current, timers.chain([("all", "all of them")]))
    })
}

/// Mechanisms of context switches.
pub(crate) fn mechanisms() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let mechanisms = HandOver::ALL.iter();
        named(current, mechanisms.map(|via| (via.name(), via.about())))
    })
}

/// Criteria of a real-time operating system.
pub(crate) fn criteria() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let criteria = RtosCriterion::ALL.iter();
        named(
            current,
            criteria.map(|criterion| (criterion.name(), criterion.requirement())),
        )
    })
}

/// Services; others are `fifo:` and a priority.
pub(crate) fn services() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        named(current, SERVICES.iter().map(|name| (*name, "")))
    })
}
