//! Reasons to doubt what is told, each with what helps.

use laggard_model::{Caveat, printable};

use super::Look;

/// A list under a title; nothing where there are none.
pub(super) fn caveats(title: &str, all: &[Caveat], look: Look) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title}:\n");
    for caveat in all {
        let what = format!("{}; {}", printable(&caveat.what), printable(&caveat.advice));
        text += &look.hanging("  - ", "    ", &what);
    }
    text
}
