//! Layout of marks in memory, the same as in `marks/laggard_marks.h`.
//!
//! The program keeps a memory file (memfd) with this name open. It contains a header, then a ring
//! of marks. All numbers are in native byte order.

/// Name of the file.
pub const NAME: &str = "laggard-marks";
/// First bytes of the file.
pub const MAGIC: [u8; 8] = *b"laggardM";
/// Version of this layout: a `u32`.
pub const VERSION: u32 = 1;
/// Offset of the version.
pub const VERSION_AT: usize = 8;
/// Offset of the number of marks in the ring, a power of two: a `u32`.
pub const SLOTS_AT: usize = 12;
/// Offset of the field that a listener sets to 1: a `u32`.
pub const LISTENING_AT: usize = 16;
/// Offset of the number of marks so far: a `u64`.
pub const NEXT_AT: usize = 64;
/// Offset of the ring.
pub const RING_AT: usize = 128;

/// Number of marks in a ring of this crate.
pub const SLOTS: u32 = 8_192;
/// Size of a mark in bytes: `u64` sequence number, from 1, written last; `u64` `CLOCK_MONOTONIC`
/// in ns; `u64` number of the cycle; `u32` TID; `u32` kind.
pub const MARK_BYTES: usize = 32;
/// Kind of a mark: a cycle starts.
pub const BEGIN: u32 = 1;
/// Kind of a mark: a cycle ends.
pub const END: u32 = 2;

/// Returns the size in bytes of a file with `slots` marks.
#[must_use]
pub const fn bytes(slots: u32) -> usize {
    RING_AT + slots as usize * MARK_BYTES
}
