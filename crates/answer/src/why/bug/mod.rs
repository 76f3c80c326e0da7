//! `laggard why --bug N`: one cause, for the author of the code that it is: what
//! a report to a driver's or the kernel's developers needs, and what is not known.

mod example;
mod gaps;
mod machine;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use laggard_analyze::causes::samples_by_part;
use laggard_model::name::{self, line_name};
use laggard_model::text::Unit;
use laggard_model::{
    Cause, CauseClass, Episode, Host, LoadLabel, Nanos, Service, StackSample, Symbols, printable,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::stacks::chain;
use super::words::{capital, sentence};
use super::{CauseRow, Explained, ExplainedEpisode, Part};
pub use example::{Example, Moment};
pub use machine::Machine;

/// The version of `why --bug --json`.
pub const BUG_SCHEMA: u32 = 1;
/// Call chains that are told, and functions of each.
const CHAINS: usize = 3;
const FRAMES: usize = 24;

/// One cause of lateness for its author: the value that all views show.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct BugReport {
    /// The version of this layout.
    pub schema: u32,
    /// The version of laggard that recorded.
    pub version: String,
    /// The recording's name, without the folders above it.
    pub recording: String,
    /// The place of the cause in the ranking, from 1.
    pub number: usize,
    /// Only this service's episodes were ranked.
    pub service: Option<Service>,
    /// What it is and whom it made late, in one line.
    pub title: String,
    /// What happened, in plain words.
    pub sentences: Vec<String>,
    /// The cause, as `why --json` has it.
    pub cause: CauseRow,
    /// In half of its episodes it took at most so long.
    pub median_ns: Nanos,
    /// Episodes of all causes.
    pub episodes: usize,
    /// How long was recorded.
    pub duration_ns: Nanos,
    /// The services that it made late, by name.
    pub made_late: Vec<String>,
    /// Where samples showed it, the most frequent chain first.
    pub chains: Vec<CallChain>,
    /// Samples that showed it, with chains that are not listed.
    pub samples: usize,
    /// In how many of its episodes no sample showed it.
    pub unsampled: usize,
    /// Where this happened.
    pub machine: Machine,
    /// What else ran, in words.
    pub load: String,
    /// Commands that record the same again, and show it. From elsewhere: escape
    /// them before they are shown.
    pub reproduce: Vec<String>,
    /// Episodes in which it took most, each another event.
    pub examples: Vec<Example>,
    /// What was not seen, in plain words.
    pub not_seen: Vec<String>,
}

/// A call chain, and how often it was seen.
#[derive(Clone, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub struct CallChain {
    /// In how many samples.
    pub samples: usize,
    /// Its functions, the innermost first.
    pub functions: Vec<String>,
    /// How many more there are, outside of these.
    pub left_out: usize,
}

/// Why there is no such cause.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BugError {
    /// Nothing was late.
    #[error("`{path}` has no late activation{of}, and so no cause of any", of = of_service(*.service))]
    NothingLate {
        /// The recording.
        path: String,
        /// Only of this service.
        service: Option<Service>,
    },
    /// There are fewer, or it is 0.
    #[error(
        "`{path}` has no cause {number}; the first is 1, the last {known} (`laggard why --all \
         --top {known}` lists them, those with most time first)"
    )]
    NoSuch {
        /// The recording.
        path: String,
        /// What was asked for.
        number: usize,
        /// How many there are.
        known: usize,
    },
}

fn of_service(service: Option<Service>) -> String {
    service.map_or(String::new(), |one| format!(" of `{one}`"))
}

/// Cause `number` of the ranking, from 1.
///
/// # Errors
/// When there is none.
pub fn bug(late: &Explained<'_>, number: usize) -> Result<BugReport, BugError> {
    let path = late.late.path.clone();
    if late.episodes.is_empty() {
        let service = late.service;
        return Err(BugError::NothingLate { path, service });
    }
    let all = late.report(usize::MAX);
    let row = number.checked_sub(1).and_then(|at| all.causes.get(at));
    let cause = row.cloned().ok_or(BugError::NoSuch {
        path,
        number,
        known: all.causes.len(),
    })?;
    let manifest = &late.late.manifest;
    let its = Its::of(late, &cause);
    let chains = its.chains(late.symbols());
    let made_late = its.made_late();
    let machine = Machine::of(manifest);
    let mut sentences = vec![sentence(&cause, all.episodes)];
    sentences.extend(addressee(&cause).map(str::to_owned));
    Ok(BugReport {
        schema: BUG_SCHEMA,
        version: manifest.version.clone(),
        recording: called(&late.late.path),
        number,
        service: late.service,
        title: title(&cause, &made_late, &machine.kernel),
        sentences,
        median_ns: its.median(),
        episodes: all.episodes,
        duration_ns: all.duration_ns,
        made_late,
        samples: chains.iter().map(|one| one.samples).sum(),
        chains: chains.into_iter().take(CHAINS).collect(),
        unsampled: its.unsampled(),
        machine,
        load: LoadLabel::of(manifest.load.as_ref()).as_str().into(),
        reproduce: reproduce(late, number),
        examples: example::examples(&its, late),
        not_seen: gaps::not_seen(late, &its, &all),
        cause,
    })
}

/// The episodes of one cause, with the time that it took of each.
struct Its<'a, 'e> {
    row: &'a CauseRow,
    episodes: Vec<(&'a ExplainedEpisode<'e>, Nanos)>,
    /// The samples that show it, of each.
    sampled: Vec<Vec<&'e StackSample>>,
}

impl<'a, 'e> Its<'a, 'e> {
    fn of(late: &'a Explained<'e>, row: &'a CauseRow) -> Self {
        let symbols = late.symbols();
        let episodes: Vec<(&ExplainedEpisode<'_>, Nanos)> = late
            .episodes
            .iter()
            .filter_map(|one| {
                let causes = one.causes().iter();
                let its = causes.filter(|cause| is_of(row, cause, symbols));
                let time = its.fold(Nanos::ZERO, |sum, cause| sum + cause.time_ns);
                (time > Nanos::ZERO).then_some((one, time))
            })
            .collect();
        let sampled = episodes
            .iter()
            .map(|(one, _)| {
                let parts = &one.explanation.parts;
                let shown = samples_by_part(one.episode, parts).into_iter();
                let its = shown.filter(|(part, _)| is_part_of(row, &parts[*part], symbols));
                its.map(|(_, sample)| sample).collect()
            })
            .collect();
        Self {
            row,
            episodes,
            sampled,
        }
    }

    fn median(&self) -> Nanos {
        let mut times: Vec<Nanos> = self.episodes.iter().map(|(_, time)| *time).collect();
        times.sort_unstable();
        let middle = times.len().saturating_sub(1) / 2;
        times.get(middle).copied().unwrap_or_default()
    }

    fn made_late(&self) -> Vec<String> {
        let lines = self.episodes.iter().map(|(one, _)| one.line);
        let lines: BTreeSet<_> = lines.map(|line| (line.service, line.route)).collect();
        lines
            .into_iter()
            .map(|(service, route)| line_name(service, route))
            .collect()
    }

    fn unsampled(&self) -> usize {
        self.sampled.iter().filter(|one| one.is_empty()).count()
    }

    /// Every chain with the number of its samples, the most frequent first.
    fn chains(&self, symbols: &Symbols) -> Vec<CallChain> {
        let mut counts: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        for sample in self.sampled.iter().flatten() {
            let frames = chain(sample, self.row.class, symbols).into_iter().rev();
            let functions = frames.map(|frame| printable(&frame.name).to_string());
            *counts.entry(functions.collect()).or_default() += 1;
        }
        let mut chains: Vec<CallChain> = counts
            .into_iter()
            .map(|(mut functions, samples)| {
                let left_out = functions.len().saturating_sub(FRAMES);
                functions.truncate(FRAMES);
                CallChain {
                    samples,
                    functions,
                    left_out,
                }
            })
            .collect();
        chains.sort_by_key(|one| std::cmp::Reverse(one.samples));
        chains
    }
}

/// Whether a cause in an episode is this one of the ranking.
fn is_of(row: &CauseRow, cause: &Cause, symbols: &Symbols) -> bool {
    cause.class == row.class && name::who(&cause.culprit, symbols) == row.who
}

fn is_part_of(row: &CauseRow, part: &Part, symbols: &Symbols) -> bool {
    part.class == row.class && name::who(&part.culprit, symbols) == row.who
}

/// The last part of a path.
fn called(path: &str) -> String {
    let last = Path::new(path).file_name();
    last.map_or_else(|| path.into(), |name| name.to_string_lossy().into_owned())
}

fn title(cause: &CauseRow, made_late: &[String], kernel: &str) -> String {
    let kernel = match kernel {
        "" => String::new(),
        kernel => format!(" ({})", Host::system_of(kernel)),
    };
    let whom = match made_late {
        [one] => one.clone(),
        [one, rest @ ..] => format!("{one} and {} more", rest.len()),
        [] => "activations".into(),
    };
    let most = Unit::Auto.write_nanos(cause.largest_ns);
    let by = if cause.is_at_least {
        format!("{most} or more")
    } else {
        format!("up to {most}")
    };
    format!(
        "{} makes {whom} late by {by}{kernel}",
        capital(&cause.on_cpus())
    )
}

/// To whom this cannot be reported, or not alone.
fn addressee(cause: &CauseRow) -> Option<&'static str> {
    if cause.is_ours {
        return Some(
            "It is a thread of the laggard that recorded: not the machine's doing, and nobody \
             else's bug.",
        );
    }
    match cause.class {
        CauseClass::Stolen => Some(
            "No code of this machine took this time: it is for whoever runs the hypervisor below it.",
        ),
        CauseClass::Stall => Some(
            "No code of this machine took this time: it is for whoever makes its firmware, or \
             runs the hypervisor below it.",
        ),
        CauseClass::IdleExit | CauseClass::OwnPath | CauseClass::ContextSwitch => Some(
            "Every activation goes this way, so that it is a bug only where it takes longer than \
             elsewhere.",
        ),
        CauseClass::Equal | CauseClass::HigherPriority => Some(
            "The scheduler did what it was told: it is a bug only where this thread should not \
             have run then, for so long, or at its priority.",
        ),
        CauseClass::Throttled
        | CauseClass::RtThrottled
        | CauseClass::FairServer
        | CauseClass::DeadlineThrottled
        | CauseClass::GroupWeight => {
            Some("The limit was set by somebody: it is no bug of the kernel's.")
        }
        CauseClass::Unexplained => {
            Some("Who it was is not known, so that nobody can act on this report yet.")
        }
        CauseClass::InterruptsOff
        | CauseClass::Interrupt
        | CauseClass::Softirq
        | CauseClass::Dpc
        | CauseClass::PreemptionOff
        | CauseClass::Migration
        | CauseClass::ReturnToUser
        | CauseClass::OwnWork
        | CauseClass::Overrun
        | CauseClass::SystemCall
        | CauseClass::PageFault
        | CauseClass::Lock
        | CauseClass::KernelLock
        | CauseClass::Blocked
        | CauseClass::Wait
        | CauseClass::Frozen
        | CauseClass::Stopped => None,
    }
}

/// The command that recorded, and the one that shows this.
fn reproduce(late: &Explained<'_>, number: usize) -> Vec<String> {
    let manifest = &late.late.manifest;
    let service = late.service;
    let service = service.map_or(String::new(), |one| format!(" --service {one}"));
    let recorded = manifest.command.split_first().map(|(_, arguments)| {
        // Where the program lay is the user's.
        let words = arguments.iter().map(|word| quoted(word));
        let words: Vec<String> = std::iter::once("laggard".into()).chain(words).collect();
        words.join(" ")
    });
    let shown = format!(
        "laggard why{service} --bug {number} {}",
        quoted(&called(&late.late.path))
    );
    recorded.into_iter().chain([shown]).collect()
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=+,./:%@".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Whether two episodes are of one event: on one CPU, at one time.
fn overlap(one: &Episode, other: &Episode) -> bool {
    one.cpu == other.cpu
        && one.expiry_ns < other.expiry_ns + other.latency()
        && other.expiry_ns < one.expiry_ns + one.latency()
}

#[cfg(test)]
mod tests;
