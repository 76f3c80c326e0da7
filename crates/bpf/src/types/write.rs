//! Layouts, as Rust.

use std::ffi::OsStr;
use std::fmt::Write as _;

use libbpf_rs::btf::HasSize as _;
use libbpf_rs::btf::types::Enum;

use super::layout::{Field, FieldKind, Layout};

/// A type whose fields are atomic, in C's layout.
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

/// A type that is copied in or out, with how.
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
            "    /// Where `{field}` lies, in bytes.\n    pub const {}_AT: usize = {offset};",
            field.to_uppercase()
        );
        if let FieldKind::Array(_, count) = kind {
            let _ = writeln!(
                text,
                "    /// How many `{field}` has.\n    pub const {}_LEN: usize = {count};",
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

/// How a value is read from memory that is shared, a word at a time; nothing
/// for one that is not whole words of numbers.
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
        Some(reads) if layout.bytes.is_multiple_of(WORD) => format!(
            "    /// Reads it by its words, each given by its number.\n    pub fn from_words(word: impl Fn(usize) -> u64) -> Self {{\n        Self {{ {}}}\n    }}\n",
            reads.concat()
        ),
        _ => String::new(),
    }
}

/// Bytes of what is read at once.
const WORD: usize = 8;

fn of_word(kind: &FieldKind, at: usize) -> Option<String> {
    let word = at / WORD;
    match kind {
        FieldKind::Int {
            bytes: WORD,
            is_signed,
        } => {
            let cast = if *is_signed { ".cast_signed()" } else { "" };
            Some(format!("word({word}){cast}"))
        }
        FieldKind::Int { bytes, is_signed } => Some(format!(
            "{}::from_ne_bytes(::laggard_bpf::value::part(&word({word}).to_ne_bytes(), {}))",
            int(*bytes, *is_signed),
            at % WORD
        )),
        FieldKind::Array(of, _)
            if **of
                == (FieldKind::Int {
                    bytes: WORD,
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

/// The constants of an enumeration, of the type that C keeps them in.
pub(super) fn constants(name: &str, of: &Enum<'_>) -> String {
    let sign = if of.is_signed() { 'i' } else { 'u' };
    let mut text = String::new();
    for one in of.iter() {
        let _ = writeln!(
            text,
            "/// Of `enum {name}`.\npub const {}: {sign}{} = {};",
            one.name.and_then(OsStr::to_str).unwrap_or_default(),
            of.size() * 8,
            one.value
        );
    }
    text.push('\n');
    text
}

fn head(layout: &Layout, derive: &str, attributes: &str) -> String {
    format!(
        "/// `struct {}`, which says what its fields are.\n#[derive({derive})]\n{attributes}pub struct {} {{\n",
        layout.name,
        type_name(&layout.name)
    )
}

/// `board_slot` is `BoardSlot`.
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
        FieldKind::Array(of, count) => format!("[{}; {count}]", plain(of)),
    }
}

fn atomic(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Int { bytes, is_signed } => {
            let name = int(*bytes, *is_signed).to_uppercase();
            format!("::std::sync::atomic::Atomic{name}")
        }
        FieldKind::Struct(name, _) => type_name(name),
        FieldKind::Array(of, count) => format!("[{}; {count}]", atomic(of)),
    }
}

/// How a field is read that begins at `at`.
fn read(kind: &FieldKind, at: &str) -> String {
    match kind {
        FieldKind::Int { bytes, is_signed } => format!(
            "{}::from_ne_bytes(::laggard_bpf::value::part(bytes, {at}))",
            int(*bytes, *is_signed)
        ),
        FieldKind::Struct(_, bytes) => format!(
            "::laggard_bpf::value::Value::from_bytes(&bytes[{at}..][..{bytes}]).expect(\"a part of the whole, of its size\")"
        ),
        FieldKind::Array(of, _) => {
            let within = match of.bytes() {
                1 => "place".into(),
                bytes => format!("place * {bytes}"),
            };
            let place = match at {
                "0" => within,
                _ => format!("{at} + {within}"),
            };
            let element = read(of, &place);
            format!("::std::array::from_fn(|place| {element})")
        }
    }
}

/// How `what` is appended to `bytes`.
fn put(kind: &FieldKind, what: &str) -> String {
    match kind {
        FieldKind::Int { .. } => format!("        bytes.extend({what}.to_ne_bytes());\n"),
        FieldKind::Struct(..) => {
            format!("        bytes.extend(::laggard_bpf::value::Value::to_bytes(&{what}));\n")
        }
        FieldKind::Array(of, _) => format!(
            "        for one in {what} {{\n    {}        }}\n",
            put(of, "one")
        ),
    }
}
