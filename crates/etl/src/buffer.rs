//! Header of a buffer (`WMI_BUFFER_HEADER`). A trace is a sequence of buffers.

use crate::bytes::{u16_at, u32_at};

/// Length of the header, bytes.
pub(crate) const HEADER: usize = 72;
/// Largest buffer of a Windows session, bytes.
pub(crate) const MAX_BUFFER_BYTES: u32 = 16 << 20;

/// `ETW_BUFFER_FLAG_PROC_INDEX`: the CPU number has 11 bits, not 8.
const WIDE_CPU: u16 = 0x20;
const CPU_BITS: u16 = 0x07ff;
/// `ETW_BUFFER_FLAG_COMPRESSED`.
const COMPRESSED: u16 = 0x40;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct BufferHeader {
    /// Length in the file, including this header, bytes.
    pub(crate) size: u32,
    /// Length of the events before compression, including this header, bytes.
    pub(crate) filled: u32,
    /// CPU of the events.
    pub(crate) cpu: u16,
    pub(crate) is_compressed: bool,
}

impl BufferHeader {
    /// Parses the first 72 bytes; `None` if they are not a buffer header.
    pub(crate) fn parse(bytes: &[u8; HEADER]) -> Option<Self> {
        let (size, filled) = (u32_at(bytes, 0)?, u32_at(bytes, 48)?);
        let flags = u16_at(bytes, 52)?;
        let cpu = u16_at(bytes, 40)?;
        let is_compressed = flags & COMPRESSED != 0;
        let header = u32::try_from(HEADER).ok()?;
        let may_hold = if is_compressed {
            MAX_BUFFER_BYTES
        } else {
            size
        };
        // An empty buffer declares a filled length of 0.
        let is_one = (header..=MAX_BUFFER_BYTES).contains(&size) && filled <= may_hold;
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

    /// Returns the length of the events, bytes.
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
    fn buffer_header_is_distinguished_from_other_bytes() {
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
            (100, MAX_BUFFER_BYTES + 1, 0x40),
        ] {
            let bytes = header(size, filled, flags, 0);
            assert_eq!(BufferHeader::parse(&bytes), None, "{size} {filled}");
        }
        let empty = BufferHeader::parse(&header(65_536, 0, 0, 0)).unwrap();
        assert_eq!(empty.events(), 0);
    }
}
