//! Scheduling and memory of a thread.

use std::io;
use std::thread::Builder;

use laggard_model::{Cpu, CpuList, Nanos, Service, Tid};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};
use nix::sys::signal::SigSet;
use nix::unistd::Pid;

use super::{memory, online_cpus, unneeded};
use crate::host::{Files, Rights};

/// Stack size of a measuring thread in bytes. All of it is touched before the measurement.
pub const STACK_BYTES: usize = 128 * 1024;

/// Room in bytes for threads that start at the same time. Each maps some pages for its signals
/// when it starts.
const ROOM_BYTES: usize = 4 << 20;

/// Keeps every page of the program in memory, except for tables that only a panic reads. New
/// pages are locked when they are used; a measuring thread touches its pages beforehand.
pub fn lock_memory() -> io::Result<()> {
    memory::stay_small();
    let future = libc::MCL_FUTURE | libc::MCL_ONFAULT;
    mlockall(MlockAllFlags::MCL_CURRENT)
        .and_then(|()| mlockall(MlockAllFlags::from_bits_retain(future)))
        .map(|()| unneeded::let_unwinding_go())
        .map_err(|err| {
            // Errors that the kernel reports for a limit, mlockall(2).
            if !matches!(err, Errno::ENOMEM | Errno::EPERM) {
                return err.into();
            }
            io::Error::new(
                io::ErrorKind::PermissionDenied,
                "the locked-memory limit of this user is too low",
            )
        })
}

/// Returns the builder of a measuring thread.
///
/// # Errors
///
/// Returns an error if memory for it is short: Rust would end the program if the thread could not
/// map its pages for signals.
pub fn thread(name: &str) -> io::Result<Builder> {
    memory::has_room(STACK_BYTES + ROOM_BYTES)
        .map_err(|refused| io::Error::new(io::ErrorKind::OutOfMemory, refused))?;
    Ok(Builder::new().name(name.into()).stack_size(STACK_BYTES))
}

/// Returns the builder of a thread that makes a trial and ends. Its stack is small, because all
/// of it is locked, the C library keeps it for later threads, and there may be one per CPU.
pub fn trial() -> Builder {
    Builder::new().stack_size(STACK_BYTES)
}

/// Returns whether `bytes` more may be locked.
pub fn may_lock_more(bytes: u64) -> bool {
    let rights = Rights::read(&Files::default());
    let Some(most) = rights.lock_bytes else {
        return true;
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let locked = status
        .lines()
        .find_map(|line| line.strip_prefix("VmLck:")?.trim().strip_suffix("kB"))
        .and_then(|kib| kib.trim().parse::<u64>().ok())
        .unwrap_or_default();
    (locked * 1024).saturating_add(bytes) <= most
}

/// Allows the kernel to page out the program again. Nothing depends on this, so errors are
/// ignored.
pub fn unlock_memory() {
    let _ = munlockall();
}

/// Pins the calling thread to `cpu`.
pub fn pin(cpu: Cpu) -> io::Result<()> {
    pin_to(&CpuList::from_iter([cpu]))
}

/// Restricts the calling thread to the allowed CPUs in `cpus`.
pub fn pin_to(cpus: &CpuList) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.as_slice() {
        set.set(cpu.0 as usize)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Returns the CPU of the calling thread without a system call: the kernel keeps it in the
/// thread's memory (restartable sequences) or in a register.
pub fn current_cpu() -> Option<Cpu> {
    // SAFETY: without arguments.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).ok().map(Cpu)
}

/// Returns the CPU where a thread of this process runs, waits or last ran.
pub fn cpu_of(tid: Tid) -> Option<Cpu> {
    /// Index among the fields of `/proc/TID/stat` (`proc_pid_stat(5)`) after the name, which may
    /// contain spaces and brackets.
    const PROCESSOR: usize = 39 - 3;
    let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", tid.0)).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let cpu = fields.split_ascii_whitespace().nth(PROCESSOR)?;
    cpu.parse().ok().map(Cpu)
}

/// Runtime of a deadline thread per period.
const DEADLINE_RUNTIME: Nanos = Nanos::from_ms(5);
/// Period of a deadline thread. The runtime is much longer than an activation takes, so that the
/// thread is rarely moved, and short enough to leave bandwidth for others.
const DEADLINE_PERIOD: Nanos = Nanos::from_ms(20);

/// Makes the calling thread the deadline thread of its CPU.
///
/// The kernel accepts it only if it may run on all CPUs that share their bandwidth. It stays on
/// its CPU unless it has used up its runtime, for example after steal time. The kernel then moves
/// it to any free CPU. It is not moved back: when laggard changed the policy to do that, two
/// threads stayed throttled for minutes on Linux 6.18, with a fatal signal pending, until `chrt
/// -o -p 0 TID`.
fn schedule_as_deadline() -> io::Result<()> {
    pin_to(&online_cpus())?;
    schedule_by_deadline(DEADLINE_RUNTIME, DEADLINE_PERIOD)
}

/// Sets the policy of a service for the calling thread.
pub fn schedule_as(service: Service) -> io::Result<()> {
    let priority = match service {
        Service::Fifo(priority) => priority,
        Service::Deadline => return schedule_as_deadline(),
        Service::Nice(nice) => {
            let share = CpuShare {
                nice: nice.into(),
                turn: None,
            };
            return share.take();
        }
        Service::Slice(length) => return schedule_in_slices(length),
        // A thread of `lent` gets its priority from another.
        _ => return schedule_normally(),
    };
    schedule_other_as(0, priority)
}

/// Sets a real-time priority for a thread of this process; 0 is the calling thread.
pub fn schedule_other_as(tid: i32, priority: u8) -> io::Result<()> {
    set_policy(tid, libc::SCHED_FIFO, priority.into())
}

/// Places the calling thread behind all others of its CPU.
pub fn schedule_idly() -> io::Result<()> {
    set_policy(0, libc::SCHED_IDLE, 0)
}

fn set_policy(tid: i32, policy: i32, priority: i32) -> io::Result<()> {
    let param = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: `param` is valid for reads.
    match unsafe { libc::sched_setscheduler(tid, policy, &raw const param) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the slice length of the calling `SCHED_OTHER` thread.
///
/// # Errors
///
/// Also returns an error if the kernel accepts the value and ignores it, as before Linux 6.12.
fn schedule_in_slices(length: Nanos) -> io::Result<()> {
    let share = CpuShare {
        nice: Attributes::get()?.nice,
        turn: Some(length),
    };
    share.take()?;
    if Attributes::get()?.runtime_ns == length.ns() {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this kernel does not support a slice length per thread",
        ))
    }
}

/// Sets `SCHED_OTHER` for the calling thread. Children continue to inherit it, unless inheritance
/// was disabled and the right to change it is missing.
pub fn schedule_normally() -> io::Result<()> {
    let set = |policy| set_policy(0, policy, 0);
    set(libc::SCHED_OTHER).or_else(|_| set(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK))
}

/// CPU share of a `SCHED_OTHER` thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CpuShare {
    pub nice: i32,
    /// Slice length, 100 us to 100 ms. A thread with a shorter slice runs sooner (Linux 6.12;
    /// earlier kernels ignore it). `None`: the kernel's default.
    pub turn: Option<Nanos>,
}

impl CpuShare {
    /// Sets this share for the calling thread.
    pub fn take(self) -> io::Result<()> {
        let attributes = Attributes {
            policy: libc::SCHED_OTHER.cast_unsigned(),
            nice: self.nice,
            runtime_ns: self.turn.map_or(0, Nanos::ns),
            ..Attributes::default()
        };
        attributes.set()
    }
}

/// Sets `SCHED_DEADLINE` for the calling thread: `runtime` per `period`, with the end of the
/// period as deadline.
pub fn schedule_by_deadline(runtime: Nanos, period: Nanos) -> io::Result<()> {
    let attributes = Attributes {
        policy: libc::SCHED_DEADLINE.cast_unsigned(),
        runtime_ns: runtime.ns(),
        deadline_ns: period.ns(),
        period_ns: period.ns(),
        ..Attributes::default()
    };
    attributes.set()
}

/// `struct sched_attr` as first published, which every kernel accepts.
#[derive(Default)]
#[repr(C)]
struct Attributes {
    size_bytes: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

impl Attributes {
    /// Size that is passed to the kernel.
    const BYTES: u32 = 48;

    /// Returns the attributes of the calling thread.
    fn get() -> io::Result<Self> {
        let mut attributes = Self::default();
        // SAFETY: `attributes` is valid for writes of the given size; 0 is the calling thread.
        let done = unsafe {
            libc::syscall(
                libc::SYS_sched_getattr,
                0,
                &raw mut attributes,
                Self::BYTES,
                0,
            )
        };
        match done {
            0 => Ok(attributes),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Sets the attributes for the calling thread.
    fn set(self) -> io::Result<()> {
        let sized = Self {
            size_bytes: Self::BYTES,
            ..self
        };
        // SAFETY: `sized` is valid for reads of the size that it states; 0 is the calling thread.
        match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const sized, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Disables timer slack for the calling thread. The kernel otherwise delays the timers of a
/// `SCHED_OTHER` thread by up to 50 us to save wakeups, and the delay would be measured as latency
/// of the machine.
pub fn refuse_timer_slack() {
    // SAFETY: the arguments are integers. Cannot fail for the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Returns the timer slack of the calling thread: the maximum delay of a timer to save wakeups.
pub fn timer_slack() -> Nanos {
    // SAFETY: the arguments are integers. Cannot fail for the calling thread.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    Nanos::from_ns(u64::try_from(slack).unwrap_or(0))
}

/// Sets the timer slack. Zero becomes one nanosecond, because zero would select the initial slack
/// of this thread.
pub fn allow_timer_slack(slack: Nanos) {
    // SAFETY: the arguments are integers. Cannot fail for the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.ns().max(1)) };
}

/// Blocks signals, so that other threads handle them and the wait of a measuring thread ends only
/// at its expiry.
pub fn block_signals() -> io::Result<()> {
    SigSet::all().thread_block()?;
    Ok(())
}

/// Returns the page faults of the calling thread so far.
pub fn faults_of_thread() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is valid for writes. Cannot fail for the calling thread; zeroes are a valid
    // value.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    (usage.ru_minflt + usage.ru_majflt).cast_unsigned()
}

/// Touches the stack that a measuring thread may use, so that it does not fault later.
#[inline(never)]
pub fn touch_stack() {
    let mut stack = [0_u8; STACK_BYTES / 2];
    for page in stack.chunks_mut(4096) {
        page[0] = 1;
    }
    std::hint::black_box(&mut stack);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel reports the slice length that was set for the thread, not a global one.
    #[test]
    fn slice_length_is_per_thread_or_refused() {
        let reported_slice = |length| {
            let thread = move || {
                schedule_as(Service::Slice(length))?;
                Ok::<_, io::Error>(Attributes::get()?.runtime_ns)
            };
            std::thread::spawn(thread).join().unwrap()
        };
        for length in [Nanos::from_us(100), Nanos::from_ms(7)] {
            match reported_slice(length) {
                Ok(kept) => assert_eq!(kept, length.ns()),
                Err(err) if err.kind() == io::ErrorKind::Unsupported => {
                    println!("skipped: {err}");
                }
                Err(err) => panic!("{err}"),
            }
        }
    }
}
