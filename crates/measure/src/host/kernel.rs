//! The kernel: its build, its configuration and its preemption model.

use super::Files;

/// Options that affect latency. A name that ends in `*` is a prefix.
const OPTIONS: [&str; 29] = [
    "ARM64_PSEUDO_NMI",
    "CPU_FREQ_DEFAULT_GOV_*",
    "CPU_IDLE_GOV_*",
    "DEBUG_ATOMIC_SLEEP",
    "DEBUG_LOCK_ALLOC",
    "DEBUG_MUTEXES",
    "DEBUG_OBJECTS",
    "DEBUG_PREEMPT",
    "DEBUG_SPINLOCK",
    "HIGH_RES_TIMERS",
    "HWLAT_TRACER",
    "HZ",
    "IRQSOFF_TRACER",
    "IRQ_FORCED_THREADING",
    "IRQ_TIME_ACCOUNTING",
    "KASAN",
    "KCSAN",
    "LOCK_STAT",
    "NO_HZ*",
    "OSNOISE_TRACER",
    "PARAVIRT*",
    "PREEMPT*",
    "PROVE_LOCKING",
    "RCU_BOOST",
    "RCU_NOCB_CPU*",
    "RT_GROUP_SCHED*",
    "SCHED_*",
    "SLUB_DEBUG_ON",
    "TIMERLAT_TRACER",
];

/// Build options of the kernel; empty if unknown.
#[derive(Debug, Default)]
pub(super) struct Config(String);

impl Config {
    /// Reads the options from the kernel, or from where distributions store them.
    pub(super) fn read(files: &Files) -> Self {
        let release = files.text("proc/sys/kernel/osrelease").unwrap_or_default();
        let text = files
            .gzipped_text("proc/config.gz")
            .or_else(|| files.text(&format!("boot/config-{release}")))
            .or_else(|| files.text(&format!("lib/modules/{release}/config")));
        Self(text.unwrap_or_default())
    }

    /// Returns the value of `CONFIG_<name>` if it is set.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.lines()
            .find_map(|(key, value)| (key == name).then_some(value))
    }

    /// Returns whether `CONFIG_<name>` is built in.
    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name) == Some("y")
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the lines of the options that affect latency.
    pub(super) fn bearing_on_latency(&self) -> Vec<String> {
        self.lines()
            .filter(|(key, _)| {
                OPTIONS.iter().any(|option| match option.strip_suffix('*') {
                    Some(start) => key.starts_with(start),
                    None => key == option,
                })
            })
            .map(|(key, value)| format!("CONFIG_{key}={value}"))
            .collect()
    }

    fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .lines()
            .filter_map(|line| line.strip_prefix("CONFIG_")?.split_once('='))
    }
}

pub(super) fn distribution(files: &Files) -> Option<String> {
    let text = files
        .text("etc/os-release")
        .or_else(|| files.text("usr/lib/os-release"))?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches(['"', '\'']).to_owned())
}

pub(super) fn architecture(files: &Files) -> String {
    // Kernels before 6.1 do not report it. This program would not run on another architecture.
    files
        .text("proc/sys/kernel/arch")
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Returns the preemption model: `none`, `voluntary`, `lazy`, `full`, `rt`.
pub(super) fn preemption(files: &Files, command_line: &str, config: &Config) -> Option<String> {
    let build = files.text("proc/sys/kernel/version").unwrap_or_default();
    if files.switch("sys/kernel/realtime") == Some(true)
        || config.has("PREEMPT_RT")
        || build.contains("PREEMPT_RT")
    {
        return Some("rt".into());
    }
    // In order of reliability: the current model, the boot option, the build option.
    files
        .chosen("sys/kernel/debug/sched/preempt", '(', ')')
        .or_else(|| parameter(command_line, "preempt"))
        .or_else(|| {
            let model = match config {
                config if config.is_unknown() => return built_in_preemption(&build),
                config if config.has("PREEMPT_LAZY") => "lazy",
                config if config.has("PREEMPT_NONE") => "none",
                config if config.has("PREEMPT_VOLUNTARY") => "voluntary",
                config if config.has("PREEMPT") => "full",
                _ => "none",
            };
            Some(model.into())
        })
}

/// Returns the model from the kernel's build text. It contains `PREEMPT` alone for `full`. It
/// contains neither word if the model is `none` or `voluntary`, or is chosen at boot.
fn built_in_preemption(build: &str) -> Option<String> {
    build
        .split_whitespace()
        .any(|word| word == "PREEMPT")
        .then(|| "full".into())
}

/// Remedy for an arm64 machine whose performance counters are not NMIs.
pub(crate) const NMI_REMEDY: &str = "boot a kernel that has CONFIG_ARM64_PSEUDO_NMI=y with `irqchip.gicv3_pseudo_nmi=1` (arm64 with a GICv3)";

/// Returns whether performance counters raise an interrupt that also interrupts code with
/// interrupts disabled. On arm64 this takes a boot option, which a kernel without
/// `CONFIG_ARM64_PSEUDO_NMI` ignores. Unknown `options` are empty.
pub(crate) fn counters_are_nmi(
    architecture: &str,
    command_line: &str,
    options: impl FnOnce() -> Vec<String>,
) -> bool {
    match architecture {
        "x86_64" | "x86" => true,
        "aarch64" => {
            let value = parameter(command_line, "irqchip.gicv3_pseudo_nmi");
            if !value.is_some_and(|value| matches!(value.as_str(), "1" | "y" | "Y" | "on")) {
                return false;
            }
            let options = options();
            options.is_empty() || options.iter().any(|row| row == "CONFIG_ARM64_PSEUDO_NMI=y")
        }
        _ => false,
    }
}

/// Returns the build options that affect latency; empty if they are unknown.
pub(crate) fn options(files: &Files) -> Vec<String> {
    Config::read(files).bearing_on_latency()
}

/// Returns the last value of `name=` on the kernel's command line, because the kernel uses the
/// last one.
fn parameter(command_line: &str, name: &str) -> Option<String> {
    command_line
        .split_whitespace()
        .filter_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        .next_back()
        .map(str::to_owned)
}

/// Returns the lockdown level. Without securityfs only the boot option and the build option are
/// known. The level may have been raised since then, but never lowered, so the result starts with
/// `at least`.
pub(super) fn lockdown(files: &Files, command_line: &str, config: &Config) -> Option<String> {
    let least = || {
        parameter(command_line, "lockdown").or_else(|| {
            ["CONFIDENTIALITY", "INTEGRITY"]
                .into_iter()
                .find(|level| config.has(&format!("LOCK_DOWN_KERNEL_FORCE_{level}")))
                .map(str::to_lowercase)
        })
    };
    files
        .chosen("sys/kernel/security/lockdown", '[', ']')
        .or_else(|| Some(format!("at least {}", least()?)))
}
