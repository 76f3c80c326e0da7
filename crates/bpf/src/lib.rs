//! BPF objects that are part of the program.
//!
//! `compile` is for build scripts: it makes an object of each `.bpf.c` file
//! of a folder. `object` loads them; `clock` is the time that they see. `include/` holds what the programs of
//! all crates share.

#![forbid(unsafe_code)]

#[cfg(feature = "load")]
pub mod clock;
#[cfg(feature = "compile")]
pub mod compile;
#[cfg(feature = "load")]
pub mod object;
