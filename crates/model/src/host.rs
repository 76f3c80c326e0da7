//! Identity of the measured machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CpuList, Nanos};

/// Processor and layout of its logical CPUs.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Processor {
    /// Model name of the processor.
    pub model: String,
    /// Microcode revision, if the kernel reports it.
    pub microcode: Option<String>,
    /// Number of sockets.
    pub sockets: u32,
    /// Total number of cores.
    pub cores: u32,
    /// Number of logical CPUs online.
    pub threads: u32,
    /// Groups of logical CPUs that share a core, if cores have several.
    pub siblings: Vec<CpuList>,
}

/// Frequency scaling of one group of CPUs.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct CpuFreq {
    /// CPUs of the group.
    pub cpus: CpuList,
    /// Governor, such as `performance` or `powersave`.
    pub governor: String,
    /// Driver.
    pub driver: Option<String>,
}

/// Idle state that the kernel may enter.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Idle {
    /// Name, such as `C6`.
    pub name: String,
    /// Exit latency according to the driver.
    pub exit_ns: Nanos,
    /// Whether the state is disabled on every CPU.
    pub disabled: bool,
}

/// CPUs isolated from the rest of the system.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Isolation {
    /// `isolcpus=`.
    pub isolated: CpuList,
    /// `nohz_full=`.
    pub nohz_full: CpuList,
    /// Offline CPUs.
    pub offline: CpuList,
}

/// Limit of the run time of real-time threads.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Throttling {
    /// `sched_rt_period_us`.
    pub period_ns: Nanos,
    /// `sched_rt_runtime_us`; `None` for no limit. Since Linux 6.12 it throttles
    /// threads only in control groups (`CONFIG_RT_GROUP_SCHED`).
    pub runtime_ns: Option<Nanos>,
    /// The kernel's fair server, since Linux 6.12; `None` if it does not exist or could not be
    /// read.
    #[serde(default)]
    pub fair_server: Option<FairServer>,
}

/// Guaranteed time of waiting normal threads on a CPU with busy real-time threads.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct FairServer {
    /// Period.
    pub period_ns: Nanos,
    /// Guaranteed time per period; 0 for none.
    pub runtime_ns: Nanos,
}

/// Clock source of the kernel.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Clocksource {
    /// Current clock source.
    pub current: String,
    /// Available clock sources.
    pub available: Vec<String>,
}

/// Kernel features and background work that affect latency. `None` if the kernel does
/// not report or have it.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct Settings {
    /// Whether the kernel has type information (BTF) for BPF.
    pub btf: bool,
    /// Whether there are hardware performance counters.
    pub pmu: bool,
    /// Steal time since boot, all CPUs together.
    pub stolen_ns: Option<Nanos>,
    /// Swap space in bytes.
    pub swap_bytes: Option<u64>,
    /// Whether pages are moved between NUMA nodes.
    pub numa_balancing: Option<bool>,
    /// Whether the lockup detectors run.
    pub watchdog: Option<bool>,
    /// Whether the watchdog uses non-maskable interrupts.
    pub nmi_watchdog: Option<bool>,
    /// Whether timers may move from idle CPUs to busy ones.
    pub timer_migration: Option<bool>,
    /// Whether each session's normal threads share one scheduling weight.
    pub autogroup: Option<bool>,
    /// Whether a daemon moves interrupts between CPUs.
    pub irqbalance: bool,
}

/// Properties of the measured machine that affect latency. Facts that the kernel does not report
/// are `None` or empty.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Host {
    /// Name of the machine.
    pub node: String,
    /// Distribution, from `os-release`.
    pub distribution: Option<String>,
    /// Kernel release, such as `6.12.9-rt`.
    pub kernel: String,
    /// Kernel build, such as `#1 SMP PREEMPT_DYNAMIC ...`.
    pub build: String,
    /// Machine architecture.
    pub architecture: String,
    /// Preemption model in effect, such as `none` or `rt`.
    pub preemption: Option<String>,
    /// Timer ticks per second, from the kernel's configuration.
    pub hz: Option<u32>,
    /// Kernel options that affect latency, as `CONFIG_X=y`.
    pub config: Vec<String>,
    /// Command line of the kernel.
    pub command_line: String,
    /// Processor.
    pub processor: Processor,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Frequency scaling; empty without it.
    pub frequency: Vec<CpuFreq>,
    /// Whether turbo frequencies are allowed.
    pub turbo: Option<bool>,
    /// Idle states of the first CPU; empty without them.
    pub idle: Vec<Idle>,
    /// Idle driver and governor, such as `haltpoll`.
    pub idle_driver: Option<String>,
    /// Isolated CPUs.
    pub isolation: Isolation,
    /// Real-time throttling.
    pub throttling: Option<Throttling>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// Processor vulnerabilities, with the kernel's mitigation of each.
    pub mitigations: Vec<String>,
    /// Clock source.
    pub clocksource: Clocksource,
    /// Hypervisor, if the machine is virtual.
    pub hypervisor: Option<String>,
    /// Lockdown level: `none`, `integrity` or `confidentiality`; `at least integrity`
    /// if only the level at boot can be read.
    pub lockdown: Option<String>,
    /// Kernel features and background work.
    #[serde(default)]
    pub settings: Settings,
    /// Board, firmware, file system and devices.
    #[serde(default)]
    pub hardware: Hardware,
}

/// Board, firmware, file system and devices (OSDI'99 Table 2). Parts that the kernel does not
/// report are absent or empty.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Hardware {
    /// Vendor and name of the board.
    pub board: Option<String>,
    /// Vendor and version of the firmware.
    pub firmware: Option<String>,
    /// Type of the root file system, such as `ext4`.
    pub file_system: Option<String>,
    /// Model (or driver) of each disk, with its I/O scheduler in brackets.
    pub disks: Vec<String>,
    /// Drivers of graphics devices.
    pub graphics: Vec<String>,
    /// Drivers of audio devices.
    pub audio: Vec<String>,
    /// Drivers of network devices.
    pub network: Vec<String>,
}

/// Start of [`Host::kernel`] of a machine with Windows.
const WINDOWS: &str = "Windows ";

impl Host {
    /// Returns the host of a Windows trace of this version, such as `10.0.19045`.
    #[must_use]
    pub fn windows(version: &str) -> Self {
        Self {
            kernel: format!("{WINDOWS}{version}"),
            ..Self::default()
        }
    }

    /// Returns whether the kernel is expected to have a fair server, which runs normal
    /// threads above every real-time priority: Linux 6.12 and later. `laggard doctor
    /// --prove rt_throttling` measures it.
    pub fn has_fair_server(&self) -> bool {
        let mut numbers = self.kernel.split(|letter: char| !letter.is_ascii_digit());
        let mut number = || numbers.next()?.parse::<u32>().ok();
        number()
            .zip(number())
            .is_some_and(|version| version >= (6, 12))
    }

    /// Returns whether control groups limit real-time threads. `sched_rt_runtime_us`
    /// then stops threads on Linux 6.12 and later too.
    pub fn has_rt_groups(&self) -> bool {
        self.config
            .iter()
            .any(|option| option == "CONFIG_RT_GROUP_SCHED=y")
    }

    /// Returns the system with its version: `Linux 6.12.9-rt`, `Windows 10.0.19045`.
    #[must_use]
    pub fn system(&self) -> String {
        Self::system_of(&self.kernel)
    }

    /// Returns the system with the version `kernel`.
    #[must_use]
    pub fn system_of(kernel: &str) -> String {
        if Self::is_windows_kernel(kernel) {
            kernel.into()
        } else {
            format!("Linux {kernel}")
        }
    }

    /// Returns whether the system is Windows.
    #[must_use]
    pub fn is_windows(&self) -> bool {
        Self::is_windows_kernel(&self.kernel)
    }

    /// Returns whether this is a version of Windows.
    #[must_use]
    pub fn is_windows_kernel(kernel: &str) -> bool {
        kernel.starts_with(WINDOWS)
    }
}
