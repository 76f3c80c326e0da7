//! Remedies that `doctor` and `why` print, and which of them a test has shown to work.

use crate::CaveatKind;

/// A remedy against late wakeups.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Remedy {
    /// Keeps CPUs out of deep idle states.
    HoldAwake,
    /// Boots with `idle=poll`.
    PollIdle,
    /// Has the hypervisor poll before it stops an idle CPU.
    HaltPoll,
    /// Gives the virtual machine CPUs that no other uses.
    DedicatedCpus,
    /// Disables system management interrupts in the firmware.
    Firmware,
    /// Keeps a thread off the CPU.
    MoveThread,
    /// Moves an interrupt to another CPU.
    MoveIrq,
    /// Isolates the CPU from timers and calls of other CPUs.
    IsolateCpu,
    /// Runs the application above the threads that run softirqs.
    AboveSoftirqs,
    /// Keeps the source of softirqs off the CPU.
    MoveSoftirqs,
    /// Uses a kernel that can be preempted in more places.
    PreemptKernel,
    /// Runs the application at a higher priority.
    RaisePriority,
    /// Raises the CPU quota of a control group.
    RaiseQuota,
    /// Raises the weight of a control group.
    RaiseWeight,
    /// Disables autogroups.
    DisableAutogroup,
    /// Disables real-time throttling.
    RtRuntime,
    /// Gives the fair server no time.
    FairServer,
    /// Raises the runtime of a `SCHED_DEADLINE` thread.
    DeadlineBudget,
    /// Pins threads to CPUs.
    Pin,
    /// Locks memory.
    LockMemory,
    /// Keeps timers on the CPU that arms them.
    TimerMigration,
    /// Changes what the application does in its cycles.
    ChangeProgram,
    /// Gives laggard less to do.
    LessMeasuring,
    /// Changes a driver, priority or affinity on Windows.
    Windows,
    /// Changes a setting that `doctor` found.
    Setting(CaveatKind),
}

impl Remedy {
    /// Returns the test that applies the remedy and shows that the delay is gone;
    /// `None`: no test does.
    ///
    /// This is the only table of tested remedies.
    pub const fn test(self) -> Option<&'static str> {
        match self {
            Self::MoveThread => Some("moving_the_thread_removes_its_delay"),
            Self::RaisePriority => Some("raising_the_priority_removes_the_delay"),
            Self::RaiseQuota | Self::Setting(CaveatKind::CpuQuota) => {
                Some("lifting_the_quota_removes_the_throttling")
            }
            Self::RaiseWeight => Some("raising_the_weight_removes_the_delay"),
            Self::RtRuntime => Some("disabling_realtime_throttling_removes_its_delay"),
            Self::FairServer => Some("disabling_the_fair_server_removes_its_delay"),
            Self::DeadlineBudget => {
                Some("raising_the_runtime_removes_the_throttling_of_a_deadline_thread")
            }
            Self::LockMemory => Some("locking_memory_removes_the_page_faults"),
            _ => None,
        }
    }

    /// Returns whether a test shows that it works.
    pub const fn is_tested(self) -> bool {
        self.test().is_some()
    }

    /// Returns the remedy against a setting of this kind; `None`: its advice concerns
    /// the measurement and not the machine's latency.
    pub const fn of_setting(kind: CaveatKind) -> Option<Self> {
        match kind {
            CaveatKind::RtThrottling
            | CaveatKind::IdleStates
            | CaveatKind::Governor
            | CaveatKind::Turbo
            | CaveatKind::Preemption
            | CaveatKind::DebugKernel
            | CaveatKind::TickRate
            | CaveatKind::Tickless
            | CaveatKind::Mitigations
            | CaveatKind::Siblings
            | CaveatKind::Swap
            | CaveatKind::HugePages
            | CaveatKind::NumaBalancing
            | CaveatKind::Watchdog
            | CaveatKind::IrqBalance
            | CaveatKind::TimerMigration
            | CaveatKind::Autogroup
            | CaveatKind::VirtualMachine
            | CaveatKind::Clocksource
            | CaveatKind::CpuQuota => Some(Self::Setting(kind)),
            _ => None,
        }
    }

    /// Returns the remedy in these words, marked if no test shows that it works.
    pub fn label(self, words: &str) -> String {
        if self.is_tested() {
            return words.to_owned();
        }
        match words.strip_suffix('.') {
            Some(sentence) => format!("{sentence} (untested)."),
            None => format!("{words} (untested)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A remedy is tested if its test exists.
    #[test]
    fn tests_of_remedies_exist() {
        let tests: String = [
            "cli/tests/system/why_root.rs",
            "cli/tests/system/attach_root/remedies.rs",
            "testkit/tests/system/kernels/remedies.rs",
        ]
        .map(|file| {
            let path = format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(path).unwrap()
        })
        .concat();
        for remedy in [
            Remedy::MoveThread,
            Remedy::RaisePriority,
            Remedy::RaiseQuota,
            Remedy::RaiseWeight,
            Remedy::RtRuntime,
            Remedy::FairServer,
            Remedy::DeadlineBudget,
            Remedy::LockMemory,
        ] {
            let name = remedy.test().unwrap();

            assert!(tests.contains(&format!("\nfn {name}()")), "{name}");
        }
    }

    #[test]
    fn label_marks_untested_remedies_before_the_full_stop() {
        let label = |remedy: Remedy, words| remedy.label(words);

        assert_eq!(label(Remedy::MoveIrq, "Move it."), "Move it (untested).");
        assert_eq!(label(Remedy::MoveIrq, "`move`"), "`move` (untested)");
        assert_eq!(label(Remedy::RaiseQuota, "Raise it."), "Raise it.");
    }
}
