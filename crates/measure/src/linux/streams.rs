//! Standard streams that were closed when this program was started.
//!
//! Rust's runtime opens `/dev/null` in their place before `main`, so that what is written
//! is lost without an error (`laggard show >&-`). Afterwards such a stream looks like one
//! that the caller directed to `/dev/null`, also by its flags: Python's `DEVNULL` and
//! daemon(3) open it for reading and writing, too. So the look is before the runtime.

use std::sync::atomic::{AtomicBool, Ordering};

static OUTPUT_WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// What the dynamic linker, or the C library of a static program, calls before `main`.
#[used]
// SAFETY: the section holds pointers to C functions, as this is.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: the call has no memory argument, and the descriptor may be closed.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    OUTPUT_WAS_CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// Whether standard output was closed when this program was started.
pub fn output_was_closed() -> bool {
    OUTPUT_WAS_CLOSED.load(Ordering::Relaxed)
}
