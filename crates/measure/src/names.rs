//! Names that are available during the measurement.
//!
//! Reading symbol tables takes CPU time, so it is done once, before the measurement. Later each
//! new address costs a search in memory. User code is not named here: its tables are read when a
//! recording ends.

use std::collections::BTreeMap;
use std::fs;

use laggard_model::{Address, Names, Symbols, Tid, printable};

use crate::go_program::is_go_program;
use crate::groups::SchedGroups;
use crate::kernel_symbols::KernelSymbols;
use crate::own::OwnThreads;
use crate::symbols::devices_of;

/// Maximum number of file descriptors with names.
const MAX_DESCRIPTORS: usize = 4_096;

/// Names of kernel functions, interrupts and file descriptors.
#[derive(Debug)]
pub struct LiveNames {
    kernel: KernelSymbols,
    symbols: Symbols,
    own: OwnThreads,
    groups: SchedGroups,
    /// Kinds of file descriptors, by process and number.
    descriptors: BTreeMap<(u32, u64), String>,
    is_in_pid_namespace: bool,
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
            descriptors: BTreeMap::new(),
            is_in_pid_namespace: is_in_pid_namespace(),
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

    /// Reads the link in `/proc`. The file itself is not opened.
    fn descriptor(&mut self, process: u32, number: u64) -> Option<String> {
        let key = (process, number);
        if let Some(name) = self.descriptors.get(&key) {
            return Some(name.clone());
        }
        // The kernel's number of a process is another process's here.
        if self.descriptors.len() >= MAX_DESCRIPTORS || self.is_in_pid_namespace {
            return None;
        }
        let target = fs::read_link(format!("/proc/{process}/fd/{number}")).ok()?;
        let target = target.to_string_lossy();
        let name = descriptor_name(&target);
        // A file descriptor may refer to another file the next time.
        if !target.starts_with('/') {
            self.descriptors.insert(key, name.clone());
        }
        Some(name)
    }

    fn is_go(&mut self, process: u32) -> bool {
        !self.is_in_pid_namespace && is_go_program(process)
    }

    fn symbols(&self) -> &Symbols {
        &self.symbols
    }
}

/// Returns whether process numbers here differ from the kernel's.
fn is_in_pid_namespace() -> bool {
    // PROC_PID_INIT_INO
    const INITIAL: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() != INITIAL)
}

/// Names the target of a descriptor without what differs from one run to the next:
/// `pipe:[4711]` is `pipe`, `anon_inode:[eventpoll]` is `eventpoll`.
fn descriptor_name(target: &str) -> String {
    let kind = match target.split_once(':') {
        Some(("anon_inode", kind)) => kind.trim_matches(['[', ']']),
        Some((kind, number)) if !kind.contains('/') && number.starts_with('[') => kind,
        _ => target,
    };
    printable(kind).to_string()
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

    #[test]
    fn descriptor_is_named_by_its_path_or_kind() {
        use std::os::fd::AsRawFd as _;

        let mut names = LiveNames::read();
        let file = fs::File::open("/dev/null").unwrap();
        let (pipe, _write) = std::io::pipe().unwrap();
        let mut name =
            |number: i32| names.descriptor(std::process::id(), number.cast_unsigned().into());

        assert_eq!(name(file.as_raw_fd()).as_deref(), Some("/dev/null"));
        assert_eq!(name(pipe.as_raw_fd()).as_deref(), Some("pipe"));
        assert_eq!(name(i32::MAX), None);
        assert_eq!(descriptor_name("anon_inode:[eventpoll]"), "eventpoll");
        assert_eq!(descriptor_name("anon_inode:inotify"), "inotify");
        assert_eq!(descriptor_name("/tmp/a:[1]"), "/tmp/a:[1]");
        assert_eq!(descriptor_name("/tmp/\u{1b}[2J"), "/tmp/\\x1b[2J");
    }

    /// Without root, the addresses in /proc/kallsyms are zero.
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
