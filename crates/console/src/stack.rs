//! Sufficient stack for this program, independent of `ulimit -s`.

use std::process::ExitCode;
use std::thread;

use anyhow::Context as _;

use crate::{exit, system};

/// Stack size in bytes, many times the requirement: with 64 KiB the program aborts at once, with
/// 96 it works.
const MIN_STACK_BYTES: usize = 2 << 20;

/// Runs `program`, in a separate thread if the system gives the first thread less stack.
/// Otherwise the program would crash without a message.
pub fn enough(program: impl FnOnce() -> ExitCode + Send) -> ExitCode {
    let limit = system::first_stack();
    if limit >= MIN_STACK_BYTES as u64 {
        return program();
    }
    thread::scope(|scope| {
        let roomy = thread::Builder::new()
            .name("laggard".into())
            .stack_size(MIN_STACK_BYTES);
        match roomy.spawn_scoped(scope, program) {
            // The thread has printed the reason.
            Ok(program) => program.join().unwrap_or(ExitCode::from(101)),
            Err(error) => exit::ended(
 Err(error).with_context(|| {
                format!(
                    "the stack is limited to {} KiB, and the system refuses a thread with more; raise the limit (`ulimit -s 8192`)",
                    limit / 1024
                )
            }), |_| exit::ERROR),
        }
    })
}
