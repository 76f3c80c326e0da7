//! Names that are available during the measurement.
//!
//! Reading symbol tables takes CPU time, so it is done once, before the measurement. Later each
//! new address costs a search in memory. User code has no names: its tables are read when a
//! recording ends.

use std::fs;

use laggard_model::{Address, Names, Symbols, Tid};

use crate::groups::SchedGroups;
use crate::kernel_symbols::KernelSymbols;
use crate::own::OwnThreads;
use crate::symbols::devices_of;

/// Names of kernel functions and interrupts.
#[derive(Debug)]
pub struct LiveNames {
    kernel: KernelSymbols,
    symbols: Symbols,
    own: OwnThreads,
    groups: SchedGroups,
}

impl LiveNames {
    /// Reads the kernel's symbols and the devices of interrupts. An unreadable name stays a bare
    /// address or number.
    pub fn read() -> Self {
        let mut names = Self {
            kernel: KernelSymbols::read(),
            symbols: Symbols::default(),
            own: OwnThreads::default(),
            groups: SchedGroups::default(),
        };
        let numbers = fs::read_dir("/sys/kernel/irq").into_iter().flatten();
        for entry in numbers.flatten() {
            let number = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            if let Some(number) = number
                && let Some(devices) = devices_of(number)
            {
                names.symbols.interrupts.insert(number, devices);
            }
        }
        names
    }

    fn look_up(&mut self, address: Address) {
        self.symbols.kernel.insert(address, self.kernel.at(address));
    }
}

impl Names for LiveNames {
    fn learn_stack(&mut self, addresses: &[Address]) {
        for &address in addresses {
            if !self.symbols.kernel.contains_key(&address) {
                self.look_up(address);
            }
        }
    }

    fn learn_thread(&mut self, tid: Tid) {
        self.own.note(tid);
        if self.own.threads().contains(&tid) {
            self.symbols.own_threads.insert(tid);
        }
    }

    fn learn_quota(&mut self, group: u64) {
        if !self.symbols.quotas.contains_key(&group) {
            self.groups.note_quota(group);
            self.symbols.quotas = self.groups.quotas();
        }
    }

    fn learn_entities(&mut self, tid: Tid) {
        if !self.symbols.entities.contains_key(&tid) {
            self.groups.note_thread(tid);
            self.symbols.entities = self.groups.entities();
        }
    }

    fn symbols(&self) -> &Symbols {
        &self.symbols
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::{Activity, Culprit};

    use super::*;

    #[test]
    fn address_without_a_function_stays_a_bare_address() {
        let mut names = LiveNames::read();
        names.learn(&Culprit {
            frame: Some(Address(16)),
            ..Culprit::default()
        });

        assert_eq!(names.symbols().kernel_name(Address(16)), "0x10");
    }

    /// Without root, /proc/kallsyms shows no addresses.
    #[test]
    fn kernel_function_has_a_name_if_its_symbols_are_readable() {
        let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let of_schedule = symbols.lines().find_map(|line| {
            let (address, rest) = line.split_once(' ')?;
            let address = u64::from_str_radix(address, 16).ok()?;
            (rest == "T schedule" && address != 0).then_some(Address(address))
        });
        let Some(address) = of_schedule else {
            eprintln!("skipped: /proc/kallsyms shows no addresses");
            return;
        };
        let mut names = LiveNames::read();
        names.learn(&Culprit {
            function: Some(Activity::Work(address)),
            ..Culprit::default()
        });

        assert_eq!(names.symbols().kernel_name(address), "schedule");
    }
}
