//! How marks lie in memory: `marks/laggard_marks.h` has the same.
//!
//! A file of memory (memfd) of this name, which the program keeps open: a head, then
//! marks in a ring. All numbers as the machine has them.

/// The name that the file is made with.
pub const NAME: &str = "laggard-marks";
/// With what it begins.
pub const MAGIC: [u8; 8] = *b"laggardM";
/// The version of this layout: a `u32`.
pub const VERSION: u32 = 1;
/// Where that is.
pub const VERSION_AT: usize = 8;
/// Where it says how many marks the ring has, a power of two: a `u32`.
pub const SLOTS_AT: usize = 12;
/// Where whoever listens writes 1: a `u32`.
pub const LISTENING_AT: usize = 16;
/// Where it says how many marks there were: a `u64`.
pub const NEXT_AT: usize = 64;
/// Where the ring begins.
pub const RING_AT: usize = 128;

/// How many marks a ring of this crate has.
pub const SLOTS: u32 = 8_192;
/// The bytes of one: `u64` its place among all, from 1, written last; `u64`
/// `CLOCK_MONOTONIC`, ns; `u64` the program's number; `u32` its thread; `u32` what it is.
pub const MARK_BYTES: usize = 32;
/// A cycle begins.
pub const BEGIN: u32 = 1;
/// It ends.
pub const END: u32 = 2;

/// The bytes of a file with so many marks.
#[must_use]
pub const fn bytes(slots: u32) -> usize {
    RING_AT + slots as usize * MARK_BYTES
}
