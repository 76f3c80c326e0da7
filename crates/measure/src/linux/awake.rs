//! Request to keep CPUs out of idle states, made only on demand.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

/// Device that accepts requests for a maximum wakeup latency.
const REQUESTS: &str = "/dev/cpu_dma_latency";

/// Keeps every CPU out of idle states with an exit latency while the value lives. The kernel drops
/// the request when the process ends in any way.
#[derive(Debug)]
pub struct Awake(#[expect(dead_code, reason = "the request lasts while the file is open")] File);

impl Awake {
    /// Requests it from the kernel.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel refuses the request, which needs root and cpuidle.
    pub fn hold() -> io::Result<Self> {
        let mut file = File::options()
            .write(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(REQUESTS)?;
        file.write_all(&0_i32.to_ne_bytes())?;
        Ok(Self(file))
    }
}
