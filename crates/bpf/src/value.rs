//! What programs are told and what they tell, as the bytes of a map's value or
//! of a program's argument.
//!
//! The types that implement this are written by `types`, from the programs'
//! own description.

/// A structure of the programs, without padding, copied in or out.
pub trait Value: Sized {
    /// Its size.
    const BYTES: usize;

    /// Reads it; `None`: there are fewer bytes than it has.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;

    /// As the programs see it.
    fn to_bytes(&self) -> Vec<u8>;
}

/// The `N` bytes at `at`, for a number there.
///
/// # Panics
/// When there are fewer.
pub fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let part = bytes[at..at + N].try_into();
    part.expect("as many as were asked for")
}
