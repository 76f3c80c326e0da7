//! Behaviour when memory runs out.
//!
//! Rust ends a program without memory by SIGABRT with the requested number of bytes. laggard
//! therefore allocates through [`ReportingAllocator`], which prints a remedy. A measurement reserves some
//! address space by [`end_in_order`]. The first time an allocation fails, the reserve is
//! released, and the recording is completed as after Ctrl-C. If no allocation fails, this costs
//! one comparison per allocation. Measuring threads do not allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;
use std::fmt;
use std::io::{self, Write as _};
use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

/// Size of the reserve in bytes of address space, not memory: several times the size that
/// completing a recording takes.
const RESERVE_BYTES: usize = 32 << 20;
/// Minimum size of blocks that are mapped separately and returned to the system when they are
/// freed. glibc otherwise raises this limit to the largest block freed so far, and keeps the
/// memory that writing a segment took.
const OWN_MAPPING_BYTES: libc::c_int = 128 * 1024;
/// The same size for a program that reads recordings, and the size of the free memory that it
/// keeps.
const READER_MAPPING_BYTES: libc::c_int = 1 << 20;
const READER_FREE_BYTES: libc::c_int = 4 << 20;
/// Exit code of a program that ran out of memory: the code for errors.
const EXIT_ERROR: i32 = 2;

/// Address of the reserve; null without a reserve.
static RESERVE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// Size in bytes of the first allocation that failed; 0 if none failed.
static REFUSED: AtomicUsize = AtomicUsize::new(0);
/// Set to end the measurement.
static END: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// System allocator for a program's `#[global_allocator]`. When memory runs out, the program
/// ends: in order during a measurement, otherwise immediately.
#[derive(Debug)]
pub struct ReportingAllocator;

// SAFETY: passes every call on, and repeats a call that failed; the result comes from the system
// allocator.
unsafe impl GlobalAlloc for ReportingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        or_again(layout.size(), || unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        or_again(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: guaranteed by the caller; if the call fails, `memory` is unchanged.
        or_again(size, || unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[inline]
fn or_again(bytes: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let memory = allocate();
    if memory.is_null() {
        refused(bytes, allocate)
    } else {
        memory
    }
}

/// Releases the reserve and tries again. This function does not allocate.
#[cold]
fn refused(bytes: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    // Only the first failure is reported.
    let _ = REFUSED.compare_exchange(0, bytes, Ordering::Relaxed, Ordering::Relaxed);
    let_go();
    if let Some(end) = END.get() {
        end.store(true, Ordering::Relaxed);
        // Another thread may have released the reserve or freed memory.
        let memory = allocate();
        if !memory.is_null() {
            return memory;
        }
    }
    static TOLD: AtomicBool = AtomicBool::new(false);
    while TOLD.swap(true, Ordering::Relaxed) {
        // SAFETY: waits for a signal; the thread that prints the message ends the process.
        unsafe { libc::pause() };
    }
    let mut text = io::Cursor::new([0; 256]);
    // Text that does not fit is cut.
    let _ = writeln!(text, "laggard: {}", OutOfMemory::new(bytes));
    let length = usize::try_from(text.position()).unwrap_or_default();
    // SAFETY: the bytes are valid, and nothing else is accessed; `_exit` runs no code of this
    // program that could allocate.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.get_ref().as_ptr().cast(), length);
        libc::_exit(EXIT_ERROR)
    }
}

/// Reserves address space, and sets `end` when memory runs out. Only the first call has an
/// effect.
///
/// # Errors
///
/// Returns an error if there is too little address space.
pub fn end_in_order(end: Arc<AtomicBool>) -> Result<(), OutOfMemory> {
    if END.get().is_some() {
        return Ok(());
    }
    // Without a limit, memory would run out, not address space.
    if limit().is_some() {
        stay_small();
        RESERVE.store(hold(RESERVE_BYTES)?.as_ptr(), Ordering::Release);
    }
    END.get_or_init(|| end);
    Ok(())
}

/// Makes the allocator return free memory to the system. Locked memory is not available to any
/// other process.
pub(super) fn stay_small() {
    set(&[
        // One arena: only threads that may wait allocate.
        (Parameter::Arenas, 1),
        (Parameter::OwnMapping, OWN_MAPPING_BYTES),
        (Parameter::Free, OWN_MAPPING_BYTES),
    ]);
}

/// Makes the allocator keep some free memory, for a program that reads recordings. Every episode
/// takes blocks of the same sizes. The kernel would otherwise clear their pages for each.
pub fn keep_free_memory() {
    set(&[
        (Parameter::OwnMapping, READER_MAPPING_BYTES),
        (Parameter::Free, READER_FREE_BYTES),
    ]);
}

#[derive(Clone, Copy)]
enum Parameter {
    Arenas,
    OwnMapping,
    Free,
}

/// Sets parameters of the allocator.
#[cfg(target_env = "gnu")]
fn set(parameters: &[(Parameter, libc::c_int)]) {
    for &(parameter, value) in parameters {
        let parameter = match parameter {
            Parameter::Arenas => libc::M_ARENA_MAX,
            Parameter::OwnMapping => libc::M_MMAP_THRESHOLD,
            Parameter::Free => libc::M_TRIM_THRESHOLD,
        };
        // SAFETY: the arguments are integers. If it fails, laggard only uses more memory or time.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Does nothing, because other allocators lack these settings.
#[cfg(not(target_env = "gnu"))]
fn set(_: &[(Parameter, libc::c_int)]) {}

/// Reserves `bytes` of address space.
fn hold(bytes: usize) -> Result<NonNull<c_void>, OutOfMemory> {
    let refused = OutOfMemory::new(bytes);
    let length = NonZeroUsize::new(bytes).ok_or(refused)?;
    let (nobody, flags) = (ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE);
    // SAFETY: the mapping is new and neither readable nor writable.
    let held = unsafe { mmap_anonymous(None, length, nobody, flags) };
    held.map_err(|_| refused)
}

/// Releases the reserve.
fn let_go() {
    let held = RESERVE.swap(ptr::null_mut(), Ordering::AcqRel);
    if let Some(held) = NonNull::new(held) {
        free(held, RESERVE_BYTES);
    }
}

/// Unmaps the memory that `hold` mapped.
fn free(held: NonNull<c_void>, bytes: usize) {
    // SAFETY: `hold` mapped it, and nothing else uses it. The call cannot fail.
    let _ = unsafe { munmap(held, bytes) };
}

/// Checks whether `bytes` of address space are available.
///
/// # Errors
///
/// Returns an error if a limit on address space prevents it.
pub fn has_room(bytes: usize) -> Result<(), OutOfMemory> {
    match limit() {
        Some(_) => hold(bytes).map(|held| free(held, bytes)),
        None => Ok(()),
    }
}

/// Returns the current shortage, in case it caused an error with a less helpful text.
pub fn is_short() -> Option<OutOfMemory> {
    has_room(RESERVE_BYTES).err()
}

/// Returns the shortage that ended the measurement, if there was one.
pub fn ran_out() -> Option<OutOfMemory> {
    match REFUSED.load(Ordering::Relaxed) {
        0 => None,
        bytes => Some(OutOfMemory::new(bytes)),
    }
}

/// Shortage of memory for an allocation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutOfMemory {
    bytes: usize,
    /// Limit on the address space of this process in bytes.
    limit: Option<u64>,
}

impl OutOfMemory {
    fn new(bytes: usize) -> Self {
        Self {
            bytes,
            limit: limit(),
        }
    }
}

/// Returns the limit on address space of this process in bytes; `None` without a limit.
fn limit() -> Option<u64> {
    let soft = getrlimit(Resource::RLIMIT_AS).map_or(RLIM_INFINITY, |(soft, _)| soft);
    (soft != RLIM_INFINITY).then_some(soft)
}

impl std::error::Error for OutOfMemory {}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "out of memory: cannot allocate {} bytes; ", self.bytes)?;
        match self.limit {
            Some(limit) => write!(
                f,
                "address space is limited to {} KiB; raise the limit (`ulimit -v unlimited`)",
                limit / 1024
            ),
            None => f.write_str("close other programs, or measure less"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortage_names_the_limit_if_there_is_one() {
        let limited = OutOfMemory {
            bytes: 4096,
            limit: Some(80 << 20),
        };
        let free = OutOfMemory {
            limit: None,
            ..limited
        };

        assert_eq!(
            limited.to_string(),
            "out of memory: cannot allocate 4096 bytes; address space is limited to 81920 KiB; raise the \
             limit (`ulimit -v unlimited`)"
        );
        assert_eq!(
            free.to_string(),
            "out of memory: cannot allocate 4096 bytes; close other programs, or measure less"
        );
    }
}
