//! Views of a running measurement: the page of `laggard serve`, and the summary of
//! `laggard top`.

use laggard_answer::Trust;
use laggard_answer::live::{LateActivation, Live, Row, Window, WindowFigures};
use laggard_answer::show::named_losses;
use laggard_model::Nanos;
use laggard_model::name::series_words;
use laggard_model::text::{Unit, count, span};

use crate::doc::{Block, Cell, Column, Document, Reason, Table};
use crate::phrase::live as phrase;
use crate::phrase::{plural, warning};
use crate::sheet::{escaped, number, sheet, table, word};

/// Late wakeups on the page.
const MAX_LATE: usize = 30;

/// Lists the causes of a late wakeup, with times in the format of `write`.
pub fn late_causes(late: &LateActivation, write: impl Fn(Nanos) -> String) -> String {
    phrase::causes(late, write)
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
    let found = live.found.iter().map(warning).collect();
    document.notes("Found during the measurement", found);
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
pub fn live(seen: Option<&Live>, unmeasured: Option<&str>, unkept: Option<&str>) -> String {
    let mut body = String::new();
    if let Some(why) = unmeasured {
        body += &format!(
            "<p class=\"said worse\">Not measuring: {}. The figures below are older; laggard tries again.</p>\n",
            escaped(why)
        );
    }
    match seen {
        Some(seen) => write(&mut body, seen),
        None => body += "<h1>laggard</h1>\n<p class=\"said\">Measuring has not started yet.</p>\n",
    }
    if let Some(why) = unkept {
        body += &format!(
            "<p class=\"said worse\">Not recording: {}</p>\n",
            escaped(why)
        );
    }
    body += "<p class=\"faint\">For programs: <a href=\"/metrics\">/metrics</a>, \
             <a href=\"/episodes\">/episodes</a>, <a href=\"/healthz\">/healthz</a>. \
             This page reloads every 10 s.</p>\n";
    sheet("laggard", &body)
}

fn write(body: &mut String, seen: &Live) {
    let host = &seen.manifest.host;
    let name = if host.node.is_empty() {
        "this machine"
    } else {
        &host.node
    };
    *body += &format!("<h1>Latency of {}</h1>\n", escaped(name));
    let plan = &seen.manifest.plan;
    *body += &format!(
        "<p class=\"faint\">Period {}, {} CPUs, Linux {}; {} in this recording</p>\n",
        plan.period_ns,
        seen.cpus().len(),
        escaped(&host.kernel),
        span(seen.now),
    );
    if let Trust::None(_) = seen.judge().trust
        && let Some(why) = seen.judge().trust.reasons()
    {
        *body += &format!(
            "<p class=\"said worse\">Not trustworthy: {}</p>\n",
            escaped(&why)
        );
    }
    let header = [
        ("Service", false),
        ("Samples", true),
        ("p50", true),
        ("p99", true),
        ("Max", true),
        ("Max of this recording", true),
        ("Missed", true),
        ("Lost", true),
    ];
    let rows: Vec<_> = seen.rows(None).iter().map(service).collect();
    let caption = format!(
        "{}; missed and lost since the start of this recording.",
        seen.words(Window::Minute)
    );
    *body += &table(&escaped(&caption), &header, &rows);
    *body += "<h2>Late wakeups</h2>\n";
    let listed = seen.late.listed();
    if listed.is_empty() {
        *body += "<p>None in this recording.</p>\n";
    } else {
        let rows: Vec<_> = listed
            .iter()
            .rev()
            .take(MAX_LATE)
            .map(|wakeup| late(wakeup, seen.now))
            .collect();
        let header = [
            ("Service", false),
            ("CPU", true),
            ("Ago", true),
            ("Latency", true),
            ("Causes", false),
        ];
        let caption = format!("The newest of {}.", count(seen.late.count));
        *body += &table(&caption, &header, &rows);
    }
    if let Some(overhead) = overhead(seen) {
        *body += &format!("<p class=\"faint\">Overhead: {overhead}</p>\n");
    }
    if !seen.manifest.caveats.is_empty() {
        *body += "<h2>Warnings</h2>\n<ul>\n";
        for caveat in &seen.manifest.caveats {
            *body += &format!(
                "<li>{}; {}</li>\n",
                escaped(&caveat.what),
                escaped(&caveat.advice)
            );
        }
        *body += "</ul>\n";
    }
}

type Cells = Vec<(crate::sheet::PageCell, &'static str)>;

fn service(row: &Row) -> Cells {
    let [_, minute, start] = row.windows;
    let time =
        |time: Option<Nanos>| time.map_or_else(|| "-".into(), |it| Unit::Auto.write_nanos(it));
    let largest = |of: WindowFigures| match (row.still_waiting, of.max) {
        (0, max) => time(max),
        (_, max) => format!(">= {}", time(max)),
    };
    vec![
        word(series_words(row.way.0, row.way.1)),
        number(count(minute.count)),
        number(time(minute.p50)),
        number(time(minute.p99)),
        number(largest(minute)),
        number(largest(start)),
        if row.way.0.has_lines() {
            number(count(row.missed))
        } else {
            number("-")
        },
        number(row.lost.map_or_else(|| "-".into(), count)),
    ]
}

fn late(late: &LateActivation, now: Nanos) -> Cells {
    vec![
        word(late.name.clone()),
        number(late.cpu.to_string()),
        number(span(now.saturating_sub(late.at))),
        number(Unit::Auto.write_nanos(late.latency)),
        word(phrase::causes(late, |time| Unit::Auto.write_nanos(time))),
    ]
}

#[cfg(test)]
mod tests {
    use laggard_answer::live::LatePart;
    use laggard_model::{
        Backend, CauseClass, Clock, Cpu, Line, Losses, Manifest, ProbePlan, Route, Service,
    };

    use super::*;

    #[test]
    fn a_hostile_name_stays_text_and_the_page_has_no_script() {
        let line = Line {
            cpu: Cpu(0),
            service: Service::Fifo(90),
            route: Route::Direct,
        };
        let clock = Clock::monotonic(Nanos::ZERO, "then");
        let mut manifest = Manifest::new(Backend::Bpf, ProbePlan::default(), clock, vec![line]);
        manifest.host.node = "<script>".into();
        let mut seen = Live::new(&manifest, Nanos::from_secs(1));
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
                class: CauseClass::HigherPriority,
                who: Some("<script>alert(1)</script>\u{1b}[2J".into()),
                who_anywhere: None,
            }],
        };
        let times = (Nanos::ZERO, Nanos::from_secs(2));
        seen.observe(
            &laggard_model::Batch::default(),
            vec![late],
            Losses::default(),
            times,
        );

        let page = live(Some(&seen), Some("<i>"), Some("<b>"));
        assert!(
            page.contains("Not measuring: &lt;i&gt;. The figures below are older"),
            "{page}"
        );

        assert!(!page.contains("<script") && !page.contains("<b>"), "{page}");
        assert!(page.contains("&lt;script&gt;alert"), "{page}");
        assert!(!page.contains('\u{1b}'), "{page}");
        assert!(page.contains("3.00 ms"), "{page}");
    }
}
