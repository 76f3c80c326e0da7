//! GitHub's annotations: lines that a workflow's log shows beside the file of
//! requirements.

use std::fmt::Write as _;

use laggard_answer::check::{CheckReport, CheckVerdict};
use laggard_model::printable;

/// A line for each requirement that is broken or not decided.
pub fn github(report: &CheckReport) -> String {
    let mut text = String::new();
    for row in &report.rows {
        let (command, title) = match (row.verdict, report.passes) {
            (CheckVerdict::Met, _) => continue,
            (CheckVerdict::Broken, _) => ("error", "broken"),
            (CheckVerdict::NotDecided, false) => ("error", "not decided"),
            (CheckVerdict::NotDecided, true) => ("warning", "not decided"),
        };
        let _ = writeln!(
            text,
            "::{command} file={},line={},col={},title={}::{}",
            property(&report.file),
            row.place.line,
            row.place.column,
            property(&format!("{title}: {}", row.called())),
            message(&row.sentence)
        );
    }
    text
}

/// Text that ends no annotation and begins none.
fn message(text: &str) -> String {
    printable(text).to_string().replace('%', "%25")
}

/// The same within a property.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_ends_its_annotation() {
        assert_eq!(property("a,b:c%"), "a%2Cb%3Ac%25");
        assert!(!property("\n::error::x").contains(['\n', ':', ',']));
        assert!(!message("a\nb\r").contains(['\n', '\r']));
    }
}
