//! Size of a page.

/// Returns the size of a page, bytes: 4 KiB on x86-64, 4 to 64 KiB on arm64.
///
/// # Panics
///
/// Panics if the system has no such size, which POSIX does not allow.
#[must_use]
pub fn page_bytes() -> usize {
    use nix::unistd::{SysconfVar, sysconf};

    sysconf(SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .and_then(|bytes| usize::try_from(bytes).ok())
        .expect("every system has a page size")
}
