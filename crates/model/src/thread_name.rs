//! Names of threads, as the kernel has them.

use std::fmt;

/// What the kernel calls a thread: 15 bytes at most, of whatever it was given.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ThreadName(pub [u8; 16]);

impl fmt::Display for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().position(|&one| one == 0);
        f.write_str(&String::from_utf8_lossy(&self.0[..end.unwrap_or(16)]))
    }
}
