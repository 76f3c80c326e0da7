//! Table of services and windows.

use laggard_answer::live::{Row, Window, WindowFigures};
use laggard_model::Nanos;
use laggard_model::text::{Unit, brief, brief_count, count};
use laggard_view::live_window;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{Shown, short_name};

/// Minimum width for times of three digits, and for misses.
const WIDE: usize = 118;
/// Minimum width for the window `now`.
const MEDIUM: usize = 80;
const NAME: usize = 17;

/// Layout of the table for a width.
#[derive(Clone, Copy)]
struct Layout {
    is_wide: bool,
    /// Index into [`Window::ALL`] of the first window shown.
    first: usize,
    time: usize,
}

impl Layout {
    /// `has_limits`: a max has a sign before it.
    fn new(width: usize, has_limits: bool) -> Self {
        let is_wide = width >= WIDE;
        Self {
            is_wide,
            first: usize::from(width < MEDIUM),
            time: if is_wide { 8 } else { 6 } + usize::from(has_limits),
        }
    }

    fn write(self, time: Option<Nanos>, is_at_least: bool) -> String {
        let width = self.time;
        let sign = if is_at_least { "≥" } else { "" };
        let text = match time {
            None => "-".into(),
            Some(time) if self.is_wide => format!("{sign}{}", Unit::Auto.write_nanos(time)),
            Some(time) => format!("{sign}{}", brief(time)),
        };
        format!("{text:>width$}")
    }
}

/// Returns the number of lines of a table with `rows`.
pub(super) const fn height(rows: usize) -> usize {
    rows + 2
}

pub(super) fn lines(shown: &Shown<'_>, width: usize) -> Vec<Line<'static>> {
    let has_limits = shown.rows.iter().any(|row| row.still_waiting > 0);
    let layout = Layout::new(width, has_limits);
    let mut lines = header(shown, layout);
    for (index, row) in shown.rows.iter().enumerate() {
        lines.push(line(shown, layout, row, index == shown.look.selected));
    }
    lines
}

fn header(shown: &Shown<'_>, layout: Layout) -> Vec<Line<'static>> {
    let place = match shown.look.cpu {
        None => "all CPUs".to_owned(),
        Some(cpu) => format!("CPU {cpu}"),
    };
    let span = layout.time * 3;
    let mut windows = format!(" {place:<0$}", NAME - 1);
    let mut names = format!(" {:<1$}", "service", NAME - 1);
    for window in &Window::ALL[layout.first..] {
        let title = live_window(shown.state, *window);
        windows += &format!("{:>span$}", format!("{title:─^0$}", span - 2));
        for name in ["p50", "p99", "max"] {
            names += &format!("{name:>0$}", layout.time);
        }
    }
    names += &if layout.is_wide {
        format!("{:>12}{:>9}{:>7}", "samples", "missed", "lost")
    } else {
        format!("{:>4}{:>5}", "n", "lost")
    };
    vec![
        Line::styled(windows, shown.palette.title()),
        Line::styled(names, shown.palette.faint()),
    ]
}

fn line(shown: &Shown<'_>, layout: Layout, row: &Row, is_chosen: bool) -> Line<'static> {
    let (service, route) = row.way;
    let mark = if is_chosen { '>' } else { ' ' };
    let style = if is_chosen {
        shown.palette.chosen()
    } else {
        Style::new()
    };
    let name = format!("{mark}{:<1$}", short_name(service, route), NAME - 1);
    let mut spans = vec![Span::styled(name, style)];
    for WindowFigures { p50, p99, max, .. } in &row.windows[layout.first..] {
        let is_at_least = row.still_waiting > 0;
        for (time, is_at_least) in [(p50, false), (p99, false), (max, is_at_least)] {
            let style = shown.palette.latency(*time).patch(style);
            spans.push(Span::styled(layout.write(*time, is_at_least), style));
        }
    }
    let samples = row.windows[2].count;
    let lost = row.lost;
    let text = if layout.is_wide {
        let lost = lost.map_or_else(|| "-".into(), count);
        let missed = if service.has_lines() {
            count(row.missed)
        } else {
            "-".into()
        };
        format!("{:>12}{missed:>9}{lost:>7}", count(samples))
    } else {
        let lost = lost.map_or_else(|| "-".into(), brief_count);
        format!("{:>5}{lost:>4}", brief_count(samples))
    };
    spans.push(Span::styled(text, style));
    Line::from(spans)
}
