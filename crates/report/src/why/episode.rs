//! One episode as a timeline: who ran when, and in which code.

use std::fmt::Write as _;

use laggard_analyze::causes::{Context, Part, explain_named};
use laggard_model::name;
use laggard_model::text::Unit;
use laggard_model::{Episode, Line, Nanos, StackSample, Symbols, printable, printable_lines};

use super::place;

/// Frames of a call chain that are shown.
const FRAMES: usize = 12;

/// The timeline of an episode of `line`.
pub fn episode_text(episode: &Episode, line: Line, symbols: &Symbols) -> String {
    let write = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let explanation = explain_named(episode, line.service, line.route, symbols);
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        text,
        "Episode {}: {}, activation {}, {} late\n\nCauses, together {}",
        episode.number,
        place(line),
        episode.seq,
        write(episode.latency()),
        write(episode.latency()),
    );
    for cause in &explanation.causes {
        let who = name::who(&cause.culprit, symbols);
        let _ = writeln!(
            text,
            "{:>12}  {}",
            write(cause.time_ns),
            name::cause_name(cause.class, who.as_deref())
        );
    }
    text += "\nTimeline, time since the expiry\n";
    let mut stages: Vec<_> = episode
        .stages
        .iter()
        .map(|(stage, at)| (*at, stage))
        .collect();
    stages.sort();
    let mut stages = stages.into_iter().peekable();
    for part in &merged(&explanation.parts) {
        let begin = part.slice.from.saturating_sub(episode.expiry_ns);
        while let Some((at, stage)) = stages.next_if(|(at, _)| *at <= begin) {
            let _ = writeln!(text, "{:>12}  * {stage}", write(at));
        }
        let _ = writeln!(
            text,
            "{:>12}  {:<44} {:>10}  {}",
            write(begin),
            context(&part.slice.context, symbols),
            write(part.time()),
            part.class
        );
        for sample in samples_of(part, episode) {
            text += &chain(sample, episode, symbols);
        }
    }
    for (at, stage) in stages {
        let _ = match episode.censored {
            true => writeln!(
                text,
                "{:>12}  * measuring ends, and it still waits",
                write(at)
            ),
            false => writeln!(text, "{:>12}  * {stage}: the service runs", write(at)),
        };
    }
    printable_lines(&text).to_string()
}

/// Neighbours with the same cause and thread as one: a tick in between is
/// still seen, as it has another.
pub(crate) fn merged(parts: &[Part]) -> Vec<Part> {
    let mut merged: Vec<Part> = Vec::new();
    for part in parts {
        match merged.last_mut() {
            Some(last)
                if last.class == part.class
                    && last.culprit == part.culprit
                    && last.slice.context == part.slice.context =>
            {
                last.slice.to = part.slice.to;
            }
            _ => merged.push(part.clone()),
        }
    }
    merged
}

fn samples_of<'a>(part: &Part, episode: &'a Episode) -> impl Iterator<Item = &'a StackSample> {
    let (from, to) = (part.slice.from.max(episode.here_from()), part.slice.to);
    episode
        .evidence
        .samples
        .iter()
        .filter(move |sample| sample.at_ns >= from && sample.at_ns < to)
}

fn context(context: &Context, symbols: &Symbols) -> String {
    layers(context, symbols).join(" > ")
}

/// The thread and what it is in the midst of, from the outside in.
pub(crate) fn layers(context: &Context, symbols: &Symbols) -> Vec<String> {
    let thread = match &context.thread {
        Some(thread) if thread.tid.0 == 0 => "idle".to_owned(),
        Some(thread) => format!(
            "{} ({})",
            printable(&thread.name),
            priority(thread.priority)
        ),
        None => "?".to_owned(),
    };
    let activities = context
        .activities
        .iter()
        .map(|open| name::activity_name(open.activity, symbols));
    std::iter::once(thread).chain(activities).collect()
}

/// A priority as its owner set it.
fn priority(kernel: i16) -> String {
    match kernel {
        ..0 => "deadline".into(),
        0..100 => format!("rt {}", 99 - kernel),
        _ => "normal".into(),
    }
}

/// The call chain of a sample in words, innermost first.
pub(crate) fn frames(sample: &StackSample, symbols: &Symbols) -> Vec<String> {
    let kernel = sample
        .kernel
        .iter()
        .map(|&at| printable(&symbols.kernel_name(at)).to_string());
    let user = sample
        .user
        .iter()
        .map(|&at| printable(&symbols.user_name(sample.process, at)).to_string());
    kernel.chain(user).collect()
}

fn chain(sample: &StackSample, episode: &Episode, symbols: &Symbols) -> String {
    let at = sample.at_ns.saturating_sub(episode.expiry_ns);
    let frames = frames(sample, symbols);
    let cut = if frames.len() > FRAMES { " < ..." } else { "" };
    let shown = frames
        .into_iter()
        .take(FRAMES)
        .collect::<Vec<_>>()
        .join(" < ");
    let at = Unit::Auto.write_nanos(at);
    match shown.is_empty() {
        true => format!("{at:>12}    sample: no call chain\n"),
        false => format!("{at:>12}    sample: {shown}{cut}\n"),
    }
}
