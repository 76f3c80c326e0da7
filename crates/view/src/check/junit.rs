//! `JUnit` XML for Jenkins, GitLab and other build servers.
//!
//! A requirement under one load, for one service, is a test case. A check that fails is a
//! failure. An unknown one is an error, or skipped if the report passes. The elements and
//! their order follow the strictest schema in use (`JUnit.xsd` of Windy Road), which the
//! others accept.

use std::fmt::Write as _;

use laggard_answer::check::{CheckReport, CheckedRow, TestVerdict};
use laggard_model::printable;

use crate::phrase::{check as phrase, trust};

/// Writes the report as XML.
pub fn junit(report: &CheckReport) -> String {
    let count = |verdict| {
        let rows = report.rows.iter();
        rows.filter(|row| row.verdict == verdict).count()
    };
    let unknown = count(TestVerdict::Unknown);
    let (errors, skipped) = if report.passes {
        (0, unknown)
    } else {
        (unknown, 0)
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
        count(TestVerdict::Fail),
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
        escaped(&summary(report)),
        escaped(&notes(report))
    );
    text + "  </testsuite>\n</testsuites>\n"
}

fn case(row: &CheckedRow, passes: bool) -> String {
    let service = phrase::service(row).unwrap_or_else(|| "handlers".into());
    let head = format!(
        "    <testcase name=\"{}\" classname=\"{}\" time=\"0\"",
        escaped(&format!("{service}: {}", phrase::name(row))),
        escaped(row.load.as_str())
    );
    let sentence = escaped(&phrase::sentence(row));
    let result = match (row.verdict, passes) {
        (TestVerdict::Pass, _) => return format!("{head}/>\n"),
        (TestVerdict::Fail, _) => {
            format!("<failure type=\"fail\" message=\"{sentence}\">{sentence}</failure>")
        }
        (TestVerdict::Unknown, false) => {
            format!("<error type=\"unknown\" message=\"{sentence}\">{sentence}</error>")
        }
        (TestVerdict::Unknown, true) => "<skipped/>".into(),
    };
    format!("{head}>\n      {result}\n    </testcase>\n")
}

fn summary(report: &CheckReport) -> String {
    let until = report.until_decided.as_ref();
    let until = until.map_or_else(Vec::new, |until| phrase::until_decided(report, until));
    let first = [format!("{}.", phrase::counts(report)), phrase::data(report)];
    first.into_iter().chain(until).collect::<Vec<_>>().join(" ")
}

fn notes(report: &CheckReport) -> String {
    let notes = report.notes.iter().map(trust::note);
    notes.collect::<Vec<_>>().join(" | ")
}

/// Returns the name of the host, or `localhost` if it has none.
fn token(host: &str) -> &str {
    match host.trim() {
        "" => "localhost",
        host => host,
    }
}

/// Returns the date and time without zone and fraction.
fn local_time(wall: &str) -> &str {
    let time = wall.get(..19).filter(|time| time.as_bytes()[10] == b'T');
    time.unwrap_or("1970-01-01T00:00:00")
}

/// Escapes markup and replaces characters that XML does not allow.
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

    /// Returns a report in which every text is `text`.
    fn report(text: &str, passes: bool) -> CheckReport {
        let row = |verdict| CheckedRow {
            place: Place { line: 1, column: 1 },
            name: Some(text.into()),
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
            level_ns: None,
            worst_cpus: None,
            handler: None,
        };
        CheckReport {
            schema: 2,
            file: text.into(),
            confidence: 0.95,
            when_unclear: WhenUnclear::Fail,
            verdict: TestVerdict::Fail,
            passes,
            host: text.into(),
            recorded_at: text.into(),
            is_windows: false,
            recordings: vec![text.into()],
            duration_ns: Nanos::from_secs(1),
            until_decided: None,
            rows: [TestVerdict::Pass, TestVerdict::Fail, TestVerdict::Unknown]
                .map(row)
                .into(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn parser_reads_every_case_with_any_name() {
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

            let count = |name| elements.iter().filter(|element| *element == name).count();
            assert_eq!((depth, count("testcase")), (0, 3), "{text}");
            assert_eq!((count("failure"), count(last)), (1, 1), "{text}");
        }
    }

    #[test]
    fn schema_accepts_any_name() {
        let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/JUnit.xsd");
        let hostile = "</testcase><failure> & \"'`]]> \u{1b}[0m\n\u{9}\u{ffff}\u{202e}";
        for (text, passes) in [("r.toml", false), ("r.toml", true), (hostile, true)] {
            let started = Command::new("xmllint")
                .args(["--noout", "--nonet", "--schema", schema, "-"])
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            let Ok(mut lint) = started else {
                println!("skipped: xmllint (package libxml2-utils) is not installed");
                return;
            };
            let xml = junit(&report(text, passes));
            lint.stdin
                .take()
                .unwrap()
                .write_all(xml.as_bytes())
                .unwrap();

            let output = lint.wait_with_output().unwrap();

            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{errors}\n{xml}");
        }
    }

    #[test]
    fn text_is_not_markup() {
        let text = escaped("<a href=\"x\">&'\u{1b}[0m\u{ffff}");

        assert!(
            !text.contains(['<', '>', '"', '\'', '\u{1b}', '\u{ffff}']),
            "{text}"
        );
    }

    #[test]
    fn time_has_the_format_of_the_schema() {
        let wall = "2026-11-20T11:00:00.5+01:00[Europe/Berlin]";

        assert_eq!(local_time(wall), "2026-11-20T11:00:00");
        assert_eq!(local_time("yesterday"), "1970-01-01T00:00:00");
    }
}
