//! Where and how the calling thread is scheduled.

use std::io;

use laggard_model::{Cpu, CpuList};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::Pid;

/// A thread's scheduling policy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Policy {
    /// Normal: `SCHED_OTHER`.
    Other,
    /// Real-time, first in, first out, with this priority, 1 to 99.
    Fifo(u8),
}

/// Gives the calling thread this policy; threads and processes that it starts
/// inherit it.
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

/// Keeps the calling thread, and those that it starts, on `cpus`.
pub(crate) fn pin(cpus: &CpuList) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.as_slice() {
        set.set(usize::try_from(cpu.0).map_err(io::Error::other)?)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Does `work` with the calling thread on `cpu`, and lets it go back to where
/// it could run before.
pub(crate) fn on_cpu<T>(cpu: Cpu, work: impl FnOnce() -> T) -> io::Result<T> {
    let own = Pid::from_raw(0);
    let before = sched_getaffinity(own)?;
    pin(&CpuList::from_iter([cpu]))?;
    let done = work();
    sched_setaffinity(own, &before)?;
    Ok(done)
}

/// Sets the soft limit on open files of another process, and of what it starts
/// from then on.
pub(crate) fn limit_open_files(pid: u32, most: u64) -> io::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let limit = libc::rlimit {
        rlim_cur: most.min(hard),
        rlim_max: hard,
    };
    // SAFETY: `limit` is valid for reads; the old limit is not asked for.
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

/// Lets timers of the calling thread expire when they were programmed to. The
/// kernel otherwise delays a normal thread's by up to 50 us to save wakeups.
pub(crate) fn refuse_timer_slack() -> io::Result<()> {
    Ok(nix::sys::prctl::set_timerslack(1)?)
}
