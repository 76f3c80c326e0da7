//! Wait sites: the system call and its object.

use laggard_model::{ActivationEnd, Names, Nanos, ThreadActivation, WaitSite};
use schemars::JsonSchema;
use serde::Serialize;

use crate::attach::cause::call_name;

/// Operations of `futex(2)` without their flags, and the first flag.
const FUTEX_FLAGS: u64 = FUTEX_PRIVATE | 0x100;
const FUTEX_PRIVATE: u64 = 0x80;
const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_LOCK_PI2: u64 = 13;
/// Value of a mutex of glibc that others wait for.
const MUTEX_CONTENDED: u32 = 2;
/// A condition variable has several futexes, which share a cache line.
const CONDITION_MASK: u64 = !63;
/// `TIMER_ABSTIME`
const ABSOLUTE: u64 = 1;

#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// `SCHED_DEADLINE`: the next period.
    Period,
    /// Sleep until an absolute time.
    SleepUntil,
    /// Sleep for a time.
    SleepFor,
    /// Descriptors or signals.
    Event,
    /// Condition variable, semaphore, or another futex whose meaning the kernel does not
    /// know.
    Condition,
    /// Not known: a kernel thread.
    Unknown,
    /// Mutex.
    Lock,
    /// Room in a pipe or a socket.
    Output,
    /// End of a child process.
    Child,
}

/// Wait site, without what differs from one wait to the next.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(in crate::attach) struct SiteKey {
    pub(in crate::attach) kind: WaitKind,
    call: Option<u32>,
    object: u64,
}

impl WaitKind {
    /// Returns whether a cycle can start there.
    pub(in crate::attach) const fn can_be_home(self) -> bool {
        !matches!(self, Self::Lock | Self::Output | Self::Child)
    }

    /// Preference among sites with the same period for the home wait.
    pub(in crate::attach) const fn rank(self) -> u8 {
        match self {
            Self::Period => 0,
            Self::SleepUntil => 1,
            Self::SleepFor | Self::Event => 2,
            Self::Condition => 3,
            Self::Unknown | Self::Lock | Self::Output | Self::Child => 4,
        }
    }

    /// Returns whether no other site can be the home wait if this one is periodic.
    pub(in crate::attach) const fn is_sure(self) -> bool {
        matches!(self, Self::Period | Self::SleepUntil)
    }

    fn from_site(site: &WaitSite) -> Self {
        let Some(call) = site.call else {
            return Self::Unknown;
        };
        match call.name {
            "clock_nanosleep" if site.argument & ABSOLUTE != 0 => Self::SleepUntil,
            "clock_nanosleep" | "nanosleep" => Self::SleepFor,
            "futex" => match site.argument & !FUTEX_FLAGS {
                FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => Self::Lock,
                FUTEX_WAIT if site.value == MUTEX_CONTENDED => Self::Lock,
                _ => Self::Condition,
            },
            "futex_waitv" | "semop" | "semtimedop" => Self::Condition,
            "flock" | "fcntl" => Self::Lock,
            "write" | "writev" | "pwrite64" | "sendto" | "sendmsg" | "sendmmsg" | "sendfile"
            | "splice" | "fsync" | "fdatasync" => Self::Output,
            "wait4" | "waitid" => Self::Child,
            _ => Self::Event,
        }
    }
}

impl SiteKey {
    /// Returns whether threads that wait at this site wait for the same object.
    pub(in crate::attach) const fn has_object(&self) -> bool {
        self.object != 0 && matches!(self.kind, WaitKind::Condition | WaitKind::Event)
    }

    /// Returns the site of the wait that ended an activation; `None`: it did not sleep.
    pub(in crate::attach) fn new(activation: &ThreadActivation) -> Option<Self> {
        let kind = match activation.end {
            ActivationEnd::Period => WaitKind::Period,
            ActivationEnd::Slept => WaitKind::from_site(&activation.site),
            ActivationEnd::Blocked
            | ActivationEnd::Stopped
            | ActivationEnd::Traced
            | ActivationEnd::Frozen => return None,
        };
        let site = &activation.site;
        let object = match kind {
            WaitKind::Period | WaitKind::Unknown => 0,
            WaitKind::Condition => site.object & CONDITION_MASK,
            WaitKind::SleepFor | WaitKind::Event if has_address_first(site) => 0,
            WaitKind::SleepUntil
            | WaitKind::SleepFor
            | WaitKind::Event
            | WaitKind::Lock
            | WaitKind::Output
            | WaitKind::Child => site.object,
        };
        Some(Self {
            kind,
            call: site.call.map(|call| call.number),
            object,
        })
    }
}

/// Returns the kind of the wait that ended an activation.
pub(in crate::attach) fn wait_kind(activation: &ThreadActivation) -> WaitKind {
    SiteKey::new(activation).map_or(WaitKind::Unknown, |key| key.kind)
}

/// Returns whether a thread may wait for a lock after this activation. The futex of `pthread_join` is not
/// private, because the kernel wakes its waiters.
pub(in crate::attach) fn may_be_lock(activation: &ThreadActivation) -> bool {
    let site = &activation.site;
    let is_futex = site.call.is_some_and(|call| call.name == "futex");
    match wait_kind(activation) {
        WaitKind::Lock => true,
        WaitKind::Condition => !is_futex || site.argument & FUTEX_PRIVATE != 0,
        _ => false,
    }
}

/// Returns whether the first argument is an address, which may be another each time.
fn has_address_first(site: &WaitSite) -> bool {
    const NAMES: [&str; 8] = [
        "nanosleep",
        "poll",
        "ppoll",
        "select",
        "pselect6",
        "rt_sigtimedwait",
        "rt_sigsuspend",
        "pause",
    ];
    site.call.is_some_and(|call| NAMES.contains(&call.name))
}

/// Returns whether a thread waits there for several events one after the other: the wait of an
/// event loop.
pub(in crate::attach) fn is_event_loop(site: &WaitSite) -> bool {
    const NAMES: [&str; 8] = [
        "epoll_pwait",
        "epoll_pwait2",
        "epoll_wait",
        "io_uring_enter",
        "poll",
        "ppoll",
        "pselect6",
        "select",
    ];
    site.call.is_some_and(|call| NAMES.contains(&call.name))
}

/// Returns whether a wait of this call is always the wait for all events of the thread: no function
/// that a callback calls waits there. `poll` may wait for any descriptor.
pub(super) fn is_for_all_events(site: &WaitSite) -> bool {
    const NAMES: [&str; 4] = [
        "epoll_pwait",
        "epoll_pwait2",
        "epoll_wait",
        "rt_sigtimedwait",
    ];
    site.call.is_some_and(|call| NAMES.contains(&call.name))
}

/// Returns the resolution of the timeout of a call.
pub(in crate::attach) fn timeout_resolution(site: &WaitSite) -> Nanos {
    const NAMES: [&str; 3] = ["epoll_pwait", "epoll_wait", "poll"];
    if site.call.is_some_and(|call| NAMES.contains(&call.name)) {
        Nanos::from_ms(1)
    } else {
        Nanos::ZERO
    }
}

/// Returns whether the kernel restarts another call, whose number is not known any more.
pub(in crate::attach) fn is_restarted(site: &WaitSite) -> bool {
    site.call.is_some_and(|call| call.name == "restart_syscall")
}

/// System calls whose first argument is a file descriptor.
const DESCRIPTOR_CALLS: [&str; 45] = [
    "accept",
    "accept4",
    "connect",
    "copy_file_range",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "fallocate",
    "fchmod",
    "fchown",
    "fcntl",
    "fdatasync",
    "flock",
    "fstat",
    "fsync",
    "ftruncate",
    "getdents",
    "getdents64",
    "io_uring_enter",
    "ioctl",
    "lseek",
    "mq_timedreceive",
    "mq_timedsend",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readahead",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sendfile",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "splice",
    "sync_file_range",
    "syncfs",
    "tee",
    "write",
    "writev",
];

/// Place where a thread waits.
#[derive(Clone, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
pub struct AttachSite {
    pub kind: WaitKind,
    /// Name of the system call, or its number if laggard does not know the name; absent: the
    /// wait is in no system call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// Clock of a sleep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
    /// File descriptor that the thread waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<u64>,
    /// Path or kind of the descriptor's target, such as `pipe`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl AttachSite {
    pub(in crate::attach) fn new(site: &WaitSite, kind: WaitKind) -> Self {
        let clock = match site.object {
            0 => Some("CLOCK_REALTIME"),
            1 => Some("CLOCK_MONOTONIC"),
            7 => Some("CLOCK_BOOTTIME"),
            11 => Some("CLOCK_TAI"),
            _ => None,
        };
        let call = site.call.filter(|_| kind != WaitKind::Period);
        let is_sleep = call.is_some_and(|call| call.name == "clock_nanosleep");
        let has_descriptor = call.is_some_and(|call| DESCRIPTOR_CALLS.contains(&call.name));
        Self {
            kind,
            call: call.map(call_name),
            clock: clock.filter(|_| is_sleep).map(Into::into),
            descriptor: has_descriptor.then_some(site.object),
            file: None,
        }
    }

    /// Adds the target of the descriptor, which belongs to `process`.
    pub(in crate::attach) fn with_file(self, process: u32, names: &mut dyn Names) -> Self {
        let file = self
            .descriptor
            .and_then(|number| names.descriptor(process, number));
        Self { file, ..self }
    }
}
