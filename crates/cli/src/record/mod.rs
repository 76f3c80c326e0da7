//! `laggard record`: measure, and keep what was seen.

mod beginning;
mod episodes;
mod keeper;
mod meanwhile;
mod onlooker;
mod price;
mod progress;
mod session;
mod setup;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use laggard_answer::Trust;
use laggard_answer::show::{self, By};
use laggard_model::Nanos;
use laggard_record::Recording;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

pub(crate) use meanwhile::Failure;
pub(crate) use onlooker::{News, Onlooker, POLL, Wish};
pub(crate) use setup::Setup;

use crate::args::RecordArgs;
use crate::exit::Outcome;
use crate::pipe;
use progress::Progress;

/// How long is recorded unless asked otherwise.
const DEFAULT_DURATION: Nanos = Nanos::from_secs(30);

pub(crate) fn record(args: &RecordArgs) -> anyhow::Result<Outcome> {
    let interrupted = interruption()?;
    let (dir, failure) = run(args, &interrupted, || ())?;
    let outcome = finish(&dir, args.quiet)?;
    Ok(failed(failure).unwrap_or(outcome))
}

/// Passes on that the user's command failed, as `time` and `perf stat` do.
pub(crate) fn failed(failure: Option<Failure>) -> Option<Outcome> {
    failure.map(|failure| {
        eprintln!("laggard: {}; this is its exit code", failure.what);
        Outcome::Command(failure.code)
    })
}

/// A flag that Ctrl-C, termination and the end of the terminal set. A hangup
/// that was to be ignored (`nohup`) still is.
pub(crate) fn interruption() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
        signal_hook::flag::register(signal, interrupted.clone()).context("watch for Ctrl-C")?;
    }
    Ok(interrupted)
}

/// Whether this process was started so that it ignores `signal`.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Records as asked, and calls `begun` once measuring has begun. Returns the
/// recording's folder, and how the user's command failed, if it did.
pub(crate) fn run(
    args: &RecordArgs,
    interrupted: &AtomicBool,
    begun: impl FnOnce(),
) -> anyhow::Result<(PathBuf, Option<Failure>)> {
    let dir = args.output.clone().unwrap_or_else(|| default_name(""));
    let duration = match (args.duration, args.command.is_empty()) {
        (None, true) => Some(DEFAULT_DURATION),
        (duration, _) => duration,
    };
    let setup = Setup::new(args, Some(&dir), duration, interrupted)?;
    let mut progress = Progress::new(args.quiet, duration, &setup.manifest().lines);
    let done = setup.run(Some(&dir), &mut progress, begun)?;
    Ok((dir, done.failure))
}

/// A name that no other run has: the local time, and `what` it is.
pub(crate) fn default_name(what: &str) -> PathBuf {
    let now = jiff::Zoned::now().strftime("%Y-%m-%d-%H%M%S").to_string();
    match what {
        "" => format!("{now}.laggard").into(),
        what => format!("{now}-{what}.laggard").into(),
    }
}

/// Shows the result, unless asked not to.
fn finish(dir: &Path, quiet: bool) -> anyhow::Result<Outcome> {
    let report = show::report(&Recording::open(dir)?, By::Service)?;
    let good = report.trust == Trust::Good;
    if !quiet {
        pipe::print(&laggard_report::text::show(
            &report,
            laggard_report::text::Options::default(),
        ))?;
        pipe::print(&format!(
            "\nRecorded in {}; see it again with `laggard show {}`\n",
            dir.display(),
            dir.display()
        ))?;
    }
    Ok(if good {
        Outcome::Ok
    } else {
        Outcome::Untrustworthy
    })
}
