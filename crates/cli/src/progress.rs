//! Progress bar: remaining time, and the max latency per service.

use std::collections::BTreeMap;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use laggard_model::text::Unit;
use laggard_model::{Line, Nanos, Route, ServiceRank, printable};

use laggard_session::{Ending, News, Next, WatchError, Watcher};

use crate::pipe;

/// Progress during a recording. Empty if the output is not a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    lines: Vec<Line>,
    largest: BTreeMap<(Route, ServiceRank), (String, Nanos)>,
}

impl Progress {
    pub(crate) fn new(quiet: bool, duration: Option<Nanos>, lines: &[Line]) -> Self {
        let bar = match duration {
            Some(duration) => ProgressBar::new(duration.ns() / 1_000_000),
            None => ProgressBar::no_length(),
        };
        if quiet {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let template = match duration {
            Some(_) => "{bar:24} {elapsed} of {prefix}, {eta} left; max: {wide_msg}",
            None => "{spinner} {elapsed}; max: {wide_msg}",
        };
        let style =
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        if let Some(duration) = duration {
            bar.set_prefix(duration.to_string());
        }
        Self {
            bar,
            lines: lines.to_vec(),
            largest: BTreeMap::new(),
        }
    }
}

impl Watcher for Progress {
    fn observe(&mut self, news: &News<'_>) -> Result<Next, WatchError> {
        if self.bar.is_hidden() {
            return Ok(Next::GoOn);
        }
        for activation in news.batch.iter() {
            let Some(line) = self.lines.get(usize::from(activation.line.0)) else {
                continue;
            };
            let latency = activation.latency();
            let (name, rank) = (line.service.to_string(), line.service.rank());
            let entry = self
                .largest
                .entry((line.route, rank))
                .or_insert((name, latency));
            entry.1 = entry.1.max(latency);
        }
        let text: Vec<String> = self
            .largest
            .iter()
            .filter(|((route, _), _)| *route == Route::Direct)
            .map(|(_, (name, latency))| format!("{name} {}", Unit::Auto.write_nanos(*latency)))
            .collect();
        let elapsed = news.now.saturating_sub(news.start);
        self.bar.set_position(elapsed.ns() / 1_000_000);
        self.bar.set_message(text.join(", "));
        Ok(Next::GoOn)
    }

    /// Prints above the bar, if there is one.
    fn say(&mut self, text: &str) {
        if self.bar.is_hidden() {
            pipe::say(text)
        } else {
            self.bar.println(printable(text).to_string())
        }
    }

    fn end(&mut self, _ending: &Ending) {
        self.bar.finish_and_clear();
    }
}
