//! Suggestions for misspelt names.

use std::fmt::{self, Display, Formatter};

/// Minimum similarity of a suggestion.
const ALIKE: f64 = 0.6;

/// Suggestion, if there is one. Displayed as a question after a semicolon, or as an
/// empty text.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Meant(Option<String>);

impl Display for Meant {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => write!(f, "; did you mean `{name}`?"),
            None => Ok(()),
        }
    }
}

/// Returns the name in `names` that is most similar to `text`.
#[must_use]
pub fn nearest(text: &str, names: &[&str]) -> Meant {
    let alike = |name| strsim::normalized_damerau_levenshtein(text, name);
    let candidates = names.iter().map(|&name| (alike(name), name));
    let best = candidates.max_by(|a, b| a.0.total_cmp(&b.0));
    Meant(
        best.filter(|(alike, _)| *alike >= ALIKE)
            .map(|(_, name)| name.into()),
    )
}
