//! One episode as a timeline: who ran when, and in which code.

use std::fmt::Write as _;

use laggard_answer::why::{Context, ExplainedEpisode, Part, frames, layers, place};
use laggard_model::name;
use laggard_model::text::Unit;
use laggard_model::{Episode, Nanos, StackSample, Symbols, printable_lines};

/// Frames of a call chain that are shown.
const FRAMES: usize = 12;

/// The timeline of an episode.
pub fn episode(explained: &ExplainedEpisode<'_>, symbols: &Symbols) -> String {
    let write = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let (episode, line) = (explained.episode, explained.line);
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
    for cause in explained.causes() {
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
    for part in &explained.merged() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_made::late;

    #[test]
    fn an_episode_is_a_timeline_of_who_ran_with_call_chains() {
        let (seventh, notes) = (late::episode(7), late::notes());
        let explained = ExplainedEpisode::new(&seventh, late::manifest().lines[0], &notes.symbols);

        let text = episode(&explained, &notes.symbols);

        for part in [
            "Episode 7: fifo:90 on CPU 1, activation 7, 2.00 ms late",
            "1.99 ms  higher-priority thread: hog",
            "hog (rt 95) > local timer",
            "* waking",
            "sample: spin [hog]",
            "* user: the service runs",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }
}
