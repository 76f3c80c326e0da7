//! One episode as a timeline: who ran when, and in which code.

use std::fmt::Write as _;

use laggard_answer::why::{Context, ExplainedEpisode, Part, frames, layers, place};
use laggard_model::name;
use laggard_model::text::Unit;
use laggard_model::{
    CauseClass, Episode, Nanos, StackSample, Stage, Symbols, printable, printable_lines,
};

use super::Look;
use super::screen::width;

/// Frames of a call chain that are shown.
const FRAMES: usize = 12;

/// The timeline of an episode.
pub fn episode(explained: &ExplainedEpisode<'_>, symbols: &Symbols, look: Look) -> String {
    let line_of = |at: Nanos, text: &str| timed(at, "  ", text, look);
    let write = |ns: Nanos| Unit::Auto.write_nanos(ns);
    let (episode, line) = (explained.episode, explained.line);
    let what = format!(
        "Episode {}: {}, activation {}, {} late",
        episode.number,
        place(line),
        episode.seq,
        write(episode.latency()),
    );
    let mut text = look.hanging("", "  ", &what);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\nCauses, together {}", write(episode.latency()));
    for cause in explained.causes() {
        let who = name::who(&cause.culprit, symbols);
        let cause_name = name::cause_name(cause.class, who.as_deref());
        text += &line_of(cause.time_ns, &cause_name);
    }
    text += "\nTimeline, time since the expiry\n";
    let mut stages: Vec<_> = episode
        .stages
        .iter()
        .map(|(stage, at)| (*at, stage))
        .collect();
    stages.sort();
    let mut stages = stages.into_iter().peekable();
    let contexts = room_of_contexts(look);
    for part in &explained.merged() {
        let begin = part.slice.from.saturating_sub(episode.expiry_ns);
        while let Some((at, stage)) = stages.next_if(|(at, _)| *at <= begin) {
            text += &line_of(at, &format!("* {stage}"));
        }
        let context = printable(&context(&part.slice.context, symbols)).to_string();
        let lasted = format!("{:>10}  {}", write(part.time()), part.class);
        if width(&context) <= contexts {
            let blank = contexts - width(&context);
            text += &line_of(begin, &format!("{context}{:blank$} {lasted}", ""));
        } else {
            // Beside it there is no room.
            text += &line_of(begin, &context);
            let indent = " ".repeat("            ".len() + "  ".len() + contexts);
            let lasted = match contexts {
                0 => lasted.trim_start(),
                _ => &lasted,
            };
            text += &look.hanging(&indent, &format!("{indent}  "), lasted);
        }
        for sample in samples_of(part, episode) {
            text += &chain(sample, episode, symbols, look);
        }
    }
    for (at, stage) in stages {
        let ends = match episode.censored {
            true => "* measuring ends, and it still waits".to_owned(),
            false if *stage == Stage::Done => format!("* {stage}: it sleeps again"),
            false => format!("* {stage}: the service runs"),
        };
        text += &line_of(at, &ends);
    }
    printable_lines(&text).to_string()
}

/// What happened at a time.
fn timed(at: Nanos, apart: &str, text: &str, look: Look) -> String {
    let at = format!("{:>12}{apart}", Unit::Auto.write_nanos(at));
    let rest = " ".repeat(at.len() + 2);
    look.hanging(&at, &rest, &printable(text).to_string())
}

/// Columns between the time of a part and how long it lasted: as many as the
/// longest class leaves, and no more than most contexts need.
fn room_of_contexts(look: Look) -> usize {
    const MOST: usize = 44;
    let others = "            ".len() + "  ".len() + " ".len() + "          ".len() + "  ".len();
    let class = CauseClass::ALL.iter().map(|class| class.to_string().len());
    let class = class.max().unwrap_or_default();
    look.columns.saturating_sub(others + class).min(MOST)
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

fn chain(sample: &StackSample, episode: &Episode, symbols: &Symbols, look: Look) -> String {
    let at = sample.at_ns.saturating_sub(episode.expiry_ns);
    let frames = frames(sample, symbols);
    let cut = if frames.len() > FRAMES { " < ..." } else { "" };
    let shown: Vec<String> = frames.into_iter().take(FRAMES).collect();
    let shown = if shown.is_empty() {
        "no call chain".into()
    } else {
        shown.join(" < ") + cut
    };
    timed(at, "    ", &format!("sample: {shown}"), look)
}

#[cfg(test)]
mod tests {
    use super::*;
    use laggard_made::late;

    #[test]
    fn an_episode_is_a_timeline_of_who_ran_with_call_chains() {
        let (seventh, notes) = (late::episode(7), late::notes());
        let explained = ExplainedEpisode::new(&seventh, late::manifest().lines[0], &notes.symbols);

        let text = episode(&explained, &notes.symbols, Look::default());

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
