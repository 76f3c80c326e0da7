//! `JUnit`'s XML, as Jenkins, GitLab and most others read it.
//!
//! A requirement on one load and service is a test case. A broken one is a
//! failure, one that is not decided an error, or skipped where it passes. The
//! elements and their order are those of the strictest schema in use (Windy Road's
//! `JUnit.xsd`), which others accept.

use std::fmt::Write as _;

use laggard_answer::check::{CheckReport, CheckVerdict, CheckedRow};
use laggard_model::printable;

/// The report as XML.
pub fn junit(report: &CheckReport) -> String {
    let count = |verdict| {
        let rows = report.rows.iter();
        rows.filter(|row| row.verdict == verdict).count()
    };
    let undecided = count(CheckVerdict::NotDecided);
    let (errors, skipped) = if report.passes {
        (0, undecided)
    } else {
        (undecided, 0)
    };
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    let _ = writeln!(
        text,
        "  <testsuite id=\"0\" package=\"laggard\" name=\"{}\" hostname=\"{}\" timestamp=\"{}\" \
         tests=\"{}\" failures=\"{}\" errors=\"{errors}\" skipped=\"{skipped}\" time=\"{:.3}\">",
        escaped(&report.file),
        escaped(token(&report.host)),
        escaped(local_time(&report.recorded_at)),
        report.rows.len(),
        count(CheckVerdict::Broken),
        report.duration_ns.as_secs_f64(),
    );
    text += "    <properties>\n";
    for (name, value) in [
        ("confidence", report.confidence.to_string()),
        ("recordings", report.recordings.join(" ")),
    ] {
        let value = escaped(&value);
        let _ = writeln!(text, "      <property name=\"{name}\" value=\"{value}\"/>");
    }
    text += "    </properties>\n";
    for row in &report.rows {
        text += &case(row, report.passes);
    }
    let _ = writeln!(
        text,
        "    <system-out>{}</system-out>\n    <system-err>{}</system-err>",
        escaped(&report.sentences.join(" ")),
        escaped(&notes(report))
    );
    text + "  </testsuite>\n</testsuites>\n"
}

fn case(row: &CheckedRow, passes: bool) -> String {
    let what = row.service.map_or_else(
        || "handlers".into(),
        |service| match row.route {
            Some(route) => laggard_model::name::line_name(service, route),
            None => service.to_string(),
        },
    );
    let head = format!(
        "    <testcase name=\"{}\" classname=\"{}\" time=\"0\"",
        escaped(&format!("{what}: {}", row.called())),
        escaped(row.load.as_str())
    );
    let sentence = escaped(&row.sentence);
    let end = match (row.verdict, passes) {
        (CheckVerdict::Met, _) => return format!("{head}/>\n"),
        (CheckVerdict::Broken, _) => {
            format!("<failure type=\"broken\" message=\"{sentence}\">{sentence}</failure>")
        }
        (CheckVerdict::NotDecided, false) => {
            format!("<error type=\"not decided\" message=\"{sentence}\">{sentence}</error>")
        }
        (CheckVerdict::NotDecided, true) => "<skipped/>".into(),
    };
    format!("{head}>\n      {end}\n    </testcase>\n")
}

fn notes(report: &CheckReport) -> String {
    let notes = report.notes.iter().map(ToString::to_string);
    notes.collect::<Vec<_>>().join(" | ")
}

/// A name for a machine that has none.
fn token(host: &str) -> &str {
    match host.trim() {
        "" => "localhost",
        host => host,
    }
}

/// The date and time without zone or fraction.
fn local_time(wall: &str) -> &str {
    let time = wall.get(..19).filter(|time| time.as_bytes()[10] == b'T');
    time.unwrap_or("1970-01-01T00:00:00")
}

/// Text that is neither markup nor what XML does not have.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in printable(text).to_string().chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&apos;",
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use laggard_answer::check::{Place, Requirement, WhenUnclear};
    use laggard_model::{LoadLabel, Nanos};
    use quick_xml::events::Event;

    /// Of which every text is `text`.
    fn report(text: &str, passes: bool) -> CheckReport {
        let row = |verdict| CheckedRow {
            place: Place { line: 1, column: 1 },
            name: Some(text.into()),
            title: String::new(),
            requirement: Requirement::NotWorseThan { ratio: 1.25 },
            load: LoadLabel::named(text),
            service: None,
            route: None,
            verdict,
            why: None,
            figure: None,
            longest_stall_ns: None,
            holds_to_ns: None,
            holds_to_burst: None,
            needed_ns: None,
            sentence: text.into(),
        };
        CheckReport {
            schema: 1,
            file: text.into(),
            confidence: 0.95,
            when_unclear: WhenUnclear::Fail,
            verdict: CheckVerdict::Broken,
            passes,
            host: text.into(),
            recorded_at: text.into(),
            recordings: vec![text.into()],
            duration_ns: Nanos::from_secs(1),
            until_decided: None,
            rows: [
                CheckVerdict::Met,
                CheckVerdict::Broken,
                CheckVerdict::NotDecided,
            ]
            .map(row)
            .into(),
            sentences: vec![text.into()],
            notes: Vec::new(),
        }
    }

    #[test]
    fn whatever_names_hold_a_parser_reads_every_case_and_their_text() {
        let hostile = "</testcase><failure> & \"'`]]> \u{1b}[0m\n\u{9}\u{ffff}\u{202e}";
        for (passes, last) in [(false, "error"), (true, "skipped")] {
            let text = junit(&report(hostile, passes));
            let mut reader = quick_xml::Reader::from_str(&text);
            let mut elements = Vec::new();
            let mut depth = 0_i32;
            loop {
                match reader.read_event().unwrap() {
                    Event::Start(element) => {
                        depth += 1;
                        elements.push(String::from_utf8(element.name().0.to_vec()).unwrap());
                        for attribute in element.attributes() {
                            attribute.unwrap();
                        }
                    }
                    Event::Empty(element) => {
                        elements.push(String::from_utf8(element.name().0.to_vec()).unwrap());
                    }
                    Event::End(_) => depth -= 1,
                    Event::Eof => break,
                    _ => {}
                }
            }

            let cases = elements.iter().filter(|one| *one == "testcase").count();
            assert_eq!((depth, cases), (0, 3), "{text}");
            assert_eq!(elements.iter().filter(|one| *one == "failure").count(), 1);
            assert_eq!(
                elements.iter().filter(|one| *one == last).count(),
                1,
                "{text}"
            );
        }
    }

    #[test]
    fn a_schema_accepts_it_whatever_names_hold() {
        let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/JUnit.xsd");
        let hostile = "</testcase><failure> & \"'`]]> \u{1b}[0m\n\u{9}\u{ffff}\u{202e}";
        for (text, passes) in [("r.toml", false), ("r.toml", true), (hostile, true)] {
            let started = Command::new("xmllint")
                .args(["--noout", "--nonet", "--schema", schema, "-"])
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            let Ok(mut lint) = started else {
                println!(
                    "skipped: xmllint (Debian's libxml2-utils) is not there to read the schema"
                );
                return;
            };
            let xml = junit(&report(text, passes));
            lint.stdin
                .take()
                .unwrap()
                .write_all(xml.as_bytes())
                .unwrap();

            let found = lint.wait_with_output().unwrap();

            let said = String::from_utf8_lossy(&found.stderr);
            assert!(found.status.success(), "{said}\n{xml}");
        }
    }

    #[test]
    fn text_from_elsewhere_is_no_markup() {
        let text = escaped("<a href=\"x\">&'\u{1b}[0m\u{ffff}");

        assert!(
            !text.contains(['<', '>', '"', '\'', '\u{1b}', '\u{ffff}']),
            "{text}"
        );
    }

    #[test]
    fn a_time_is_one_that_a_schema_accepts() {
        let wall = "2026-11-20T11:00:00.5+01:00[Europe/Berlin]";

        assert_eq!(local_time(wall), "2026-11-20T11:00:00");
        assert_eq!(local_time("yesterday"), "1970-01-01T00:00:00");
    }
}
