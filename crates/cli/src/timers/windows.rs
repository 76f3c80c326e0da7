//! The parts of `laggard bench timers` for Windows.

use std::sync::atomic::AtomicBool;

use anyhow::bail;
pub(super) use laggard_measure_windows::clocks;
use laggard_model::{Service, TimerRun};
use laggard_trials::timers::{TimerPlan, measure_timer};

use crate::args::TimersArgs;
pub(super) use crate::measuring::{caveats, host, interruption, one_cpu};

/// Measures timers, one at a time. Preparation is not needed.
pub(super) struct BareBench;

pub(super) const fn bench() -> BareBench {
    BareBench
}

impl BareBench {
    pub(super) fn measure(&mut self, plan: &TimerPlan, stop: &AtomicBool) -> TimerRun {
        measure_timer(plan, stop)
    }
}

/// Refuses policies of Linux.
pub(super) fn check_policies(policies: &[Service]) -> anyhow::Result<()> {
    match policies.iter().find(|&&policy| policy != Service::Other) {
        Some(policy) => {
            bail!(
                "--policy {policy} does not exist on Windows; use other, a thread of normal priority"
            )
        }
        None => Ok(()),
    }
}

/// Discards rows, because the clock of recordings is the clock of Linux.
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
