//! Name of a load.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::LoadRun;

/// Name of a load for display and for comparisons of recordings: the name of a built-in
/// load, the words of a command, or `no load`.
///
/// Two recordings have the same load if their labels are equal. Every word of a command
/// counts: `make -j8` is another load than `make`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LoadLabel {
    words: String,
    /// Whether there is a load: a command may have the words `no load`.
    is_some: bool,
}

impl LoadLabel {
    /// Returns the label of a recording without a load.
    #[must_use]
    pub fn none() -> Self {
        Self {
            words: "no load".into(),
            is_some: false,
        }
    }

    /// Returns the label of the load with this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            words: name.into(),
            is_some: true,
        }
    }

    /// Returns the label of a recording's load, if it had one.
    #[must_use]
    pub fn of(load: Option<&LoadRun>) -> Self {
        load.map_or_else(Self::none, LoadRun::label)
    }

    /// Returns the text; `no load` without a load. It is external input: escape it for display.
    pub fn as_str(&self) -> &str {
        &self.words
    }

    /// Returns the name or command of the load; `None` without a load.
    pub fn load(&self) -> Option<&str> {
        self.is_some.then_some(&self.words)
    }
}

impl LoadRun {
    /// Returns the label of this load.
    #[must_use]
    pub fn label(&self) -> LoadLabel {
        if self.command.is_empty() {
            LoadLabel::named(&self.name)
        } else {
            LoadLabel::named(self.command.join(" "))
        }
    }
}

impl fmt::Display for LoadLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl Serialize for LoadLabel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.words)
    }
}

impl JsonSchema for LoadLabel {
    fn schema_name() -> Cow<'static, str> {
        "LoadLabel".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, command: &[&str]) -> LoadRun {
        LoadRun {
            name: name.into(),
            command: command.iter().map(ToString::to_string).collect(),
            ..LoadRun::default()
        }
    }

    #[test]
    fn command_is_labelled_with_all_words_and_builtin_load_with_its_name() {
        let make = run("make", &["make", "-j8"]);

        assert_eq!(make.label().as_str(), "make -j8");
        assert_ne!(make.label(), run("make", &["make"]).label());
        assert_eq!(run("fileio", &[]).label(), LoadLabel::named("fileio"));
    }

    #[test]
    fn no_load_differs_from_a_command_of_these_words() {
        let none = LoadLabel::of(None);

        assert_eq!((none.as_str(), none.load()), ("no load", None));
        assert_ne!(none, run("no", &["no", "load"]).label());
    }
}
