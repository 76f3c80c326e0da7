//! Text from other users, shortened and made harmless at the point of entry.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};

use laggard_model::printable;

/// Maximum length in bytes of a name in the file. Generated C++ names reach some 4,000.
pub(super) const MAX_MANGLED_BYTES: usize = 8192;
/// Maximum length in bytes of a stored name or reason.
pub(super) const MAX_LABEL_BYTES: usize = 1024;
/// Suffix of a text that was cut.
const CUT: &str = "...";

/// Returns the name of a function as in the source code. `is_cut`: only the start of the name was
/// read.
pub(super) fn function(name: &[u8], is_cut: bool) -> String {
    let text = String::from_utf8_lossy(name);
    if is_cut {
        return harmless(&format!("{text}{CUT}"));
    }
    let plain = match rustc_demangle::try_demangle(&text) {
        Ok(plain) => limited(|out| write!(out, "{plain:#}")),
        Err(_) => cpp_demangle::Symbol::new(name).ok().and_then(|plain| {
            let options = cpp_demangle::DemangleOptions::default();
            limited(|out| plain.structured_demangle(out, &options))
        }),
    };
    plain.unwrap_or_else(|| harmless(&text))
}

/// Returns the last part of a path, such as `libc.so.6`.
pub(super) fn module(path: &OsStr) -> String {
    let path = path.to_string_lossy();
    harmless(path.rsplit('/').next().unwrap_or_default())
}

/// Returns a text of limited length without control characters.
pub(super) fn harmless(text: &str) -> String {
    limited(|out| out.write_str(text)).unwrap_or_default()
}

/// Returns the output of `write` up to the limit, or `None` if `write` itself failed.
fn limited(write: impl FnOnce(&mut BoundedText) -> fmt::Result) -> Option<String> {
    let mut out = BoundedText::default();
    match write(&mut out) {
        Ok(()) => Some(out.text),
        Err(_) if out.is_full => Some(out.text + CUT),
        Err(_) => None,
    }
}

/// Text that refuses to grow beyond [`MAX_LABEL_BYTES`].
#[derive(Debug, Default)]
struct BoundedText {
    text: String,
    is_full: bool,
}

impl fmt::Write for BoundedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (start_of_char, part) in text.char_indices() {
            let start = self.text.len();
            write!(
                self.text,
                "{}",
                printable(&text[start_of_char..start_of_char + part.len_utf8()])
            )?;
            if self.text.len() > MAX_LABEL_BYTES - CUT.len() {
                self.text.truncate(start);
                self.is_full = true;
                return Err(fmt::Error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_name_is_demangled() {
        for (name, plain) in [
            ("_ZN5space3fooEibc", "space::foo(int, bool, char)"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("read", "read"),
            ("_Znot_mangled", "_Znot_mangled"),
        ] {
            assert_eq!(function(name.as_bytes(), false), plain);
        }
    }

    #[test]
    fn hostile_name_is_short_and_harmless() {
        let long = "x".repeat(MAX_MANGLED_BYTES);
        // Each level doubles the length of the demangled name.
        let doubling: String = (0..60).fold("_Z1fIiE1AI".into(), |name, _| name + "S_S_EI");

        for name in [&long, &doubling, "\u{1b}[2J\n\u{202e}", "\u{9b}31m"] {
            let label = function(name.as_bytes(), false);
            assert!(label.len() <= MAX_LABEL_BYTES, "{} bytes", label.len());
            assert_eq!(printable(&label).to_string(), label);
        }
        assert!(function(long.as_bytes(), true).ends_with("..."));
        assert_eq!(harmless("\u{1b}[2J\n"), "\\x1b[2J\\n");
    }

    #[test]
    fn module_is_the_last_part_of_a_path() {
        assert_eq!(module(OsStr::new("/usr/lib/libc.so.6")), "libc.so.6");
        assert_eq!(module(OsStr::new("[vdso]")), "[vdso]");
    }
}
