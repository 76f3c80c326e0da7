//! The parts of `laggard bench timers` for Linux.

use std::path::PathBuf;

use anyhow::bail;
use laggard_model::{PeriodicWait, RowsOf, Service, TimerRun};
pub(super) use laggard_trials::timers::clocks;
use laggard_trials::timers::{TimerBench, TimerPlan};

use crate::args::TimersArgs;
use crate::measuring;
pub(super) use crate::measuring::{caveats, host, interruption, one_cpu};
use crate::rows::{RowFolder, RowPlan};

/// Refuses services that a thread that calls a timer cannot have.
pub(super) fn check_policies(policies: &[Service]) -> anyhow::Result<()> {
    if let Some(other) = policies.iter().find(|policy| !policy.is_thread()) {
        bail!(
            "--policy {other} is not a thread that can call a timer; use other, or fifo:1 to fifo:99"
        );
    }
    if policies.contains(&Service::Deadline) {
        bail!(
            "the kernel does not keep a thread of --policy deadline on one CPU; use other, or fifo:1 to fifo:99"
        );
    }
    if let Some(lent) = policies.iter().find(|policy| policy.lent().is_some()) {
        bail!(
            "--policy {lent} is a lent priority, which does not use a timer; use other, or fifo:1 to fifo:99"
        );
    }
    Ok(())
}

pub(super) fn bench() -> TimerBench {
    TimerBench::new()
}

/// Recordings of rows, if the user wants any.
pub(super) struct KeptRows(Option<(RowFolder, PathBuf)>);

/// Creates the directory of the recordings.
pub(super) fn rows(args: &TimersArgs) -> anyhow::Result<KeptRows> {
    let folder = args.output.as_deref().map(RowFolder::make).transpose()?;
    Ok(KeptRows(folder.zip(args.output.clone())))
}

impl KeptRows {
    pub(super) fn add(&mut self, plan: &TimerPlan, run: &TimerRun) {
        if let Some((folder, _)) = &mut self.0 {
            keep(folder, plan, run);
        }
    }

    /// Completes the recordings, and prints where they are.
    pub(super) fn end(self, is_whole: bool) -> anyhow::Result<()> {
        if let Some((folder, path)) = self.0 {
            let count = folder.end(is_whole)?;
            measuring::say_rows(Some(&path), count);
        }
        Ok(())
    }
}

/// Keeps the waits for the period: the expiry and the latency of each. An early wakeup
/// counts as an expiry with latency 0, and the recording has the number of early wakeups.
fn keep(folder: &mut RowFolder, plan: &TimerPlan, run: &TimerRun) {
    let early = run.periodic.iter().filter(|wait| wait.woke < wait.due);
    let row = RowPlan {
        name: format!("{}-{}-{}", plan.api, plan.service, plan.period).replace(':', "-"),
        rows: RowsOf::Waits {
            timer: plan.api,
            early: early.count() as u64,
        },
        service: plan.service,
        cpu: plan.cpu,
        period: plan.period,
        duration: plan.duration,
        load: None,
    };
    let late = |wait: &PeriodicWait| {
        let due = wait.due.min(wait.woke);
        (due, wait.woke.saturating_sub(due))
    };
    // Omitted waits are not losses of the machine: laggard was stopped, or a signal arrived.
    folder.add(&row, run.periodic.iter().map(late), 0);
}
