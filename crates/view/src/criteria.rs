//! `laggard rtos` for others to look at: one page, for a browser or as Markdown for
//! issue trackers.

use std::fmt::Write as _;

use laggard_answer::rtos::{InterruptTimes, RtosReport, RtosVerdict};
use laggard_model::text::{Unit, count, percent};
use laggard_model::{Nanos, printable_lines};

use crate::markdown;
use crate::sheet::{self, number, sheet, table, word};

const TITLE: &str = "Has this system what a real-time operating system needs?";
const NONE: &str = "-";

/// Figures beside the verdicts.
struct CriteriaTable {
    title: &'static str,
    caption: String,
    header: Vec<String>,
    /// Words in the first cell, then a figure below each name.
    rows: Vec<Vec<String>>,
}

/// The report as a page.
pub fn criteria_page(report: &RtosReport) -> String {
    let mut body = format!("<h1>{TITLE}</h1>\n");
    let _ = writeln!(
        body,
        "<p class=\"faint\">{}</p>",
        sheet::escaped(&machine(report))
    );
    for sentence in told(report) {
        let _ = writeln!(body, "<p class=\"said\">{}</p>", sheet::escaped(&sentence));
    }
    let rows = report.rows.iter().map(|row| {
        let colour = match row.verdict {
            RtosVerdict::Pass => "better",
            RtosVerdict::Fail => "worse",
            RtosVerdict::CannotBeTold => "",
        };
        vec![
            ((row.verdict.words().to_owned(), false), colour),
            word(row.criterion.name()),
            word(row.criterion.about()),
            word(row.because.clone()),
        ]
    });
    let header = [
        ("verdict", false),
        ("criterion", false),
        ("asked", false),
        ("seen", false),
    ];
    body += &table("", &header, &rows.collect::<Vec<_>>());
    for figures in figures(report) {
        let header: Vec<(&str, bool)> = figures
            .header
            .iter()
            .map(String::as_str)
            .zip(1..)
            .map(|(name, place)| (name, place > 1))
            .collect();
        let rows = figures.rows.into_iter().map(|row| {
            let mut cells = row.into_iter();
            let mut all: Vec<_> = cells.next().map(word).into_iter().collect();
            all.extend(cells.map(number));
            all
        });
        let rows: Vec<_> = rows.collect();
        let _ = writeln!(body, "<h2>{}</h2>", figures.title);
        body += &table(&sheet::escaped(&figures.caption), &header, &rows);
    }
    sheet("laggard rtos", &body)
}

/// The report as Markdown, in the flavour that has tables.
pub fn criteria(report: &RtosReport) -> String {
    let mut text = format!("## {TITLE}\n\n{}\n", markdown::escaped(&machine(report)));
    for sentence in told(report) {
        let _ = writeln!(text, "\n{}", markdown::escaped(&sentence));
    }
    text += "\n| verdict | criterion | asked | seen |\n| --- | --- | --- | --- |\n";
    for row in &report.rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            row.verdict.words(),
            row.criterion,
            row.criterion.about(),
            markdown::escaped(&row.because)
        );
    }
    for figures in figures(report) {
        let rule = "| --: ".repeat(figures.header.len().saturating_sub(1));
        let _ = writeln!(
            text,
            "\n### {}\n\n{}\n\n| {} |\n| --- {rule}|",
            figures.title,
            markdown::escaped(&figures.caption),
            figures.header.join(" | ")
        );
        for row in &figures.rows {
            let cells: Vec<String> = row.iter().map(|cell| markdown::escaped(cell)).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    printable_lines(&text).to_string()
}

fn machine(report: &RtosReport) -> String {
    let host = &report.host;
    let preemption = host.preemption.as_ref();
    let words = [
        Some(host.system()).filter(|_| !host.kernel.is_empty()),
        preemption.map(|model| format!("preemption {model}")),
        Some(host.processor.model.clone()).filter(|model| !model.is_empty()),
        host.hypervisor.as_ref().map(|name| format!("under {name}")),
        Some(format!("on CPU {}", report.cpu)),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The answer, what would tell more, what was not come to, and reasons to doubt it.
fn told(report: &RtosReport) -> Vec<String> {
    let mut all = vec![report.summary.clone()];
    all.extend(report.remedies());
    if !report.untried.is_empty() {
        let names: Vec<&str> = report.untried.iter().map(|one| one.name()).collect();
        all.push(format!("It was ended early, before {}.", names.join(", ")));
    }
    let caveats = report.caveats.iter();
    all.extend(caveats.map(|it| format!("Caveat: {}; {}", it.what, it.advice)));
    all
}

fn figures(report: &RtosReport) -> Vec<CriteriaTable> {
    [interrupts(report), loads(report)]
        .into_iter()
        .flatten()
        .collect()
}

fn time(time: Option<Nanos>) -> String {
    time.map_or_else(|| NONE.into(), |time| Unit::Auto.write_nanos(time))
}

fn interrupts(report: &RtosReport) -> Option<CriteriaTable> {
    let seen = report
        .interrupts
        .as_ref()
        .filter(|seen| seen.interrupts > 0)?;
    let mut caption = format!(
        "{} interrupts of a fifo:90 thread, by {}. A reading of the clock takes {}: nothing is known to be shorter.",
        count(seen.interrupts as u64),
        seen.source,
        Unit::Auto.write_nanos(seen.reading_ns)
    );
    if let Some(level) = seen.level {
        let _ = write!(caption, " The level is p{}.", percent(level));
    }
    let row = |name: &str, times: &InterruptTimes| {
        vec![
            name.to_owned(),
            time(times.median_ns),
            time(times.level_ns),
            time(times.largest_ns),
            time(times.largest_net_ns),
        ]
    };
    Some(CriteriaTable {
        title: "Interrupts",
        caption,
        header: [
            "",
            "median",
            "level",
            "largest seen",
            "without the hypervisor",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: vec![
            row("ISR latency", &seen.latency),
            row("handler", &seen.handler),
            row("ISR dispatch latency", &seen.dispatch),
        ],
    })
}

fn loads(report: &RtosReport) -> Option<CriteriaTable> {
    let loads = report.largest.as_ref().filter(|loads| !loads.is_empty())?;
    let rows = loads.iter().map(|load| {
        vec![
            load.load.clone(),
            count(load.rounds as u64),
            count(load.missed),
            time(load.largest_ns),
            time(load.largest_net_ns),
        ]
    });
    Some(CriteriaTable {
        title: "Wakeups under loads",
        caption: "A woken fifo:90 takes over from the load, or from a thread behind all others (SCHED_IDLE). Missed: due before the wakeup before had run, and in no other figure.".into(),
        header: [
            "load",
            "wakeups",
            "missed",
            "largest seen",
            "without the hypervisor",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: rows.collect(),
    })
}

#[cfg(test)]
mod tests {
    use laggard_answer::rtos::{RtosMeasured, rtos};
    use laggard_model::{
        Absence, Cpu, Host, InterruptSeen, InterruptsSeen, Lacks, LoadedDuels, PagesSeen,
        RtosCriterion,
    };

    use super::*;

    fn report() -> RtosReport {
        let asked = vec![
            RtosCriterion::Largest,
            RtosCriterion::Locked,
            RtosCriterion::Interrupts,
        ];
        let host = Host {
            kernel: "6.12.9|rt".into(),
            ..Host::default()
        };
        let mut measured = RtosMeasured::new(host, Cpu(1), Nanos::from_ms(1), asked);
        measured.largest = Some(vec![LoadedDuels {
            load: "<b>".into(),
            duels: Err(Absence {
                reason: "iperf3 not there".into(),
                remedy: "apt-get install iperf3".into(),
                lacks: Lacks::Machine,
            }),
        }]);
        measured.locked = Some(Ok(PagesSeen::default()));
        let interrupt = InterruptSeen {
            latency: Nanos::from_us(2),
            is_of_thread: true,
            handler: Nanos::from_us(1),
            dispatch: Some(Nanos::from_us(3)),
            stolen: None,
        };
        measured.interrupts = Some(Ok(InterruptsSeen {
            interrupts: vec![interrupt; 1_500],
            reading: Nanos::from_ns(40),
            ..InterruptsSeen::default()
        }));
        rtos(&measured)
    }

    #[test]
    fn every_verdict_is_on_the_page_with_the_paper_s_own_words() {
        let page = criteria_page(&report());

        assert!(
            page.contains("necessary but not sufficient (Timmerman 1998)"),
            "{page}"
        );
        assert!(
            page.contains("<td class=\"better\">pass</td><td>interrupts</td>"),
            "{page}"
        );
        assert_eq!(page.matches("<td>cannot be told</td>").count(), 2, "{page}");
        let row = "<tr><td>ISR latency</td><td class=\"number\">2.00 us</td><td class=\"number\">2.00 us</td><td class=\"number\">2.00 us</td><td class=\"number\">-</td></tr>";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("not an external clock"), "{page}");
        assert!(
            !page.contains("<b>") && page.contains("&lt;b&gt;"),
            "{page}"
        );
        assert!(page.ends_with("</body>\n</html>\n"), "{page}");
    }

    #[test]
    fn markdown_says_the_same_and_no_text_of_the_machine_is_markup() {
        let text = criteria(&report());

        assert!(text.starts_with("## Has this system what"), "{text}");
        assert!(text.contains("Linux 6.12.9&#124;rt, on CPU 1"), "{text}");
        assert!(
            text.contains("| pass | interrupts | interrupts are handled"),
            "{text}"
        );
        assert!(
            text.contains("| ISR dispatch latency | 3.00 us | 3.00 us | 3.00 us | - |"),
            "{text}"
        );
        assert!(
            text.contains("To have all of it told: apt-get install iperf3."),
            "{text}"
        );
        assert!(!text.contains("<b>"), "{text}");
    }
}
