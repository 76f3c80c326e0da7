//! Keeping CPUs from idle states, only when asked.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

/// Where the kernel takes requests for a longest wakeup time.
const REQUESTS: &str = "/dev/cpu_dma_latency";

/// Keeps every CPU from idle states that take time to leave, as long as it
/// lives. The kernel forgets the request when the process ends in any way.
#[derive(Debug)]
pub struct Awake(#[expect(dead_code, reason = "the request lasts while the file is open")] File);

impl Awake {
    /// Asks the kernel.
    ///
    /// # Errors
    /// When the request is refused: it takes root, and a kernel with cpuidle.
    pub fn hold() -> io::Result<Self> {
        let mut file = File::options()
            .write(true)
            .custom_flags(libc::O_CLOEXEC)
            .open(REQUESTS)?;
        file.write_all(&0_i32.to_ne_bytes())?;
        Ok(Self(file))
    }
}
