//! Places in a text.

#![allow(clippy::disallowed_macros, reason = "a place is part of an error")]

use std::fmt::{self, Display, Formatter};

use schemars::JsonSchema;
use serde::Serialize;

/// A line and a column, from 1. Displayed as `4:11`.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Place {
    pub line: usize,
    /// Number of the character in the line.
    pub column: usize,
}

impl Place {
    /// Returns the place of byte `offset` in `text`, or the end of the text.
    pub(super) fn from_offset(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
        }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_not_bytes() {
        let text = "a = 1\n# µs\nb = 2";

        for (offset, expected) in [
            (0, "1:1"),
            (4, "1:5"),
            (6, "2:1"),
            (10, "2:4"),
            (12, "3:1"),
            (99, "3:6"),
        ] {
            assert_eq!(
                Place::from_offset(text, offset).to_string(),
                expected,
                "at {offset}"
            );
        }
    }
}
