//! Names of threads in the kernel.

use std::fmt;

/// Name of a thread in the kernel: at most 15 bytes of any value.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ThreadName(pub [u8; 16]);

impl fmt::Display for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().position(|&byte| byte == 0);
        f.write_str(&String::from_utf8_lossy(&self.0[..end.unwrap_or(16)]))
    }
}
