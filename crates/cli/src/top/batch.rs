//! The live view as lines of text, for pipes.
//!
//! The number of lines per interval is limited: a line per service, and the latest few
//! wakeups.

use std::cmp::Reverse;
use std::fmt::Write as _;

use laggard_answer::live::{LateActivation, LateFinder, Live, Row, WindowFigures};
use laggard_model::name::series_words;
use laggard_model::text::{Unit, count};
use laggard_model::{Nanos, printable};
use laggard_session::{Ending, News, Next, WatchError, Watcher};
use laggard_view::late_causes;

use super::panel::{backend, load};
use crate::pipe;

/// Maximum number of late wakeups printed per interval: the largest latencies. The others are
/// counted.
const MAX_LATE_LINES: usize = 3;

/// Prints lines during a measurement.
pub(super) struct Lines {
    state: Live,
    finder: LateFinder,
    /// Late wakeups of the current interval.
    late: Vec<LateActivation>,
    has_head: bool,
    /// Whether the reader has closed the pipe.
    is_closed: bool,
}

impl Lines {
    pub(super) const fn new(state: Live, finder: LateFinder) -> Self {
        Self {
            state,
            finder,
            late: Vec::new(),
            has_head: false,
            is_closed: false,
        }
    }

    pub(super) fn into_live(self) -> Live {
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
        if !std::mem::replace(&mut self.has_head, true) {
            text += &head(&self.state);
        }
        let late = self.finder.find(news.batch, news.late, news.start);
        self.late.extend(late.iter().cloned());
        let times = (news.start, news.now);
        if self.state.observe(news.batch, late, news.losses, times) {
            text += &late_lines(&mut self.late);
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
        // An error here means that the reader has closed the pipe.
        let late = late_lines(&mut self.late);
        let _ = self.print(&late);
        self.state
            .end(&ending.caveats, ending.losses, ending.cost.clone());
    }
}

/// Describes the measurement, and names the columns.
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
            "; {} (see `laggard doctor`)",
            match manifest.caveats.len() {
                1 => "1 warning".to_owned(),
                warnings => format!("{warnings} warnings"),
            }
        );
    }
    text.push('\n');
    text + &columns()
}

fn columns() -> String {
    format!(
        "{:>11}  {:<25} {:>9} {:>9} {:>9} {:>11}  {:>11} {:>7} {:>7}\n",
        "time", "service", "samples", "p50", "p99", "max", "max so far", "missed", "lost"
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
    let max = |max: Option<Nanos>| {
        if row.still_waiting == 0 {
            time(max)
        } else {
            format!(">= {}", time(max))
        }
    };
    format!(
        "{:>9.1} s  {:<25} {:>9} {:>9} {:>9} {:>11}  {:>11} {missed:>7} {:>7}\n",
        at.as_secs_f64(),
        series_words(row.way.0, row.way.1),
        count(figures.count),
        time(figures.p50),
        time(figures.p99),
        max(figures.max),
        max(row.windows[2].max),
        row.lost.map_or_else(|| "-".into(), count),
    )
}

/// Returns the lines of the late wakeups of an interval, and clears them.
fn late_lines(late: &mut Vec<LateActivation>) -> String {
    late.sort_by_key(|late| Reverse(late.latency));
    let others = late.get(MAX_LATE_LINES..).unwrap_or_default();
    let others = others.first().map_or_else(String::new, |longest| {
        let others = others.len();
        let max = Unit::Auto.write_nanos(longest.latency);
        format!("{:>11}  late: {others} more, max {max}\n", "")
    });
    late.truncate(MAX_LATE_LINES);
    late.sort_by_key(|late| late.at);
    let lines: String = late.iter().map(late_line).collect();
    late.clear();
    lines + &others
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
        late_causes(late, |time| Unit::Auto.write_nanos(time)),
    )
}

#[cfg(test)]
mod tests {
    use laggard_model::{Cpu, Line, Route, Service};

    use super::*;

    fn late(ms: u64) -> LateActivation {
        let line = Line::new(Cpu(1), Service::Fifo(90), Route::Direct);
        LateActivation {
            at: Nanos::from_secs(1) + Nanos::from_ms(ms),
            line,
            name: series_words(line.service, line.route),
            cpu: line.cpu,
            latency: Nanos::from_ms(ms),
            censored: false,
            stages: Vec::new(),
            number: None,
            causes: Vec::new(),
        }
    }

    #[test]
    fn an_interval_has_a_limited_number_of_late_lines() {
        let mut wakeups: Vec<LateActivation> = (1..=146).map(late).collect();

        let text = late_lines(&mut wakeups);

        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), MAX_LATE_LINES + 1, "{text}");
        assert_eq!(
            lines[2],
            "    1.146 s  late: SCHED_FIFO 90 on CPU 1, 146 ms: cause unknown"
        );
        assert_eq!(lines[3].trim(), "late: 143 more, max 143 ms");
        assert!(wakeups.is_empty());
        assert_eq!(late_lines(&mut wakeups), "");
        assert_eq!(late_lines(&mut vec![late(2)]).lines().count(), 1);
    }
}
