//! Execution time of a thread: user code, system calls, page faults.

use std::collections::BTreeMap;

use laggard_model::{Cpu, Evidence, Nanos, StackSample, ThreadActivation, ThreadUsage};

use super::CycleTime;
use crate::attach::cause::{AttachCauseKind, HolderState};

/// Functions that call the functions where system calls start. A compiler may leave those out, and
/// go to an inner function.
const DISPATCHERS: [&str; 5] = [
    "do_syscall_64",
    "x64_sys_call",
    "invoke_syscall",
    "el0_svc_common.constprop.0",
    "do_trap_ecall_u",
];
/// Functions where page faults of user code start.
const FAULTS: [&str; 4] = [
    "asm_exc_page_fault",
    "exc_page_fault",
    "do_user_addr_fault",
    "do_page_fault",
];

/// Page faults are a cause if they take at least this part of the execution time: one of 10.
const MIN_FAULT_SHARE: u64 = 10;

/// Takes up to `time` from what is left.
fn take_part(left: &mut Nanos, time: Nanos) -> Nanos {
    let part = (*left).min(time);
    *left = left.saturating_sub(part);
    part
}

/// Time in the kernel of a thread. On most kernels it grows in steps of the scheduler's tick: a
/// cycle contains zero or several milliseconds of it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::attach) struct KernelTime {
    /// Time of page faults that no step contained yet.
    ahead: Nanos,
}

impl KernelTime {
    /// Spreads the steps over the activations: each has at least the time of its page faults, at
    /// `page_fault` per fault. The sum does not change.
    pub(in crate::attach) fn spread(
        &mut self,
        activation: &mut ThreadActivation,
        page_fault: Nanos,
    ) {
        /// The longest tick.
        const MAX_AHEAD: Nanos = Nanos::from_ms(10);
        let faults = fault_time(&activation.usage, page_fault).min(activation.execution());
        let reported = activation.usage.system;
        let left = reported.saturating_sub(self.ahead);
        self.ahead = (self.ahead + faults)
            .saturating_sub(reported)
            .min(MAX_AHEAD);
        activation.usage.system = left.max(faults);
    }
}

/// Returns the time of the page faults of an activation.
fn fault_time(usage: &ThreadUsage, page_fault: Nanos) -> Nanos {
    let count = u64::from(usage.minor_faults) + u64::from(usage.major_faults);
    Nanos::from_ns(page_fault.ns().saturating_mul(count))
}

impl<E: Fn(Cpu, Nanos, Nanos) -> Evidence> CycleTime<'_, E> {
    /// Divides execution time by the samples that were taken in it.
    pub(super) fn execution(&mut self, time: Nanos, samples: &[&StackSample]) {
        let reclaim = take_part(&mut self.usage.reclaim, time);
        self.work(AttachCauseKind::Reclaim, reclaim);
        let time = time.saturating_sub(reclaim);
        if samples.is_empty() {
            self.unsampled(time, reclaim);
            return;
        }
        let mut counts = BTreeMap::<AttachCauseKind, u64>::new();
        for sample in samples {
            *counts.entry(self.place(sample)).or_default() += 1;
        }
        let total = samples.len() as u64;
        let mut left = time;
        let last = counts.len() - 1;
        for (number, (place, count)) in counts.into_iter().enumerate() {
            let share = u128::from(time.ns()) * u128::from(count) / u128::from(total);
            let share = if number == last {
                left
            } else {
                Nanos::from_ns(u64::try_from(share).unwrap_or(u64::MAX)).min(left)
            };
            left = left.saturating_sub(share);
            self.work(place, share);
        }
    }

    /// Divides execution time by the accounting of the kernel. Its time in the kernel has the
    /// resolution of the tick, so the number of page faults is the better measure if it explains
    /// most of that time.
    fn unsampled(&mut self, time: Nanos, reclaim: Nanos) {
        let system = take_part(&mut self.usage.system, time + reclaim);
        let system = system.saturating_sub(reclaim);
        let faults = fault_time(&self.usage, self.page_fault).min(time);
        (self.usage.minor_faults, self.usage.major_faults) = (0, 0);
        let explains_kernel = faults.ns() >= system.ns() / 2;
        let faults = if explains_kernel && faults.ns() >= time.ns() / MIN_FAULT_SHARE {
            faults.max(system)
        } else {
            Nanos::ZERO
        };
        let kernel = system.saturating_sub(faults);
        self.work(AttachCauseKind::PageFault, faults);
        let kernel_kind = self.spinning();
        let kernel_kind = kernel_kind.unwrap_or(AttachCauseKind::Kernel { is_sampled: false });
        self.work(kernel_kind, kernel);
        let own = time.saturating_sub(faults + kernel);
        self.work(AttachCauseKind::Execution, own);
    }

    /// Adds execution time.
    fn work(&mut self, kind: AttachCauseKind, time: Nanos) {
        let kind = if self.is_before {
            AttachCauseKind::Overrun { of: Box::new(kind) }
        } else {
            kind
        };
        self.add(kind, time);
    }

    /// Returns the mutex that the thread spun on in the kernel while the holder of the mutex ran.
    fn spinning(&self) -> Option<AttachCauseKind> {
        let (_, holder) = self.usage.spun_for?;
        Some(AttachCauseKind::Lock {
            is_mutex: true,
            site: None,
            holder: Some(holder.to_string()),
            state: Some(HolderState::Ran),
        })
    }

    /// Returns where a sample found the thread.
    fn place(&self, sample: &StackSample) -> AttachCauseKind {
        if sample.kernel.is_empty() {
            return AttachCauseKind::UserCode;
        }
        let symbols = self.names.symbols();
        // From the outermost function: a page fault may be in a system call.
        let mut is_inside = false;
        let mut inner = None;
        for &address in sample.kernel.iter().rev() {
            let name = symbols.kernel_name(address);
            let name = name.split('+').next().unwrap_or_default();
            let call = symbols.system_call(address);
            if call == Some("futex")
                && let Some(lock) = self.spinning()
            {
                return lock;
            }
            if let Some(call) = call {
                return AttachCauseKind::SystemCall { call: call.into() };
            }
            if FAULTS.contains(&name) {
                return AttachCauseKind::PageFault;
            }
            if is_inside && inner.is_none() && !DISPATCHERS.contains(&name) {
                inner = Some(name.to_owned());
            }
            is_inside |= DISPATCHERS.contains(&name);
        }
        inner.map_or(AttachCauseKind::Kernel { is_sampled: true }, |call| {
            AttachCauseKind::SystemCall { call }
        })
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{ThreadName, Tid, WokenBy};

    use super::*;

    fn activation(faults: u32, system: Nanos) -> ThreadActivation {
        let woken = WokenBy::Thread(Tid(1), ThreadName::default());
        let times = [Nanos::ZERO, Nanos::ZERO, Nanos::from_ms(5)];
        ThreadActivation {
            usage: ThreadUsage {
                system,
                minor_faults: faults,
                ..ThreadUsage::default()
            },
            ..ThreadActivation::new(woken, Cpu(0), times)
        }
    }

    /// 2 ms of page faults per activation, seen as 4 ms in each second one.
    #[test]
    fn steps_of_the_tick_are_spread() {
        let mut kernel = KernelTime::default();
        let mut spread = |faults: u32, system: u64| {
            let mut activation = activation(faults, Nanos::from_ms(system));
            kernel.spread(&mut activation, Nanos::from_us(2));
            activation.usage.system
        };

        let steps: Vec<Nanos> = [0, 4, 0, 4].map(|system| spread(1_000, system)).to_vec();
        assert_eq!(steps, [Nanos::from_ms(2); 4]);
        // Without faults, the steps stay.
        assert_eq!(
            [0, 4].map(|system| spread(0, system)),
            [Nanos::ZERO, Nanos::from_ms(4)]
        );
    }
}
