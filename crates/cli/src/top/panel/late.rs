//! List of late wakeups.

use laggard_answer::live::LateActivation;
use laggard_model::text::brief;
use laggard_view::late_causes;
use ratatui::text::{Line, Span};

use super::{Shown, cut};

pub(super) fn title(shown: &Shown<'_>, height: usize) -> String {
    let count = shown.state.late.count;
    let newer = scrolled(shown, height);
    let mut title = format!(
        "{} late wakeups and their causes",
        laggard_model::text::count(count)
    );
    if newer > 0 {
        title += &format!(" ({newer} newer below: PgDn, End)");
    }
    title
}

/// Returns at most `height` lines, the newest last.
pub(super) fn lines(shown: &Shown<'_>, (width, height): (usize, usize)) -> Vec<Line<'static>> {
    let listed = shown.state.late.listed();
    if listed.is_empty() {
        return vec![Line::styled(" none yet", shown.palette.faint())];
    }
    let end = listed.len() - scrolled(shown, height);
    listed
        .range(end.saturating_sub(height)..end)
        .map(|late| line(shown, late, width))
        .collect()
}

/// Returns the number of newer late wakeups below the panel.
fn scrolled(shown: &Shown<'_>, height: usize) -> usize {
    let most = shown.state.late.listed().len().saturating_sub(height);
    shown.look.scroll.min(most)
}

fn line(shown: &Shown<'_>, late: &LateActivation, width: usize) -> Line<'static> {
    let number = late
        .number
        .map_or_else(String::new, |number| format!("#{number} "));
    let before = format!(
        " {:>8.3}s {:<13} cpu{:<2}",
        late.at.as_secs_f64(),
        late.name,
        late.cpu,
    );
    let latency = format!("{:>6}", brief(late.latency));
    let room = width.saturating_sub(before.chars().count() + latency.len() + 1);
    let why = cut(&format!("{number}{}", late_causes(late, brief)), room);
    Line::from(vec![
        Span::from(before),
        Span::styled(latency, shown.palette.latency(Some(late.latency))),
        Span::from(format!(" {why}")),
    ])
}
