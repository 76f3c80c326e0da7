//! System call that runs for long without rescheduling: `madvise` of a region that is
//! divided into very many mappings changes them one after the other and never checks
//! for a waiting thread. On kernels with preemption it delays only equal threads.

use std::fs;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use laggard_model::Nanos;
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

use super::{DisturbError, DisturbRefused, Hit, Site, clock};
use crate::scheduling::Policy;

/// Number of mappings in the measurement of the cost of one.
const TRIAL: usize = 2000;

/// Mappings left for the rest of this process.
const RESERVE: usize = 2000;

pub(super) fn run(site: &Site<'_>) -> Result<Vec<Hit>, DisturbError> {
    site.in_thread(|| {
        site.place(Policy::Other)?;
        let mut cost = learn().map_err(site.needs("learn what a mapping costs (madvise)"))?;
        let most = most_mappings().map_err(site.needs("read vm.max_map_count"))?;
        let wanted = |cost: Nanos| {
            usize::try_from(site.plan.length.ns() / cost.ns().max(1)).unwrap_or(usize::MAX)
        };
        if wanted(cost) > most {
            return Err(DisturbRefused::Unreachable {
                kind: site.plan.kind,
                length: site.plan.length,
                most: Nanos::from_us((cost * most as u64).ns() / 1000),
            }
            .into());
        }
        // Increased by half, in case the cost of one falls.
        let mut region = Region::new((wanted(cost) * 3 / 2).clamp(2, most))
            .map_err(site.needs("cut memory into many mappings (mprotect)"))?;
        site.rounds(|_| {
            let count = wanted(cost).clamp(1, region.mappings);
            let (start, spent) = (clock::now(), clock::own_cpu_time());
            region
                .change(count)
                .map_err(site.needs("change many mappings (madvise)"))?;
            // Other threads may run before the call returns to user code, which the
            // clock then includes.
            let hit = site.hit(start, clock::own_cpu_time().saturating_sub(spent));
            cost = Nanos::from_ns(hit.length_ns.ns() / count as u64);
            Ok(hit)
        })
    })
}

/// Returns the cost of changing one mapping: the minimum of a few trials.
fn learn() -> Result<Nanos, Errno> {
    let mut region = Region::new(TRIAL)?;
    // The first change is cheaper, because it does not undo an earlier one.
    region.change(TRIAL)?;
    let mut least = Nanos::from_secs(1);
    for _ in 0..5 {
        let start = clock::own_cpu_time();
        region.change(TRIAL)?;
        least = least.min(clock::own_cpu_time().saturating_sub(start));
    }
    Ok(Nanos::from_ns(least.ns() / TRIAL as u64))
}

/// Returns the number of additional mappings that this process may have.
fn most_mappings() -> std::io::Result<usize> {
    let limit: usize = fs::read_to_string("/proc/sys/vm/max_map_count")?
        .trim()
        .parse()
        .map_err(std::io::Error::other)?;
    let used = fs::read_to_string("/proc/self/maps")?.lines().count();
    Ok(limit.saturating_sub(used + RESERVE))
}

/// Memory with a separate mapping for every page. The pages are never touched.
struct Region {
    start: NonNull<libc::c_void>,
    mappings: usize,
    page_bytes: usize,
    turn: bool,
}

impl Region {
    fn new(mappings: usize) -> Result<Self, Errno> {
        let page_bytes = laggard_files::page_bytes();
        let bytes = NonZeroUsize::new(mappings * page_bytes).ok_or(Errno::EINVAL)?;
        // SAFETY: an anonymous mapping at an address of the kernel's choice
        //         does not touch existing memory.
        let start =
            unsafe { mmap_anonymous(None, bytes, ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE)? };
        let region = Self {
            start,
            mappings,
            page_bytes,
            turn: false,
        };
        // Neighbours with different rights cannot be one mapping.
        for index in (1..mappings).step_by(2) {
            // SAFETY: the page is inside the region, which nothing refers to.
            unsafe {
                mprotect(
                    region.start.byte_add(index * page_bytes),
                    page_bytes,
                    ProtFlags::PROT_READ,
                )?
            };
        }
        Ok(region)
    }

    /// Changes the first `count` mappings in one system call.
    fn change(&mut self, count: usize) -> Result<(), Errno> {
        self.turn = !self.turn;
        let advice = if self.turn {
            MmapAdvise::MADV_RANDOM
        } else {
            MmapAdvise::MADV_SEQUENTIAL
        };
        let bytes = count.min(self.mappings) * self.page_bytes;
        // SAFETY: the range is inside the region; the advice changes no content.
        unsafe { madvise(self.start, bytes, advice) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: nothing refers to the region after this. Unmapping what we
        //         mapped, as a whole, cannot fail.
        let _ = unsafe { munmap(self.start, self.mappings * self.page_bytes) };
    }
}
