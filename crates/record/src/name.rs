//! Names that Windows refuses for a directory or changes.

/// Device names, in any directory and with any extension.
const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];
/// Device names that are followed by a digit.
const NUMBERED: [&str; 2] = ["COM", "LPT"];

/// Returns why Windows does not create a directory of this name, if it does not.
pub(crate) fn refusal(name: &str) -> Option<&'static str> {
    if name.ends_with(['.', ' ']) {
        return Some("Windows leaves dots and spaces at the end of a name out");
    }
    let stem = name.split('.').next().unwrap_or(name).trim_end();
    let stem = stem.to_ascii_uppercase();
    let is_numbered = |start: &&str| stem.strip_prefix(*start).is_some_and(is_digit);
    let is_device = DEVICES.contains(&&*stem) || NUMBERED.iter().any(is_numbered);
    is_device.then_some("it is the name of a device on Windows, with any ending")
}

/// Returns whether it is a digit from 1 to 9. Windows also accepts superscripts up to
/// 3.
fn is_digit(text: &str) -> bool {
    let mut digits = text.chars();
    let first = digits.next();
    matches!(first, Some('1'..='9' | '\u{b9}' | '\u{b2}' | '\u{b3}')) && digits.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_and_names_that_windows_shortens_are_refused() {
        for name in "CON|nul|Aux.laggard|com1|LPT9.x.y|COM\u{b2}|prn .laggard|conin$".split('|') {
            assert!(refusal(name).unwrap().contains("device"), "{name}");
        }
        for name in ["x.", "x ", "x.laggard ", "..."] {
            assert!(refusal(name).unwrap().contains("at the end"), "{name}");
        }
        for name in "x|console|con-1.laggard|x.con|com0|com10|COM|.x|a b|nul_".split('|') {
            assert_eq!(refusal(name), None, "{name}");
        }
    }
}
