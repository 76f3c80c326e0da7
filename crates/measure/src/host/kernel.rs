//! The kernel: its build, its configuration and how it preempts itself.

use super::Files;

/// Options that bear on latency. A name that ends in `*` stands for all that
/// begin so.
const OPTIONS: [&str; 28] = [
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

/// The options with which the kernel was built; none where it does not tell.
#[derive(Debug, Default)]
pub(super) struct Config(String);

impl Config {
    /// From the kernel itself, or from where distributions put it.
    pub(super) fn read(files: &Files) -> Self {
        let release = files.text("proc/sys/kernel/osrelease").unwrap_or_default();
        let text = files
            .gzipped_text("proc/config.gz")
            .or_else(|| files.text(&format!("boot/config-{release}")))
            .or_else(|| files.text(&format!("lib/modules/{release}/config")));
        Self(text.unwrap_or_default())
    }

    /// The value of `CONFIG_<name>`, where it is set.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.lines()
            .find_map(|(key, value)| (key == name).then_some(value))
    }

    /// Whether `CONFIG_<name>` is built in.
    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name) == Some("y")
    }

    /// Whether nothing is known.
    pub(super) fn is_unknown(&self) -> bool {
        self.0.is_empty()
    }

    /// The lines of those options that bear on latency.
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
    // Kernels before 6.1 do not tell; a program of another architecture would
    // not run there.
    files
        .text("proc/sys/kernel/arch")
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// How the kernel preempts itself: `none`, `voluntary`, `lazy`, `full`, `rt`.
pub(super) fn preemption(files: &Files, command_line: &str, config: &Config) -> Option<String> {
    let build = files.text("proc/sys/kernel/version").unwrap_or_default();
    if files.switch("sys/kernel/realtime") == Some(true)
        || config.has("PREEMPT_RT")
        || build.contains("PREEMPT_RT")
    {
        return Some("rt".into());
    }
    // The order is that of trust: what is in force, what was asked for at
    // boot, what was built in.
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

/// What the kernel's build text tells: it names `PREEMPT` alone for `full`,
/// and nothing where the model is chosen at boot, or is none or voluntary.
fn built_in_preemption(build: &str) -> Option<String> {
    build
        .split_whitespace()
        .any(|word| word == "PREEMPT")
        .then(|| "full".into())
}

/// The last value of `name=` on the kernel's command line, as the kernel
/// itself takes it.
fn parameter(command_line: &str, name: &str) -> Option<String> {
    command_line
        .split_whitespace()
        .filter_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        .next_back()
        .map(str::to_owned)
}

/// The lockdown level. Where securityfs is not mounted, only what was asked
/// for at boot or built in is known; it may have been raised since, never
/// lowered, so that it says `at least`.
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
