//! Where a cycle of a program begins and ends, told by the program itself.
//!
//! `laggard attach` sees a thread wake and sleep; it does not see where the work of one
//! period begins and ends where that waits in the middle. A program that says so, has its
//! cycles told: how long after it was due each began, how long it took, and when it was
//! done.
//!
//! ```no_run
//! let marks = laggard_marks::Marks::open()?;
//! for cycle in 0.. {
//!     // Wait for the next period, then
//!     marks.begin(cycle);
//!     // the work
//!     marks.end(cycle);
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A mark takes no lock and no system call: some 30 ns while somebody listens, and one
//! reading of memory while nobody does.
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

pub mod layout;
#[cfg(target_os = "linux")]
mod ring;

#[cfg(target_os = "linux")]
pub use ring::Marks;
