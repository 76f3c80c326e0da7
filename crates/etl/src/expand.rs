//! Decompression of buffers: the plain LZ77 of Microsoft's XPRESS ([MS-XCA] 2.4, "Plain
//! LZ77 Decompression Algorithm Details").

use crate::bytes::{u8_at, u16_at, u32_at};

/// Maximum lengths in the three bits of a match, in its half byte and in its byte.
const OF_BITS: usize = 7;
const OF_HALF: usize = 15;
const OF_BYTE: usize = 255;
/// Shortest match.
const MIN_MATCH: usize = 3;

/// Decompresses `packed` to `length` bytes in `to`; `None` if it does not have that
/// form. Needs no more memory than `length`.
pub(crate) fn expand(packed: &[u8], length: usize, to: &mut Vec<u8>) -> Option<()> {
    to.clear();
    to.reserve(length);
    let (mut position, mut flags, mut flags_left) = (0, 0_u32, 0);
    // Position of the byte whose upper half has the length of the next long match.
    let mut half: Option<usize> = None;
    while to.len() < length {
        if flags_left == 0 {
            flags = u32_at(packed, position)?;
            position += 4;
            flags_left = 32;
        }
        flags_left -= 1;
        if flags >> flags_left & 1 == 0 {
            to.push(u8_at(packed, position)?);
            position += 1;
            continue;
        }
        let word = usize::from(u16_at(packed, position)?);
        position += 2;
        let back = (word >> 3) + 1;
        let count = match word & OF_BITS {
            OF_BITS => long_match(packed, &mut position, &mut half)?,
            bits => bits,
        };
        copy(to, back, count.checked_add(MIN_MATCH)?, length)?;
    }
    Some(())
}

/// Reads the length of a match that does not fit in three bits, minus the shortest.
fn long_match(packed: &[u8], position: &mut usize, half: &mut Option<usize>) -> Option<usize> {
    let four = match half.take() {
        Some(shared) => usize::from(u8_at(packed, shared)? >> 4),
        None => {
            let four = usize::from(u8_at(packed, *position)? & 15);
            *half = Some(*position);
            *position += 1;
            four
        }
    };
    if four < OF_HALF {
        return Some(four + OF_BITS);
    }
    let byte = usize::from(u8_at(packed, *position)?);
    *position += 1;
    if byte < OF_BYTE {
        return Some(byte + OF_HALF + OF_BITS);
    }
    let mut whole = usize::from(u16_at(packed, *position)?);
    *position += 2;
    if whole == 0 {
        whole = usize::try_from(u32_at(packed, *position)?).ok()?;
        *position += 4;
    }
    (whole >= OF_HALF + OF_BITS).then_some(whole)
}

/// Repeats `count` written bytes, from `back` before the end. The copy may overlap its
/// source.
fn copy(to: &mut Vec<u8>, back: usize, count: usize, length: usize) -> Option<()> {
    let from = to.len().checked_sub(back)?;
    if count > length - to.len() {
        return None;
    }
    for place in from..from + count {
        to.push(to[place]);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(packed: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut to = Vec::new();
        expand(packed, length, &mut to).map(|()| to)
    }

    /// The two examples of [MS-XCA] 3.1.
    #[test]
    fn examples_of_the_specification_are_decompressed() {
        let mut letters = vec![0x3f, 0, 0, 0];
        letters.extend(b"abcdefghijklmnopqrstuvwxyz");
        let many = [
            0xff, 0xff, 0xff, 0x1f, b'a', b'b', b'c', 0x17, 0x00, 0x0f, 0xff, 0x26, 0x01,
        ];

        assert_eq!(
            expanded(&letters, 26).unwrap(),
            b"abcdefghijklmnopqrstuvwxyz"
        );
        assert_eq!(expanded(&many, 300).unwrap(), b"abc".repeat(100));
    }

    #[test]
    fn invalid_data_is_refused_without_allocation() {
        let far = [0, 0, 0, 0x80, 0xf8, 0xff];
        let long = [
            0xff, 0xff, 0xff, 0x7f, b'a', 0x07, 0x00, 0x0f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff,
        ];

        assert_eq!(expanded(&far, 100), None, "a match before the start");
        assert_eq!(expanded(&long, 100), None, "a match beyond the end");
        assert_eq!(expanded(&[], 1), None);
        assert_eq!(expanded(&[0, 0, 0, 0, b'a'], 2), None);
    }
}
