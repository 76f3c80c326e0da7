//! Losses, overhead and warnings in full.

use laggard_answer::show::named_losses;
use laggard_model::text::count;
use laggard_model::{Nanos, printable};
use ratatui::text::Line;

use super::{Shown, clock};

/// Returns at most `height` lines, from the scroll position.
pub(super) fn lines(shown: &Shown<'_>, (width, height): (usize, usize)) -> Vec<Line<'static>> {
    let mut text = Vec::new();
    for part in parts(shown) {
        text.extend(wrapped(&part, width.saturating_sub(1)));
    }
    // Here, scrolling back means down: the view starts at the first line.
    let first = shown.look.scroll.min(text.len().saturating_sub(height));
    text.into_iter()
        .skip(first)
        .take(height)
        .map(|line| Line::from(format!(" {line}")))
        .collect()
}

fn parts(shown: &Shown<'_>) -> Vec<String> {
    let state = shown.state;
    let losses: Vec<String> = named_losses(&state.losses())
        .map(|(name, number)| format!("{name} {}", count(number)))
        .collect();
    let mut parts = Vec::new();
    if let Some(kept) = &shown.look.kept {
        parts.push(format!(
            "Recording: from {}, to {}",
            clock(kept.from),
            printable(&kept.dir.display().to_string())
        ));
    }
    parts.push(format!("Losses: {}", losses.join(", ")));
    if let Some(cost) = state
        .cost
        .as_ref()
        .filter(|cost| cost.wall_ns > Nanos::ZERO)
    {
        let share = |time: Nanos| 100.0 * time.ns() as f64 / cost.wall_ns.ns() as f64;
        // The times of single threads are known only at the end.
        let threads = cost.measuring_cpu_ns + cost.other_cpu_ns;
        let bpf = cost.total().saturating_sub(threads);
        parts.push(format!(
            "Overhead: {:.2} % of one CPU (threads {:.2} %, BPF {:.2} %), {:.1} MB resident",
            share(cost.total()),
            share(threads),
            share(bpf),
            cost.resident_bytes as f64 / 1e6,
        ));
    }
    let caveats = &state.manifest.caveats;
    parts.extend(caveats.iter().map(|caveat| {
        format!(
            "Warning: {}; {}",
            printable(&caveat.what),
            printable(&caveat.advice)
        )
    }));
    parts
}

/// Breaks text into lines of at most `width`. The later ones are indented.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if !line.trim().is_empty() && line.chars().count() + word.chars().count() + 1 > width {
            lines.push(format!("  {word}"));
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_is_lost_when_text_is_wrapped() {
        let text = "real-time threads are throttled; write -1 to the file";

        let lines = wrapped(text, 20);

        assert!(lines.iter().all(|line| line.len() <= 20), "{lines:?}");
        let joined: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        assert_eq!(joined.join(" "), text);
    }
}
