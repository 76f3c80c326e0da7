//! Measuring threads neither allocate nor wait for anything but their next expiry.
//!
//! These tests replace the allocator of this binary with one that counts per thread. Without BPF
//! they check the threads that do not need it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use laggard_measure::Probe;
use laggard_measure::linux::{BackendChoice, LinuxProbe};
use laggard_model::Batch;

use crate::asked::request;

/// Number of allocations of each thread, by the low bits of its TID.
static ALLOCATIONS: [AtomicU64; 1 << 12] = [const { AtomicU64::new(0) }; 1 << 12];

fn allocations_of(tid: u32) -> &'static AtomicU64 {
    &ALLOCATIONS[tid as usize % ALLOCATIONS.len()]
}

fn own_tid() -> u32 {
    // SAFETY: without arguments; cannot fail.
    unsafe { libc::gettid() }.cast_unsigned()
}

/// The system's allocator with a count. A deallocation counts too, because it takes the same
/// lock.
struct CountingAllocator;

// SAFETY: passes every call on unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocations_of(own_tid()).fetch_add(1, Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        allocations_of(own_tid()).fetch_add(1, Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTED: CountingAllocator = CountingAllocator;

fn threads() -> BTreeSet<u32> {
    fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|tid| tid.parse().unwrap())
        .collect()
}

/// Returns the number of voluntary context switches of a thread.
fn sleeps(tid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
    status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
        .and_then(|count| count.trim().parse().ok())
        .unwrap()
}

/// Returns the number of the system call that a thread waits in, if it waits.
fn waits_in(tid: u32) -> Option<i64> {
    let call = fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).ok()?;
    call.split(' ').next()?.parse().ok()
}

fn probe() -> LinuxProbe {
    LinuxProbe::new(
        request("irq,softirq,worker,fifo:90,fifo:50,other"),
        BackendChoice::Bpf,
    )
    .or_else(|err| {
        println!("without BPF: {err}");
        LinuxProbe::new(request("other"), BackendChoice::User)
    })
    .unwrap()
}

/// System calls of a waiting measuring thread: for its timer, its timer descriptor or its doorbell
/// (which also times out ten times a second).
const WAITS: [i64; 4] = [
    libc::SYS_clock_nanosleep,
    libc::SYS_read,
    libc::SYS_epoll_pwait,
    EPOLL_WAIT,
];
#[cfg(target_arch = "x86_64")]
const EPOLL_WAIT: i64 = libc::SYS_epoll_wait;
#[cfg(not(target_arch = "x86_64"))]
const EPOLL_WAIT: i64 = libc::SYS_epoll_pwait;

#[test]
fn measuring_thread_neither_allocates_nor_waits_for_anything_else() {
    let before = threads();
    let mut probe = probe();
    let measuring: Vec<u32> = threads().difference(&before).copied().collect();
    assert!(!measuring.is_empty());
    probe.start().unwrap();
    let count =
        |per_thread: &dyn Fn(u32) -> u64| measuring.iter().map(|&tid| per_thread(tid)).sum::<u64>();
    let allocated = |tid| allocations_of(tid).load(Ordering::Relaxed);
    let (allocations, slept) = (count(&allocated), count(&sleeps));
    let from = probe.now();

    let mut waited_in = BTreeSet::new();
    for _ in 0..200 {
        probe.pause(Duration::from_millis(5));
        waited_in.extend(measuring.iter().filter_map(|&tid| waits_in(tid)));
    }
    let (slept, allocations) = (count(&sleeps) - slept, count(&allocated) - allocations);
    let time = probe.now().saturating_sub(from);
    let mut batch = Batch::default();
    probe.stop();
    probe.drain(&mut batch);

    assert_eq!(allocations, 0);
    assert!(
        waited_in
            .iter()
            .all(|call| *call < 0 || WAITS.contains(call)),
        "system calls {waited_in:?}"
    );
    // One sleep per activation, and the timeouts. The batch has a few more activations than were
    // counted, from before and after.
    let in_vain = measuring.len() as u64 * (time.ns() / 100_000_000 + 1);
    assert!(!batch.is_empty());
    assert!(
        slept <= batch.len() as u64 + in_vain,
        "{slept} sleeps, {} activations",
        batch.len()
    );
    // Checks that the counter counts.
    let own = allocated(own_tid());
    drop(std::hint::black_box(Box::new(own)));
    assert!(allocated(own_tid()) >= own + 2);
}
