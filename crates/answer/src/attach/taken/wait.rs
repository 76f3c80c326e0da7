//! What a thread waited for in the middle of a cycle.

use std::collections::BTreeMap;

use laggard_model::{
    ActivationEnd, CauseClass, Cpu, Evidence, Happening, Nanos, ThreadActivation, Tid, WokenBy,
    printable,
};

use super::Told;
use crate::attach::cycle::{WaitKind, wait_kind};
use crate::attach::row::AttachTaken;

pub(super) const FROZEN: &str = "frozen with its control group";

/// What a lock's holder did while another thread waited.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum HolderState {
    Ran,
    Preempted(String),
    OffCpu,
}

impl<E: Fn(Cpu, Nanos, Nanos) -> Evidence> Told<'_, E> {
    /// Explains the wait after the activation `ended`, which `woken` ended.
    pub(super) fn wait(
        &mut self,
        ended: &ThreadActivation,
        (woken, waker_cpu): (WokenBy, Cpu),
        (from, to): (Nanos, Nanos),
        later: &[&ThreadActivation],
    ) {
        let time = to.saturating_sub(from);
        if time == Nanos::ZERO {
            return;
        }
        let call = ended.site.call.map(|call| call.to_string());
        let class = match ended.end {
            ActivationEnd::Blocked => {
                self.blocked(ended, woken, time);
                return;
            }
            ActivationEnd::Stopped => (CauseClass::Stopped, "stopped by a signal".into()),
            ActivationEnd::Traced => (CauseClass::Stopped, "stopped by a debugger".into()),
            ActivationEnd::Frozen => (CauseClass::Frozen, FROZEN.into()),
            ActivationEnd::Period => (CauseClass::Wait, "waiting for its next period".into()),
            ActivationEnd::Slept => {
                let call = call.unwrap_or_else(|| "the kernel".into());
                let kind = wait_kind(ended);
                let until = waker(woken);
                match kind {
                    WaitKind::Lock | WaitKind::Condition => {
                        self.lock(ended, (woken, waker_cpu), (from, to), later);
                        return;
                    }
                    WaitKind::SleepFor | WaitKind::SleepUntil => (
                        CauseClass::Wait,
                        format!("sleeping in {call} within the cycle"),
                    ),
                    WaitKind::Child => (
                        CauseClass::Wait,
                        format!("waiting in {call} for a child process"),
                    ),
                    WaitKind::Output => (
                        CauseClass::Wait,
                        format!(
                            "waiting in {call}, fd {}, for room{until}",
                            ended.site.object
                        ),
                    ),
                    WaitKind::Period | WaitKind::Event | WaitKind::Unknown => (
                        CauseClass::Wait,
                        format!("waiting in {}{until}", site(ended, &call)),
                    ),
                }
            }
        };
        self.add(AttachTaken {
            class: Some(class.0),
            ..AttachTaken::own(&class.1, time)
        });
    }

    /// An uninterruptible wait.
    fn blocked(&mut self, ended: &ThreadActivation, woken: WokenBy, time: Nanos) {
        let place = match ended.site.call {
            Some(call) => format!("in {call}"),
            None => "in a page fault or other work of the kernel".into(),
        };
        let (class, what) = match (ended.lock, woken) {
            (Some(lock), _) => {
                let name = if lock.is_mmap {
                    "mmap_lock"
                } else {
                    "a kernel lock"
                };
                let holder = match woken {
                    WokenBy::Thread(_, name) => {
                        format!(", held by {}", printable(&name.to_string()))
                    }
                    WokenBy::Timer(_)
                    | WokenBy::Wheel(_)
                    | WokenBy::Irq(_)
                    | WokenBy::Vector
                    | WokenBy::Softirq(_)
                    | WokenBy::Interrupt => String::new(),
                };
                (
                    CauseClass::KernelLock,
                    format!("held up {place}: {name}{holder}"),
                )
            }
            (None, woken) => (
                CauseClass::Blocked,
                format!("held up {place}{}", waker(woken)),
            ),
        };
        self.add(AttachTaken {
            class: Some(class),
            ..AttachTaken::own(&what, time)
        });
    }

    /// A wait for a futex: the thread that released it is taken for its holder.
    fn lock(
        &mut self,
        ended: &ThreadActivation,
        release: (WokenBy, Cpu),
        (from, to): (Nanos, Nanos),
        later: &[&ThreadActivation],
    ) {
        let name = match wait_kind(ended) {
            WaitKind::Lock => "lock (mutex)",
            WaitKind::Period
            | WaitKind::SleepUntil
            | WaitKind::SleepFor
            | WaitKind::Event
            | WaitKind::Condition
            | WaitKind::Unknown
            | WaitKind::Output
            | WaitKind::Child => "lock or condition variable (futex)",
        };
        // A wait with a timeout is repeated until the lock is free.
        let waits = later.iter().take_while(|part| is_futex(part)).count();
        let later = later.iter().take(waits + 1);
        let releases = later.map(|part| (part.woken, part.waker_cpu));
        let holder =
            std::iter::once(release)
                .chain(releases)
                .find_map(|(woken, cpu)| match woken {
                    WokenBy::Thread(tid, name) => {
                        Some((tid, printable(&name.to_string()).to_string(), cpu))
                    }
                    WokenBy::Timer(_)
                    | WokenBy::Wheel(_)
                    | WokenBy::Irq(_)
                    | WokenBy::Vector
                    | WokenBy::Softirq(_)
                    | WokenBy::Interrupt => None,
                });
        let Some((tid, holder, cpu)) = holder else {
            self.add(AttachTaken {
                class: Some(CauseClass::Lock),
                ..AttachTaken::own(&format!("{name}, holder unknown"), to.saturating_sub(from))
            });
            return;
        };
        let evidence = (self.evidence)(cpu, from, to);
        for (state, time) in states_of(&evidence, tid, (from, to)) {
            let what = match state {
                HolderState::Ran => format!("{name}: held by {holder}, which ran"),
                HolderState::Preempted(by) => {
                    format!("{name}: held by {holder}, preempted by {by}")
                }
                HolderState::OffCpu => format!("{name}: held by {holder}, which was off its CPU"),
            };
            self.add(AttachTaken {
                class: Some(CauseClass::Lock),
                who: Some(holder.clone()),
                ..AttachTaken::own(&what, time)
            });
        }
    }
}

/// Divides a span by what a thread did on one CPU.
fn states_of(
    evidence: &Evidence,
    holder: Tid,
    (from, to): (Nanos, Nanos),
) -> BTreeMap<HolderState, Nanos> {
    let mut states = BTreeMap::<HolderState, Nanos>::new();
    let mut state = HolderState::OffCpu;
    let mut since = from;
    let mut current = None;
    for event in &evidence.events {
        let Happening::Switch {
            tid,
            name,
            before,
            preempted,
            ..
        } = &event.what
        else {
            continue;
        };
        let at = event.at_ns.clamp(from, to);
        // The thread that leaves is known, though no switch to it was seen.
        let left = before.or(current);
        *states.entry(state.clone()).or_default() += at.saturating_sub(since);
        since = at;
        state = if *tid == holder {
            HolderState::Ran
        } else if left == Some(holder) {
            match preempted {
                true => HolderState::Preempted(printable(name).to_string()),
                false => HolderState::OffCpu,
            }
        } else if matches!(state, HolderState::Preempted(_)) {
            HolderState::Preempted(printable(name).to_string())
        } else {
            HolderState::OffCpu
        };
        current = Some(*tid);
    }
    *states.entry(state).or_default() += to.saturating_sub(since);
    states.retain(|_, time| *time > Nanos::ZERO);
    states
}

fn is_futex(one: &ThreadActivation) -> bool {
    one.end == ActivationEnd::Slept
        && matches!(wait_kind(one), WaitKind::Lock | WaitKind::Condition)
}

fn site(ended: &ThreadActivation, call: &str) -> String {
    match wait_kind(ended) {
        WaitKind::Event if ended.site.call.is_some() => {
            crate::attach::cycle::site_words(&ended.site, WaitKind::Event)
        }
        WaitKind::Period
        | WaitKind::SleepUntil
        | WaitKind::SleepFor
        | WaitKind::Event
        | WaitKind::Condition
        | WaitKind::Unknown
        | WaitKind::Lock
        | WaitKind::Output
        | WaitKind::Child => call.to_owned(),
    }
}

/// What ended a wait, in words.
fn waker(woken: WokenBy) -> String {
    match woken {
        WokenBy::Thread(_, name) => format!(", until {} woke it", printable(&name.to_string())),
        WokenBy::Timer(_) | WokenBy::Wheel(_) => ", until its timeout".into(),
        WokenBy::Irq(number) => format!(", until irq {number} woke it"),
        WokenBy::Softirq(_) => ", until a softirq woke it".into(),
        WokenBy::Vector | WokenBy::Interrupt => String::new(),
    }
}
