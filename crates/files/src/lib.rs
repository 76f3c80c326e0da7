//! Files named by a user: read within limits, and written atomically, through no link
//! of another user. The crate also undoes changes of the host.
//!
//! All programs write their output with [`write()`], [`OutputFile`], [`NewFile`] and
//! [`LogFile`]. A recording is a directory and is written through an [`OpenDir`]. A
//! change of the host that outlives this program has a `PutBack`.

#![deny(unsafe_code)]

mod access;
#[cfg(unix)]
mod caller;
mod dir;
mod ending;
mod file;
mod in_place;
mod input;
#[cfg(unix)]
mod page;
mod part;
#[cfg(unix)]
mod put_back;
#[cfg(target_os = "linux")]
mod streams;
mod system;
#[cfg(all(test, unix))]
mod tests;
mod unfinished;
#[cfg(all(test, windows))]
mod windows_tests;

pub use access::Access;
#[cfg(unix)]
pub use caller::sudo_caller;
pub use dir::{DirEntryData, EntryKind, OpenDir, is_held};
#[cfg(unix)]
pub use ending::endings;
#[cfg(not(unix))]
pub use ending::set_ending_watch;
pub use file::{LogFile, NewFile, OutputFile, check, check_regular, write};
pub use input::{open_regular, read_bytes, read_regular, read_text};
#[cfg(unix)]
pub use page::page_bytes;
#[cfg(unix)]
pub use put_back::PutBack;
#[cfg(target_os = "linux")]
pub use streams::output_was_closed;
pub use unfinished::{AtSignal, Removal, Unfinished};
