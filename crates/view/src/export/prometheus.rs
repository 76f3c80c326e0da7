//! Text format of Prometheus, version 0.0.4.
//!
//! `promtool check metrics` and the textfile collector of `node_exporter` read this format
//! and refuse `OpenMetrics`. The series are the same. The differences are in the lines
//! about a family (a counter is described by the name that its series have, and there is
//! no type `info` and no unit), in exemplars, and in the end.

use std::fmt::Write as _;

use laggard_answer::show::RecordingReport;

use super::openmetrics::openmetrics;

/// Returns the same series as [`openmetrics()`], in the text format of Prometheus.
pub fn prometheus(report: &RecordingReport) -> String {
    prometheus_text(&openmetrics(report))
}

/// Converts `OpenMetrics` text, version 1.0.0, to the text format of Prometheus, version
/// 0.0.4. Exemplars are left out, because the older format has none.
pub fn prometheus_text(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len());
    let mut family = Family::default();
    // Not `lines`, which would also end a line at a carriage return.
    for line in openmetrics.split('\n').filter(|line| !line.is_empty()) {
        match line.strip_prefix("# ") {
            Some("EOF") => break,
            Some(comment) => {
                let mut words = comment.splitn(3, ' ');
                let (Some(keyword), Some(name)) = (words.next(), words.next()) else {
                    continue;
                };
                if family.name != name {
                    family.write(&mut text);
                    family = Family {
                        name,
                        ..Family::default()
                    };
                }
                match keyword {
                    "HELP" => family.help = words.next(),
                    "TYPE" => family.kind = words.next(),
                    _ => {}
                }
            }
            None => {
                family.write(&mut text);
                family = Family::default();
                text.push_str(without_exemplar(line));
                text.push('\n');
            }
        }
    }
    family.write(&mut text);
    text
}

/// Lines about a family that precede its samples.
#[derive(Default)]
struct Family<'a> {
    /// Name without the suffix of its samples. Empty before the first family, and once the
    /// lines are written.
    name: &'a str,
    help: Option<&'a str>,
    kind: Option<&'a str>,
}

impl Family<'_> {
    fn write(&self, text: &mut String) {
        if self.name.is_empty() {
            return;
        }
        let (suffix, kind) = match self.kind.unwrap_or("unknown") {
            "counter" => ("_total", "counter"),
            "info" => ("_info", "gauge"),
            "stateset" => ("", "gauge"),
            "unknown" => ("", "untyped"),
            kind => ("", kind),
        };
        let name = self.name;
        // Writing to a string cannot fail.
        if let Some(help) = self.help {
            let _ = writeln!(text, "# HELP {name}{suffix} {}", with_plain_quotes(help));
        }
        let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
    }
}

/// Undoes the escapes of quotes in a help text: this format escapes only backslashes and
/// line feeds there, and a reader refuses other escapes.
fn with_plain_quotes(help: &str) -> String {
    let mut plain = String::with_capacity(help.len());
    let mut letters = help.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            Some('"') => plain.push('"'),
            Some(escaped) => plain.extend(['\\', escaped]),
            None => plain.push_str("\\\\"),
        }
    }
    plain
}

/// Returns the part of a sample's line before its exemplar.
fn without_exemplar(line: &str) -> &str {
    let (labels, rest) = line.split_at(end_of_labels(line));
    let end = rest.find(" # ").unwrap_or(rest.len());
    &line[..labels.len() + end]
}

/// Returns the index after the labels of a sample's line; 0 without labels. A label value may
/// contain every character, including those of an exemplar.
fn end_of_labels(line: &str) -> usize {
    let first = line.find(['{', ' ']).unwrap_or_default();
    if !line[first..].starts_with('{') {
        return 0;
    }
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (index, byte) in line.bytes().enumerate().skip(first) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'}' if !is_quoted => return index + 1,
            _ => {}
        }
    }
    line.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_described_by_the_names_of_their_series() {
        let openmetrics = "\
# TYPE a_seconds counter
# UNIT a_seconds seconds
# HELP a_seconds Time.
a_seconds_total{x=\"1\"} 2.0
# HELP b About b.
# TYPE b info
b_info{v=\"1\"} 1
# HELP c Gauge.
# TYPE c gauge
c 7
# HELP empty Nothing yet.
# TYPE empty counter
# EOF
";
        assert_eq!(
            prometheus_text(openmetrics),
            "\
# HELP a_seconds_total Time.
# TYPE a_seconds_total counter
a_seconds_total{x=\"1\"} 2.0
# HELP b_info About b.
# TYPE b_info gauge
b_info{v=\"1\"} 1
# HELP c Gauge.
# TYPE c gauge
c 7
# HELP empty_total Nothing yet.
# TYPE empty_total counter
"
        );
    }

    #[test]
    fn exemplars_are_left_out_and_label_values_that_look_like_one_stay() {
        for (line, expected) in [
            (
                "a_total{c=\"x\"} 3 # {episode=\"7\"} 1.0",
                "a_total{c=\"x\"} 3",
            ),
            ("a_total 3 # {} 1 1.5", "a_total 3"),
            ("a{c=\"} 1 # {\"} 2", "a{c=\"} 1 # {\"} 2"),
            (
                "a_total{c=\"\\\\\\\" # \\\"\"} 2 # {e=\"1\"} 1",
                "a_total{c=\"\\\\\\\" # \\\"\"} 2",
            ),
            ("a{c=\"{\",d=\"\r\"} 1", "a{c=\"{\",d=\"\r\"} 1"),
            ("a{le=\"+Inf\"} NaN", "a{le=\"+Inf\"} NaN"),
        ] {
            assert_eq!(without_exemplar(line), expected);
            assert_eq!(prometheus_text(line), format!("{expected}\n"));
        }
    }

    #[test]
    fn a_help_text_escapes_only_backslashes_and_line_feeds() {
        assert_eq!(
            with_plain_quotes(r#"say \"x\\y\" \n \\"#),
            r#"say "x\\y" \n \\"#
        );
        assert_eq!(
            prometheus_text("# HELP a \\\"q\\\"\n# TYPE a gauge\na 1\n"),
            "# HELP a \"q\"\n# TYPE a gauge\na 1\n"
        );
    }

    #[test]
    fn damaged_text_ends_no_conversion() {
        for text in [
            "",
            "#",
            "# ",
            "# HELP",
            "# TYPE a",
            "a{",
            "a{b=\"",
            "{}",
            "# EOF\na 1",
        ] {
            let converted = prometheus_text(text);
            assert!(!converted.contains("EOF"), "{text}");
        }
    }
}
