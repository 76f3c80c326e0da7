//! Little-endian numbers and strings at places of a slice; `None` beyond its
//! end, so that a size that lies reads nothing.

/// How many bytes of a string are looked at: the longest path of Windows.
const LONGEST: usize = 2 * 32_768;

/// How wide the pointers of an event are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PointerWidth {
    /// 4 bytes.
    Four,
    /// 8 bytes.
    Eight,
}

impl PointerWidth {
    /// In bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn u8_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

pub(crate) fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    array(bytes, at).map(i64::from_le_bytes)
}

pub(crate) fn pointer_at(bytes: &[u8], at: usize, width: PointerWidth) -> Option<u64> {
    match width {
        PointerWidth::Four => u32_at(bytes, at).map(u64::from),
        PointerWidth::Eight => u64_at(bytes, at),
    }
}

/// The UTF-16 string at `at`, up to its NUL or the end; what is no character
/// becomes U+FFFD.
pub(crate) fn wide_text_at(bytes: &[u8], at: usize) -> Option<String> {
    let bytes = bytes.get(at..)?;
    let units = bytes[..bytes.len().min(LONGEST)]
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .take_while(|unit| *unit != 0);
    let text = char::decode_utf16(units);
    Some(text.map(|one| one.unwrap_or('\u{fffd}')).collect())
}

/// The string of single bytes at `at`, up to its NUL or the end; what is no
/// UTF-8 becomes U+FFFD.
pub(crate) fn narrow_text_at(bytes: &[u8], at: usize) -> Option<String> {
    let bytes = bytes.get(at..)?;
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    let end = bytes.iter().position(|one| *one == 0);
    let text = &bytes[..end.unwrap_or(bytes.len())];
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_end_there_is_nothing() {
        let bytes = [1, 2, 3, 4, 5];

        assert_eq!(u16_at(&bytes, 3), Some(0x0504));
        assert_eq!(u16_at(&bytes, 4), None);
        assert_eq!(u64_at(&bytes, usize::MAX), None);
        assert_eq!(wide_text_at(&bytes, 6), None);
        assert_eq!(pointer_at(&bytes, 1, PointerWidth::Four), Some(0x0504_0302));
        assert_eq!(pointer_at(&bytes, 1, PointerWidth::Eight), None);
    }

    #[test]
    fn a_string_ends_at_its_nul_or_with_the_bytes_and_half_a_character_is_shown() {
        assert_eq!(wide_text_at(b"a\0b\0\0\0c\0", 0).unwrap(), "ab");
        assert_eq!(wide_text_at(b"a\0b", 0).unwrap(), "a");
        assert_eq!(wide_text_at(b"\x00\xd8a\0", 0).unwrap(), "\u{fffd}a");
        assert_eq!(narrow_text_at(b"svchost.exe\0x", 0).unwrap(), "svchost.exe");
        assert_eq!(narrow_text_at(b"a\xff", 0).unwrap(), "a\u{fffd}");
    }
}
