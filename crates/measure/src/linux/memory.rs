//! What happens where there is no more memory.
//!
//! Rust ends such a program by SIGABRT, with the number of bytes that were asked
//! for. So memory is had through [`ToldMemory`], which says what helps. Who measures
//! holds back some addresses, by [`end_in_order`]: the first time that there are
//! no more, these are given up, and what was measured is written as after Ctrl-C.
//! Where nothing is refused all this costs a comparison per allocation; measuring
//! threads do not allocate.

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

/// What is held back, bytes of addresses, not of memory: several times what a
/// recording takes to end.
const HELD: usize = 32 << 20;
/// Blocks from this size on are mapped by themselves, and given back when they
/// are freed. glibc otherwise raises the limit to the largest block freed so
/// far, and keeps what the writing of one segment took.
const OWN_MAPPING_BYTES: libc::c_int = 128 * 1024;
/// With this exit code a program ends that has no memory: that of an error.
const ERROR: i32 = 2;

/// What is held back; null: nothing, or no more.
static HELD_AT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
/// How many bytes were first refused; 0: none.
static REFUSED: AtomicUsize = AtomicUsize::new(0);
/// Set when measuring is to end.
static END: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The system's allocator, for a program's `#[global_allocator]`. Where it has no
/// more the program is to end, in order if it measures, else at once.
#[derive(Debug)]
pub struct ToldMemory;

// SAFETY: passes every call on, a second time where the first was refused; what is
//         returned is the system's own.
unsafe impl GlobalAlloc for ToldMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        or_again(layout.size(), || unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        or_again(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise; where it is refused, `memory` is as it was.
        or_again(size, || unsafe { System.realloc(memory, layout, size) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
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

/// Nothing here allocates.
#[cold]
fn refused(bytes: usize, allocate: impl Fn() -> *mut u8) -> *mut u8 {
    // Only the first is told.
    let _ = REFUSED.compare_exchange(0, bytes, Ordering::Relaxed, Ordering::Relaxed);
    let_go();
    if let Some(end) = END.get() {
        end.store(true, Ordering::Relaxed);
        // Another thread may have let go, or freed something.
        let memory = allocate();
        if !memory.is_null() {
            return memory;
        }
    }
    static TOLD: AtomicBool = AtomicBool::new(false);
    while TOLD.swap(true, Ordering::Relaxed) {
        // SAFETY: waits for a signal; the thread that tells it ends all.
        unsafe { libc::pause() };
    }
    let mut text = io::Cursor::new([0; 256]);
    // What does not fit is left out.
    let _ = writeln!(text, "laggard: {}", OutOfMemory::of(bytes));
    let length = usize::try_from(text.position()).unwrap_or_default();
    // SAFETY: the bytes are there, and nothing else is touched; `_exit` runs nothing
    //         of this program, which could ask for memory.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.get_ref().as_ptr().cast(), length);
        libc::_exit(ERROR)
    }
}

/// Holds addresses back, and has `end` set where there are no more; the first
/// that asks for it has it.
///
/// # Errors
/// When there are too few already.
pub fn end_in_order(end: Arc<AtomicBool>) -> Result<(), OutOfMemory> {
    if END.get().is_some() {
        return Ok(());
    }
    // Without a limit it is memory that would be short, not addresses.
    if limit().is_some() {
        stay_small();
        HELD_AT.store(hold(HELD)?.as_ptr(), Ordering::Release);
    }
    END.get_or_init(|| end);
    Ok(())
}

/// Has the allocator give back what is free. Locked memory is memory that
/// nobody else can have.
#[cfg(target_env = "gnu")]
pub(super) fn stay_small() {
    // One arena: only threads that may wait allocate at all.
    for (parameter, value) in [
        (libc::M_ARENA_MAX, 1),
        (libc::M_MMAP_THRESHOLD, OWN_MAPPING_BYTES),
        (libc::M_TRIM_THRESHOLD, OWN_MAPPING_BYTES),
    ] {
        // SAFETY: takes no pointers. A refusal costs memory only.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Other allocators have no such settings.
#[cfg(not(target_env = "gnu"))]
pub(super) fn stay_small() {}

/// Takes so many addresses.
fn hold(bytes: usize) -> Result<NonNull<c_void>, OutOfMemory> {
    let refused = OutOfMemory::of(bytes);
    let length = NonZeroUsize::new(bytes).ok_or(refused)?;
    let (nobody, flags) = (ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE);
    // SAFETY: a new mapping, which nobody can read or write.
    let held = unsafe { mmap_anonymous(None, length, nobody, flags) };
    held.map_err(|_| refused)
}

/// Gives up what was held back.
fn let_go() {
    let held = HELD_AT.swap(ptr::null_mut(), Ordering::AcqRel);
    if let Some(held) = NonNull::new(held) {
        free(held, HELD);
    }
}

/// Gives back what `hold` took.
fn free(held: NonNull<c_void>, bytes: usize) {
    // SAFETY: mapped by `hold`, and nobody else has it. It cannot fail.
    let _ = unsafe { munmap(held, bytes) };
}

/// Looks whether so many bytes of addresses are to be had.
///
/// # Errors
/// When they are not because of a limit on them.
pub fn has_room(bytes: usize) -> Result<(), OutOfMemory> {
    match limit() {
        Some(_) => hold(bytes).map(|held| free(held, bytes)),
        None => Ok(()),
    }
}

/// What is short now, in case that an error came of it which tells less.
pub fn is_short() -> Option<OutOfMemory> {
    has_room(HELD).err()
}

/// Whether memory was refused, which ended what was measured.
pub fn ran_out() -> Option<OutOfMemory> {
    match REFUSED.load(Ordering::Relaxed) {
        0 => None,
        bytes => Some(OutOfMemory::of(bytes)),
    }
}

/// There is no memory for so many bytes more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutOfMemory {
    bytes: usize,
    /// What this process may have, bytes of addresses.
    limit: Option<u64>,
}

impl OutOfMemory {
    fn of(bytes: usize) -> Self {
        Self {
            bytes,
            limit: limit(),
        }
    }
}

/// How many addresses this process may have, bytes; `None`: as many as there are.
fn limit() -> Option<u64> {
    let soft = getrlimit(Resource::RLIMIT_AS).map_or(RLIM_INFINITY, |(soft, _)| soft);
    (soft != RLIM_INFINITY).then_some(soft)
}

impl std::error::Error for OutOfMemory {}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "out of memory: {} bytes more cannot be had; ",
            self.bytes
        )?;
        match self.limit {
            Some(limit) => write!(
                f,
                "this process may have {} KiB of addresses: raise that limit (`ulimit -v unlimited`)",
                limit / 1024
            ),
            None => f.write_str("end what takes much of it, or ask for less"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_names_the_limit_or_says_that_there_is_none() {
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
            "out of memory: 4096 bytes more cannot be had; this process may have 81920 KiB of addresses: \
             raise that limit (`ulimit -v unlimited`)"
        );
        assert_eq!(
            free.to_string(),
            "out of memory: 4096 bytes more cannot be had; end what takes much of it, or ask for less"
        );
    }
}
