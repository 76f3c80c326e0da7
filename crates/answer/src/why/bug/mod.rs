//! `laggard why --bug N`: report of one cause to the developers of a driver or the kernel.

mod example;
mod gaps;
mod machine;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use laggard_analyze::causes::samples_by_part;
use laggard_model::{
    Cause, CauseClass, Episode, LoadLabel, NamedCause, Nanos, Route, Service, StackSample, Symbols,
    printable,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::cause::named;
use super::stacks::chain;
use super::{BugError, CauseShare, Explained, ExplainedEpisode, Part, Series};
pub use example::{Example, Moment};
pub use gaps::Gap;
pub use machine::Machine;

/// Version of the JSON layout of `why --bug --json`.
pub const BUG_SCHEMA: u32 = 3;
/// Number of call chains.
const MAX_CHAINS: usize = 3;
/// Number of functions of a call chain.
const MAX_FRAMES: usize = 24;

/// One cause of late wakeups, for the author of its code.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct BugReport {
    /// Version of this layout.
    pub schema: u32,
    /// Version of laggard that recorded.
    pub version: String,
    /// Name of the recording, without the directories above it.
    pub recording: String,
    /// Position of the cause in the ranking of the series, from 1.
    pub number: usize,
    /// The service whose late wakeups were ranked.
    pub service: Option<Service>,
    pub route: Option<Route>,
    pub cause: CauseShare,
    /// Reader who cannot act on this report, or not alone. Absent: the author can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addressee: Option<Addressee>,
    /// Median time that it took in its episodes.
    pub median_ns: Nanos,
    /// Number of episodes of all causes.
    pub episodes: usize,
    /// Late wakeups of all causes: the episodes, expiries that passed during them, and wakeups
    /// without trace data.
    pub wakeups: u64,
    /// Length of the recording.
    pub duration_ns: Nanos,
    pub made_late: Vec<Series>,
    /// Call chains of samples that showed it, the most frequent first.
    pub chains: Vec<CallChain>,
    /// Number of samples that showed it, with chains that are not listed.
    pub samples: usize,
    /// Number of its episodes without a sample of it.
    pub unsampled: usize,
    pub machine: Machine,
    pub load: String,
    /// Commands that record the same again and show it. They contain text from the
    /// recording: escape it before it is shown.
    pub reproduce: Vec<String>,
    /// Episodes with the largest share of the cause, each of a different event.
    pub examples: Vec<Example>,
    pub not_seen: Vec<Gap>,
}

/// Recipient of a cause if it is not a bug of its code.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Addressee {
    /// laggard: the culprit is one of its threads.
    Laggard,
    /// The operator of the hypervisor.
    Hypervisor,
    /// The vendor of the firmware, or the operator of the hypervisor.
    Firmware,
    /// Without an addressee, unless it takes longer than elsewhere: it is part of every wakeup.
    EveryWakeup,
    /// The user who set the priorities.
    Priorities,
    /// The user who set the limit.
    Limit,
    /// Without an addressee until the culprit is known.
    Unknown,
}

#[derive(Clone, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub struct CallChain {
    /// Number of samples with this chain.
    pub samples: usize,
    /// Functions, the innermost first.
    pub functions: Vec<String>,
    /// Number of outer functions that are not listed.
    pub left_out: usize,
}

/// Reports cause `number` of the first series with late wakeups, from 1.
///
/// # Errors
/// If the recording does not have this cause.
pub fn bug(late: &Explained<'_>, number: usize) -> Result<BugReport, BugError> {
    let path = late.late.path.clone();
    let Some(late) = late.foremost().filter(|late| !late.episodes.is_empty()) else {
        return Err(BugError::NothingLate { path });
    };
    let late = &late;
    let ranking = late.report(usize::MAX);
    let cause = number
        .checked_sub(1)
        .and_then(|index| ranking.causes.get(index));
    let cause = cause.cloned().ok_or(BugError::NoSuch {
        path,
        number,
        known: ranking.causes.len(),
    })?;
    let manifest = &late.late.manifest;
    let its = Its::new(late, &cause);
    let chains = its.chains(late.symbols());
    Ok(BugReport {
        schema: BUG_SCHEMA,
        version: manifest.version.clone(),
        recording: file_name(&late.late.path),
        number,
        service: late.service,
        route: late.route,
        addressee: addressee(&cause),
        median_ns: its.median(),
        episodes: ranking.episodes,
        wakeups: ranking.wakeups,
        duration_ns: late.late.duration(),
        made_late: its.made_late(),
        samples: chains.iter().map(|chain| chain.samples).sum(),
        chains: chains.into_iter().take(MAX_CHAINS).collect(),
        unsampled: its.unsampled(),
        machine: Machine::new(manifest),
        load: LoadLabel::of(manifest.load.as_ref()).as_str().into(),
        reproduce: reproduce(late, number),
        examples: example::examples(&its, late),
        not_seen: gaps::not_seen(late, &its, &ranking),
        cause,
    })
}

/// Episodes of one cause, with its time in each.
struct Its<'a, 'e> {
    row: &'a CauseShare,
    episodes: Vec<(&'a ExplainedEpisode<'e>, Nanos)>,
    /// Samples that show it, per episode.
    sampled: Vec<Vec<&'e StackSample>>,
}

impl<'a, 'e> Its<'a, 'e> {
    fn new(late: &'a Explained<'e>, row: &'a CauseShare) -> Self {
        let symbols = late.symbols();
        let episodes: Vec<(&ExplainedEpisode<'_>, Nanos)> = late
            .episodes
            .iter()
            .filter_map(|explained| {
                let causes = explained.causes().iter();
                let its = causes.filter(|cause| is_of(row, cause, symbols));
                let time = its.fold(Nanos::ZERO, |sum, cause| sum + cause.time_ns);
                (time > Nanos::ZERO).then_some((explained, time))
            })
            .collect();
        let sampled = episodes
            .iter()
            .map(|(explained, _)| {
                let parts = &explained.explanation.parts;
                let shown = samples_by_part(explained.episode, parts).into_iter();
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

    fn made_late(&self) -> Vec<Series> {
        let lines = self.episodes.iter().map(|(explained, _)| explained.line);
        let series: BTreeSet<Series> = lines
            .map(|line| Series {
                service: line.service,
                route: line.route,
            })
            .collect();
        series.into_iter().collect()
    }

    fn unsampled(&self) -> usize {
        self.sampled
            .iter()
            .filter(|samples| samples.is_empty())
            .count()
    }

    /// Returns the call chains with the number of their samples, the most frequent first.
    fn chains(&self, symbols: &Symbols) -> Vec<CallChain> {
        let mut counts: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        for sample in self.sampled.iter().flatten() {
            let frames = chain(sample, self.row.cause.class, symbols)
                .into_iter()
                .rev();
            let functions = frames.map(|frame| printable(&frame.name).to_string());
            *counts.entry(functions.collect()).or_default() += 1;
        }
        let mut chains: Vec<CallChain> = counts
            .into_iter()
            .map(|(mut functions, samples)| {
                let left_out = functions.len().saturating_sub(MAX_FRAMES);
                functions.truncate(MAX_FRAMES);
                CallChain {
                    samples,
                    functions,
                    left_out,
                }
            })
            .collect();
        chains.sort_by_key(|chain| std::cmp::Reverse(chain.samples));
        chains
    }
}

/// Returns whether a cause in an episode is this cause of the ranking.
fn is_of(row: &CauseShare, cause: &Cause, symbols: &Symbols) -> bool {
    named(cause, symbols) == row.cause
}

fn is_part_of(row: &CauseShare, part: &Part, symbols: &Symbols) -> bool {
    NamedCause::from_culprit(part.class, &part.culprit, symbols) == row.cause
}

/// Returns the last part of a path.
fn file_name(path: &str) -> String {
    let last = Path::new(path).file_name();
    last.map_or_else(|| path.into(), |name| name.to_string_lossy().into_owned())
}

/// Returns the recipient of the cause if it is not a bug of its code.
fn addressee(cause: &CauseShare) -> Option<Addressee> {
    if cause.is_ours {
        return Some(Addressee::Laggard);
    }
    Some(match cause.cause.class {
        CauseClass::Stolen => Addressee::Hypervisor,
        CauseClass::Stall => Addressee::Firmware,
        CauseClass::IdleExit | CauseClass::OwnPath | CauseClass::ContextSwitch => {
            Addressee::EveryWakeup
        }
        CauseClass::Equal | CauseClass::HigherPriority => Addressee::Priorities,
        CauseClass::Throttled
        | CauseClass::RtThrottled
        | CauseClass::FairServer
        | CauseClass::DeadlineThrottled
        | CauseClass::GroupWeight => Addressee::Limit,
        CauseClass::Unexplained => Addressee::Unknown,
        _ => return None,
    })
}

/// Returns the command that recorded, and the one that shows the cause.
fn reproduce(late: &Explained<'_>, number: usize) -> Vec<String> {
    let manifest = &late.late.manifest;
    let arguments = manifest
        .command
        .split_first()
        .map(|(_, arguments)| arguments);
    let recorded = arguments.map(|arguments| {
        // The path of the program is private.
        let words = arguments.iter().map(|word| quoted(word));
        let words: Vec<String> = std::iter::once("laggard".into()).chain(words).collect();
        words.join(" ")
    });
    let mut shown = vec!["laggard".to_owned(), "why".into()];
    if let Some(service) = late.service {
        shown.extend(["--service".into(), service.to_string()]);
    }
    shown.extend(["--bug".into(), number.to_string()]);
    shown.push(quoted(&file_name(&late.late.path)));
    recorded.into_iter().chain([shown.join(" ")]).collect()
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=+,./:%@".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.into()
    } else {
        ["'", &word.replace('\'', r"'\''"), "'"].concat()
    }
}

/// Returns whether two episodes are of the same event: at the same time on the same CPU.
fn overlap(first: &Episode, second: &Episode) -> bool {
    first.cpu == second.cpu
        && first.expiry_ns < second.expiry_ns + second.latency()
        && second.expiry_ns < first.expiry_ns + first.latency()
}

#[cfg(test)]
mod tests;
