//! Tables of docs/validation/coverage.md.

use std::fmt::Write as _;
use std::path::Path;

use laggard_analyze::Interval;

use crate::processes::{Coverage, Process};

const PAGE: &str = "../../docs/validation/coverage.md";

/// Page in the making.
#[derive(Default)]
pub(crate) struct Page(String);

impl Page {
    /// Starts a section with a table of processes.
    pub(crate) fn section(&mut self, title: &str, text: &str) {
        self.section_of(title, text, "events");
    }

    /// Starts a section with a table of processes whose third column is `column`.
    pub(crate) fn section_of(&mut self, title: &str, text: &str, column: &str) {
        let _ = write!(
            self.0,
            "\n## {title}\n\n{text}\n\n| process | recording | {column} | answered | covered (95 % CI) | upper / lower |\n|---|--:|--:|--:|--:|--:|\n"
        );
    }

    /// Adds the coverage of a process.
    pub(crate) fn row(&mut self, process: &Process, coverage: &Coverage) {
        let (span, events) = (process.span, process.events);
        self.line(
            &process.name(),
            &format!("{span} s"),
            &events.to_string(),
            coverage,
        );
    }

    /// Adds any other coverage.
    pub(crate) fn line(&mut self, name: &str, recording: &str, events: &str, coverage: &Coverage) {
        let answered = 100.0 * coverage.answered as f64 / coverage.runs as f64;
        if coverage.answered == 0 {
            let _ = writeln!(self.0, "| {name} | {recording} | {events} | none | | |");
            return;
        }
        let interval = wilson(coverage.held, coverage.answered);
        let (share, width) = (coverage.share(), coverage.width());
        let width = match width {
            // A bound does not have a lower limit.
            f64::INFINITY => "-".into(),
            0.0..1e3 => format!("{width:.1}"),
            _ => "> 1,000".into(),
        };
        let _ = writeln!(
            self.0,
            "| {name} | {recording} | {events} | {answered:.0} % | {share:.3} ({:.3} to {:.3}) | {width} |",
            interval.low, interval.high
        );
    }

    /// Replaces the tables of the page; the text above the first `##` stays.
    pub(crate) fn write(&self) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
        let page = std::fs::read_to_string(&path).expect("the page exists");
        let head = page.split("\n## ").next().unwrap_or_default();
        std::fs::write(&path, format!("{}\n{}", head.trim_end(), self.0))
            .expect("the page is written");
    }
}

/// Returns the interval of a probability (Wilson 1927).
fn wilson(held: u64, count_of_all: u64) -> Interval {
    let (count, z) = (count_of_all as f64, 1.96_f64);
    let share = held as f64 / count;
    let middle = share + z * z / (2.0 * count);
    let half = z * (share * (1.0 - share) / count + z * z / (4.0 * count * count)).sqrt();
    let scale = 1.0 + z * z / count;
    Interval::new((middle - half) / scale, ((middle + half) / scale).min(1.0))
}
