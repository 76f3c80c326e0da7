//! Marks that a program sets to report the start and end of its cycles.
//!
//! `laggard attach` observes when a thread wakes and sleeps. It does not know where the work of a
//! period starts and ends if the thread waits in the middle. For a program with marks, laggard
//! reports for each cycle the start latency after its expiry, the execution time, and the
//! completion time.
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
//! A mark does not lock or make a system call. It costs some 30 ns while a listener is attached,
//! and one memory read otherwise.
#![warn(missing_docs)]

pub mod layout;
#[cfg(target_os = "linux")]
mod ring;

#[cfg(target_os = "linux")]
pub use ring::Marks;
