//! Views of a running measurement: the page of `laggard serve`, and the summary of
//! `laggard top`.

use laggard_answer::live::{LateActivation, Live, Row, Window, WindowFigures};
use laggard_answer::show::named_losses;
use laggard_model::Nanos;
use laggard_model::name::series_words;
use laggard_model::text::{Unit, count, span};

use crate::doc::{self, Block, Cell, Column, Document, Reason, Table, Verdict};
use crate::phrase::live as phrase;
use crate::phrase::{plural, trust, warning};
use crate::text::Tone;

/// Late wakeups on the page.
const MAX_LATE: usize = 30;

/// Lists the causes of a late wakeup, with times in the format of `write`.
pub fn late_causes(late: &LateActivation, write: impl Fn(Nanos) -> String) -> String {
    phrase::causes(late, write)
}

/// Names a window. The last minute has its length until a minute has passed.
pub fn live_window(live: &Live, window: Window) -> String {
    match (window, live.part_of_minute()) {
        (Window::Now, _) => "now".into(),
        (Window::Minute, Some(part)) => {
            format!("last {} s", (part.ns() / 1_000_000_000).max(1))
        }
        (Window::Minute, None) => "last minute".into(),
        (Window::Start, _) if live.since > Nanos::ZERO => "since reset".into(),
        (Window::Start, _) => "since start".into(),
    }
}

/// Describes a measurement that has ended.
pub fn live_summary(live: &Live) -> Document {
    let mut document = Document::new("Latencies");
    let since_reset = live.now.saturating_sub(live.since);
    let caption = if live.since == Nanos::ZERO {
        format!("Measured for {}:", span(live.now))
    } else {
        format!(
            "Measured for {}; the last {}, since the reset:",
            span(live.now),
            span(since_reset)
        )
    };
    let columns = ["samples", "p50", "p99", "max", "missed", "lost"].map(Column::number);
    let columns = std::iter::once(Column::name("service")).chain(columns);
    let mut table = Table::new(columns).caption(caption);
    for row in live.rows(None) {
        table.row(summary_row(&row));
    }
    document.push(Block::Table(table));
    let losses = live.losses();
    let named: Vec<String> = named_losses(&losses)
        .map(|(name, number)| format!("{name} {}", count(number)))
        .collect();
    let mut lines = vec![
        format!("Late wakeups: {}", count(live.late.count)),
        format!(
            "Lost: {}; {}",
            plural(losses.activations(), "wakeup"),
            named.join(", ")
        ),
    ];
    lines.extend(overhead(live).map(|overhead| format!("Overhead: {overhead}")));
    document.lines(lines);
    let warnings = live.found.iter().map(warning).collect();
    document.notes("Found during the measurement", warnings);
    document
}

fn summary_row(row: &Row) -> Vec<Cell> {
    let [_, _, start] = row.windows;
    let time = |time| Cell::time_or(time, Reason::TooFewSamples);
    let max = if row.still_waiting > 0 {
        Cell::AtLeast(Box::new(time(start.max)))
    } else {
        time(start.max)
    };
    let missed = if row.way.0.has_lines() {
        Cell::Count(row.missed)
    } else {
        Cell::Unknown(Reason::NotApplicable)
    };
    vec![
        series_words(row.way.0, row.way.1).into(),
        Cell::Count(start.count),
        time(start.p50),
        time(start.p99),
        max,
        missed,
        row.lost
            .map_or(Cell::Unknown(Reason::NotApplicable), Cell::Count),
    ]
}

/// States the overhead. `None` before it was read.
fn overhead(live: &Live) -> Option<String> {
    let cost = live.cost.as_ref();
    let cost = cost.filter(|cost| cost.wall_ns > Nanos::ZERO)?;
    let share = 100.0 * cost.total().ns() as f64 / cost.wall_ns.ns() as f64;
    Some(format!("{share:.2} % of one CPU"))
}

/// Writes the page of `laggard serve`. `seen` is `None` before the first measurement.
/// `unmeasured` is the reason why measuring stopped, `unkept` the reason why it is not
/// recorded although it should be.
pub fn live(state: Option<&Live>, unmeasured: Option<&str>, unkept: Option<&str>) -> String {
    let title = state.map_or_else(|| "laggard".into(), title);
    let mut document = Document::new(title);
    let mut verdicts: Vec<Verdict> = Vec::new();
    verdicts.extend(unmeasured.map(|why| {
        let text = format!("{why}. The figures below are older; laggard tries again.");
        bad("Not measuring:", text)
    }));
    verdicts.extend(unkept.map(|why| bad("Not recording:", why.into())));
    let trust = state.map(|state| state.judge().trust);
    let reasons = trust.as_ref().and_then(trust::reasons);
    verdicts.extend(reasons.map(|reasons| bad("Not trustworthy:", reasons)));
    if !verdicts.is_empty() {
        document.push(Block::Verdicts(verdicts));
    }
    match state {
        Some(state) => push_figures(&mut document, state),
        None => document.paragraph("Measuring has not started yet."),
    }
    doc::html_with_footer(&document, "laggard", &|_| None, FOOTER)
}

/// Links to the other pages.
const FOOTER: &str = "<p class=\"faint\">For programs: <a href=\"/metrics\">/metrics</a>, \
    <a href=\"/episodes\">/episodes</a>, <a href=\"/healthz\">/healthz</a>. \
    This page reloads every 10 s.</p>\n";

fn title(seen: &Live) -> String {
    match seen.manifest.host.node.as_str() {
        "" => "Latency of this machine".into(),
        name => format!("Latency of {name}"),
    }
}

fn bad(word: &str, text: String) -> Verdict {
    Verdict {
        tone: Tone::Bad,
        word: word.into(),
        text,
    }
}

fn push_figures(document: &mut Document, live: &Live) {
    document.lines(vec![format!(
        "Period {}, {} CPUs, Linux {}; {} in this recording",
        live.manifest.plan.period_ns,
        live.cpus().len(),
        live.manifest.host.kernel,
        span(live.now),
    )]);
    let columns = [
        "samples",
        "p50",
        "p99",
        "max",
        "max of this recording",
        "missed",
        "lost",
    ];
    let columns = columns.map(Column::number);
    let columns = std::iter::once(Column::name("service")).chain(columns);
    let mut table = Table::new(columns).caption(format!(
        "{}; missed and lost since the start of this recording.",
        live_window(live, Window::Minute)
    ));
    for row in live.rows(None) {
        table.row(service(&row));
    }
    document.push(Block::Table(table));
    document.heading("Late wakeups");
    let listed = live.late.listed();
    if listed.is_empty() {
        document.paragraph("None in this recording.");
    } else {
        let columns = ["CPU", "ago", "latency"].map(Column::number);
        let columns = std::iter::once(Column::name("service")).chain(columns);
        let columns = columns.chain([Column::sentence("causes")]);
        let caption = format!("The newest of {}.", count(live.late.count));
        let mut table = Table::new(columns).caption(caption);
        for wakeup in listed.iter().rev().take(MAX_LATE) {
            table.row(late(wakeup, live.now));
        }
        document.push(Block::Table(table));
    }
    document.lines(
        overhead(live)
            .map(|overhead| format!("Overhead: {overhead}"))
            .into_iter()
            .collect(),
    );
    let caveats = live.manifest.caveats.iter().map(warning);
    document.notes("Warnings", caveats.collect());
}

fn service(row: &Row) -> Vec<Cell> {
    let [_, minute, start] = row.windows;
    let time = |time| Cell::time_or(time, Reason::TooFewSamples);
    let max = |figures: WindowFigures| match row.still_waiting {
        0 => time(figures.max),
        _ => Cell::AtLeast(Box::new(time(figures.max))),
    };
    let missed = row.way.0.has_lines().then_some(Cell::Count(row.missed));
    vec![
        series_words(row.way.0, row.way.1).into(),
        Cell::Count(minute.count),
        time(minute.p50),
        time(minute.p99),
        max(minute),
        max(start),
        missed.unwrap_or(Cell::Unknown(Reason::NotApplicable)),
        row.lost
            .map_or(Cell::Unknown(Reason::NotApplicable), Cell::Count),
    ]
}

fn late(late: &LateActivation, now: Nanos) -> Vec<Cell> {
    vec![
        late.name.as_str().into(),
        late.cpu.to_string().into(),
        span(now.saturating_sub(late.at)).into(),
        Cell::Time(late.latency),
        phrase::causes(late, |time| Unit::Auto.write_nanos(time)).into(),
    ]
}

#[cfg(test)]
mod tests {
    use laggard_answer::live::LatePart;
    use laggard_model::{
        Backend, CauseClass, Clock, Cpu, Line, Losses, Manifest, NamedCause, ProbePlan, Route,
        Service,
    };

    use super::*;

    #[test]
    fn a_hostile_name_stays_text_and_the_page_has_no_script() {
        let line = Line::new(Cpu(0), Service::Fifo(90), Route::Direct);
        let clock = Clock::monotonic(Nanos::ZERO, "then");
        let mut manifest = Manifest::new(Backend::Bpf, ProbePlan::default(), clock, vec![line]);
        manifest.host.node = "<script>".into();
        let mut state = Live::new(&manifest, Nanos::from_secs(1));
        let late = LateActivation {
            at: Nanos::ZERO,
            line,
            name: "SCHED_FIFO 90".into(),
            cpu: Cpu(0),
            latency: Nanos::from_ms(3),
            censored: false,
            stages: Vec::new(),
            number: None,
            causes: vec![LatePart {
                time: Nanos::from_ms(3),
                cause: NamedCause::new(
                    CauseClass::HigherPriority,
                    Some("<script>alert(1)</script>\u{1b}[2J"),
                ),
                without_place: NamedCause::new(CauseClass::HigherPriority, None),
            }],
        };
        let times = (Nanos::ZERO, Nanos::from_secs(2));
        state.observe(
            &laggard_model::Batch::default(),
            vec![late],
            Losses::default(),
            times,
        );

        let page = live(Some(&state), Some("<i>"), Some("<b>"));
        assert!(
            page.contains("Not measuring:</strong> &lt;i&gt;. The figures below are older"),
            "{page}"
        );

        assert!(!page.contains("<script") && !page.contains("<b>"), "{page}");
        assert!(page.contains("&lt;script&gt;alert"), "{page}");
        assert!(!page.contains('\u{1b}'), "{page}");
        assert!(page.contains("3.00 ms"), "{page}");
    }
}
