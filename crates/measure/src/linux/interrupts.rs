//! Interrupts of the CPU itself that have a number: the timer, and calls from other CPUs (IPIs).
//!
//! On x86 these interrupts are not numbered, and the kernel reports them with the tracepoints
//! `irq_vectors`. On arm64 and riscv64 they are ordinary per-CPU interrupts, which
//! `irq_handler_entry` reports. Their meaning is the same, so laggard shows them alike.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use std::{fs, io};

use laggard_model::Vector;

/// Whether interrupts of the CPU itself have a number on this architecture.
pub(super) const HAVE_NUMBERS: bool = !cfg!(any(target_arch = "x86", target_arch = "x86_64"));

/// Maximum number of timer interrupts; `TIMER_IRQS` of `bpf/timer_irq.h`.
const MAX_TIMERS: usize = 4;

/// Names of per-CPU timers in `/proc/interrupts`. Exynos numbers its timers: `mct_tick0`.
const TIMERS: [&str; 5] = [
    "arch_timer",
    "arch_mem_timer",
    "riscv-timer",
    "twd",
    "mct_tick",
];

/// Name of an IPI in `/sys/kernel/irq/*/actions`.
const IPI: &str = "IPI";

/// Meaning of the numbered interrupts of the CPU itself.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct CpuInterrupts {
    vectors: BTreeMap<u32, Vector>,
}

impl CpuInterrupts {
    /// Returns the interrupts of this machine, which do not change while it runs. Empty on x86.
    pub(super) fn of_machine() -> &'static Self {
        static INTERRUPTS: OnceLock<CpuInterrupts> = OnceLock::new();
        INTERRUPTS.get_or_init(|| {
            if HAVE_NUMBERS {
                // Without these files the interrupts are shown by number.
                Self::read(Path::new("/")).unwrap_or_default()
            } else {
                Self::default()
            }
        })
    }

    /// Reads the interrupts from files of the kernel below `root`.
    fn read(root: &Path) -> io::Result<Self> {
        let list = fs::read_to_string(root.join("proc/interrupts"))?;
        let mut vectors = BTreeMap::new();
        for entry in fs::read_dir(root.join("sys/kernel/irq"))? {
            let directory = entry?.path();
            let number = directory.file_name().and_then(|name| name.to_str());
            let Some(number) = number.and_then(|name| name.parse().ok()) else {
                continue;
            };
            let text = |file: &str| fs::read_to_string(directory.join(file)).unwrap_or_default();
            let vector = match text("actions").trim() {
                IPI => ipi(&list, text("hwirq").trim()),
                actions if is_timer(actions) => Some(Vector::LocalTimer),
                _ => None,
            };
            vectors.extend(vector.map(|vector| (number, vector)));
        }
        Ok(Self { vectors })
    }

    /// Returns the meaning of an interrupt, or `None` if it is an interrupt of a device.
    pub(super) fn vector(&self, number: u32) -> Option<Vector> {
        self.vectors.get(&number).copied()
    }

    /// Returns the timer interrupts as an input of BPF programs.
    pub(super) fn timer_input(&self) -> Vec<u8> {
        let timers = self.numbers(Vector::LocalTimer);
        let padded = timers.chain(std::iter::repeat(0)).take(MAX_TIMERS);
        padded.flat_map(u32::to_ne_bytes).collect()
    }

    /// Returns the interrupt that another CPU sends to have this CPU call a function.
    pub(super) fn call(&self) -> Option<u32> {
        self.numbers(Vector::CallFunctionSingle).next()
    }

    fn numbers(&self, vector: Vector) -> impl Iterator<Item = u32> {
        let of_vector = self.vectors.iter().filter(move |entry| *entry.1 == vector);
        of_vector.map(|(&number, _)| number)
    }
}

/// Returns the timer of this machine if its interrupts lack a tracepoint. On x86 that is every
/// timer but the local APIC's, for example the hypervisor's under Hyper-V (WSL2, Azure) and Xen.
pub(super) fn timer_without_tracepoint() -> Option<String> {
    if HAVE_NUMBERS {
        return None;
    }
    timer_other_than_apic(Path::new("/"))
}

/// Returns the timer of CPU 0 from files of the kernel below `root`, unless it is the local APIC's.
fn timer_other_than_apic(root: &Path) -> Option<String> {
    const DEVICE: &str = "sys/devices/system/clockevents/clockevent0/current_device";
    let device = fs::read_to_string(root.join(DEVICE)).ok()?;
    let device = device.trim();
    (!device.is_empty() && !device.starts_with("lapic")).then(|| device.to_owned())
}

fn is_timer(actions: &str) -> bool {
    TIMERS
        .iter()
        .any(|timer| actions.trim_end_matches(|c: char| c.is_ascii_digit()) == *timer)
}

/// Returns the meaning of an IPI from its line in `/proc/interrupts`, which starts with its number
/// at the interrupt controller: `IPI1:  2012  1835  Function call interrupts`.
fn ipi(list: &str, number: &str) -> Option<Vector> {
    let label = format!("{IPI}{number}");
    let line = list.lines().find_map(|line| {
        let (first, rest) = line.split_once(':')?;
        (first.trim() == label).then_some(rest)
    })?;
    let is_count = |c: char| c.is_ascii_digit() || c.is_whitespace();
    match line.trim_start_matches(is_count).trim_end() {
        "Rescheduling interrupts" => Some(Vector::Reschedule),
        // The architecture does not distinguish calls of one CPU and of several.
        "Function call interrupts" => Some(Vector::CallFunctionSingle),
        // Another CPU's timer serves this CPU, whose timer stops in a deep idle state.
        "Timer broadcast interrupts" => Some(Vector::LocalTimer),
        "IRQ work interrupts" => Some(Vector::IrqWork),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian's kernel 6.12 on two CPUs of QEMU's machine `virt`.
    const LIST: &str = "           CPU0       CPU1
 11:      14495       9120    GICv3  27 Level     arch_timer
 13:        122          0    GICv3  33 Level     uart-pl011
IPI0:       501        498       Rescheduling interrupts
IPI1:      2012       1835       Function call interrupts
IPI2:         0          0       CPU stop interrupts
IPI4:         3          4       Timer broadcast interrupts
IPI5:         7          0       IRQ work interrupts
Err:          0
";

    #[test]
    fn timer_of_a_hypervisor_has_no_tracepoint() {
        let root = tempfile::tempdir().unwrap();
        let directory = root
            .path()
            .join("sys/devices/system/clockevents/clockevent0");
        fs::create_dir_all(&directory).unwrap();
        assert_eq!(timer_other_than_apic(root.path()), None);
        for (device, expected) in [
            ("lapic-deadline\n", None),
            ("lapic\n", None),
            ("Hyper-V clockevent\n", Some("Hyper-V clockevent")),
            ("hpet\n", Some("hpet")),
        ] {
            fs::write(directory.join("current_device"), device).unwrap();

            assert_eq!(timer_other_than_apic(root.path()).as_deref(), expected);
        }
    }

    fn machine(entries: &[(u32, &str, &str)]) -> CpuInterrupts {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join("proc/interrupts"), LIST).unwrap();
        for (number, hwirq, actions) in entries {
            let directory = root.path().join(format!("sys/kernel/irq/{number}"));
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("hwirq"), format!("{hwirq}\n")).unwrap();
            fs::write(directory.join("actions"), format!("{actions}\n")).unwrap();
        }
        CpuInterrupts::read(root.path()).unwrap()
    }

    #[test]
    fn timer_and_ipis_are_found_by_name_and_by_number_at_the_controller() {
        let interrupts = machine(&[
            (1, "0", "IPI"),
            (2, "1", "IPI"),
            (3, "2", "IPI"),
            (5, "4", "IPI"),
            (6, "5", "IPI"),
            (9, "29", ""),
            (11, "27", "arch_timer"),
            (13, "33", "uart-pl011"),
        ]);

        for (number, vector) in [
            (1, Some(Vector::Reschedule)),
            (2, Some(Vector::CallFunctionSingle)),
            (3, None),
            (5, Some(Vector::LocalTimer)),
            (6, Some(Vector::IrqWork)),
            (9, None),
            (11, Some(Vector::LocalTimer)),
            (13, None),
        ] {
            assert_eq!(interrupts.vector(number), vector, "{number}");
        }
        assert_eq!(interrupts.call(), Some(2));
        let input: Vec<u8> = [5_u32, 11, 0, 0]
            .into_iter()
            .flat_map(u32::to_ne_bytes)
            .collect();
        assert_eq!(interrupts.timer_input(), input);
    }

    #[test]
    fn timer_with_a_number_in_its_name_is_a_timer_and_a_similar_name_is_not() {
        assert!(is_timer("mct_tick0") && is_timer("riscv-timer"));
        assert!(!is_timer("timer") && !is_timer("kvm guest vtimer") && !is_timer(""));
    }
}
