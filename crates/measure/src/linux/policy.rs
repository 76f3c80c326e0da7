//! How the kernel schedules a thread, and its memory.

use std::io;

use laggard_model::{Cpu, Service};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};
use nix::sys::signal::SigSet;
use nix::unistd::Pid;

/// Stack of a measuring thread. All of it is touched before measuring.
pub(crate) const STACK_BYTES: usize = 128 * 1024;

/// Blocks from this size on are mapped by themselves, and given back when they
/// are freed. glibc otherwise raises the limit to the largest block freed so
/// far, and keeps what the writing of one segment took.
const OWN_MAPPING_BYTES: libc::c_int = 128 * 1024;

/// Keeps every page of the program in memory. Of pages to come, those that
/// are used: a measuring thread touches its own beforehand.
pub(crate) fn lock_memory() -> io::Result<()> {
    stay_small();
    mlockall(MlockAllFlags::MCL_CURRENT)?;
    let future = libc::MCL_FUTURE | libc::MCL_ONFAULT;
    mlockall(MlockAllFlags::from_bits_retain(future))?;
    Ok(())
}

/// Has the allocator give back what is free. Locked memory is memory that
/// nobody else can have.
#[cfg(target_env = "gnu")]
fn stay_small() {
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
fn stay_small() {}

/// Lets the kernel move pages of the program out of memory again. Nothing
/// depends on it, so a refusal is none of the caller's business.
pub(crate) fn unlock_memory() {
    let _ = munlockall();
}

/// Keeps the calling thread on `cpu`.
pub(crate) fn pin(cpu: Cpu) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu.0 as usize)?;
    sched_setaffinity(Pid::from_raw(0), &set)?;
    Ok(())
}

/// Gives the calling thread the policy of a service.
pub(crate) fn schedule_as(service: Service) -> io::Result<()> {
    let (policy, priority) = match service {
        Service::Fifo(priority) => (libc::SCHED_FIFO, i32::from(priority)),
        _ => (libc::SCHED_OTHER, 0),
    };
    let param = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `param` is valid for reads; 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &raw const param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets timers of the calling thread expire when they were programmed to.
/// The kernel otherwise delays a normal thread's by up to 50 us to save
/// wakeups, which would be measured as the machine's lateness.
pub(crate) fn refuse_timer_slack() {
    // SAFETY: takes no pointers. Cannot fail for the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Signals go to the other threads; a measuring thread's wait ends at its
/// expiry only.
pub(crate) fn block_signals() -> io::Result<()> {
    SigSet::all().thread_block()?;
    Ok(())
}

/// Page faults of the calling thread so far.
pub(crate) fn faults_of_thread() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is valid for writes. Cannot fail for the own thread;
    //         zeroes are a valid value.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    (usage.ru_minflt + usage.ru_majflt).cast_unsigned()
}

/// Touches the stack that a measuring thread may use, so that it does not
/// fault later.
#[inline(never)]
pub(crate) fn touch_stack() {
    let mut stack = [0_u8; STACK_BYTES / 2];
    for page in stack.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(&mut stack);
}
