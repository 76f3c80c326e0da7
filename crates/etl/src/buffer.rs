//! The header of a buffer (`WMI_BUFFER_HEADER`): what a trace is a row of.

use crate::bytes::{u16_at, u32_at};

/// How long the header is, bytes.
pub(crate) const HEADER: usize = 72;
/// The largest buffer that Windows gives a session, bytes.
pub(crate) const LARGEST: u32 = 16 << 20;

/// `ETW_BUFFER_FLAG_PROC_INDEX`: the CPU's number has 11 bits, not 8.
const WIDE_CPU: u16 = 0x20;
const CPU_BITS: u16 = 0x07ff;
/// `ETW_BUFFER_FLAG_COMPRESSED`.
const COMPRESSED: u16 = 0x40;

/// What the header of a buffer says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BufferHeader {
    /// How long it is in the file, with this header, bytes.
    pub(crate) size: u32,
    /// How much of it holds events, with this header, before it was compressed.
    pub(crate) filled: u32,
    /// Whose events it holds.
    pub(crate) cpu: u16,
    /// Whether the events are compressed.
    pub(crate) is_compressed: bool,
}

impl BufferHeader {
    /// Of the first 72 bytes; `None`: no buffer begins so.
    pub(crate) fn parse(bytes: &[u8; HEADER]) -> Option<Self> {
        let (size, filled) = (u32_at(bytes, 0)?, u32_at(bytes, 48)?);
        let flags = u16_at(bytes, 52)?;
        let cpu = u16_at(bytes, 40)?;
        let is_compressed = flags & COMPRESSED != 0;
        let header = u32::try_from(HEADER).ok()?;
        let may_hold = if is_compressed { LARGEST } else { size };
        // A buffer in which nothing was written says that nothing is filled.
        let is_one = (header..=LARGEST).contains(&size) && filled <= may_hold;
        is_one.then_some(Self {
            size,
            filled: filled.max(header),
            cpu: match flags & WIDE_CPU {
                0 => cpu & 0xff,
                _ => cpu & CPU_BITS,
            },
            is_compressed,
        })
    }

    /// How long its events are, bytes.
    pub(crate) fn events(&self) -> usize {
        usize::try_from(self.filled).map_or(0, |filled| filled.saturating_sub(HEADER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(size: u32, filled: u32, flags: u16, cpu: u16) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&size.to_le_bytes());
        bytes[40..42].copy_from_slice(&cpu.to_le_bytes());
        bytes[48..52].copy_from_slice(&filled.to_le_bytes());
        bytes[52..54].copy_from_slice(&flags.to_le_bytes());
        bytes
    }

    #[test]
    fn a_buffer_is_told_from_what_is_none() {
        let plain = BufferHeader::parse(&header(65_536, 400, 1, 0x0107)).unwrap();
        let packed = BufferHeader::parse(&header(9_000, 65_536, 0x60, 0x0107)).unwrap();

        assert_eq!((plain.cpu, plain.events()), (7, 328));
        assert!(!plain.is_compressed);
        assert_eq!((packed.cpu, packed.events()), (0x107, 65_464));
        assert!(packed.is_compressed);
        for (size, filled, flags) in [
            (0, 0, 0),
            (71, 71, 0),
            (u32::MAX, 100, 0),
            (100, 101, 0),
            (100, LARGEST + 1, 0x40),
        ] {
            let bytes = header(size, filled, flags, 0);
            assert_eq!(BufferHeader::parse(&bytes), None, "{size} {filled}");
        }
        let empty = BufferHeader::parse(&header(65_536, 0, 0, 0)).unwrap();
        assert_eq!(empty.events(), 0);
    }
}
