//! A badge for a project's page: whether requirements are met, as an SVG.

use std::fmt::Write as _;

use laggard_answer::check::{CheckReport, CheckVerdict};

/// What it is of.
const WHAT: &str = "latency";
const HEIGHT: usize = 20;
/// Pixels of a letter, on average, and beside a word on either side.
const LETTER: usize = 7;
const BESIDE: usize = 6;

/// The verdict in two boxes, the second coloured by it. It is not coloured alone:
/// the word is there.
pub fn badge(report: &CheckReport) -> String {
    let (word, colour) = match (report.verdict, report.passes) {
        (CheckVerdict::Met, _) => ("met", "#00664a"),
        (CheckVerdict::Broken, _) => ("broken", "#a12a00"),
        (CheckVerdict::NotDecided, true) => ("not decided, passes", "#57606a"),
        (CheckVerdict::NotDecided, false) => ("not decided", "#7a5900"),
    };
    let [left, right] = [WHAT, word].map(|text| text.len() * LETTER + 2 * BESIDE);
    let width = left + right;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{HEIGHT}\" \
         role=\"img\" aria-label=\"{WHAT}: {word}\">\n<title>{WHAT}: {word}</title>\n"
    );
    for (at, wide, fill, words) in [(0, left, "#24292f", WHAT), (left, right, colour, word)] {
        let middle = at + wide / 2;
        let letters = words.len() * LETTER;
        let _ = writeln!(
            text,
            "<rect x=\"{at}\" width=\"{wide}\" height=\"{HEIGHT}\" fill=\"{fill}\"/>\n\
             <text x=\"{middle}\" y=\"14\" textLength=\"{letters}\" fill=\"#fff\" text-anchor=\"middle\" \
             font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\">{words}</text>"
        );
    }
    text + "</svg>\n"
}
