//! An object of rt-app's file by its keys.

use super::error::{Problem, RtAppError};
use super::json::{JsonEntry, JsonNode, JsonValue};

/// The largest integer that rt-app reads.
pub(super) const MAX_INTEGER: i64 = i32::MAX as i64;

/// The keys and values of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    pub(super) line: u32,
    pub(super) entries: &'a [JsonEntry],
}

impl<'a> Fields<'a> {
    /// # Errors
    /// When `node`, the value of `key`, is not an object.
    pub(super) fn from_node(key: &str, node: &'a JsonNode) -> Result<Self, RtAppError> {
        match &node.value {
            JsonValue::Object(entries) => Ok(Self {
                line: node.line,
                entries,
            }),
            _ => Err(type_error(key, "an object", node.line)),
        }
    }

    /// Returns the entry of `key`; as in rt-app, `null` counts as absent.
    ///
    /// # Errors
    /// When the key occurs twice.
    pub(super) fn get(&self, key: &str) -> Result<Option<&'a JsonEntry>, RtAppError> {
        let mut entries = self.entries.iter().filter(|entry| entry.key == key);
        let first = entries.next();
        if let Some(second) = entries.next() {
            return Err(Problem::Repeated(key.into()).on_line(second.line));
        }
        Ok(first.filter(|entry| entry.node.value != JsonValue::Null))
    }

    /// Returns the integer of `key` and its line.
    ///
    /// # Errors
    /// When it is not an integer between `low` and `high`.
    pub(super) fn integer(
        &self,
        key: &str,
        (low, high): (i64, i64),
    ) -> Result<Option<i64>, RtAppError> {
        let Some(entry) = self.get(key)? else {
            return Ok(None);
        };
        integer(entry, (low, high)).map(Some)
    }

    /// # Errors
    /// When it is not a string.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, RtAppError> {
        let Some(entry) = self.get(key)? else {
            return Ok(None);
        };
        text(entry).map(Some)
    }

    /// # Errors
    /// When it is not an object.
    pub(super) fn object(&self, key: &str) -> Result<Option<Self>, RtAppError> {
        let Some(entry) = self.get(key)? else {
            return Ok(None);
        };
        Self::from_node(key, &entry.node).map(Some)
    }

    /// The line of `key`, or of the object without it.
    pub(super) fn line_of(&self, key: &str) -> u32 {
        let mut entries = self.entries.iter();
        entries
            .find(|entry| entry.key == key)
            .map_or(self.line, |entry| entry.line)
    }
}

/// # Errors
/// When the value is not an integer between `low` and `high`.
pub(super) fn integer(entry: &JsonEntry, (low, high): (i64, i64)) -> Result<i64, RtAppError> {
    let JsonValue::Integer(value) = entry.node.value else {
        return Err(type_error(&entry.key, "an integer", entry.line));
    };
    if !(low..=high).contains(&value) {
        let problem = Problem::Range {
            key: entry.key.clone(),
            value,
            low,
            high,
        };
        return Err(problem.on_line(entry.line));
    }
    Ok(value)
}

/// # Errors
/// When the value is not a string.
pub(super) fn text(entry: &JsonEntry) -> Result<&str, RtAppError> {
    match &entry.node.value {
        JsonValue::Text(text) => Ok(text),
        _ => Err(type_error(&entry.key, "a string", entry.line)),
    }
}

pub(super) fn type_error(key: &str, expected: &'static str, line: u32) -> RtAppError {
    Problem::Type {
        key: key.into(),
        expected,
    }
    .on_line(line)
}
