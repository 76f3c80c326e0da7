//! Scheduling policy and CPUs of the calling thread.

use std::io;

use laggard_model::{Cpu, CpuList};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Pid;

/// Scheduling policy of a thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Policy {
    /// Normal: `SCHED_OTHER`.
    Other,
    /// Real-time, first in, first out, with this priority, 1 to 99.
    Fifo(u8),
}

/// Sets the policy of the calling thread; threads and processes that it starts inherit
/// it.
pub(crate) fn set(policy: Policy) -> io::Result<()> {
    let (number, sched_priority) = match policy {
        Policy::Other => (libc::SCHED_OTHER, 0),
        Policy::Fifo(priority) => (libc::SCHED_FIFO, priority.into()),
    };
    let param = libc::sched_param { sched_priority };
    // SAFETY: `param` outlives the call and is only read; 0 is this thread.
    match unsafe { libc::sched_setscheduler(0, number, &raw const param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Restricts the calling thread, and threads that it starts, to `cpus`.
pub(crate) fn pin(cpus: &CpuList) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.as_slice() {
        set.set(usize::try_from(cpu.0).map_err(io::Error::other)?)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Calls `work` with the calling thread on `cpu`, and restores its CPUs.
pub(crate) fn on_cpu<T>(cpu: Cpu, work: impl FnOnce() -> T) -> io::Result<T> {
    let own = Pid::from_raw(0);
    let before = sched_getaffinity(own)?;
    pin(&CpuList::from_iter([cpu]))?;
    let done = work();
    sched_setaffinity(own, &before)?;
    Ok(done)
}

/// Sets the soft limit on open files of another process, and of its future children.
pub(crate) fn limit_open_files(pid: u32, most: u64) -> io::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let limit = libc::rlimit {
        rlim_cur: most.min(hard),
        rlim_max: hard,
    };
    // SAFETY: `limit` is valid for reads; the old limit is not requested.
    let done = unsafe {
        libc::prlimit(
            pid.cast_signed(),
            libc::RLIMIT_NOFILE,
            &raw const limit,
            std::ptr::null_mut(),
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes timers of the calling thread expire at their programmed time. By default, the
/// kernel delays timers of a normal thread by up to 50 us to save wakeups.
pub(crate) fn refuse_timer_slack() -> io::Result<()> {
    Ok(nix::sys::prctl::set_timerslack(1)?)
}
