//! Code that the measuring commands share, on Windows.

use anyhow::{Context as _, bail};
pub(crate) use laggard_console::system::interruption;
use laggard_measure_windows::RealtimeClass;
pub(crate) use laggard_measure_windows::{allowed_cpus, caveats, identify as host};
use laggard_model::{Absence, Cpu, SwitchPolicy};
use laggard_workload::load::Builtin;

/// Returns the CPU that the user chose, or the last one that this process may use.
pub(crate) fn one_cpu(number: Option<u32>) -> anyhow::Result<Cpu> {
    let allowed = allowed_cpus();
    match number.map(Cpu) {
        Some(cpu) if allowed.contains(cpu) => Ok(cpu),
        Some(cpu) => bail!("--cpu {cpu}: this process may not use it; choose from {allowed}"),
        None => allowed
            .as_slice()
            .last()
            .copied()
            .context("cannot find a CPU"),
    }
}

/// Returns the policy of switching threads by default: the middle of the real-time class, if this
/// process may have it.
pub(crate) fn switch_policy() -> SwitchPolicy {
    match RealtimeClass::take() {
        Ok(_) => SwitchPolicy::Realtime(24),
        Err(_) => SwitchPolicy::Other,
    }
}

/// Windows does not report it to programs in time.
pub(crate) const fn free_memory() -> Option<u64> {
    None
}

/// A load.
pub(crate) struct FoundLoad {
    pub(crate) argument: String,
    pub(crate) name: String,
    pub(crate) absence: Option<Absence>,
}

/// Finds a load that can run here.
///
/// # Errors
/// If the load is unknown.
pub(crate) fn find_load(argument: &str) -> anyhow::Result<FoundLoad> {
    let load: Builtin = argument.parse()?;
    Ok(FoundLoad {
        argument: argument.to_owned(),
        name: load.name().into(),
        absence: None,
    })
}
