//! JSON dialect of rt-app's files. It combines the dialect of json-c, with comments and with a
//! comma before a closing brace, and the dialect of workgen, where a key may occur several times.
//! Every value keeps its line number.

use super::error::{Problem, RtAppError};

/// Levels of objects and lists that json-c reads.
const MAX_DEPTH: usize = 32;

/// A value and its first line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonNode {
    pub(super) line: u32,
    pub(super) value: JsonValue,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum JsonValue {
    /// A key of an object without a value, which workgen accepts.
    Absent,
    Null,
    Bool(bool),
    Integer(i64),
    /// A number with a fraction or an exponent, or beyond 64 bits.
    Number,
    Text(String),
    List(Vec<JsonNode>),
    Object(Vec<JsonEntry>),
}

/// A key of an object with its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonEntry {
    pub(super) key: String,
    pub(super) line: u32,
    pub(super) node: JsonNode,
}

/// Reads a whole text.
///
/// # Errors
/// When it is not one value of that dialect.
pub(super) fn parse(text: &str) -> Result<JsonNode, RtAppError> {
    let mut reader = Reader {
        rest: text,
        line: 1,
    };
    let root = reader.value(0)?;
    reader.skip()?;
    match reader.peek() {
        None => Ok(root),
        Some(character) => Err(reader.unexpected(character, "the end of the file")),
    }
}

struct Reader<'a> {
    rest: &'a str,
    line: u32,
}

impl Reader<'_> {
    fn error(&self, what: String) -> RtAppError {
        Problem::Syntax(what).on_line(self.line)
    }

    fn unexpected(&self, character: char, wanted: &str) -> RtAppError {
        let character = match character {
            '"' | '\'' => character.to_string(),
            other => other.escape_debug().to_string(),
        };
        self.error(format!("expected {wanted}, found `{character}`"))
    }

    fn expected(&self, wanted: &str) -> RtAppError {
        match self.peek() {
            Some(character) => self.unexpected(character, wanted),
            None => self.error(format!("expected {wanted}, but the file ends here")),
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Passes `count` bytes, which end at a character.
    fn pass(&mut self, count: usize) {
        let (passed, rest) = self.rest.split_at(count);
        let lines = passed.matches('\n').count();
        self.line = self
            .line
            .saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.rest = rest;
    }

    fn take(&mut self, character: char) -> bool {
        let is_there = self.rest.starts_with(character);
        if is_there {
            self.pass(character.len_utf8());
        }
        is_there
    }

    /// Skips white space and comments.
    fn skip(&mut self) -> Result<(), RtAppError> {
        loop {
            let blank =
                self.rest.len() - self.rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            self.pass(blank);
            if self.rest.starts_with("//") {
                self.pass(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let end = self.rest[2..]
                    .find("*/")
                    .ok_or_else(|| self.error("a comment that starts here has no `*/`".into()))?;
                self.pass(2 + end + 2);
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<JsonNode, RtAppError> {
        self.skip()?;
        let line = self.line;
        let value = match self.peek() {
            Some('{') => self.object(depth + 1)?,
            Some('[') => self.list(depth + 1)?,
            Some('"' | '\'') => JsonValue::Text(self.text()?),
            _ => self.word()?,
        };
        Ok(JsonNode { line, value })
    }

    /// Passes the brace or bracket that opens level `depth`.
    fn open(&mut self, depth: usize) -> Result<(), RtAppError> {
        if depth > MAX_DEPTH {
            return Err(self.error(format!("more than {MAX_DEPTH} levels of objects and lists")));
        }
        self.pass(1);
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<JsonValue, RtAppError> {
        self.open(depth)?;
        let mut entries = Vec::new();
        loop {
            self.skip()?;
            if self.take('}') {
                return Ok(JsonValue::Object(entries));
            }
            let line = self.line;
            if !self.rest.starts_with(['"', '\'']) {
                return Err(self.expected("a key in quotes or `}`"));
            }
            let key = self.text()?;
            self.skip()?;
            let node = if self.take(':') {
                self.value(depth)?
            } else if self.rest.starts_with([',', '}']) {
                let value = JsonValue::Absent;
                JsonNode { line, value }
            } else {
                return Err(self.expected(&format!("`:` after the key `{key}`")));
            };
            entries.push(JsonEntry { key, line, node });
            self.skip()?;
            if !self.take(',') && !self.rest.starts_with('}') {
                return Err(self.expected("`,` or `}`"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<JsonValue, RtAppError> {
        self.open(depth)?;
        let mut nodes = Vec::new();
        loop {
            self.skip()?;
            if self.take(']') {
                return Ok(JsonValue::List(nodes));
            }
            nodes.push(self.value(depth)?);
            self.skip()?;
            if !self.take(',') && !self.rest.starts_with(']') {
                return Err(self.expected("`,` or `]`"));
            }
        }
    }

    /// A string in the quotes that open it.
    fn text(&mut self) -> Result<String, RtAppError> {
        let line = self.line;
        let unended =
            || Problem::Syntax("a string that starts here has no end".into()).on_line(line);
        let quote = self.peek().ok_or_else(unended)?;
        self.pass(1);
        let mut text = String::new();
        loop {
            let next = self.peek().ok_or_else(unended)?;
            self.pass(next.len_utf8());
            if next == quote {
                return Ok(text);
            }
            text.push(match next {
                '\\' => self.escape()?,
                other => other,
            });
        }
    }

    fn escape(&mut self) -> Result<char, RtAppError> {
        let Some(escaped) = self.peek() else {
            return Err(self.expected("a character after `\\`"));
        };
        self.pass(escaped.len_utf8());
        Ok(match escaped {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            '"' | '\'' | '\\' | '/' => escaped,
            'u' => self.unicode()?,
            other => {
                return Err(self.error(format!("`\\{}` is not an escape", other.escape_debug())));
            }
        })
    }

    /// The character of a `\u`, which can take two of them.
    fn unicode(&mut self) -> Result<char, RtAppError> {
        let mut units = vec![self.unit()?];
        if (0xd800..0xdc00).contains(&units[0]) && self.rest.starts_with("\\u") {
            self.pass(2);
            units.push(self.unit()?);
        }
        // json-c reads half of a pair as the replacement character, too.
        let mut characters = char::decode_utf16(units);
        Ok(characters
            .next()
            .and_then(Result::ok)
            .unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn unit(&mut self) -> Result<u16, RtAppError> {
        let digits = self.rest.get(..4).unwrap_or_default();
        let is_hex = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let unit = u16::from_str_radix(digits, 16);
        let Some(unit) = unit.ok().filter(|_| is_hex) else {
            return Err(self.error("expected four hexadecimal digits after `\\u`".into()));
        };
        self.pass(4);
        Ok(unit)
    }

    /// A number, or a word such as `true`, in any case as in json-c.
    fn word(&mut self) -> Result<JsonValue, RtAppError> {
        let is_part =
            |character: char| character.is_ascii_alphanumeric() || "+-.".contains(character);
        let length = self
            .rest
            .find(|next| !is_part(next))
            .unwrap_or(self.rest.len());
        let word = &self.rest[..length];
        let is_number = word.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let value = match word.to_ascii_lowercase().as_str() {
            "" => return Err(self.expected("a value")),
            "true" => JsonValue::Bool(true),
            "false" => JsonValue::Bool(false),
            "null" => JsonValue::Null,
            "nan" | "infinity" | "-infinity" => JsonValue::Number,
            lower => match (lower.parse::<i64>(), lower.parse::<f64>()) {
                (Ok(integer), _) if is_number => JsonValue::Integer(integer),
                (_, Ok(_)) if is_number => JsonValue::Number,
                _ => {
                    return Err(
                        self.error(format!("`{word}` is not a value; put a string in quotes"))
                    );
                }
            },
        };
        self.pass(length);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Vec<JsonEntry> {
        match parse(text).unwrap().value {
            JsonValue::Object(entries) => entries,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn comments_trailing_commas_and_repeated_keys_are_read_with_their_lines() {
        let entries = object(
            "/* first\n   comment */ { // second\n \"run\" : 1,\n\n \"suspend\", \"run\" : [ 2, -3, ],\n}\n// end",
        );

        let read: Vec<(&str, u32)> = entries
            .iter()
            .map(|entry| (entry.key.as_str(), entry.line))
            .collect();
        assert_eq!(read, [("run", 3), ("suspend", 5), ("run", 5)]);
        assert_eq!(entries[1].node.value, JsonValue::Absent);
        let list = |value| JsonNode { line: 5, value };
        assert_eq!(
            entries[2].node.value,
            JsonValue::List(vec![
                list(JsonValue::Integer(2)),
                list(JsonValue::Integer(-3))
            ])
        );
    }

    #[test]
    fn strings_and_words_are_read_as_json_c_reads_them() {
        let entries = object(
            r#"{ 'a' : "\u00e9\ud83d\ude00\n\/", "b" : TRUE, "c" : 1.5, "d" : 99999999999999999999, "e" : null }"#,
        );

        let values: Vec<JsonValue> = entries.into_iter().map(|entry| entry.node.value).collect();
        assert_eq!(
            values,
            [
                JsonValue::Text("\u{e9}\u{1f600}\n/".into()),
                JsonValue::Bool(true),
                JsonValue::Number,
                JsonValue::Number,
                JsonValue::Null,
            ]
        );
    }

    #[test]
    fn syntax_errors_name_the_line_and_the_expected_text() {
        for (text, expected) in [
            ("", "line 1: expected a value, but the file ends here"),
            (
                "{\n\"a\" 1}",
                "line 2: expected `:` after the key `a`, found `1`",
            ),
            (
                "{\n\"a\" : 1\n\"b\" : 2}",
                "line 3: expected `,` or `}`, found `\"`",
            ),
            (
                "{ a : 1 }",
                "line 1: expected a key in quotes or `}`, found `a`",
            ),
            (
                "{ \"a\" : yes }",
                "line 1: `yes` is not a value; put a string in quotes",
            ),
            (
                "\n/* no end",
                "line 2: a comment that starts here has no `*/`",
            ),
            ("{\n\"a", "line 2: a string that starts here has no end"),
            ("{} x", "line 1: expected the end of the file, found `x`"),
            (
                "\"\\u12g4\"",
                "line 1: expected four hexadecimal digits after `\\u`",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected, "for {text}");
        }
        let deep = "[".repeat(100_000);
        let error = parse(&deep).unwrap_err().to_string();
        assert_eq!(error, "line 1: more than 32 levels of objects and lists");
    }
}
