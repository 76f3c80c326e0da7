//! The live view as lines of text, for pipes.

use std::fmt::Write as _;

use laggard_answer::live::{LateActivation, LateFinder, Live, Row, WindowFigures};
use laggard_answer::show::named_losses;
use laggard_model::name::line_name;
use laggard_model::text::{Unit, count, span};
use laggard_model::{Nanos, printable};
use laggard_session::{Ending, News, Next, WatchError, Watcher};

use super::panel::{backend, load};
use crate::pipe;

/// Prints what comes.
pub(super) struct Lines {
    state: Live,
    finder: LateFinder,
    begun: bool,
    /// Whether the reader has gone.
    is_closed: bool,
}

impl Lines {
    pub(super) const fn new(state: Live, finder: LateFinder) -> Self {
        Self {
            state,
            finder,
            begun: false,
            is_closed: false,
        }
    }

    pub(super) fn into_seen(self) -> Live {
        self.state
    }

    fn print(&mut self, text: &str) -> anyhow::Result<()> {
        self.is_closed |= !pipe::try_print(text)?;
        Ok(())
    }
}

impl Watcher for Lines {
    fn observe(&mut self, news: &News<'_>) -> Result<Next, WatchError> {
        let mut text = String::new();
        if !std::mem::replace(&mut self.begun, true) {
            text += &head(&self.state);
        }
        let late = self.finder.find(news.batch, news.late, news.start);
        for one in &late {
            text += &late_line(one);
        }
        let times = (news.start, news.now);
        if self.state.observe(news.batch, late, news.losses, times) {
            for row in self.state.rows(None) {
                text += &line(self.state.now, &row, &row.windows[0]);
            }
        }
        if self.state.wants_cost() {
            self.state.cost = Some((news.cost)());
        }
        self.print(&text)?;
        Ok(if self.is_closed {
            Next::End
        } else {
            Next::GoOn
        })
    }

    fn say(&mut self, text: &str) {
        pipe::say(text);
    }

    fn end(&mut self, ending: &Ending) {
        self.state
            .end(&ending.caveats, ending.losses, ending.cost.clone());
    }
}

/// What is measured, and the names of the columns.
fn head(state: &Live) -> String {
    let manifest = &state.manifest;
    let host = &manifest.host;
    let dither = if manifest.plan.dither {
        "dithered"
    } else {
        "not dithered"
    };
    let mut text = format!(
        "laggard top: {}, period {} ({dither}), {}",
        load(manifest),
        manifest.plan.periods(),
        backend(manifest.backend)
    );
    if !host.kernel.is_empty() {
        let _ = write!(
            text,
            "; {}, Linux {}",
            printable(&host.node),
            printable(&host.kernel)
        );
    }
    if !manifest.caveats.is_empty() {
        let _ = write!(
            text,
            "; {} caveats, which `laggard doctor` explains",
            manifest.caveats.len()
        );
    }
    text.push('\n');
    text + &columns()
}

fn columns() -> String {
    format!(
        "{:>11}  {:<16} {:>9} {:>9} {:>9} {:>9}  {:>13} {:>7} {:>7}\n",
        "time", "service", "samples", "p50", "p99", "largest", "largest so far", "missed", "lost"
    )
}

fn line(at: Nanos, row: &Row, figures: &WindowFigures) -> String {
    let time =
        |time: Option<Nanos>| time.map_or_else(|| "-".into(), |time| Unit::Auto.write_nanos(time));
    let missed = if row.way.0.has_lines() {
        count(row.missed)
    } else {
        "-".into()
    };
    let largest = |largest: Option<Nanos>| match row.still_waiting {
        0 => time(largest),
        _ => format!(">= {}", time(largest)),
    };
    format!(
        "{:>9.1} s  {:<16} {:>9} {:>9} {:>9} {:>9}  {:>14} {missed:>7} {:>7}\n",
        at.as_secs_f64(),
        line_name(row.way.0, row.way.1),
        count(figures.count),
        time(figures.p50),
        time(figures.p99),
        largest(figures.max),
        largest(row.windows[2].max),
        row.lost.map_or_else(|| "-".into(), count),
    )
}

fn late_line(late: &LateActivation) -> String {
    let number = late
        .number
        .map_or_else(String::new, |number| format!(" #{number}"));
    format!(
        "{:>9.3} s  late{number}: {} on CPU {}, {}: {}\n",
        late.at.as_secs_f64(),
        late.name,
        late.cpu,
        Unit::Auto.write_nanos(late.latency),
        late.why(|time| Unit::Auto.write_nanos(time)),
    )
}

/// What was seen in all, when the run has ended.
pub(super) fn summary(state: &Live) -> String {
    let begin = match state.since {
        Nanos::ZERO => String::new(),
        since => format!(
            ", of which the last {} since the reset",
            span(state.now.saturating_sub(since))
        ),
    };
    let mut text = format!("\nIn {}{begin}:\n", span(state.now));
    text += &columns();
    for row in state.rows(None) {
        text += &line(state.now, &row, &row.windows[2]);
    }
    let losses = state.losses();
    let named: Vec<String> = named_losses(&losses)
        .map(|(name, number)| format!("{name} {}", count(number)))
        .collect();
    let _ = writeln!(
        text,
        "Late activations listed: {}\nLosses: {} activations lost; {}",
        count(state.late.count),
        count(losses.activations()),
        named.join(", ")
    );
    if let Some(cost) = state
        .cost
        .as_ref()
        .filter(|cost| cost.wall_ns > Nanos::ZERO)
    {
        let _ = writeln!(
            text,
            "Own cost: {:.2} % of one CPU",
            100.0 * cost.total().ns() as f64 / cost.wall_ns.ns() as f64
        );
    }
    if !state.found.is_empty() {
        text += "Found while measuring:\n";
    }
    for caveat in &state.found {
        let _ = writeln!(
            text,
            "  - {}; {}",
            printable(&caveat.what),
            printable(&caveat.advice)
        );
    }
    text
}
