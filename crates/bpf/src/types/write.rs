//! Generator of Rust text for layouts.

use std::ffi::OsStr;
use std::fmt::Write as _;

use libbpf_rs::btf::HasSize as _;
use libbpf_rs::btf::types::Enum;

use super::layout::{Field, FieldKind, Layout};

/// Returns a type whose fields are atomic, in C's layout.
pub(super) fn shared(layout: &Layout) -> String {
    let name = type_name(&layout.name);
    let mut text = head(layout, "Debug, Default", "#[repr(C)]\n");
    for field in &layout.fields {
        let _ = writeln!(text, "    pub {}: {},", field.name, atomic(&field.kind));
    }
    let _ = writeln!(
        text,
        "}}\nconst _: () = {{\n    assert!(size_of::<{name}>() == {});",
        layout.bytes
    );
    for Field {
        name: field,
        offset,
        ..
    } in &layout.fields
    {
        let _ = writeln!(
            text,
            "    assert!(::std::mem::offset_of!({name}, {field}) == {offset});"
        );
    }
    let _ = writeln!(
        text,
        "}};\n// SAFETY: atomics, one after the other without padding.\nunsafe impl Shared for {name} {{}}\n"
    );
    text
}

/// Returns a type that is copied in or out, with its conversions.
pub(super) fn value(layout: &Layout) -> String {
    let name = type_name(&layout.name);
    let mut text = head(layout, "Clone, Copy, Debug, Default, Eq, PartialEq", "");
    for field in &layout.fields {
        let _ = writeln!(text, "    pub {}: {},", field.name, plain(&field.kind));
    }
    let _ = writeln!(text, "}}\nimpl {name} {{");
    for Field {
        name: field,
        offset,
        kind,
    } in &layout.fields
    {
        let _ = writeln!(
            text,
            "    /// Offset of `{field}` in bytes.\n    pub const {}_AT: usize = {offset};",
            field.to_uppercase()
        );
        if let FieldKind::Array(_, count) = kind {
            let _ = writeln!(
                text,
                "    /// Length of `{field}`.\n    pub const {}_LEN: usize = {count};",
                field.to_uppercase()
            );
        }
    }
    let bytes = layout.bytes;
    text.push_str(&of_words(layout));
    let _ = writeln!(
        text,
        "}}\nimpl ::laggard_bpf::value::Value for {name} {{\n    const BYTES: usize = {bytes};\n    fn from_bytes(bytes: &[u8]) -> Option<Self> {{\n        let bytes = bytes.get(..{bytes})?;\n        Some(Self {{"
    );
    for Field {
        name: field,
        offset,
        kind,
    } in &layout.fields
    {
        let _ = writeln!(
            text,
            "            {field}: {},",
            read(kind, &offset.to_string())
        );
    }
    let _ = writeln!(
        text,
        "        }})\n    }}\n    fn to_bytes(&self) -> Vec<u8> {{\n        let mut bytes = Vec::with_capacity({bytes});"
    );
    for Field {
        name: field, kind, ..
    } in &layout.fields
    {
        text.push_str(&put(kind, &format!("self.{field}")));
    }
    text.push_str("        bytes\n    }\n}\n\n");
    text
}

/// Returns the function that reads a value word by word from shared memory, or nothing if the
/// value does not consist of whole words.
fn of_words(layout: &Layout) -> String {
    let fields = layout.fields.iter();
    let reads: Option<Vec<String>> = fields
        .map(|field| {
            Some(format!(
                "{}: {}, ",
                field.name,
                of_word(&field.kind, field.offset)?
            ))
        })
        .collect();
    match reads {
        Some(reads) if layout.bytes.is_multiple_of(WORD_BYTES) => format!(
            "    /// Builds it from its words, each given by its index.\n    pub fn from_words(word: impl Fn(usize) -> u64) -> Self {{\n        Self {{ {}}}\n    }}\n",
            reads.concat()
        ),
        _ => String::new(),
    }
}

/// Size of a word in bytes.
const WORD_BYTES: usize = 8;

fn of_word(kind: &FieldKind, offset: usize) -> Option<String> {
    let word = offset / WORD_BYTES;
    match kind {
        FieldKind::Int {
            bytes: WORD_BYTES,
            is_signed,
        } => {
            let cast = if *is_signed { ".cast_signed()" } else { "" };
            Some(format!("word({word}){cast}"))
        }
        FieldKind::Int { bytes, is_signed } => Some(format!(
            "{}::from_ne_bytes(::laggard_bpf::value::part(&word({word}).to_ne_bytes(), {}))",
            int(*bytes, *is_signed),
            offset % WORD_BYTES
        )),
        FieldKind::Array(element, _)
            if **element
                == (FieldKind::Int {
                    bytes: WORD_BYTES,
                    is_signed: false,
                }) =>
        {
            Some(match word {
                0 => "::std::array::from_fn(&word)".into(),
                _ => format!("::std::array::from_fn(|place| word({word} + place))"),
            })
        }
        FieldKind::Array(..) | FieldKind::Struct(..) => None,
    }
}

/// Returns the constants of an enumeration, with the type that C uses.
pub(super) fn constants(name: &str, enumeration: &Enum<'_>) -> String {
    let sign = if enumeration.is_signed() { 'i' } else { 'u' };
    let mut text = String::new();
    for constant in enumeration.iter() {
        let _ = writeln!(
            text,
            "/// Constant of `enum {name}`.\npub const {}: {sign}{} = {};",
            constant.name.and_then(OsStr::to_str).unwrap_or_default(),
            enumeration.size() * 8,
            constant.value
        );
    }
    text.push('\n');
    text
}

fn head(layout: &Layout, derive: &str, attributes: &str) -> String {
    format!(
        "/// `struct {}`, which documents its fields.\n#[derive({derive})]\n{attributes}pub struct {} {{\n",
        layout.name,
        type_name(&layout.name)
    )
}

/// Returns `BoardSlot` for `board_slot`.
fn type_name(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect()
}

fn int(bytes: usize, is_signed: bool) -> String {
    format!("{}{}", if is_signed { 'i' } else { 'u' }, bytes * 8)
}

fn plain(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Int { bytes, is_signed } => int(*bytes, *is_signed),
        FieldKind::Struct(name, _) => type_name(name),
        FieldKind::Array(element, count) => format!("[{}; {count}]", plain(element)),
    }
}

fn atomic(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Int { bytes, is_signed } => {
            let name = int(*bytes, *is_signed).to_uppercase();
            format!("::std::sync::atomic::Atomic{name}")
        }
        FieldKind::Struct(name, _) => type_name(name),
        FieldKind::Array(element, count) => format!("[{}; {count}]", atomic(element)),
    }
}

/// Returns an expression that reads a field at `offset`.
fn read(kind: &FieldKind, offset: &str) -> String {
    match kind {
        FieldKind::Int { bytes, is_signed } => format!(
            "{}::from_ne_bytes(::laggard_bpf::value::part(bytes, {offset}))",
            int(*bytes, *is_signed)
        ),
        FieldKind::Struct(_, bytes) => format!(
            "::laggard_bpf::value::Value::from_bytes(&bytes[{offset}..][..{bytes}]).expect(\"a part of the whole, of its size\")"
        ),
        FieldKind::Array(element, _) => {
            let within = match element.bytes() {
                1 => "place".into(),
                bytes => format!("place * {bytes}"),
            };
            let place = match offset {
                "0" => within,
                _ => format!("{offset} + {within}"),
            };
            let element = read(element, &place);
            format!("::std::array::from_fn(|place| {element})")
        }
    }
}

/// Returns statements that append `what` to `bytes`.
fn put(kind: &FieldKind, what: &str) -> String {
    match kind {
        FieldKind::Int { .. } => format!("        bytes.extend({what}.to_ne_bytes());\n"),
        FieldKind::Struct(..) => {
            format!("        bytes.extend(::laggard_bpf::value::Value::to_bytes(&{what}));\n")
        }
        FieldKind::Array(element, _) => format!(
            "        for element in {what} {{\n    {}        }}\n",
            put(element, "element")
        ),
    }
}
