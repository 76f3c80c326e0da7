//! Enough stack for this program, whatever `ulimit -s` says.

use std::process::ExitCode;
use std::thread;

use anyhow::Context as _;

use crate::{exit, system};

/// What the program may use, many times over, bytes: with 64 KiB it aborts at once,
/// with 96 it works.
const ENOUGH: usize = 2 << 20;

/// Runs `program`, on a thread of its own where the system gives its first one less
/// stack than that: beyond it the program would end without a word.
pub fn enough(program: impl FnOnce() -> ExitCode + Send) -> ExitCode {
    let limit = system::first_stack();
    if limit >= ENOUGH as u64 {
        return program();
    }
    thread::scope(|scope| {
        let roomy = thread::Builder::new()
            .name("laggard".into())
            .stack_size(ENOUGH);
        match roomy.spawn_scoped(scope, program) {
            // It has said what happened.
            Ok(program) => program.join().unwrap_or(ExitCode::from(101)),
            Err(error) => exit::ended(
 Err(error).with_context(|| {
                format!(
                    "the stack may be {} KiB, and there is no thread with more; raise the limit (`ulimit -s 8192`)",
                    limit / 1024
                )
            }), |_| exit::ERROR),
        }
    })
}
