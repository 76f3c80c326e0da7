//! Trace data without names. A test compares the replaced texts with the schema.

use laggard_model::{Activity, Episode, EpisodeNotes, Happening, Line, Service, Symbol, Tid};

use super::known;
use super::names::{NameSort, Redactor};

/// Parts of culprits that name nothing of the user's.
const PUBLIC_PARTS: [&str; 27] = [
    "mutex",
    "mmap_lock",
    "timer slack",
    "user code",
    "child process",
    "timeout",
    "debugger",
    "signal",
    "a softirq",
    "page faults",
    "pipe",
    "socket",
    "eventpoll",
    "eventfd",
    "timerfd",
    "local timer",
    "reschedule",
    "irq work",
    "thermal",
    "HI",
    "TIMER",
    "NET_TX",
    "NET_RX",
    "BLOCK",
    "TASKLET",
    "SCHED",
    "RCU",
];

/// Returns whether a part of a culprit is public: a fixed text, a system call such as
/// `write()`, or a number such as `fd 4` or `irq 31`.
fn is_public(part: &str) -> bool {
    let is_call = |name: &str| {
        let mut bytes = name.bytes();
        bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    PUBLIC_PARTS.contains(&part)
        || part.strip_suffix("()").is_some_and(is_call)
        || ["fd ", "irq "].iter().any(|prefix| part.strip_prefix(prefix).is_some_and(is_number))
        // Functions of the kernel stay in symbols, too.
        || ["timer ", "work ", "in "].iter().any(|prefix| part.strip_prefix(prefix).is_some_and(is_call))
}

impl Redactor {
    pub(super) fn episode(&mut self, mut episode: Episode) -> Episode {
        let evidence = &mut episode.evidence;
        for event in &mut evidence.events {
            match &mut event.what {
                Happening::Begin(activity) | Happening::End(activity) => self.activity(activity),
                Happening::Switch { name, .. } => *name = self.thread(name),
            }
        }
        for sample in &mut evidence.samples {
            for address in &mut sample.kernel {
                *address = self.address(None, *address);
            }
            for address in &mut sample.user {
                *address = self.address(Some(sample.process), *address);
            }
        }
        for cause in &mut episode.causes {
            cause.who = cause.who.take().map(|who| self.culprit(&who).into());
            let contender = cause.contender.take();
            cause.contender = contender.map(|name| self.thread(&name).into());
        }
        episode
    }

    /// Returns a culprit in words, part by part: equal culprits stay equal, and a thread has
    /// the same replacement as in the names of series.
    fn culprit(&mut self, who: &str) -> String {
        let parts = who.split(", ").map(|part| self.culprit_part(part));
        parts.collect::<Vec<_>>().join(", ")
    }

    fn culprit_part(&mut self, part: &str) -> String {
        // TASK_COMM_LEN without the final 0: longer texts are laggard's.
        const MAX_THREAD_BYTES: usize = 15;
        for prefix in ["held by ", "woken by "] {
            let Some(name) = part.strip_prefix(prefix) else {
                continue;
            };
            if is_public(name) {
                return part.into();
            }
            return format!("{prefix}{}", self.thread(name));
        }
        if is_public(part) {
            part.into()
        } else if part.starts_with('/') {
            self.instead(NameSort::File, part)
        } else if part.len() > MAX_THREAD_BYTES && part.contains(' ') {
            self.sentence(part)
        } else {
            self.thread(part)
        }
    }

    /// Returns a line; an observed thread has a name.
    pub(super) fn line(&mut self, mut line: Line) -> Line {
        match &mut line.service {
            Service::Task(task) => *task = task.renamed(&self.thread(&task.name())),
            Service::Traced(traced) => *traced = traced.renamed(|name| self.driver(name)),
            Service::Irq
            | Service::Softirq
            | Service::Worker
            | Service::Fifo(_)
            | Service::Other
            | Service::Nice(_)
            | Service::Slice(_)
            | Service::Lent(_)
            | Service::Realtime(_)
            | Service::Mmcss
            | Service::Dpc
            | Service::SystemThread(_)
            | Service::Deadline
            | Service::Kthread(_) => {}
        }
        line
    }

    /// Returns a driver of Windows; drivers that come with Windows stay.
    fn driver(&mut self, name: &str) -> String {
        self.unless(known::is_windows_driver(name), NameSort::Device, name)
    }

    fn activity(&mut self, activity: &mut Activity) {
        match activity {
            Activity::Hrtimer(code)
            | Activity::Timer(code)
            | Activity::Work(code)
            | Activity::Poll(code)
            | Activity::Function(code)
            | Activity::Isr(code)
            | Activity::Dpc(code) => *code = self.address(None, *code),
            Activity::Irq(_)
            | Activity::Vector(_)
            | Activity::Softirq(_)
            | Activity::Idle(_)
            | Activity::PageFault => {}
        }
    }

    /// Returns the name of a thread. The prefix of an interrupt thread stays, because
    /// it identifies the interrupt.
    pub(super) fn thread(&mut self, name: &str) -> String {
        if known::is_kernel_thread(name) || known::is_own_thread(name) {
            return name.into();
        }
        match known::interrupt_thread(name) {
            Some((begin, device)) => format!("{begin}{}", self.device(device)),
            None => self.instead(NameSort::Thread, name),
        }
    }

    /// Returns the devices of an interrupt, in the form of the kernel's list, possibly
    /// truncated.
    fn device(&mut self, devices: &str) -> String {
        let each = devices.split(',').map(|device| {
            if known::is_device(device) {
                self.keep(device)
            } else {
                self.instead(NameSort::Device, device)
            }
        });
        each.collect::<Vec<_>>().join(",")
    }

    pub(super) fn notes(&mut self, mut notes: EpisodeNotes) -> EpisodeNotes {
        for handler in notes
            .handlers
            .iter_mut()
            .flat_map(|counts| &mut counts.handlers)
        {
            self.activity(&mut handler.activity);
        }
        let symbols = &mut notes.symbols;
        let kernel = std::mem::take(&mut symbols.kernel).into_iter();
        let kernel = kernel
            .map(|(address, symbol)| (self.address(None, address), self.kernel_symbol(symbol)));
        symbols.kernel = kernel.collect();
        for (&process, user) in &mut symbols.user {
            let is_own = symbols.own_threads.contains(&Tid(process));
            let replaced = std::mem::take(user).into_iter().map(|(address, symbol)| {
                let address = self.address(Some(process), address);
                (address, self.user_symbol(symbol, is_own))
            });
            *user = replaced.collect();
        }
        for devices in symbols.interrupts.values_mut() {
            *devices = self.device(devices);
        }
        for quota in symbols.quotas.values_mut() {
            quota.group = self.group(&quota.group);
        }
        for entity in symbols.entities.values_mut().flatten() {
            entity.group = self.group(&entity.group);
        }
        notes
    }

    /// Returns a control group with each level of its path replaced separately, so that
    /// two groups stay in one parent.
    fn group(&mut self, path: &str) -> String {
        let levels = path.split('/').map(|level| match level {
            "" => String::new(),
            level => self.instead(NameSort::Group, level),
        });
        levels.collect::<Vec<_>>().join("/")
    }

    fn kernel_symbol(&mut self, symbol: Symbol) -> Symbol {
        let Symbol {
            name,
            module,
            unknown,
        } = symbol;
        Symbol {
            name: name.map(|name| {
                // Location in a driver of Windows.
                if let Some((driver, place)) = name.split_once("+0x") {
                    return format!("{}+0x{place}", self.driver(driver));
                }
                let program = known::loaded_program(&name);
                let is_known = program.is_none_or(|program| self.programs.contains(program));
                self.unless(is_known, NameSort::Function, &name)
            }),
            module: module.map(|module| self.keep(&module)),
            unknown: unknown.map(|why| self.sentence(&why)),
        }
    }

    fn user_symbol(&mut self, symbol: Symbol, is_own: bool) -> Symbol {
        let Symbol {
            name,
            module,
            unknown,
        } = symbol;
        let is_public = module.as_deref().is_some_and(|module| {
            known::is_system_library(module) || (is_own && module == "laggard")
        });
        Symbol {
            name: name.map(|name| self.unless(is_public, NameSort::Function, &name)),
            module: module.map(|module| self.unless(is_public, NameSort::Program, &module)),
            unknown: unknown.map(|why| self.sentence(&why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_and_laggard_threads_keep_their_names() {
        let mut redactor = Redactor::default();
        for (name, expected) in [
            ("swapper/0", "swapper/0"),
            ("kworker/u8:2", "kworker/u8:2"),
            ("migration/12", "migration/12"),
            ("lag/1/fifo:90d", "lag/1/fifo:90d"),
            ("payroll", "thread-1"),
            // A program can name a thread like these.
            ("kworker/payroll", "thread-2"),
            ("migration/alice", "thread-3"),
            ("ksoftirqd/0 ", "thread-4"),
            ("lag/alice", "thread-5"),
            ("irq/36-virtio1-", "irq/36-virtio1-"),
            ("irq/21-s-alice", "irq/21-s-device-1"),
            ("irq/21-alice", "irq/21-device-1"),
            ("irq/alice-3", "thread-6"),
        ] {
            assert_eq!(redactor.thread(name), expected);
        }
    }

    #[test]
    fn devices_keep_their_names_unless_they_are_private() {
        let mut redactor = Redactor::default();
        for (devices, expected) in [
            ("virtio1-req.0", "virtio1-req.0"),
            ("xhci_hcd,alice0", "xhci_hcd,device-1"),
            ("enp0s31f6-TxRx-0", "enp0s31f6-TxRx-0"),
            // The address of the card.
            ("enx00163eab12cd", "device-2"),
        ] {
            assert_eq!(redactor.device(devices), expected);
        }
    }

    #[test]
    fn common_code_keeps_its_names() {
        let mut redactor = Redactor::default();
        let symbol = |name: &str, module: Option<&str>| Symbol {
            name: Some(name.into()),
            module: module.map(Into::into),
            unknown: None,
        };

        let kernel = redactor.kernel_symbol(symbol("e1000_clean", Some("e1000")));
        let bpf = redactor.kernel_symbol(symbol("bpf_prog_6deef7357e7b4530_payroll", Some("bpf")));
        redactor.programs.insert("on_sched_switch".into());
        let own = "bpf_prog_6deef7357e7b4530_on_sched_switch";
        let own_bpf = redactor.kernel_symbol(symbol(own, Some("bpf")));
        let library = redactor.user_symbol(symbol("clock_gettime", Some("libc.so.6")), false);
        let theirs = redactor.user_symbol(symbol("pay::salary", Some("payroll")), false);
        let named_so = redactor.user_symbol(symbol("pay::salary", Some("laggard")), false);
        let ours = redactor.user_symbol(symbol("main", Some("laggard")), true);
        let nowhere = redactor.user_symbol(symbol("jit::salary", None), true);

        assert_eq!(kernel, symbol("e1000_clean", Some("e1000")));
        let of_windows = redactor.kernel_symbol(symbol("ndis.sys+0x12", None));
        assert_eq!(of_windows, symbol("ndis.sys+0x12", None));
        let own_driver = redactor.kernel_symbol(symbol("payroll.sys+0x12", None));
        let name = own_driver.name.unwrap();
        assert!(
            !name.contains("payroll") && name.ends_with("+0x12"),
            "{name}"
        );
        assert_eq!(bpf, symbol("function-1", Some("bpf")));
        assert_eq!(own_bpf, symbol(own, Some("bpf")));
        assert_eq!(library, symbol("clock_gettime", Some("libc.so.6")));
        assert_eq!(theirs, symbol("function-2", Some("program-1")));
        assert_eq!(named_so, symbol("function-2", Some("program-2")));
        assert_eq!(nowhere, symbol("function-3", None));
        assert_eq!(ours, symbol("main", Some("laggard")));
    }

    #[test]
    fn culprit_of_a_recorded_cause_keeps_what_is_public() {
        let mut redactor = Redactor::default();
        let series = redactor.thread("payroll");
        let mut culprit = |who: &str| redactor.culprit(who);

        assert_eq!(series, "thread-1");
        for (who, redacted) in [
            ("mutex, held by payroll", "mutex, held by thread-1"),
            ("payroll", "thread-1"),
            (
                "munmap(), mmap_lock, held by salary",
                "munmap(), mmap_lock, held by thread-2",
            ),
            (
                "write(), pipe, woken by salary",
                "write(), pipe, woken by thread-2",
            ),
            (
                "read(), fd 4, woken by irq 31",
                "read(), fd 4, woken by irq 31",
            ),
            ("fsync(), /home/ann/pay.db", "fsync(), file-1"),
            (
                "fsync(), /home/ann/pay.db, woken by a softirq",
                "fsync(), file-1, woken by a softirq",
            ),
            ("TIMER, timer hrtimer_wakeup", "TIMER, timer hrtimer_wakeup"),
            ("local timer", "local timer"),
            (
                "page fault or other work of the kernel",
                "page fault or other work of the kernel",
            ),
        ] {
            assert_eq!(culprit(who), redacted);
        }
    }
}
