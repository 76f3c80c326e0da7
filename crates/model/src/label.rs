//! What a load is called.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::LoadRun;

/// What a load is called wherever recordings are told apart, put together or
/// shown by load: a built-in load's name, a command's words, or `no load`.
///
/// Two recordings are of the same load when their labels are equal. Of
/// commands every word counts: `make -j8` is another load than `make`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct LoadLabel {
    words: String,
    /// There is a load: a command may have the words `no load`.
    is_some: bool,
}

impl LoadLabel {
    /// Of a recording without a load.
    #[must_use]
    pub fn none() -> Self {
        Self {
            words: "no load".into(),
            is_some: false,
        }
    }

    /// The load of this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            words: name.into(),
            is_some: true,
        }
    }

    /// Of a recording's load, if it had one.
    #[must_use]
    pub fn of(load: Option<&LoadRun>) -> Self {
        load.map_or_else(Self::none, LoadRun::label)
    }

    /// The words, `no load` where there is none. From elsewhere: escape them
    /// before they are shown.
    pub fn as_str(&self) -> &str {
        &self.words
    }

    /// The load's name or command; `None` where there is no load.
    pub fn load(&self) -> Option<&str> {
        self.is_some.then_some(&self.words)
    }
}

impl LoadRun {
    /// What this load is called.
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
            usage: None,
            ended: None,
            begun_ns: None,
            throughput: None,
        }
    }

    #[test]
    fn a_command_is_called_by_all_its_words_and_a_load_of_ours_by_its_name() {
        let make = run("make", &["make", "-j8"]);

        assert_eq!(make.label().as_str(), "make -j8");
        assert_ne!(make.label(), run("make", &["make"]).label());
        assert_eq!(run("fileio", &[]).label(), LoadLabel::named("fileio"));
    }

    #[test]
    fn no_load_is_not_a_command_of_these_words() {
        let none = LoadLabel::of(None);

        assert_eq!((none.as_str(), none.load()), ("no load", None));
        assert_ne!(none, run("no", &["no", "load"]).label());
    }
}
