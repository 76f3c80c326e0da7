//! `laggard why --episode`: single late wakeups.

use std::cmp::Reverse;

use laggard_answer::why::{ExplainedEpisode, Layer, Part, frames, layers};
use laggard_model::{Episode, NamedCause, Nanos, StackSample, Stage, Symbols, windows_level};

use crate::doc::{Block, Cell, Column, Detail, Document, Table};
use crate::phrase::{cause, why as phrase};

/// Number of functions of a call chain that are shown.
const MAX_FRAMES: usize = 12;
/// Share of the latency below which the short form merges causes.
const MIN_SHARE: f64 = 0.005;
/// Number of parts of the timeline in the short form. The shortest of more parts are merged.
const MAX_PARTS: usize = 15;

/// Describes a late wakeup: its causes, and a timeline of the threads and interrupts on its
/// CPU. `start` is the start of the recording. `Full` has every part and sample.
pub fn episode(
    explained: &ExplainedEpisode<'_>,
    symbols: &Symbols,
    start: Nanos,
    detail: Detail,
) -> Document {
    let (episode, line) = (explained.episode, explained.line);
    // A late wakeup that is in no recording has no number.
    let (title, subject) = match episode.number {
        0 => ("Late wakeup".to_owned(), "Late wakeup".to_owned()),
        number => (format!("Late wakeup {number}"), format!("Episode {number}")),
    };
    let mut document = Document::new(title);
    let latency = phrase::at_least(episode.censored, episode.latency());
    let after = episode.expiry_ns.saturating_sub(start).as_secs_f64();
    document.lines(vec![format!(
        "{subject}: {}, {latency} late, {after:.3} s after the start (wakeup {} of its series)",
        phrase::place(line),
        episode.seq,
    )]);
    document.push(Block::Table(causes(explained, symbols, detail)));
    if episode.causes.is_empty() {
        document.push(Block::Table(timeline(explained, symbols, detail)));
    } else {
        document.lines(vec![
            "`laggard attach` found these causes during the measurement. The thread waited or moved in this cycle, so a timeline of it was not recorded.".into(),
        ]);
    }
    document
}

fn causes(explained: &ExplainedEpisode<'_>, symbols: &Symbols, detail: Detail) -> Table {
    let latency = explained.episode.latency().as_f64().max(1.0);
    let columns = [Column::number("time"), Column::number("share")];
    let mut table = Table::new(columns.into_iter().chain([Column::sentence("cause")]));
    let (mut others, mut merged) = (0_u64, Nanos::ZERO);
    for part in explained.causes() {
        let share = part.time_ns.as_f64() / latency;
        if detail == Detail::Short && share < MIN_SHARE {
            others += 1;
            merged += part.time_ns;
            continue;
        }
        let cause = NamedCause::from_culprit(part.class, &part.culprit, symbols);
        table.row([
            Cell::Time(part.time_ns),
            Cell::Share(share),
            cause::name(&cause, &[]).into(),
        ]);
    }
    if others > 0 {
        table.row([
            Cell::Time(merged),
            Cell::Share(merged.as_f64() / latency),
            format!("{others} other causes (`--all`)").into(),
        ]);
    }
    table
}

fn timeline(explained: &ExplainedEpisode<'_>, symbols: &Symbols, detail: Detail) -> Table {
    let episode = explained.episode;
    let columns = [Column::number("at"), Column::number("took")];
    let columns = columns.into_iter().chain([
        Column::name("cause"),
        Column::sentence(format!("activity on CPU {}", explained.line.cpu)),
    ]);
    let mut table = Table::new(columns)
        .keys(2)
        .caption("Timeline since the expiry");
    let mut stages: Vec<(Nanos, Stage)> = episode
        .stages
        .iter()
        .map(|(stage, at)| (*at, *stage))
        .collect();
    stages.sort();
    let mut stages = stages.into_iter().peekable();
    let parts = match detail {
        Detail::Short => joined(&explained.merged(), symbols),
        Detail::Full => explained.merged(),
    };
    let is_shown = longest(&parts, detail);
    let mut index = 0;
    while let Some(part) = parts.get(index) {
        let start = part.slice.from.saturating_sub(episode.expiry_ns);
        while let Some((stamp, stage)) = stages.next_if(|(stamp, _)| *stamp <= start) {
            event(&mut table, stamp, stage_name(stage));
        }
        let short = is_shown[index..]
            .iter()
            .take_while(|shown| !**shown)
            .count();
        if short > 0 {
            let merged = parts[index..index + short].iter();
            let took = merged.fold(Nanos::ZERO, |sum, part| sum + part.time());
            let s = if short == 1 { "" } else { "s" };
            let text = format!("{short} shorter part{s}");
            table.row([
                Cell::Time(start),
                Cell::Time(took),
                Cell::Empty,
                text.into(),
            ]);
            index += short;
            continue;
        }
        table.row([
            Cell::Time(start),
            Cell::Time(part.time()),
            part.class.words().into(),
            activity(&layers(&part.slice.context, symbols)).into(),
        ]);
        let samples: Vec<&StackSample> = samples_of(part, episode).collect();
        let shown = match detail {
            Detail::Short => 1,
            Detail::Full => samples.len(),
        };
        for sample in samples.iter().take(shown) {
            let time = sample.at_ns.saturating_sub(episode.expiry_ns);
            let more = samples.len().saturating_sub(shown);
            let more = if more > 0 {
                format!(" ({more} more samples)")
            } else {
                String::new()
            };
            let chain = chain(sample, symbols);
            event(&mut table, time, format!("sample: {chain}{more}"));
        }
        index += 1;
    }
    for (time, stage) in stages {
        let text = if episode.censored {
            "the measurement ends, and the thread still waits".to_owned()
        } else if stage == Stage::Done {
            format!("{}: the thread sleeps again", stage_name(stage))
        } else {
            format!("{}: the thread runs", stage_name(stage))
        };
        event(&mut table, time, text);
    }
    table
}

/// Joins neighbours with the same cause. Each has the activity of its innermost part.
fn joined(parts: &[Part], symbols: &Symbols) -> Vec<Part> {
    let same = |a: &Part, b: &Part| a.class == b.class && a.culprit == b.culprit;
    let groups = parts.chunk_by(same).filter_map(|group| {
        let depth = |part: &&Part| (layers(&part.slice.context, symbols).len(), part.time());
        let mut joined = group.iter().max_by_key(depth)?.clone();
        joined.slice.from = group.first()?.slice.from;
        joined.slice.to = group.last()?.slice.to;
        Some(joined)
    });
    groups.collect()
}

/// Marks the parts that are shown separately.
fn longest(parts: &[Part], detail: Detail) -> Vec<bool> {
    let mut is_shown = vec![detail == Detail::Full; parts.len()];
    let mut by_length: Vec<usize> = (0..parts.len()).collect();
    by_length.sort_by_key(|index| (Reverse(parts[*index].time()), *index));
    for index in by_length.into_iter().take(MAX_PARTS) {
        is_shown[index] = true;
    }
    is_shown
}

fn event(table: &mut Table, time: Nanos, text: String) {
    table.row([Cell::Time(time), Cell::Empty, Cell::Empty, text.into()]);
}

fn stage_name(stage: Stage) -> String {
    format!("stage `{stage}`")
}

/// Describes a thread and its interruptions: `hog (FIFO 95) > local timer`.
pub(crate) fn activity(layers: &[Layer]) -> String {
    layers.iter().map(layer).collect::<Vec<_>>().join(" > ")
}

/// Describes a thread or an interruption.
pub(crate) fn layer(layer: &Layer) -> String {
    match layer {
        Layer::Idle => "idle".into(),
        Layer::Unknown => "unknown".into(),
        Layer::Thread { name, priority } => format!("{name} ({})", policy(*priority)),
        Layer::Activity { name } => name.clone(),
    }
}

/// Names the policy of a kernel priority.
fn policy(kernel: i16) -> String {
    if let Some(level) = windows_level(kernel) {
        return format!("priority {level}");
    }
    match kernel {
        ..0 => "DEADLINE".into(),
        0..100 => format!("FIFO {}", 99 - kernel),
        _ => "OTHER".into(),
    }
}

fn samples_of<'a>(part: &Part, episode: &'a Episode) -> impl Iterator<Item = &'a StackSample> {
    let (from, to) = (part.slice.from.max(episode.here_from()), part.slice.to);
    let samples = episode.evidence.samples.iter();
    samples.filter(move |sample| sample.at_ns >= from && sample.at_ns < to)
}

/// Writes a call chain, the innermost function first.
fn chain(sample: &StackSample, symbols: &Symbols) -> String {
    let frames = frames(sample, symbols);
    if frames.is_empty() {
        return "no call chain".into();
    }
    let cut = if frames.len() > MAX_FRAMES {
        " < ..."
    } else {
        ""
    };
    let shown: Vec<String> = frames.into_iter().take(MAX_FRAMES).collect();
    shown.join(" < ") + cut
}
