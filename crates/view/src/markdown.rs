//! `laggard report --markdown`: for issue trackers.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use laggard_answer::overview::Overview;
use laggard_answer::show::{Figures, RecordingReport, ServiceRow, StageRow};
use laggard_model::name::series_words;
use laggard_model::text::{Unit, count, percent};
use laggard_model::{Severity, printable, printable_lines};

use crate::advice::{Advice, advice};
use crate::doc::{self, Detail};
use crate::overview::document;
use crate::phrase::show as phrase;
use crate::show::min_name;

/// How many things to do are shown before the rest is folded away.
const FIRST: usize = 3;

/// Renders recordings as Markdown with tables and `<details>`. `overviews` are their first
/// screens, in the same order.
pub fn markdown(reports: &[RecordingReport], overviews: &[Overview]) -> String {
    let numbered = reports.len() > 1;
    let summaries = overviews.iter().enumerate().map(|(index, overview)| {
        let mut summary = document(overview, Detail::Full);
        summary.title = if numbered {
            format!("Latency [{}]", index + 1)
        } else {
            "Latency".into()
        };
        doc::markdown(&summary)
    });
    let mut text = summaries.collect::<Vec<_>>().join("\n");
    let either = |words: fn(&RecordingReport) -> &'static str| {
        let distinct: BTreeSet<&str> = reports.iter().map(words).collect();
        Vec::from_iter(distinct).join(" or ")
    };
    let (starts, endings) = (either(phrase::start), either(phrase::end));
    let _ = writeln!(text, "\nFrom {starts} to {endings}:\n");
    text += &services(reports);
    for (index, report) in reports.iter().enumerate() {
        if numbered {
            let _ = writeln!(text, "\n### Recording {}", index + 1);
        }
        text += &to_do(report);
        text += &stages(report);
        text += &losses(report);
    }
    printable_lines(&text).to_string()
}

/// Services x figures; several recordings' rows of a service follow each other.
fn services(reports: &[RecordingReport]) -> String {
    let name_of = |row: &ServiceRow| plain(&series_words(row.service, row.route));
    let mut names: Vec<String> = Vec::new();
    for row in reports.iter().flat_map(|report| &report.services) {
        let name = name_of(row);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let least = min_name(reports.iter().flat_map(|report| &report.services));
    let mut text = header(&["series"], &["samples", "missed"], least);
    for name in &names {
        for (index, report) in reports.iter().enumerate() {
            let rows = report.services.iter().filter(|row| name_of(row) == *name);
            for row in rows {
                let shown = if reports.len() > 1 {
                    format!("{name} [{}]", index + 1)
                } else {
                    name.clone()
                };
                text += &service(&shown, row);
            }
        }
    }
    text
}

fn header(first: &[&str], counts: &[&str], least: &str) -> String {
    let quantiles = laggard_answer::show::QUANTILES.map(|q| {
        if q < 0.6 {
            "median".to_owned()
        } else {
            format!("p{}", percent(q))
        }
    });
    let mut names: Vec<&str> = [first, counts, &[least, "mean"]].concat();
    names.extend(quantiles.iter().map(String::as_str));
    names.push("max");
    let rule = (0..names.len()).map(|index| if index < first.len() { "---" } else { "--:" });
    format!(
        "| {} |\n| {} |\n",
        names.join(" | "),
        rule.collect::<Vec<_>>().join(" | ")
    )
}

fn service(name: &str, row: &ServiceRow) -> String {
    let mut cells = vec![
        name.to_owned(),
        count(row.latency.samples),
        count(row.missed),
    ];
    cells.extend(figures(&row.latency));
    format!("| {} |\n", cells.join(" | "))
}

fn figures(figures: &Figures) -> Vec<String> {
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let unit = Unit::Auto;
    let mut cells = vec![
        dash(figures.min_ns.map(|time| unit.write_nanos(time))),
        dash(figures.mean(unit)),
    ];
    cells.extend(figures.quantiles.iter().map(|share| share.write(unit)));
    cells.push(dash(figures.largest(unit)));
    cells
}

fn to_do(report: &RecordingReport) -> String {
    let advice_list = advice(report, None);
    if advice_list.is_empty() {
        return "\nNothing was found that casts doubt on these figures.\n".into();
    }
    let item = |text: &mut String, entry: &Advice| {
        let weight = match entry.severity {
            Severity::Spoils => "**spoils the result**: ",
            Severity::Matters => "**matters**: ",
            Severity::Note => "",
        };
        let _ = writeln!(
            text,
            "- {weight}{} {}",
            escaped(&entry.why),
            escaped(&entry.what)
        );
    };
    let (first, rest) = advice_list.split_at(FIRST.min(advice_list.len()));
    let mut text = String::from("\nWhat to do first:\n\n");
    first.iter().for_each(|entry| item(&mut text, entry));
    if !rest.is_empty() {
        let _ = writeln!(text, "\n<details><summary>{} more</summary>\n", rest.len());
        rest.iter().for_each(|entry| item(&mut text, entry));
        text += "\n</details>\n";
    }
    text
}

fn stages(report: &RecordingReport) -> String {
    if report.stages.is_empty() {
        return String::new();
    }
    let mut text = "\n<details><summary>Time in each stage</summary>\n\n".to_owned();
    text += &header(&["series", "stage"], &["samples"], "min");
    for row in &report.stages {
        text += &stage(row);
    }
    text + "\n</details>\n"
}

fn stage(row: &StageRow) -> String {
    let mut cells = vec![
        plain(&series_words(row.service, row.route)),
        phrase::part(row),
        count(row.time.samples),
    ];
    cells.extend(figures(&row.time));
    format!("| {} |\n", cells.join(" | "))
}

fn losses(report: &RecordingReport) -> String {
    format!("\n{}\n", escaped(&phrase::losses(report)))
}

/// Text from a recording, so that it stays text: no markup, link, mention,
/// reference or end of a table's cell. What is between two backticks is
/// something to type.
pub(crate) fn escaped(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(plain).collect();
    if parts.len().is_multiple_of(2) {
        return parts.join("&#96;");
    }
    let part = |(index, part): (usize, &String)| match index % 2 {
        0 => part.clone(),
        _ => format!("<code>{part}</code>"),
    };
    parts.iter().enumerate().map(part).collect()
}

fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let letters: Vec<char> = printable(text).to_string().chars().collect();
    let is_letter = |index: Option<usize>| {
        index
            .and_then(|index| letters.get(index))
            .is_some_and(|letter| letter.is_alphanumeric())
    };
    for (index, &letter) in letters.iter().enumerate() {
        match letter {
            // Within a word, `_` is not markup.
            '_' if is_letter(index.checked_sub(1)) && is_letter(Some(index + 1)) => {
                safe.push(letter);
            }
            '&' | '<' | '|' | '*' | '_' | '~' | '[' | ']' | '\\' | '@' | '#' | '!' | '$' => {
                let _ = write!(safe, "&#{};", u32::from(letter));
            }
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_recording_stays_text() {
        for (text, safe) in [
            ("<script>|\n@all", "&#60;script>&#124;&#92;n&#64;all"),
            ("set `a|b`", "set <code>a&#124;b</code>"),
            ("one ` alone", "one &#96; alone"),
            ("a_b #1 [x](y)", "a_b &#35;1 &#91;x&#93;(y)"),
            ("_a_ > b", "&#95;a&#95; > b"),
        ] {
            assert_eq!(escaped(text), safe, "for {text:?}");
        }
    }
}
