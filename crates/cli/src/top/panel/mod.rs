//! Drawing the live view.

mod head;
mod heat;
mod histogram;
mod info;
mod late;
mod palette;
mod table;

use laggard_answer::live::{Live, Row, ServiceRoute};
use laggard_model::name::{series_words, service_words};
use laggard_model::{Route, Service};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Clear, Paragraph, Wrap};

use super::look::{KEYS, LiveLook, Panel};

pub(super) use head::{backend, clock, load};
pub(super) use palette::Palette;

/// Minimum size of the terminal.
const MIN_SIZE: (u16, u16) = (60, 18);
/// Minimum size for three panels in the lower part.
const THREE: (u16, u16) = (110, 22);
/// Minimum height for two panels.
const TWO: u16 = 18;

/// Contents of a screen.
pub(super) struct Shown<'a> {
    pub(super) state: &'a Live,
    pub(super) look: &'a LiveLook,
    /// The state's rows, for the chosen CPU.
    pub(super) rows: &'a [Row],
    pub(super) palette: Palette,
}

impl Shown<'_> {
    fn chosen(&self) -> Option<ServiceRoute> {
        let last = self.rows.len().checked_sub(1)?;
        Some(self.rows[self.look.selected.min(last)].way)
    }

    /// Names a service with the chosen CPU.
    fn place(&self, route: ServiceRoute) -> String {
        let name = series_words(route.0, route.1);
        match self.look.cpu {
            None => format!("{name}, all CPUs"),
            Some(cpu) => format!("{name}, CPU {cpu}"),
        }
    }
}

/// Names a service in 16 columns. A route via softirq shortens the policy.
fn short_name(service: Service, route: Route) -> String {
    let words = service_words(service);
    if service.is_thread() && route == Route::Deferred {
        let words = words.strip_prefix("SCHED_").unwrap_or(&words);
        cut(&format!("{words}, softirq"), 16)
    } else {
        cut(&words, 16)
    }
}

/// Draws the screen.
pub(super) fn draw(frame: &mut Frame<'_>, shown: &Shown<'_>) {
    let area = frame.area();
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        too_small(frame, area);
        return;
    }
    let width = usize::from(area.width);
    let table = u16::try_from(table::height(shown.rows.len())).unwrap_or(u16::MAX);
    // Many services must leave room for a panel.
    let table = table.min(area.height - head::HEIGHT - 6);
    let mut rest = area;
    put(
        frame,
        take(&mut rest, head::HEIGHT),
        head::lines(shown, width),
    );
    put(frame, take(&mut rest, table), table::lines(shown, width));
    rest.height -= 1;
    let foot = Rect {
        y: rest.y + rest.height,
        height: 1,
        ..rest
    };
    panels(frame, shown, rest);
    put(frame, foot, vec![foot_line(shown)]);
    if shown.look.shows_help {
        help(frame, area, shown);
    }
}

fn panels(frame: &mut Frame<'_>, shown: &Shown<'_>, area: Rect) {
    let mut rest = area;
    let chosen = shown.look.panel;
    if area.width >= THREE.0 && area.height >= THREE.1 && chosen != Panel::Info {
        let mut upper = take(&mut rest, (area.height * 11 / 20).clamp(10, 18));
        let mut left = upper;
        left.width = upper.width / 2;
        upper.x += left.width + 1;
        upper.width -= left.width + 1;
        panel(frame, shown, Panel::Histogram, left);
        panel(frame, shown, Panel::Heat, upper);
        panel(frame, shown, Panel::Late, rest);
    } else if area.height >= TWO && chosen != Panel::Info {
        let upper = take(&mut rest, area.height / 2);
        let drawn = if chosen == Panel::Heat {
            Panel::Heat
        } else {
            Panel::Histogram
        };
        panel(frame, shown, drawn, upper);
        panel(frame, shown, Panel::Late, rest);
    } else {
        panel(frame, shown, chosen, rest);
    }
}

fn panel(frame: &mut Frame<'_>, shown: &Shown<'_>, panel: Panel, area: Rect) {
    let size = (
        usize::from(area.width),
        usize::from(area.height.saturating_sub(1)),
    );
    let nothing = || (String::new(), vec![Line::from(" no samples yet")]);
    let (title, lines) = match (panel, shown.chosen()) {
        (Panel::Late, _) => (late::title(shown, size.1), late::lines(shown, size)),
        (Panel::Info, _) => (
            "Losses, overhead and warnings (PgUp, PgDn)".into(),
            info::lines(shown, size),
        ),
        (Panel::Histogram, Some(route)) => (
            histogram::title(shown, route),
            histogram::lines(shown, route, size),
        ),
        (Panel::Heat, Some(route)) => (heat::title(shown, route), heat::lines(shown, route, size)),
        (Panel::Histogram | Panel::Heat, None) => nothing(),
    };
    let title = cut(&format!("─ {title} "), size.0);
    let bar = "─".repeat(size.0.saturating_sub(title.chars().count()));
    let mut lines_of_panel = vec![Line::styled(format!("{title}{bar}"), shown.palette.title())];
    lines_of_panel.extend(lines);
    put(frame, area, lines_of_panel);
}

/// Returns the last line: keys, or a message.
fn foot_line(shown: &Shown<'_>) -> Line<'static> {
    match &shown.look.message {
        Some(message) => Line::styled(format!(" {message}"), shown.palette.warning()),
        None => Line::styled(
            " q quit  p pause  r reset  s save  Tab panel  ↑↓ service  ←→ CPU  w window  ?",
            shown.palette.faint(),
        ),
    }
}

fn help(frame: &mut Frame<'_>, area: Rect, shown: &Shown<'_>) {
    let mut lines = vec![Line::styled(" Keys", shown.palette.title())];
    lines.extend(
        KEYS.iter()
            .map(|(key, what)| Line::from(format!(" {key:<14} {what}"))),
    );
    lines.push(Line::from(""));
    lines.push(Line::from(
        " p50, p99: quantiles of the latency.  max: largest measured, not a bound.",
    ));
    lines.push(Line::from(
        " n: samples.  lost: not measured.  incomplete: a stage is missing (key 4).",
    ));
    let height = u16::try_from(lines.len())
        .unwrap_or(u16::MAX)
        .min(area.height - 1);
    let place = Rect {
        y: area.height - 1 - height,
        height,
        ..area
    };
    frame.render_widget(Clear, place);
    put(frame, place, lines);
}

fn too_small(frame: &mut Frame<'_>, area: Rect) {
    let text = format!(
        "laggard top needs {} columns and {} rows; this terminal has {} and {}. Make it larger, \
         or press q and use --batch.",
        MIN_SIZE.0, MIN_SIZE.1, area.width, area.height
    );
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
}

fn put(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'_>>) {
    frame.render_widget(Paragraph::new(Text::from(lines)), area);
}

/// Removes the upper `height` lines from `area` and returns them.
fn take(area: &mut Rect, height: u16) -> Rect {
    let height = height.min(area.height);
    let taken = Rect { height, ..*area };
    area.y += height;
    area.height -= height;
    taken
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    let start: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests;
