//! BPF objects that are part of the program.
//!
//! For build scripts, `compile` makes an object of each `.bpf.c` file of a
//! folder, and `types` writes the Rust types of what its programs share with
//! user space. `object` loads the objects, `value` is what goes in and out of
//! them; `clock` is the time that they see. `include/` holds what the programs
//! of all crates share.

#![forbid(unsafe_code)]

#[cfg(feature = "load")]
pub mod clock;
#[cfg(feature = "compile")]
pub mod compile;
#[cfg(feature = "load")]
pub mod object;
#[cfg(any(feature = "compile", feature = "load"))]
pub mod types;
pub mod value;
