//! Conversion of values of maps and arguments of programs to and from bytes.
//!
//! `types` generates the types that implement this from the programs' type information.

/// Structure of the programs without padding, copied in or out.
pub trait Value: Sized {
    const BYTES: usize;

    /// Reads the value; `None` if there are too few bytes.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;

    /// Returns the bytes as the programs see them.
    fn to_bytes(&self) -> Vec<u8>;
}

/// Returns the `N` bytes at `offset`.
///
/// # Panics
///
/// Panics if `bytes` is too short.
pub fn part<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let part = bytes[offset..offset + N].try_into();
    part.expect("the slice has N bytes")
}
