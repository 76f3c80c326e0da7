//! BPF objects that are part of the program.
//!
//! For build scripts, `compile` compiles each `.bpf.c` file of a directory, and `types` writes
//! the Rust types that the programs share with user space. `object` loads the objects, `value`
//! converts their values, and `clock` converts to their time. `include/` contains headers that
//! the programs of all crates share.

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
