//! Little-endian numbers and strings at positions of a slice; `None` beyond its end, so
//! that a wrong size is harmless.

/// Maximum length of a string, bytes: the longest path of Windows.
const MAX_STRING_BYTES: usize = 2 * 32_768;

/// Width of the pointers of an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PointerWidth {
    Four,
    Eight,
}

impl PointerWidth {
    pub const fn bytes(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

fn array<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn u8_at(bytes: &[u8], offset: usize) -> Option<u8> {
    bytes.get(offset).copied()
}

pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    array(bytes, offset).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    array(bytes, offset).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    array(bytes, offset).map(u64::from_le_bytes)
}

pub(crate) fn i64_at(bytes: &[u8], offset: usize) -> Option<i64> {
    array(bytes, offset).map(i64::from_le_bytes)
}

pub(crate) fn pointer_at(bytes: &[u8], offset: usize, width: PointerWidth) -> Option<u64> {
    match width {
        PointerWidth::Four => u32_at(bytes, offset).map(u64::from),
        PointerWidth::Eight => u64_at(bytes, offset),
    }
}

/// Returns the UTF-16 string at `offset`, up to its NUL or the end. Invalid characters
/// become U+FFFD.
pub(crate) fn wide_text_at(bytes: &[u8], offset: usize) -> Option<String> {
    let bytes = bytes.get(offset..)?;
    let units = bytes[..bytes.len().min(MAX_STRING_BYTES)]
        .chunks_exact(2)
        .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
        .take_while(|unit| *unit != 0);
    let text = char::decode_utf16(units);
    Some(
        text.map(|character| character.unwrap_or('\u{fffd}'))
            .collect(),
    )
}

/// Returns the single-byte string at `offset`, up to its NUL or the end. Invalid UTF-8
/// becomes U+FFFD.
pub(crate) fn narrow_text_at(bytes: &[u8], offset: usize) -> Option<String> {
    let bytes = bytes.get(offset..)?;
    let bytes = &bytes[..bytes.len().min(MAX_STRING_BYTES)];
    let end = bytes.iter().position(|byte| *byte == 0);
    let text = &bytes[..end.unwrap_or(bytes.len())];
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_beyond_the_end_return_none() {
        let bytes = [1, 2, 3, 4, 5];

        assert_eq!(u16_at(&bytes, 3), Some(0x0504));
        assert_eq!(u16_at(&bytes, 4), None);
        assert_eq!(u64_at(&bytes, usize::MAX), None);
        assert_eq!(wide_text_at(&bytes, 6), None);
        assert_eq!(pointer_at(&bytes, 1, PointerWidth::Four), Some(0x0504_0302));
        assert_eq!(pointer_at(&bytes, 1, PointerWidth::Eight), None);
    }

    #[test]
    fn string_ends_at_its_nul_or_the_end_of_the_bytes() {
        assert_eq!(wide_text_at(b"a\0b\0\0\0c\0", 0).unwrap(), "ab");
        assert_eq!(wide_text_at(b"a\0b", 0).unwrap(), "a");
        assert_eq!(wide_text_at(b"\x00\xd8a\0", 0).unwrap(), "\u{fffd}a");
        assert_eq!(narrow_text_at(b"svchost.exe\0x", 0).unwrap(), "svchost.exe");
        assert_eq!(narrow_text_at(b"a\xff", 0).unwrap(), "a\u{fffd}");
    }
}
