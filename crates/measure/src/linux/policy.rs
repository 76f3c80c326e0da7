//! How the kernel schedules a thread, and its memory.

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

/// Stack of a measuring thread. All of it is touched before measuring.
pub const STACK_BYTES: usize = 128 * 1024;

/// Room for the threads that begin at the same time, bytes: each maps some pages
/// for its signals once it runs.
const ROOM_BYTES: usize = 4 << 20;

/// Keeps every page of the program in memory, but for tables that only a panic reads.
/// Of pages to come, those that are used: a measuring thread touches its own beforehand.
pub fn lock_memory() -> io::Result<()> {
    memory::stay_small();
    let future = libc::MCL_FUTURE | libc::MCL_ONFAULT;
    mlockall(MlockAllFlags::MCL_CURRENT)
        .and_then(|()| mlockall(MlockAllFlags::from_bits_retain(future)))
        .map(|()| unneeded::let_unwinding_go())
        .map_err(|err| {
            // What the kernel says of a limit, mlockall(2).
            if !matches!(err, Errno::ENOMEM | Errno::EPERM) {
                return err.into();
            }
            io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is more than this user may lock",
            )
        })
}

/// A measuring thread that is to be started.
///
/// # Errors
/// When there is no room for it: without its pages for signals Rust ends the whole
/// program.
pub fn thread(name: &str) -> io::Result<Builder> {
    memory::has_room(STACK_BYTES + ROOM_BYTES)
        .map_err(|refused| io::Error::new(io::ErrorKind::OutOfMemory, refused))?;
    Ok(Builder::new().name(name.into()).stack_size(STACK_BYTES))
}

/// A thread that tries something and ends. Its stack is small: all of it is locked, the
/// C library keeps it for threads to come, and there may be one for each CPU.
pub fn trial() -> Builder {
    Builder::new().stack_size(STACK_BYTES)
}

/// Whether so many more bytes may be locked.
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

/// Lets the kernel move pages of the program out of memory again. Nothing
/// depends on it, so a refusal is none of the caller's business.
pub fn unlock_memory() {
    let _ = munlockall();
}

/// Keeps the calling thread on `cpu`.
pub fn pin(cpu: Cpu) -> io::Result<()> {
    pin_to(&CpuList::from_iter([cpu]))
}

/// Keeps the calling thread on those of `cpus` that the process may use.
pub fn pin_to(cpus: &CpuList) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.as_slice() {
        set.set(cpu.0 as usize)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// The CPU that the calling thread runs on: no system call, the kernel keeps it
/// in the thread's own memory (restartable sequences) or in a register.
pub fn current_cpu() -> Option<Cpu> {
    // SAFETY: takes nothing.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).ok().map(Cpu)
}

/// The CPU that a thread of this process runs on, waits for, or ran on last.
pub fn cpu_of(tid: Tid) -> Option<Cpu> {
    /// Of the fields in `/proc/TID/stat` (`proc_pid_stat(5)`) after the name, which
    /// may have spaces and brackets in it.
    const PROCESSOR: usize = 39 - 3;
    let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", tid.0)).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let cpu = fields.split_ascii_whitespace().nth(PROCESSOR)?;
    cpu.parse().ok().map(Cpu)
}

/// What a deadline thread may run for, in each ...
const DEADLINE_RUNTIME: Nanos = Nanos::from_ms(5);
/// ... of these, before whose end it has had that: much more than its activations
/// take, so that it is moved seldom, and little enough that others can be promised
/// time.
const DEADLINE_PERIOD: Nanos = Nanos::from_ms(20);

/// Makes the calling thread the one deadline thread of its CPU.
///
/// The kernel takes it only where it may run on all CPUs that share their bandwidth.
/// It stays where it is unless it has used up what it may run for, as when its
/// hypervisor stopped the CPU: then the kernel moves it to whichever CPU is free. It
/// is not brought home: of those whose policy was changed to do that, two stayed throttled
/// for minutes on Linux 6.18, with a signal that kills pending, until `chrt -o -p 0 TID`.
fn schedule_as_deadline() -> io::Result<()> {
    pin_to(&online_cpus())?;
    schedule_by_deadline(DEADLINE_RUNTIME, DEADLINE_PERIOD)
}

/// Gives the calling thread the policy of a service.
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
        Service::Irq
        | Service::Softirq
        | Service::Worker
        | Service::Other
        // What it is raised to is lent to it when it is asked.
        | Service::Lent(_)
        | Service::Realtime(_)
        | Service::Mmcss
        | Service::Dpc
        | Service::SystemThread(_)
        | Service::Kthread
        | Service::Task(_)
        | Service::Traced(_) => {
            return schedule_normally();
        }
    };
    schedule_other_as(0, priority)
}

/// Gives a thread of this process a real-time priority; 0: the calling one.
pub fn schedule_other_as(tid: i32, priority: u8) -> io::Result<()> {
    set_policy(tid, libc::SCHED_FIFO, priority.into())
}

/// Puts the calling thread behind all others of its CPU.
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

/// Makes the calling thread, which is a normal one, one that wants to run for so long at
/// a time.
///
/// # Errors
/// Also where the kernel takes that and does not keep it, as before Linux 6.12.
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
            "this kernel knows no slices of a thread's own",
        ))
    }
}

/// Gives the calling thread normal scheduling. Children go on to inherit it,
/// unless they were kept from that and the right to change it is missing.
pub fn schedule_normally() -> io::Result<()> {
    let set = |policy| set_policy(0, policy, 0);
    set(libc::SCHED_OTHER).or_else(|_| set(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK))
}

/// What a normal thread has of its CPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CpuShare {
    pub nice: i32,
    /// How long it wants to run at a time, 100 us to 100 ms: who wants less
    /// gets its turn sooner (Linux 6.12; before, it is ignored). `None`: as
    /// the kernel likes.
    pub turn: Option<Nanos>,
}

impl CpuShare {
    /// Gives the calling thread this share.
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

/// Gives the calling thread `SCHED_DEADLINE`: it may run for `runtime` in each
/// `period`, and has it before the period ends.
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

/// `struct sched_attr` as first published, which every kernel takes.
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
    /// The size of it, which the kernel is told.
    const BYTES: u32 = 48;

    /// Those of the calling thread.
    fn get() -> io::Result<Self> {
        let mut found = Self::default();
        // SAFETY: `found` is valid for writes of the size that is given; 0 is the
        //         calling thread.
        let done =
            unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut found, Self::BYTES, 0) };
        match done {
            0 => Ok(found),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Gives them to the calling thread.
    fn set(self) -> io::Result<()> {
        let sized = Self {
            size_bytes: Self::BYTES,
            ..self
        };
        // SAFETY: `sized` is valid for reads of the size that it states; 0 is the
        //         calling thread.
        match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const sized, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Lets timers of the calling thread expire when they were programmed to.
/// The kernel otherwise delays a normal thread's by up to 50 us to save
/// wakeups, which would be measured as the machine's lateness.
pub fn refuse_timer_slack() {
    // SAFETY: takes no pointers. Cannot fail for the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// How much later than programmed a timer of the calling thread may expire, to
/// save wakeups.
pub fn timer_slack() -> Nanos {
    // SAFETY: takes no pointers. Cannot fail for the calling thread.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    Nanos::from_ns(u64::try_from(slack).unwrap_or(0))
}

/// Allows so much of it. None is one nanosecond: zero would be what this thread
/// began with.
pub fn allow_timer_slack(slack: Nanos) {
    // SAFETY: takes no pointers. Cannot fail for the calling thread.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack.ns().max(1)) };
}

/// Signals go to the other threads; a measuring thread's wait ends at its
/// expiry only.
pub fn block_signals() -> io::Result<()> {
    SigSet::all().thread_block()?;
    Ok(())
}

/// Page faults of the calling thread so far.
pub fn faults_of_thread() -> u64 {
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

    /// What the kernel says of a thread's slice is the one that it was given, not one
    /// that all have.
    #[test]
    fn a_slice_is_the_thread_s_own_or_refused() {
        let seen = |length| {
            let thread = move || {
                schedule_as(Service::Slice(length))?;
                Ok::<_, io::Error>(Attributes::get()?.runtime_ns)
            };
            std::thread::spawn(thread).join().unwrap()
        };
        for length in [Nanos::from_us(100), Nanos::from_ms(7)] {
            match seen(length) {
                Ok(kept) => assert_eq!(kept, length.ns()),
                Err(err) if err.kind() == io::ErrorKind::Unsupported => {
                    println!("skipped: {err}");
                }
                Err(err) => panic!("{err}"),
            }
        }
    }
}
