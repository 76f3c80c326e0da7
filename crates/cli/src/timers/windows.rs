//! What `laggard timers` takes of Windows.

use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail};
pub(super) use laggard_console::system::interruption;
use laggard_measure_windows::allowed_cpus;
pub(super) use laggard_measure_windows::{caveats, clocks, identify as host};
use laggard_model::{Cpu, Service, TimerRun};
use laggard_trials::timers::{TimerPlan, measure_timer};

use crate::args::TimersArgs;

/// Tries timers, one at a time. Nothing has to be readied for them.
pub(super) struct BareBench;

pub(super) const fn bench() -> BareBench {
    BareBench
}

impl BareBench {
    pub(super) fn measure(&mut self, plan: &TimerPlan, stop: &AtomicBool) -> TimerRun {
        measure_timer(plan, stop)
    }
}

/// The CPU asked for, or the last that this process may use.
pub(super) fn one_cpu(asked: Option<u32>) -> anyhow::Result<Cpu> {
    let allowed = allowed_cpus();
    match asked.map(Cpu) {
        Some(cpu) if allowed.contains(cpu) => Ok(cpu),
        Some(cpu) => bail!("CPU {cpu} is not for this process; choose from {allowed}"),
        None => allowed.as_slice().last().copied().context("find a CPU"),
    }
}

/// Refuses policies of Linux.
pub(super) fn check_policies(policies: &[Service]) -> anyhow::Result<()> {
    match policies.iter().find(|&&one| one != Service::Other) {
        Some(policy) => {
            bail!("`{policy}` is not on Windows; use other, a thread of normal priority")
        }
        None => Ok(()),
    }
}

/// No rows are kept: what a recording says of its clock is Linux's.
pub(super) struct UnkeptRows;

#[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
pub(super) const fn rows(_: &TimersArgs) -> anyhow::Result<UnkeptRows> {
    Ok(UnkeptRows)
}

impl UnkeptRows {
    pub(super) const fn add(&mut self, _: &TimerPlan, _: &TimerRun) {}

    #[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(super) const fn end(self, _: bool) -> anyhow::Result<()> {
        Ok(())
    }
}
