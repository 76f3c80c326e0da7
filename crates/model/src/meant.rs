//! Names that were misspelt.

use std::fmt::{self, Display, Formatter};

/// Names that are less alike were hardly meant.
const ALIKE: f64 = 0.6;

/// What was meant, as far as that can be guessed. Displayed as a question behind
/// a semicolon, or as nothing.
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

/// The name among `known` that `text` is most like.
#[must_use]
pub fn nearest(text: &str, known: &[&str]) -> Meant {
    let alike = |name| strsim::normalized_damerau_levenshtein(text, name);
    let all = known.iter().map(|&name| (alike(name), name));
    let best = all.max_by(|one, other| one.0.total_cmp(&other.0));
    Meant(
        best.filter(|(alike, _)| *alike >= ALIKE)
            .map(|(_, name)| name.into()),
    )
}
