//! Drawing the live view.

mod head;
mod heat;
mod histogram;
mod info;
mod late;
mod palette;
mod table;

use laggard_answer::live::{Live, Row, ServiceRoute};
use laggard_model::name::line_name;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Clear, Paragraph, Wrap};

use super::look::{KEYS, LiveLook, Panel};

pub(super) use head::{backend, clock, load};
pub(super) use palette::Palette;

/// The smallest terminal that shows something useful.
const SMALLEST: (u16, u16) = (60, 18);
/// From this size on the lower part shows three panels.
const THREE: (u16, u16) = (110, 22);
/// From this height on it shows two.
const TWO: u16 = 18;

/// All that a picture is made of.
pub(super) struct Shown<'a> {
    pub(super) state: &'a Live,
    pub(super) look: &'a LiveLook,
    /// The state's rows, for the chosen CPU.
    pub(super) rows: &'a [Row],
    pub(super) palette: Palette,
}

impl Shown<'_> {
    /// The service that panels are about.
    fn chosen(&self) -> Option<ServiceRoute> {
        let last = self.rows.len().checked_sub(1)?;
        Some(self.rows[self.look.selected.min(last)].way)
    }

    /// A service with the CPU that is chosen.
    fn place(&self, way: ServiceRoute) -> String {
        let name = line_name(way.0, way.1);
        match self.look.cpu {
            None => format!("{name}, all CPUs"),
            Some(cpu) => format!("{name}, CPU {cpu}"),
        }
    }
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, shown: &Shown<'_>) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
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
    let nothing = || (String::new(), vec![Line::from(" nothing seen yet")]);
    let (title, lines) = match (panel, shown.chosen()) {
        (Panel::Late, _) => (late::title(shown, size.1), late::lines(shown, size)),
        (Panel::Info, _) => (
            "Losses, cost and caveats (PgUp, PgDn)".into(),
            info::lines(shown, size),
        ),
        (Panel::Histogram, Some(way)) => (
            histogram::title(shown, way),
            histogram::lines(shown, way, size),
        ),
        (Panel::Heat, Some(way)) => (heat::title(shown, way), heat::lines(shown, way, size)),
        (Panel::Histogram | Panel::Heat, None) => nothing(),
    };
    let title = cut(&format!("─ {title} "), size.0);
    let bar = "─".repeat(size.0.saturating_sub(title.chars().count()));
    let mut all = vec![Line::styled(format!("{title}{bar}"), shown.palette.title())];
    all.extend(lines);
    put(frame, area, all);
}

/// The last line: keys, or something to tell.
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
        " p50, p99: half, 99 of 100 were not later.  max: largest seen, no bound.",
    ));
    lines.push(Line::from(
        " n: samples since the start.  lost: expiries not measured; 4 says why.",
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
        SMALLEST.0, SMALLEST.1, area.width, area.height
    );
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
}

fn put(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'_>>) {
    frame.render_widget(Paragraph::new(Text::from(lines)), area);
}

/// The upper `height` lines of `area`, which loses them.
fn take(area: &mut Rect, height: u16) -> Rect {
    let height = height.min(area.height);
    let taken = Rect { height, ..*area };
    area.y += height;
    area.height -= height;
    taken
}

/// `text`, cut to `width`.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    let start: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{start}…")
}

#[cfg(test)]
mod tests;
