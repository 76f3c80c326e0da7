//! Where a thread's execution time went: user code, system calls, page faults.

use laggard_model::{CauseClass, Cpu, Evidence, Nanos, StackSample};

use super::{OVERRUN, OWN_WORK, Told};
use crate::attach::row::AttachTaken;

/// Functions with which system calls start, by architecture; the name follows.
const CALL_PREFIXES: [&str; 6] = [
    "__x64_sys_",
    "__arm64_sys_",
    "__riscv_sys_",
    "__ia32_sys_",
    "__do_sys_",
    "__se_sys_",
];
/// Functions that call them. A compiler may leave them out, and go to an inner function.
const DISPATCHERS: [&str; 5] = [
    "do_syscall_64",
    "x64_sys_call",
    "invoke_syscall",
    "el0_svc_common.constprop.0",
    "do_trap_ecall_u",
];
/// Functions with which page faults of user code start.
const FAULTS: [&str; 4] = [
    "asm_exc_page_fault",
    "exc_page_fault",
    "do_user_addr_fault",
    "do_page_fault",
];

/// Where a sample found a thread.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Place {
    User,
    Call(String),
    Fault,
    Kernel,
}

impl<E: Fn(Cpu, Nanos, Nanos) -> Evidence> Told<'_, E> {
    /// Divides execution time by the samples that were taken in it.
    pub(super) fn execution(&mut self, _cpu: Cpu, time: Nanos, samples: &[&StackSample]) {
        if self.is_before {
            self.add(AttachTaken {
                class: Some(CauseClass::Overrun),
                ..AttachTaken::own(OVERRUN, time)
            });
            return;
        }
        if samples.is_empty() {
            let system = self.system.min(time);
            self.system = self.system.saturating_sub(system);
            self.add(AttachTaken {
                class: Some(CauseClass::SystemCall),
                ..AttachTaken::own(
                    "execution time in the kernel (--stack-rate names the system call)",
                    system,
                )
            });
            self.add(AttachTaken::own(OWN_WORK, time.saturating_sub(system)));
            return;
        }
        let mut counts = std::collections::BTreeMap::<Place, u64>::new();
        for sample in samples {
            *counts.entry(self.place(sample)).or_default() += 1;
        }
        let total = samples.len() as u64;
        let mut left = time;
        let last = counts.len() - 1;
        for (number, (place, count)) in counts.into_iter().enumerate() {
            let share = u128::from(time.ns()) * u128::from(count) / u128::from(total);
            let share = match number == last {
                true => left,
                false => Nanos::from_ns(u64::try_from(share).unwrap_or(u64::MAX)).min(left),
            };
            left = left.saturating_sub(share);
            let (what, class) = match place {
                Place::User => ("execution time in user code (own work)".into(), None),
                Place::Call(name) => (
                    format!("execution time in {name}()"),
                    Some(CauseClass::SystemCall),
                ),
                Place::Fault => (
                    "execution time in page faults".into(),
                    Some(CauseClass::PageFault),
                ),
                Place::Kernel => (
                    "execution time in the kernel".into(),
                    Some(CauseClass::SystemCall),
                ),
            };
            self.add(AttachTaken {
                class,
                ..AttachTaken::own(&what, share)
            });
        }
    }

    fn place(&self, sample: &StackSample) -> Place {
        if sample.kernel.is_empty() {
            return Place::User;
        }
        let symbols = self.names.symbols();
        // From the outside: a page fault may be in a system call.
        let mut is_inside = false;
        let mut inner = None;
        for &address in sample.kernel.iter().rev() {
            let name = symbols.kernel_name(address);
            let name = name.split('+').next().unwrap_or_default();
            let call = CALL_PREFIXES
                .iter()
                .find_map(|prefix| name.strip_prefix(prefix));
            if let Some(call) = call {
                return Place::Call(call.into());
            }
            if FAULTS.contains(&name) {
                return Place::Fault;
            }
            if is_inside && inner.is_none() && !DISPATCHERS.contains(&name) {
                inner = Some(name.to_owned());
            }
            is_inside |= DISPATCHERS.contains(&name);
        }
        if let Some(inner) = inner {
            return Place::Call(inner);
        }
        Place::Kernel
    }
}
