//! The identity of the machine that was measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CpuList, Nanos};

/// The processor and how its logical CPUs are laid out.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Processor {
    /// The name that it gives itself.
    pub model: String,
    /// Microcode revision, where the kernel tells it.
    pub microcode: Option<String>,
    /// Number of sockets.
    pub sockets: u32,
    /// Number of cores in all.
    pub cores: u32,
    /// Number of logical CPUs online.
    pub threads: u32,
    /// Groups of logical CPUs that share a core, where a core has several.
    pub siblings: Vec<CpuList>,
}

/// Frequency scaling of one group of CPUs.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct CpuFreq {
    /// Which CPUs.
    pub cpus: CpuList,
    /// The governor, such as `performance` or `powersave`.
    pub governor: String,
    /// The driver.
    pub driver: Option<String>,
}

/// One idle state that the kernel may enter.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Idle {
    /// Its name, such as `C6`.
    pub name: String,
    /// How long it takes to leave, by the driver's word.
    pub exit_ns: Nanos,
    /// Whether it is disabled on every CPU.
    pub disabled: bool,
}

/// CPUs set apart from the rest of the system.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Isolation {
    /// `isolcpus=`.
    pub isolated: CpuList,
    /// `nohz_full=`.
    pub nohz_full: CpuList,
    /// Offline CPUs.
    pub offline: CpuList,
}

/// How much of a period real-time threads may use.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Throttling {
    /// `sched_rt_period_us`.
    pub period_ns: Nanos,
    /// `sched_rt_runtime_us`; `None`: no limit. Since Linux 6.12 no thread is stopped by
    /// it, but in control groups (`CONFIG_RT_GROUP_SCHED`).
    pub runtime_ns: Option<Nanos>,
    /// The kernel's fair server, since Linux 6.12; `None`: there is none, or it could not
    /// be read.
    #[serde(default)]
    pub fair_server: Option<FairServer>,
}

/// What normal threads that wait are given of a CPU that real-time threads keep.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct FairServer {
    /// Of how long.
    pub period_ns: Nanos,
    /// How much of it; 0: nothing.
    pub runtime_ns: Nanos,
}

/// The kernel's clock source.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Clocksource {
    /// The one in use.
    pub current: String,
    /// All that could be used.
    pub available: Vec<String>,
}

/// Kernel features and background work that bear on latency. `None`: the
/// kernel does not tell, or does not have it.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct Settings {
    /// Whether the kernel has type information (BTF) for BPF.
    pub btf: bool,
    /// Whether there are hardware performance counters.
    pub pmu: bool,
    /// CPU time that the hypervisor took since boot, all CPUs together.
    pub stolen_ns: Option<Nanos>,
    /// Swap space in bytes.
    pub swap_bytes: Option<u64>,
    /// Whether pages are moved between NUMA nodes.
    pub numa_balancing: Option<bool>,
    /// Whether lockups are watched for.
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

/// The identity of the machine that was measured, as far as it bears on
/// latency. What the kernel does not tell is `None` or empty.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Host {
    /// The machine's name.
    pub node: String,
    /// The distribution, from `os-release`.
    pub distribution: Option<String>,
    /// Kernel release, such as `6.12.9-rt`.
    pub kernel: String,
    /// Kernel build, such as `#1 SMP PREEMPT_DYNAMIC ...`.
    pub build: String,
    /// Machine architecture.
    pub architecture: String,
    /// The preemption model that is in force, such as `none` or `rt`.
    pub preemption: Option<String>,
    /// Timer ticks per second, from the kernel's configuration.
    pub hz: Option<u32>,
    /// Kernel options that bear on latency, as `CONFIG_X=y`.
    pub config: Vec<String>,
    /// The kernel's command line.
    pub command_line: String,
    /// The processor.
    pub processor: Processor,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Frequency scaling; empty where there is none.
    pub frequency: Vec<CpuFreq>,
    /// Whether turbo frequencies are allowed.
    pub turbo: Option<bool>,
    /// Idle states of the first CPU; empty where there are none.
    pub idle: Vec<Idle>,
    /// The idle driver and governor, such as `haltpoll`.
    pub idle_driver: Option<String>,
    /// CPUs set apart.
    pub isolation: Isolation,
    /// Real-time throttling.
    pub throttling: Option<Throttling>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// Processor vulnerabilities and what the kernel does about each.
    pub mitigations: Vec<String>,
    /// The clock source.
    pub clocksource: Clocksource,
    /// The hypervisor, where the machine is virtual.
    pub hypervisor: Option<String>,
    /// Lockdown level: `none`, `integrity` or `confidentiality`; `at least
    /// integrity` where only the level at boot can be read.
    pub lockdown: Option<String>,
    /// Kernel features and background work.
    #[serde(default)]
    pub settings: Settings,
}

/// What [`Host::kernel`] of a machine with Windows begins with.
const WINDOWS: &str = "Windows ";

impl Host {
    /// That of a trace of Windows of this version, as `10.0.19045`.
    #[must_use]
    pub fn windows(version: &str) -> Self {
        Self {
            kernel: format!("{WINDOWS}{version}"),
            ..Self::default()
        }
    }

    /// Whether the kernel is expected to have a fair server, which runs normal threads
    /// above every real-time priority: Linux 6.12 and later. `laggard doctor --prove
    /// rt_throttling` measures it.
    pub fn has_fair_server(&self) -> bool {
        let mut numbers = self.kernel.split(|letter: char| !letter.is_ascii_digit());
        let mut number = || numbers.next()?.parse::<u32>().ok();
        number()
            .zip(number())
            .is_some_and(|version| version >= (6, 12))
    }

    /// Whether control groups limit real-time threads. `sched_rt_runtime_us` then stops
    /// threads on Linux 6.12 and later too.
    pub fn has_rt_groups(&self) -> bool {
        self.config
            .iter()
            .any(|option| option == "CONFIG_RT_GROUP_SCHED=y")
    }

    /// The system with its version: `Linux 6.12.9-rt`, `Windows 10.0.19045`.
    #[must_use]
    pub fn system(&self) -> String {
        Self::system_of(&self.kernel)
    }

    /// The system whose version is `kernel`.
    #[must_use]
    pub fn system_of(kernel: &str) -> String {
        if Self::is_windows_kernel(kernel) {
            kernel.into()
        } else {
            format!("Linux {kernel}")
        }
    }

    /// Whether its system is Windows.
    #[must_use]
    pub fn is_windows(&self) -> bool {
        Self::is_windows_kernel(&self.kernel)
    }

    /// Whether this is a version of Windows.
    #[must_use]
    pub fn is_windows_kernel(kernel: &str) -> bool {
        kernel.starts_with(WINDOWS)
    }
}
