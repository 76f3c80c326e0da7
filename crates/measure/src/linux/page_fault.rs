//! Duration of a page fault without disk access.

use std::num::NonZeroUsize;

use laggard_model::Nanos;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::now;

/// Pages of a round. A preemption falls into few rounds, and the median ignores it.
const PAGES: usize = 64;
const ROUNDS: usize = 9;

/// Measures how long a write to a new page takes, with the median of some rounds. `None`: no
/// memory is available.
#[must_use]
pub fn page_fault_time() -> Option<Nanos> {
    let mut rounds: Vec<Nanos> = (0..ROUNDS).map(|_| round()).collect::<Option<_>>()?;
    rounds.sort_unstable();
    Some(rounds[ROUNDS / 2])
}

fn round() -> Option<Nanos> {
    let page_bytes = laggard_files::page_bytes();
    let length = NonZeroUsize::new(PAGES * page_bytes)?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new private mapping, which overlaps no other.
    let memory = unsafe { mmap_anonymous(None, length, access, MapFlags::MAP_PRIVATE) }.ok()?;
    let from = now();
    for page in 0..PAGES {
        // SAFETY: within the mapping, which can be written.
        unsafe {
            memory
                .byte_add(page * page_bytes)
                .cast::<u8>()
                .write_volatile(1)
        };
    }
    let time = now().saturating_sub(from);
    // SAFETY: the whole mapping, without any reference to it.
    unsafe { munmap(memory, length.get()) }.ok()?;
    Some(Nanos::from_ns(time.ns() / PAGES as u64))
}
