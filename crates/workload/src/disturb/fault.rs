//! Page faults of a thread above all others, including the clearing of the pages.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

use super::hog::ABOVE_ALL;
use super::{DisturbError, Hit, Site, clock};
use crate::scheduling::Policy;
use crate::watchdog::Watchdog;

/// Size that is available on any machine; touched again when every page was touched.
const AREA: NonZeroUsize = NonZeroUsize::new(4 << 20).expect("not zero");

/// Memory whose pages can all be discarded.
struct Area(NonNull<libc::c_void>);

impl Area {
    fn new() -> Result<Self, Errno> {
        // SAFETY: an anonymous mapping at an address of the kernel's choice
        //         does not touch existing memory.
        let start = unsafe {
            mmap_anonymous(
                None,
                AREA,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_PRIVATE,
            )?
        };
        let area = Self(start);
        // SAFETY: the mapping is exclusively ours; without huge pages each small
        //         page has a separate fault.
        unsafe { madvise(area.0, AREA.get(), MmapAdvise::MADV_NOHUGEPAGE) }.or_else(
            // A kernel without huge pages.
            |err| {
                if err == Errno::EINVAL {
                    Ok(())
                } else {
                    Err(err)
                }
            },
        )?;
        Ok(area)
    }

    /// Discards all pages, so that each faults again.
    fn refresh(&self) -> Result<(), Errno> {
        // SAFETY: the mapping is ours, and nothing refers to its content.
        unsafe { madvise(self.0, AREA.get(), MmapAdvise::MADV_DONTNEED) }
    }

    fn touch(&self, offset: usize) {
        // SAFETY: `offset` is below the size of the mapping (see `run`).
        unsafe { self.0.cast::<u8>().add(offset).write_volatile(1) }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the mapping after this. Unmapping what we
        //         mapped cannot fail.
        let _ = unsafe { munmap(self.0, AREA.get()) };
    }
}

pub(super) fn run(site: &Site<'_>) -> Result<Vec<Hit>, DisturbError> {
    let _watchdog =
        Watchdog::new(site.plan.length).map_err(site.needs("set RLIMIT_RTTIME, the watchdog"))?;
    site.in_thread(|| {
        let area = Area::new().map_err(site.needs("map 4 MiB of memory"))?;
        site.place(ABOVE_ALL)?;
        let hits: Result<Vec<Hit>, DisturbError> = site.rounds(|_| {
            let start = clock::now();
            let end = start + site.plan.length;
            while clock::now() < end {
                area.refresh()
                    .map_err(site.needs("make memory fresh (madvise)"))?;
                for offset in (0..AREA.get()).step_by(laggard_files::page_bytes()) {
                    area.touch(offset);
                    if clock::now() >= end {
                        break;
                    }
                }
            }
            Ok(site.hit_since(start))
        });
        // Free the pages of the last hit afterwards, and not above all others.
        site.place(Policy::Other)?;
        hits
    })
}
