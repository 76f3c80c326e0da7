//! Waits of a thread in the middle of a cycle.

use std::collections::BTreeMap;

use laggard_model::{
    ActivationEnd, Cpu, Evidence, Happening, Nanos, ThreadActivation, Tid, WokenBy,
};

use super::{BEFORE, CycleTime};
use crate::attach::cause::{AttachCauseKind, HolderState, WaitEnd, call_name};
use crate::attach::cycle::{AttachSite, SiteKey, WaitKind, wait_kind};
use crate::attach::ready::ReadySpan;
use crate::attach::release::Releaser;

impl<E: Fn(Cpu, Nanos, Nanos) -> Evidence> CycleTime<'_, E> {
    /// Explains the wait after the activation `ended`, which `woken` ended. `later`: the
    /// activations after it.
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
        let call = ended.site.call.map(call_name);
        let waker = WaitEnd::from_wakeup(woken);
        let kind = match ended.end {
            ActivationEnd::Blocked | ActivationEnd::Slept if ended.usage.waits_for_memory => {
                AttachCauseKind::Reclaim
            }
            ActivationEnd::Blocked => self.blocked(ended, woken),
            ActivationEnd::Stopped => AttachCauseKind::Stopped { is_traced: false },
            ActivationEnd::Traced => AttachCauseKind::Stopped { is_traced: true },
            ActivationEnd::Frozen => AttachCauseKind::Frozen,
            ActivationEnd::Period => AttachCauseKind::NextPeriod,
            ActivationEnd::Slept => match wait_kind(ended) {
                WaitKind::Lock | WaitKind::Condition => {
                    self.lock(ended, (woken, waker_cpu), (from, to), later);
                    return;
                }
                WaitKind::SleepFor | WaitKind::SleepUntil => AttachCauseKind::Sleep { call },
                WaitKind::Child => AttachCauseKind::Child { call },
                WaitKind::Output => AttachCauseKind::Output {
                    site: self.site(ended, WaitKind::Output),
                    waker,
                },
                kind @ (WaitKind::Period | WaitKind::Event | WaitKind::Unknown) => {
                    AttachCauseKind::Wait {
                        site: self.site(ended, kind),
                        waker,
                    }
                }
            },
        };
        self.add(kind, time);
    }

    /// Explains a wait for a lock. The thread that released it counts as its holder.
    fn lock(
        &mut self,
        ended: &ThreadActivation,
        release: (WokenBy, Cpu),
        (from, to): (Nanos, Nanos),
        later: &[&ThreadActivation],
    ) {
        let kind = wait_kind(ended);
        let is_futex = ended.site.call.is_some_and(|call| is_futex_call(call.name));
        let is_mutex = kind == WaitKind::Lock && is_futex;
        let site = (!is_futex).then(|| self.site(ended, kind));
        // A wait with a timeout is repeated until the lock is free.
        let repeats = later.iter().take_while(|part| repeats(ended, part));
        let later = later.iter().skip(1).take(repeats.count());
        let releases = later.map(|part| (part.woken, part.waker_cpu));
        let holder = std::iter::once(release)
            .chain(releases)
            .find_map(|(woken, cpu)| Releaser::new(woken, cpu));
        let is_timeout = WaitEnd::from_wakeup(release.0) == Some(WaitEnd::Timeout);
        let usual = SiteKey::new(ended).filter(|_| is_timeout);
        let usual = usual.and_then(|site| self.releasers?.get(&site)).copied();
        // If the lock was free after the timeout, the wait was not repeated.
        let mut states = BTreeMap::new();
        let holder = holder.or(usual).filter(|releaser| {
            states = self.states_of_holder(releaser, (from, to));
            let ran = states.get(&HolderState::Ran).copied();
            let ran = ran.unwrap_or(Nanos::ZERO).ns();
            holder.is_some() || 2 * ran >= to.saturating_sub(from).ns()
        });
        let Some(Releaser { name, .. }) = holder else {
            let kind = if kind == WaitKind::Condition && is_timeout {
                let call = ended.site.call.map(call_name);
                AttachCauseKind::Sleep { call }
            } else {
                AttachCauseKind::Lock {
                    is_mutex,
                    site,
                    holder: None,
                    state: None,
                }
            };
            self.add(kind, to.saturating_sub(from));
            return;
        };
        for (state, time) in states {
            let held = AttachCauseKind::Lock {
                is_mutex,
                site: site.clone(),
                holder: Some(name.to_string()),
                state: Some(state),
            };
            self.add(held, time);
        }
    }

    /// Divides a span by the states of a holder.
    fn states_of_holder(
        &self,
        holder: &Releaser,
        (from, to): (Nanos, Nanos),
    ) -> BTreeMap<HolderState, Nanos> {
        let evidence = (self.evidence)(holder.cpu, from.saturating_sub(BEFORE), to);
        let ready = self.ready.iter().filter(|span| span.tid == holder.tid);
        let ready: Vec<ReadySpan> = ready.copied().collect();
        states_of(&evidence, holder.tid, (from, to), &ready)
    }

    fn site(&mut self, ended: &ThreadActivation, kind: WaitKind) -> AttachSite {
        AttachSite::new(&ended.site, kind).with_file(self.process, self.names)
    }

    /// Returns the kind of an uninterruptible wait.
    fn blocked(&mut self, ended: &ThreadActivation, woken: WokenBy) -> AttachCauseKind {
        let call = ended.site.call.map(call_name);
        let waker = WaitEnd::from_wakeup(woken);
        let Some(lock) = ended.lock else {
            let file = self.site(ended, WaitKind::Event).file;
            return AttachCauseKind::Blocked { call, file, waker };
        };
        let holder = match waker {
            Some(WaitEnd::Thread(name)) => Some(name),
            Some(WaitEnd::Timeout | WaitEnd::Irq(_) | WaitEnd::Softirq) | None => None,
        };
        AttachCauseKind::KernelLock {
            call,
            is_mmap: lock.is_mmap,
            holder,
        }
    }
}

/// Divides a span by the activity of a thread on one CPU. `ready`: spans when it was woken and did
/// not run.
fn states_of(
    evidence: &Evidence,
    holder: Tid,
    (from, to): (Nanos, Nanos),
    ready: &[ReadySpan],
) -> BTreeMap<HolderState, Nanos> {
    let mut states = BTreeMap::<HolderState, Nanos>::new();
    let mut state = HolderState::OffCpu;
    let mut since = from;
    let mut current: Option<(Tid, &str)> = None;
    // While the holder could run but is off its CPU, the time belongs to the thread that runs
    // there.
    let mut add = |state: &HolderState, span: (Nanos, Nanos), running: Option<(Tid, &str)>| {
        let length = span.1.saturating_sub(span.0);
        let mut kept = Nanos::ZERO;
        if *state == HolderState::OffCpu
            && let Some((tid, name)) = running
            && tid != IDLE
        {
            let parts = ready.iter().map(|ready| {
                let (from, to) = (ready.from.max(span.0), ready.to.min(span.1));
                to.saturating_sub(from)
            });
            kept = parts.fold(Nanos::ZERO, |sum, part| sum + part).min(length);
            *states
                .entry(HolderState::Preempted(name.to_owned()))
                .or_default() += kept;
        }
        *states.entry(state.clone()).or_default() += length.saturating_sub(kept);
    };
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
        let time = event.at_ns.clamp(from, to);
        // The thread that leaves is known, though no switch to it was seen.
        let left = before.or(current.map(|(tid, _)| tid));
        add(&state, (since, time), current);
        since = time;
        state = if *tid == holder {
            HolderState::Ran
        } else if *tid == IDLE {
            // It went to another CPU, or the switch before was not seen.
            HolderState::OffCpu
        } else if left == Some(holder) {
            if *preempted {
                HolderState::Preempted(name.to_string())
            } else {
                HolderState::OffCpu
            }
        } else if matches!(state, HolderState::Preempted(_)) {
            HolderState::Preempted(name.to_string())
        } else {
            HolderState::OffCpu
        };
        current = Some((*tid, name));
    }
    add(&state, (since, to), current);
    states.retain(|_, time| *time > Nanos::ZERO);
    states
}

/// The idle thread of a CPU.
const IDLE: Tid = Tid(0);

fn is_futex_call(name: &str) -> bool {
    ["futex", "futex_waitv"].contains(&name)
}

/// Returns whether an activation ended with the same wait as an earlier one. A condition variable
/// has two futexes next to each other.
fn repeats(earlier: &ThreadActivation, activation: &ThreadActivation) -> bool {
    const MAX_DISTANCE: u64 = 15;
    let (site, again) = (&earlier.site, &activation.site);
    activation.end == ActivationEnd::Slept
        && site.call == again.call
        && site.object.abs_diff(again.object) <= MAX_DISTANCE
}
