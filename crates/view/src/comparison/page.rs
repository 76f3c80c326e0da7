//! `laggard compare -o`: the answer as a page for a browser, one file that asks
//! the network for nothing and runs no script.

use std::fmt::Write as _;

use laggard_answer::compare::{Change, CompareReport, LevelComparison, SideView};
use laggard_model::LoadLabel;
use laggard_model::name::line_name;
use laggard_model::text::{Unit, span};

use crate::notes::shared;
use crate::picture::{Picture, PictureError, Style, svg};
use crate::sheet::{escaped, number, sheet, table, word};
use crate::text::compare::{cause, every, mttf, needed, quantile_rows, ratio, reasons, verdict};

/// Pixels of a figure.
const FIGURE: Style = Style {
    width: 720,
    height: 440,
    dark: false,
};

/// The report as a page.
///
/// # Errors
/// When a figure cannot be drawn.
pub fn comparison_page(report: &CompareReport) -> Result<String, PictureError> {
    let mut body = String::from("<h1>B against A</h1>\n");
    body += &head(report);
    body += &levels(report);
    body += &quantiles(report);
    body += &misses(report);
    body += &causes(report);
    body += &figures(report)?;
    body += &conditions(report);
    body += &notes(report);
    Ok(sheet("laggard compare", &body))
}

fn head(report: &CompareReport) -> String {
    let mut text = String::from("<ul class=\"faint\">\n");
    for (letter, side) in [("A", &report.first), ("B", &report.second)] {
        let _ = writeln!(
            text,
            "<li><strong>{letter}</strong>: {}</li>",
            escaped(&recorded(side))
        );
    }
    if let Some(one) = &report.changed {
        let words = format!("{}: {} in A, {} in B", one.what, one.first, one.second);
        let _ = writeln!(text, "<li>Changed: {}</li>", escaped(&words));
    }
    text += "</ul>\n";
    for sentence in &report.sentences {
        let _ = writeln!(text, "<p class=\"said\">{}</p>", escaped(sentence));
    }
    text
}

fn recorded(side: &SideView) -> String {
    let load = if side.load == LoadLabel::none() {
        "no load of ours".into()
    } else {
        format!("load {}", side.load)
    };
    format!(
        "{}, {load}: {}",
        span(side.duration_ns),
        side.recordings.join(" ")
    )
}

fn levels(report: &CompareReport) -> String {
    let mut rows = Vec::new();
    for one in &report.services {
        for level in &one.levels {
            let colour = match level.change {
                Change::Worse => "worse",
                Change::Better => "better",
                Change::Equivalent | Change::Unclear(_) => "",
            };
            rows.push(vec![
                word(line_name(one.service, one.route)),
                number(Unit::Auto.write_nanos(level.level_ns)),
                number(every(&level.first)),
                number(every(&level.second)),
                number(ratio(level)),
                ((verdict(level), false), colour),
            ]);
        }
    }
    if report.rows.is_some() {
        return String::new();
    }
    if rows.is_empty() {
        return "<p>Too few activations to choose how late is too late.</p>\n".into();
    }
    let interval = format!("B / A, {} %", report.percent_sure());
    let header = [
        ("service", false),
        ("later than", true),
        ("A: every", true),
        ("B: every", true),
        (interval.as_str(), true),
        ("verdict", false),
    ];
    let is_unclear = |level: &LevelComparison| matches!(level.change, Change::Unclear(_));
    let mut levels = report.services.iter().flat_map(|one| &one.levels);
    let mut caption = "Every: the mean time between runs of late activations, on a CPU.".to_owned();
    if levels.any(is_unclear) {
        let _ = write!(caption, " ~: cannot be told{}.", needed(report));
    }
    for (word, meaning) in reasons(report) {
        let _ = write!(caption, " <i>{word}</i>: {meaning}.");
    }
    format!(
        "<h2>How often each service was late</h2>\n{}",
        table(&caption, &header, &rows)
    )
}

fn quantiles(report: &CompareReport) -> String {
    let rows: Vec<_> = quantile_rows(report)
        .into_iter()
        .map(|[service, which, first, second, ratio]| {
            vec![
                word(service),
                word(which),
                number(first),
                number(second),
                number(ratio),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let caption = "As upper edges of buckets, at most 1.09 % high. The largest seen is no bound.";
    let header = [
        ("service", false),
        ("quantile", false),
        ("A", true),
        ("B", true),
        ("B / A, 95 %", true),
    ];
    format!(
        "<h2>How late each service was</h2>\n{}",
        table(caption, &header, &rows)
    )
}

fn misses(report: &CompareReport) -> String {
    let Some(application) = &report.application else {
        return String::new();
    };
    let services = report.services.iter();
    let rows: Vec<_> = services
        .filter_map(|one| {
            let misses = one.misses.as_ref()?;
            let name = line_name(one.service, one.route);
            Some(vec![
                word(name),
                number(mttf(&misses.first)),
                number(mttf(&misses.second)),
            ])
        })
        .collect();
    let caption = format!(
        "{} buffers of {}, slack {}; mean time to failure, as laggard qos tells it.",
        application.buffers,
        Unit::Auto.write_nanos(application.buffer_ns),
        Unit::Auto.write_nanos(application.slack_ns)
    );
    let header = [("service", false), ("A, 95 %", true), ("B, 95 %", true)];
    format!(
        "<h2>{}</h2>\n{}",
        escaped(&application.name),
        table(&caption, &header, &rows)
    )
}

fn causes(report: &CompareReport) -> String {
    let mut text = String::new();
    for one in &report.causes {
        let _ = writeln!(text, "<li>{}</li>", escaped(&cause(one)));
    }
    if !text.is_empty() {
        text = format!("<ul>\n{text}</ul>\n");
    }
    if let Some(why) = &report.causes_unknown {
        let _ = writeln!(text, "<p>{}</p>", escaped(why));
    }
    if text.is_empty() {
        text
    } else {
        format!("<h2>Causes of late activations, in B</h2>\n{text}")
    }
}

/// The distributions of both, one over the other, of each service (OSDI'99 Fig.
/// 4 and 5).
fn figures(report: &CompareReport) -> Result<String, PictureError> {
    let mut text = String::new();
    for service in &report.services {
        match svg(Picture::Compared { report, service }, FIGURE) {
            Ok(figure) => {
                let _ = writeln!(text, "<figure>{figure}</figure>");
            }
            // A service that both were to measure, and neither did.
            Err(PictureError::Nothing(_)) => {}
            Err(err) => return Err(err),
        }
    }
    Ok(if text.is_empty() {
        text
    } else {
        format!("<h2>Latencies of A and B</h2>\n<div class=\"figures\">\n{text}</div>\n")
    })
}

fn conditions(report: &CompareReport) -> String {
    let head = "<h2>What else differs</h2>\n";
    if report.differing.is_empty() {
        return format!("{head}<p>Nothing that is recorded of machine and set-up.</p>\n");
    }
    let rows = report.differing.iter();
    let rows: Vec<_> = rows
        .map(|one| vec![word(&*one.what), word(&*one.first), word(&*one.second)])
        .collect();
    let header = [("", false), ("A", false), ("B", false)];
    head.to_owned()
        + &table(
            "Of machine and set-up; rows that are equal are left out.",
            &header,
            &rows,
        )
}

fn notes(report: &CompareReport) -> String {
    let mut text = String::new();
    let recordings = report.first.recordings.len() + report.second.recordings.len();
    for note in shared(&report.notes, recordings) {
        let _ = writeln!(text, "<li>{}</li>", escaped(&note));
    }
    if text.is_empty() {
        text
    } else {
        format!("<h2>To bear in mind</h2>\n<ul>\n{text}</ul>\n")
    }
}
