//! Buffers that Windows compressed: the plain LZ77 of Microsoft's XPRESS
//! ([MS-XCA] 2.4, "Plain LZ77 Decompression Algorithm Details").

use crate::bytes::{u8_at, u16_at, u32_at};

/// Lengths that the three bits of a match, its half byte and its byte can hold.
const OF_BITS: usize = 7;
const OF_HALF: usize = 15;
const OF_BYTE: usize = 255;
/// The shortest match.
const LEAST: usize = 3;

/// Writes to `to` what `packed` stands for, `length` bytes; `None` where it
/// stands for something else. Takes no more memory than `length`.
pub(crate) fn expand(packed: &[u8], length: usize, to: &mut Vec<u8>) -> Option<()> {
    to.clear();
    to.reserve(length);
    let (mut at, mut flags, mut flags_left) = (0, 0_u32, 0);
    // Where the byte is whose upper half is the next long match's length.
    let mut half: Option<usize> = None;
    while to.len() < length {
        if flags_left == 0 {
            flags = u32_at(packed, at)?;
            at += 4;
            flags_left = 32;
        }
        flags_left -= 1;
        if flags >> flags_left & 1 == 0 {
            to.push(u8_at(packed, at)?);
            at += 1;
            continue;
        }
        let word = usize::from(u16_at(packed, at)?);
        at += 2;
        let back = (word >> 3) + 1;
        let count = match word & OF_BITS {
            OF_BITS => long_match(packed, &mut at, &mut half)?,
            bits => bits,
        };
        copy(to, back, count.checked_add(LEAST)?, length)?;
    }
    Some(())
}

/// The length of a match that three bits cannot hold, less the shortest.
fn long_match(packed: &[u8], at: &mut usize, half: &mut Option<usize>) -> Option<usize> {
    let four = match half.take() {
        Some(shared) => usize::from(u8_at(packed, shared)? >> 4),
        None => {
            let four = usize::from(u8_at(packed, *at)? & 15);
            *half = Some(*at);
            *at += 1;
            four
        }
    };
    if four < OF_HALF {
        return Some(four + OF_BITS);
    }
    let byte = usize::from(u8_at(packed, *at)?);
    *at += 1;
    if byte < OF_BYTE {
        return Some(byte + OF_HALF + OF_BITS);
    }
    let mut whole = usize::from(u16_at(packed, *at)?);
    *at += 2;
    if whole == 0 {
        whole = usize::try_from(u32_at(packed, *at)?).ok()?;
        *at += 4;
    }
    (whole >= OF_HALF + OF_BITS).then_some(whole)
}

/// Repeats `count` bytes of those written, from `back` before their end; what
/// is written may be among them.
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
    fn the_examples_of_the_specification_come_out() {
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
    fn what_stands_for_something_else_is_refused_without_memory_for_it() {
        let far = [0, 0, 0, 0x80, 0xf8, 0xff];
        let long = [
            0xff, 0xff, 0xff, 0x7f, b'a', 0x07, 0x00, 0x0f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff,
        ];

        assert_eq!(expanded(&far, 100), None, "a match before the beginning");
        assert_eq!(expanded(&long, 100), None, "a match beyond the end");
        assert_eq!(expanded(&[], 1), None);
        assert_eq!(expanded(&[0, 0, 0, 0, b'a'], 2), None);
    }
}
