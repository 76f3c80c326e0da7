//! Map of CPU x time: max latency of each second.

use laggard_answer::live::ServiceRoute;
use laggard_model::Cpu;
use ratatui::text::{Line, Span};

use super::Shown;

const MARGIN: usize = 8;

pub(super) fn title(shown: &Shown<'_>, route: ServiceRoute) -> String {
    format!(
        "{}: max of each second",
        laggard_model::name::series_words(route.0, route.1)
    ) + if shown.state.cpus().len() > 1 {
        ", per CPU"
    } else {
        ""
    }
}

/// Returns at most `height` lines: CPUs around the chosen one, with the newest second at the
/// right, and a legend.
pub(super) fn lines(
    shown: &Shown<'_>,
    route: ServiceRoute,
    (width, height): (usize, usize),
) -> Vec<Line<'static>> {
    let cpus = shown.state.cpus();
    let columns = width.saturating_sub(MARGIN);
    let room = height.saturating_sub(2).max(1);
    let chosen = cpus.iter().position(|cpu| Some(*cpu) == shown.look.cpu);
    let first = chosen
        .unwrap_or(0)
        .saturating_sub(room / 2)
        .min(cpus.len().saturating_sub(room));
    let shown_cpus = cpus.iter().skip(first).take(room);
    let mut lines: Vec<Line<'static>> = shown_cpus
        .map(|&cpu| row(shown, route, cpu, columns))
        .collect();
    lines.push(scale(shown, columns));
    lines.push(legend(shown));
    lines
}

fn row(shown: &Shown<'_>, route: ServiceRoute, cpu: Cpu, columns: usize) -> Line<'static> {
    let mark = if shown.look.cpu == Some(cpu) {
        '>'
    } else {
        ' '
    };
    let mut spans = vec![Span::from(format!(
        "{:<MARGIN$}",
        format!("{mark}CPU {cpu}")
    ))];
    let largest = shown.state.largest(route, cpu);
    let columns_seen = largest.len().min(columns);
    spans.push(Span::from(" ".repeat(columns - columns_seen)));
    for latency in largest[..columns_seen].iter().rev() {
        let (sign, style) = match latency {
            Some(latency) => shown.palette.cell(*latency),
            None => (' ', shown.palette.faint()),
        };
        spans.push(Span::styled(sign.to_string(), style));
    }
    Line::from(spans)
}

/// Seconds before now, a mark every ten.
fn scale(shown: &Shown<'_>, columns: usize) -> Line<'static> {
    let mut text = vec![' '; MARGIN + columns];
    for ago in (0..columns).step_by(10) {
        let label = if ago == 0 {
            "now".into()
        } else {
            format!("-{ago}s")
        };
        let end = MARGIN + columns - ago;
        let Some(start) = end
            .checked_sub(label.len())
            .filter(|start| *start >= MARGIN)
        else {
            continue;
        };
        for (place, letter) in text[start..end].iter_mut().zip(label.chars()) {
            *place = letter;
        }
    }
    Line::styled(text.into_iter().collect::<String>(), shown.palette.faint())
}

fn legend(shown: &Shown<'_>) -> Line<'static> {
    let mut spans = vec![Span::from(format!("{:MARGIN$}", ""))];
    for (sign, name, style) in shown.palette.legend() {
        spans.push(Span::styled(sign.to_string(), style));
        spans.push(Span::styled(format!(" {name}   "), shown.palette.faint()));
    }
    Line::from(spans)
}
