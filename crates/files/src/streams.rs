//! Standard streams that were closed when this program was started.
//!
//! Rust's runtime opens `/dev/null` in their place before `main`, so output is lost without an
//! error (`laggard show >&-`). Afterwards a stream that was closed cannot be distinguished from a
//! redirection to `/dev/null`, not even by its flags: Python's `DEVNULL` and daemon(3) also open it
//! for reading and writing. The check therefore runs before the runtime.

#![expect(
    unsafe_code,
    reason = "only code that runs before Rust's runtime can see the closed stream"
)]

use std::sync::atomic::{AtomicBool, Ordering};

static OUTPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Function that the dynamic linker, or the C library of a static program, calls before `main`.
#[used]
// SAFETY: the section holds pointers to C functions, and this is one.
#[unsafe(link_section = ".init_array")]
static CHECK: extern "C" fn() = check;

extern "C" fn check() {
    // SAFETY: the argument is an integer, and the descriptor may be closed.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    OUTPUT_WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Returns whether standard output was closed when this program was started.
pub fn output_was_closed() -> bool {
    OUTPUT_WAS_CLOSED.load(Ordering::Relaxed)
}
