//! Causes of the time of a cycle, in words.

use laggard_answer::attach::{
    AttachCause, AttachCauseKind, AttachHolder, AttachLate, AttachSite, AttachTaken, HolderState,
    WaitEnd, WaitKind,
};
use laggard_answer::remedy::{MMAP_LOCK, TIMEOUT};
use laggard_model::{Because, CauseClass, NamedCause, Nanos};

use crate::doc::{Cell, code};
use crate::phrase::cause::name;

/// Maximum number of states of a lock's holder that a cause lists.
const MAX_STATES: usize = 2;
/// Minimum share of the time, in percent, for which a cause has a single name: one state of a lock's
/// holder, or only an overrun.
const NEARLY_ALL: u64 = 90;

/// Names a cause.
pub(crate) fn cause(cause: &AttachCause) -> String {
    match &cause.kind {
        AttachCauseKind::TimerSlack => "timer slack".into(),
        AttachCauseKind::Execution => "execution time".into(),
        AttachCauseKind::UserCode => "execution time in user code".into(),
        AttachCauseKind::Kernel { is_sampled: true } => "execution time in the kernel".into(),
        AttachCauseKind::Kernel { is_sampled: false } => {
            "execution time in the kernel (--stack-rate names the system call)".into()
        }
        AttachCauseKind::SystemCall { call } => format!("execution time in {call}()"),
        AttachCauseKind::PageFault => "execution time in page faults".into(),
        AttachCauseKind::Reclaim => {
            "memory reclaim (too little memory, or the limit of its control group)".into()
        }
        AttachCauseKind::Overrun { of } => {
            let source = AttachCause::new((**of).clone());
            format!("overrun of an earlier cycle: {}", self::cause(&source))
        }
        AttachCauseKind::OtherThreads => {
            "preempted while it moved between CPUs, names unknown".into()
        }
        AttachCauseKind::Move => "move to another CPU".into(),
        AttachCauseKind::OtherCpu => "wait on another CPU than the one it ran on".into(),
        AttachCauseKind::Frozen => "frozen with its control group".into(),
        AttachCauseKind::Stopped { is_traced: true } => "stopped by a debugger".into(),
        AttachCauseKind::Stopped { is_traced: false } => "stopped by a signal".into(),
        AttachCauseKind::NextPeriod => "waiting for its next SCHED_DEADLINE period".into(),
        AttachCauseKind::Sleep { call } => {
            let note = if is_timed_wait(call.as_deref()) {
                " (a timed wait that expired)"
            } else {
                ""
            };
            format!(
                "sleeping in {}{note} within the cycle",
                call_or_kernel(call.as_deref())
            )
        }
        AttachCauseKind::Child { call } => {
            format!(
                "waiting in {} for a child process",
                call_or_kernel(call.as_deref())
            )
        }
        AttachCauseKind::Output { site: place, waker } => {
            format!(
                "waiting in {}, for room{}",
                site(place),
                wait_end(waker.as_ref())
            )
        }
        AttachCauseKind::Wait { site: place, waker } => {
            format!("waiting in {}{}", site(place), wait_end(waker.as_ref()))
        }
        AttachCauseKind::KernelLock {
            call,
            is_mmap,
            holder,
        } => {
            let lock = if *is_mmap {
                "mmap_lock"
            } else {
                "a kernel lock"
            };
            let holder = holder.as_ref();
            let holder = holder.map_or_else(String::new, |name| format!(", held by {name}"));
            format!(
                "held up in {}: {lock}{holder}",
                call_or_fault(call.as_deref())
            )
        }
        AttachCauseKind::Blocked { call, file, waker } => {
            let file = file.as_ref();
            let file = file.map_or_else(String::new, |file| format!(" of {file}"));
            format!(
                "held up in {}{file}{}",
                call_or_fault(call.as_deref()),
                wait_end(waker.as_ref())
            )
        }
        AttachCauseKind::Lock {
            is_mutex,
            site: place,
            holder,
            state,
        } => lock(place.as_ref(), *is_mutex, holder.as_deref(), state.as_ref()),
        AttachCauseKind::System {
            who,
            because,
            contender,
        } => {
            let named = NamedCause {
                class: cause.class,
                who: who.clone(),
                because: *because,
            };
            name(&named, contender.as_slice())
        }
    }
}

/// Names the culprit of a cause for a recording: the file, lock or thread that is part of
/// it. `None`: the class says it all.
pub(crate) fn culprit(cause: &AttachCause) -> Option<String> {
    let held = |holder: &Option<String>| holder.as_ref().map(|holder| format!("held by {holder}"));
    let words: Vec<String> = match &cause.kind {
        AttachCauseKind::TimerSlack => vec!["timer slack".into()],
        AttachCauseKind::Move => vec!["move to another CPU".into()],
        AttachCauseKind::UserCode => vec!["user code".into()],
        AttachCauseKind::SystemCall { call: name } => vec![call(name)],
        AttachCauseKind::OtherThreads => {
            vec!["threads that ran while it moved between CPUs".into()]
        }
        AttachCauseKind::OtherCpu => vec!["wait on another CPU".into()],
        AttachCauseKind::NextPeriod => vec!["next SCHED_DEADLINE period".into()],
        AttachCauseKind::Stopped { is_traced: true } => vec!["debugger".into()],
        AttachCauseKind::Stopped { is_traced: false } => vec!["signal".into()],
        AttachCauseKind::Execution
        | AttachCauseKind::Kernel { .. }
        | AttachCauseKind::PageFault
        | AttachCauseKind::Reclaim
        | AttachCauseKind::Frozen => Vec::new(),

        AttachCauseKind::Overrun { of } => {
            return culprit(&AttachCause::new((**of).clone()));
        }
        AttachCauseKind::Sleep { call } => {
            let mut words = vec![call_or_fault(call.as_deref())];
            words.extend(is_timed_wait(call.as_deref()).then(|| TIMEOUT.into()));
            words
        }
        AttachCauseKind::Child { call } => {
            vec![call_or_fault(call.as_deref()), "child process".into()]
        }
        AttachCauseKind::Output { site, waker } | AttachCauseKind::Wait { site, waker } => {
            let descriptor = site.descriptor.map(|number| format!("fd {number}"));
            let mut words = vec![call_or_fault(site.call.as_deref())];
            words.extend(site.file.clone().or(descriptor));
            words.extend(woken_by(waker.as_ref()));
            words
        }
        AttachCauseKind::KernelLock {
            call,
            is_mmap,
            holder,
        } => {
            let mut words = vec![call_or_fault(call.as_deref())];
            words.extend(is_mmap.then(|| MMAP_LOCK.into()));
            words.extend(held(holder));
            words
        }
        AttachCauseKind::Blocked { call, file, waker } => {
            let mut words = vec![call_or_fault(call.as_deref())];
            words.extend(file.clone());
            words.extend(woken_by(waker.as_ref()));
            words
        }
        AttachCauseKind::Lock {
            is_mutex,
            site,
            holder,
            ..
        } => {
            let mut words = Vec::new();
            words.extend(is_mutex.then(|| "mutex".into()));
            words.extend(site.as_ref().map(self::site));
            words.extend(held(holder));
            words
        }
        AttachCauseKind::System { who, .. } => who.iter().cloned().collect(),
    };
    (!words.is_empty()).then(|| words.join(", "))
}

/// Returns whether a sleep is the timeout of another call, such as `futex`.
fn is_timed_wait(call: Option<&str>) -> bool {
    const NAMES: [&str; 3] = ["futex", "futex_waitv", "semtimedop"];
    call.is_some_and(|call| NAMES.contains(&call))
}

fn woken_by(end: Option<&WaitEnd>) -> Option<String> {
    Some(match end? {
        WaitEnd::Thread(name) => format!("woken by {name}"),
        WaitEnd::Timeout => TIMEOUT.into(),
        WaitEnd::Irq(number) => format!("woken by irq {number}"),
        WaitEnd::Softirq => "woken by a softirq".into(),
    })
}

/// Names a cause of missed cycles. A lock's holder may have been in several states.
pub(crate) fn late_cause(late: &AttachLate) -> String {
    let AttachCauseKind::Lock {
        is_mutex,
        site: place,
        holder,
        ..
    } = &late.taken.cause.kind
    else {
        return with_overrun(late);
    };
    let total = late.taken.time_ns.ns().max(1);
    let percent = |held: &AttachHolder| held.time_ns.ns() * 100 / total;
    if late
        .holder_states
        .first()
        .is_none_or(|held| percent(held) >= NEARLY_ALL)
    {
        return cause(&late.taken.cause);
    }
    let states = late.holder_states.iter().take(MAX_STATES);
    let states: Vec<String> = states
        .map(|held| match (&held.state, percent(held)) {
            (HolderState::Ran, share) => format!("ran {share} %"),
            (HolderState::Preempted(thread), share) => format!("preempted by {thread} {share} %"),
            (HolderState::OffCpu, share) => format!("off its CPU {share} %"),
        })
        .collect();
    let lock = lock(place.as_ref(), *is_mutex, holder.as_deref(), None);
    format!("{lock} ({})", states.join(", "))
}

/// Names a cause of missed cycles, and the share of its time that is an overrun.
fn with_overrun(late: &AttachLate) -> String {
    let share = late.overrun_ns.ns() * 100 / late.taken.time_ns.ns().max(1);
    let source = late.taken.cause.overrun_of();
    if share == 0 || (share >= NEARLY_ALL && source.is_some()) {
        return cause(&late.taken.cause);
    }
    let source = source.unwrap_or_else(|| late.taken.cause.clone());
    format!("{} (overrun {share} %)", cause(&source))
}

fn lock(
    place: Option<&AttachSite>,
    is_mutex: bool,
    holder: Option<&str>,
    state: Option<&HolderState>,
) -> String {
    let kind = match place {
        Some(place) => format!("lock or semaphore in {}", site(place)),
        None if is_mutex => "lock (mutex)".into(),
        None => "lock or condition variable (futex)".into(),
    };
    let Some(holder) = holder else {
        return format!("{kind}, holder unknown");
    };
    match state {
        Some(HolderState::Ran) => format!("{kind}: held by {holder}, which ran"),
        Some(HolderState::Preempted(thread)) => {
            format!("{kind}: held by {holder}, preempted by {thread}")
        }
        Some(HolderState::OffCpu) => format!("{kind}: held by {holder}, which was off its CPU"),
        None => format!("{kind}: held by {holder}"),
    }
}

/// Names a system call: `write()`. A number stands for a call without a known name.
fn call(name: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("system call {name}")
    } else {
        format!("{name}()")
    }
}

fn call_or_kernel(name: Option<&str>) -> String {
    name.map_or_else(|| "the kernel".into(), call)
}

fn call_or_fault(name: Option<&str>) -> String {
    name.map_or_else(|| "a page fault or other work of the kernel".into(), call)
}

/// Names a wait site: `clock_nanosleep(), CLOCK_MONOTONIC, absolute`.
pub(crate) fn site(site: &AttachSite) -> String {
    let Some(name) = &site.call else {
        return if site.kind == WaitKind::Period {
            "the next period of SCHED_DEADLINE".into()
        } else {
            "a wait in the kernel".into()
        };
    };
    let call = call(name);
    let object = match name.as_str() {
        "clock_nanosleep" => {
            let clock = site.clock.as_deref().unwrap_or("another clock");
            let kind = if site.kind == WaitKind::SleepUntil {
                "absolute"
            } else {
                "relative"
            };
            Some(format!("{clock}, {kind}"))
        }
        "futex" if site.kind == WaitKind::Lock => Some("mutex".into()),
        "futex" => Some("condition variable or semaphore".into()),
        _ => site.descriptor.map(|number| match &site.file {
            Some(file) => format!("fd {number} ({file})"),
            None => format!("fd {number}"),
        }),
    };
    object.map_or(call.clone(), |object| format!("{call}, {object}"))
}

fn wait_end(end: Option<&WaitEnd>) -> String {
    match end {
        Some(WaitEnd::Thread(name)) => format!(", until {name} woke it"),
        Some(WaitEnd::Timeout) => ", until its timeout".into(),
        Some(WaitEnd::Irq(number)) => format!(", until irq {number} woke it"),
        Some(WaitEnd::Softirq) => ", until a softirq woke it".into(),
        None => String::new(),
    }
}

/// Lists the largest parts of a time, and the sum of the others.
pub(crate) fn parts(taken: &[AttachTaken], max: usize) -> String {
    let mut parts: Vec<String> = taken
        .iter()
        .take(max)
        .map(|part| format!("{} {}", Cell::Time(part.time_ns), cause(&part.cause)))
        .collect();
    let rest = taken.iter().skip(max);
    let rest = rest.fold(Nanos::ZERO, |sum, part| sum + part.time_ns);
    if rest > Nanos::ZERO {
        parts.push(format!("{} others", Cell::Time(rest)));
    }
    parts.join("; ")
}

/// Returns the next step for the user against a cause. `has_samples`: stack samples were taken.
pub(crate) fn next_step(cause: &AttachCause, has_samples: bool) -> Option<String> {
    if let Some(source) = cause.overrun_of() {
        return next_step(&source, has_samples);
    }
    let step = match (cause.class, &cause.kind) {
        (_, AttachCauseKind::Execution | AttachCauseKind::Kernel { is_sampled: false })
            if !has_samples =>
        {
            "add `--stack-rate 1000` to divide the execution time into user code, system calls and page faults"
        }
        (
            _,
            AttachCauseKind::Lock {
                is_mutex: true,
                state: Some(HolderState::Preempted(_)),
                ..
            },
        ) => "use a mutex with priority inheritance (PTHREAD_PRIO_INHERIT)",
        (_, AttachCauseKind::KernelLock { is_mmap: true, .. }) => {
            "do not map memory, unmap it or fork in this process while the thread runs its cycles"
        }
        (_, AttachCauseKind::TimerSlack) => {
            "set the timer slack of the thread to 1 ns (prctl PR_SET_TIMERSLACK) or use a real-time policy"
        }
        (
            CauseClass::Unexplained,
            AttachCauseKind::System {
                because: Some(Because::NothingRecorded | Because::LateInterrupt | Because::NoSample),
                ..
            },
        ) if !has_samples => {
            "add `--stack-rate 200`: samples name code that disables interrupts or preemption"
        }
        (CauseClass::OwnWork, _) => "reduce the work per cycle, or use a longer period",
        (CauseClass::SystemCall, _) => "move this system call to another thread",
        (CauseClass::PageFault, _) => {
            "lock the memory (mlockall) and touch all of it before the first cycle"
        }
        (CauseClass::Reclaim, _) => {
            "raise the memory limit of the control group (memory.high, memory.max), or use less memory"
        }
        (CauseClass::Wait, AttachCauseKind::Sleep { .. }) => {
            "do not sleep within the cycle, or sleep for a shorter time"
        }
        (
            CauseClass::Wait,
            AttachCauseKind::Wait {
                waker: Some(WaitEnd::Timeout),
                ..
            }
            | AttachCauseKind::Output {
                waker: Some(WaitEnd::Timeout),
                ..
            },
        ) => "use a shorter timeout for this wait, or wait for this event in another thread",
        (CauseClass::Lock, _) => "let the holder of this lock hold it for a shorter time",
        (CauseClass::KernelLock | CauseClass::Blocked | CauseClass::Wait, _) => {
            "move this wait to another thread"
        }
        (CauseClass::HigherPriority, AttachCauseKind::System { who: Some(who), .. }) => {
            return Some(format!(
                "keep {} off this CPU (taskset, cpuset), or run the thread above its priority",
                code(who)
            ));
        }
        (CauseClass::Equal, AttachCauseKind::System { who: Some(who), .. }) => {
            return Some(format!(
                "run the thread at a higher priority than {}, or on another CPU",
                code(who)
            ));
        }
        (CauseClass::Throttled, _) => "raise the CPU quota of the group, or remove it",
        (CauseClass::GroupWeight, AttachCauseKind::System { who: Some(who), .. })
            if who.contains("cpu.shares") =>
        {
            "raise the weight of the group (cpu.shares), or use a real-time policy"
        }
        (CauseClass::GroupWeight, _) => {
            "raise the weight of the group (cpu.weight), or use a real-time policy"
        }
        (CauseClass::RtThrottled, _) => {
            "let the real-time threads sleep in each period (before Linux 6.12 also: kernel.sched_rt_runtime_us=-1)"
        }
        (CauseClass::FairServer, _) => "let the real-time thread that keeps the CPU sleep",
        (CauseClass::DeadlineThrottled, _) => {
            "raise the runtime of the thread (chrt --sched-runtime)"
        }
        (CauseClass::Stolen, _) => {
            "pin the vCPUs of this machine to dedicated CPUs, or use bare metal"
        }
        (CauseClass::Interrupt, _) => {
            "move the interrupt to another CPU (/proc/irq/N/smp_affinity)"
        }
        (CauseClass::IdleExit, _) => "keep the CPU out of deep idle states (/dev/cpu_dma_latency)",
        (CauseClass::Frozen, _) => {
            "find the program that freezes the control group (docker pause, systemctl freeze)"
        }
        (CauseClass::Stopped, _) => "find the program that stops the thread (a debugger, SIGSTOP)",
        _ => return None,
    };
    Some(step.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_wait_that_expired_is_a_sleep() {
        let call = Some("futex".to_owned());
        let sleep = AttachCause::new(AttachCauseKind::Sleep { call });

        let name = "sleeping in futex() (a timed wait that expired) within the cycle";
        assert_eq!(cause(&sleep), name);
        assert_eq!(culprit(&sleep).as_deref(), Some("futex(), timeout"));
    }

    #[test]
    fn advice_against_a_timed_wait_is_a_shorter_time() {
        let step = |kind| next_step(&AttachCause::new(kind), false).unwrap();
        let sleep = step(AttachCauseKind::Sleep { call: None });
        let wait = |waker| {
            let site = AttachSite {
                kind: WaitKind::Event,
                call: Some("poll".into()),
                descriptor: None,
                file: None,
                clock: None,
            };
            step(AttachCauseKind::Wait {
                site,
                waker: Some(waker),
            })
        };

        assert!(sleep.contains("sleep for a shorter time"), "{sleep}");
        let timeout = wait(WaitEnd::Timeout);
        assert!(timeout.contains("shorter timeout"), "{timeout}");
        let event = wait(WaitEnd::Softirq);
        assert_eq!(event, "move this wait to another thread");
    }
}
