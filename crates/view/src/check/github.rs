//! Annotations that GitHub shows next to the file of requirements.

use std::fmt::Write as _;

use laggard_answer::check::{CheckReport, TestVerdict};
use laggard_model::printable;

use crate::phrase::check as phrase;

/// Writes a line for each check that fails or is unknown.
pub fn github(report: &CheckReport) -> String {
    let mut text = String::new();
    for row in &report.rows {
        let command = match (row.verdict, report.passes) {
            (TestVerdict::Pass, _) => continue,
            (TestVerdict::Unknown, true) => "warning",
            (TestVerdict::Fail, _) | (TestVerdict::Unknown, false) => "error",
        };
        let verdict = phrase::verdict(row.verdict);
        let _ = writeln!(
            text,
            "::{command} file={},line={},col={},title={}::{}",
            property(&report.file),
            row.place.line,
            row.place.column,
            property(&format!("{verdict}: {}", phrase::name(row))),
            message(&phrase::sentence(row))
        );
    }
    text
}

/// Escapes text so that it neither ends an annotation nor starts one.
fn message(text: &str) -> String {
    printable(text).to_string().replace('%', "%25")
}

/// Escapes text for a property of an annotation.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_end_its_annotation() {
        assert_eq!(property("a,b:c%"), "a%2Cb%3Ac%25");
        assert!(!property("\n::error::x").contains(['\n', ':', ',']));
        assert!(!message("a\nb\r").contains(['\n', '\r']));
    }
}
