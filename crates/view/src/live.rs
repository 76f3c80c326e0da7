//! What `laggard serve` shows a browser: the last minute, and late activations.

use laggard_answer::Trust;
use laggard_answer::live::{LateActivation, Live, Row, Window, WindowFigures};
use laggard_model::Nanos;
use laggard_model::name::line_name;
use laggard_model::text::{Unit, count, span};

use crate::sheet::{escaped, number, sheet, table, word};

/// Late activations that are shown.
const LATE: usize = 30;

/// A page of what is measured now. `None`: nothing yet. `unmeasured` says why nothing is
/// measured any more, `unkept` why it is not recorded, where it should be.
pub fn live(seen: Option<&Live>, unmeasured: Option<&str>, unkept: Option<&str>) -> String {
    let mut body = String::new();
    if let Some(why) = unmeasured {
        body += &format!(
            "<p class=\"said worse\">Nothing is measured: {}. What is below is from before; it is tried again.</p>\n",
            escaped(why)
        );
    }
    match seen {
        Some(seen) => write(&mut body, seen),
        None => body += "<h1>laggard</h1>\n<p class=\"said\">Measuring has not begun yet.</p>\n",
    }
    if let Some(why) = unkept {
        body += &format!(
            "<p class=\"said worse\">Nothing is recorded: {}</p>\n",
            escaped(why)
        );
    }
    body += "<p class=\"faint\">For programs: <a href=\"/metrics\">/metrics</a>, \
             <a href=\"/episodes\">/episodes</a>, <a href=\"/healthz\">/healthz</a>. \
             This page loads itself again every 10 s.</p>\n";
    sheet("laggard", &body)
}

fn write(body: &mut String, seen: &Live) {
    let host = &seen.manifest.host;
    let name = if host.node.is_empty() {
        "this machine"
    } else {
        &host.node
    };
    *body += &format!("<h1>How late {} is</h1>\n", escaped(name));
    let plan = &seen.manifest.plan;
    *body += &format!(
        "<p class=\"faint\">Asked every {} on {} CPUs; Linux {}; for {} in this piece</p>\n",
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
        ("Largest", true),
        ("Largest of this piece", true),
        ("Missed", true),
        ("Lost", true),
    ];
    let rows: Vec<_> = seen.rows(None).iter().map(service).collect();
    let caption = format!(
        "{}; missed and lost since this piece of measuring began.",
        seen.words(Window::Minute)
    );
    *body += &table(&escaped(&caption), &header, &rows);
    *body += "<h2>Late activations</h2>\n";
    let listed = seen.late.listed();
    if listed.is_empty() {
        *body += "<p>None in this piece of measuring.</p>\n";
    } else {
        let rows: Vec<_> = listed
            .iter()
            .rev()
            .take(LATE)
            .map(|one| late(one, seen.now))
            .collect();
        let header = [
            ("Service", false),
            ("CPU", true),
            ("Ago", true),
            ("Latency", true),
            ("Who took the time", false),
        ];
        let caption = format!("The newest of {}.", count(seen.late.count));
        *body += &table(&caption, &header, &rows);
    }
    if let Some(cost) = seen.cost.as_ref().filter(|cost| cost.wall_ns > Nanos::ZERO) {
        let share = 100.0 * cost.total().ns() as f64 / cost.wall_ns.ns() as f64;
        *body += &format!("<p class=\"faint\">Measuring takes {share:.2} % of one CPU.</p>\n");
    }
    if !seen.manifest.caveats.is_empty() {
        *body += "<h2>Caveats</h2>\n<ul>\n";
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
        word(line_name(row.way.0, row.way.1)),
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

fn late(one: &LateActivation, now: Nanos) -> Cells {
    vec![
        word(one.name.clone()),
        number(one.cpu.to_string()),
        number(span(now.saturating_sub(one.at))),
        number(Unit::Auto.write_nanos(one.latency)),
        word(one.why(|time| Unit::Auto.write_nanos(time))),
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
            name: "fifo:90".into(),
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
            page.contains("Nothing is measured: &lt;i&gt;. What is below is from before"),
            "{page}"
        );

        assert!(!page.contains("<script") && !page.contains("<b>"), "{page}");
        assert!(page.contains("&lt;script&gt;alert"), "{page}");
        assert!(!page.contains('\u{1b}'), "{page}");
        assert!(page.contains("3.00 ms"), "{page}");
    }
}
