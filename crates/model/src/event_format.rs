//! Layouts of kernel trace events, from the `format` files of tracefs. They differ between
//! kernels, so no program may assume an offset.

/// Layout of the records of one event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EventFormat {
    /// Name of the event.
    pub name: String,
    /// Number of the event, which its records start with.
    pub id: u16,
    fields: Vec<EventField>,
}

/// Field of a record. Its integers have the byte order of this machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EventField {
    /// Name of the field.
    pub name: String,
    offset: usize,
    bytes: usize,
    is_signed: bool,
}

/// Reason why the layout of an event is unknown.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FormatError {
    /// The name or number of the event is missing.
    #[error("the format has no `{0}`")]
    NoHeader(&'static str),
    /// A field cannot be read.
    #[error("the format has an unreadable line: `{0}`")]
    BadField(String),
    /// The event lacks a field.
    #[error("the format of `{event}` has no integer `{field}`")]
    NoField {
        /// Name of the event.
        event: String,
        /// Name of the field.
        field: String,
    },
}

impl EventFormat {
    /// Parses the text of a `format` file.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not the format file of an event.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let header = |key| {
            let value = text.lines().find_map(|line| line.strip_prefix(key));
            value.map(str::trim).ok_or(FormatError::NoHeader(key))
        };
        let id = header("ID:")?.parse();
        let fields = text
            .lines()
            .map(str::trim)
            .filter(|line| line.starts_with("field:"))
            .map(|line| EventField::parse(line).ok_or_else(|| FormatError::BadField(line.into())));
        Ok(Self {
            name: header("name:")?.into(),
            id: id.map_err(|_| FormatError::NoHeader("ID:"))?,
            fields: fields.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the integer field with this name.
    ///
    /// # Errors
    ///
    /// Returns an error if this kernel's event lacks such an integer.
    pub fn integer(&self, name: &str) -> Result<EventField, FormatError> {
        let mut fields = self.fields.iter();
        let field = fields.find(|field| field.name == name && matches!(field.bytes, 1 | 2 | 4 | 8));
        field.cloned().ok_or_else(|| FormatError::NoField {
            event: self.name.clone(),
            field: name.into(),
        })
    }

    /// Returns the number of the event that a record belongs to. `None`: the record is too short.
    #[must_use]
    pub fn id_of(record: &[u8]) -> Option<u16> {
        record.first_chunk().copied().map(u16::from_ne_bytes)
    }
}

impl EventField {
    /// Parses `field:TYPE NAME; offset:N; size:N; signed:N;`.
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next()?.strip_prefix("field:")?;
        let number = |part: Option<&str>, key| -> Option<usize> {
            part?.strip_prefix(key)?.trim().parse().ok()
        };
        let offset = number(parts.next(), "offset:")?;
        let bytes = number(parts.next(), "size:")?;
        let is_signed = number(parts.next(), "signed:") == Some(1);
        // A length can follow the name: `char comm[16]`.
        let declarator = declaration.split('[').next()?;
        let name = declarator
            .rsplit([' ', '*'])
            .find(|word| !word.is_empty())?;
        Some(Self {
            name: name.into(),
            offset,
            bytes,
            is_signed,
        })
    }

    /// Returns the value of this integer in a record; a negative value has its sign extended.
    /// `None`: the record is too short.
    #[must_use]
    pub fn value(&self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.bytes)?)?;
        let value = match *bytes {
            [byte] => byte.into(),
            [a, b] => u16::from_ne_bytes([a, b]).into(),
            [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
            _ => u64::from_ne_bytes(bytes.try_into().ok()?),
        };
        let unused_bits = 64 - 8 * u32::try_from(bytes.len()).ok()?;
        Some(if self.is_signed {
            ((value << unused_bits).cast_signed() >> unused_bits).cast_unsigned()
        } else {
            value
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:void *timer;\toffset:24;\tsize:8;\tsigned:0;\n\
        \tfield:void * function;\toffset:32;\tsize:8;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:40;\tsize:4;\tsigned:1;\n\n\
        print fmt: \"field:x %d\", REC->common_pid\n";

    #[test]
    fn integers_are_read_at_the_offsets_of_the_file() {
        let format = EventFormat::parse(FORMAT).unwrap();
        let mut record = vec![0; 44];
        record[..2].copy_from_slice(&372_u16.to_ne_bytes());
        record[4..8].copy_from_slice(&(-2_i32).to_ne_bytes());
        record[24..32].copy_from_slice(&u64::MAX.to_ne_bytes());
        let value = |name| format.integer(name).unwrap().value(&record);

        assert_eq!((format.name.as_str(), format.id), ("sched_switch", 372));
        assert_eq!(EventFormat::id_of(&record), Some(372));
        assert_eq!(value("common_pid"), Some((-2_i64).cast_unsigned()));
        assert_eq!(value("timer"), Some(u64::MAX));
        assert_eq!(value("function"), Some(0));
        // Moved fields are followed.
        let moved = FORMAT.replace("offset:24", "offset:16");
        let moved = EventFormat::parse(&moved)
            .unwrap()
            .integer("timer")
            .unwrap();
        assert_eq!(moved.value(&record), Some(0));
    }

    #[test]
    fn absent_field_and_short_record_are_reported() {
        let format = EventFormat::parse(FORMAT).unwrap();

        for name in ["next_pid", "prev_comm", "REC"] {
            let message = format.integer(name).unwrap_err().to_string();

            let expected = format!("the format of `sched_switch` has no integer `{name}`");
            assert_eq!(message, expected);
        }
        assert_eq!(format.integer("timer").unwrap().value(&[0; 31]), None);
        assert_eq!(EventFormat::id_of(&[1]), None);
    }

    #[test]
    fn other_text_is_refused() {
        for (text, expected) in [
            ("", "no `ID:`"),
            ("ID: 1\n", "no `name:`"),
            ("name: x\nID: y\n", "no `ID:`"),
            (
                "name: x\nID: 1\n\tfield:int y; offset:x;\n",
                "unreadable line",
            ),
        ] {
            let message = EventFormat::parse(text).unwrap_err().to_string();

            assert!(message.contains(expected), "{text:?}: {message}");
        }
    }
}
