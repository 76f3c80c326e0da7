//! What `laggard timers` takes of Linux.

use std::path::PathBuf;

use anyhow::bail;
use laggard_measure::host::{self as machine, Files};
use laggard_model::{Host, PeriodicWait, RowsOf, Service, TimerRun};
pub(super) use laggard_trials::timers::clocks;
use laggard_trials::timers::{TimerBench, TimerPlan};

use crate::args::TimersArgs;
use crate::measuring;
pub(super) use crate::measuring::{caveats, interruption, one_cpu};
use crate::rows::{RowFolder, RowPlan};

pub(super) fn host() -> Host {
    machine::identify(&Files::default())
}

/// Refuses what no thread that calls a timer can be.
pub(super) fn check_policies(policies: &[Service]) -> anyhow::Result<()> {
    if let Some(other) = policies.iter().find(|one| !one.is_thread()) {
        bail!("`{other}` is no thread that can call a timer; use other, or fifo:1 to fifo:99");
    }
    if policies.contains(&Service::Deadline) {
        bail!(
            "the kernel keeps no deadline thread on one CPU, and timers are tried on one; use other, or fifo:1 to fifo:99"
        );
    }
    if let Some(lent) = policies.iter().find(|one| one.lent().is_some()) {
        bail!(
            "`{lent}` has its priority from who asks it, and a timer asks nobody; use other, or fifo:1 to fifo:99"
        );
    }
    Ok(())
}

pub(super) fn bench() -> TimerBench {
    TimerBench::new()
}

/// The recordings of rows, where they are kept.
pub(super) struct KeptRows(Option<(RowFolder, PathBuf)>);

/// Makes the folder, where one is asked for.
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

    /// Ends them, and says where they are.
    pub(super) fn end(self, is_whole: bool) -> anyhow::Result<()> {
        if let Some((folder, path)) = self.0 {
            let count = folder.end(is_whole)?;
            measuring::say_rows(Some(&path), count);
        }
        Ok(())
    }
}

/// Keeps the waits for the period: when each was due, and how late it was. Who comes
/// early is due when it comes, 0 late, and counted.
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
    // What was left out is none of the machine's: laggard was stopped, or a signal came.
    folder.add(&row, run.periodic.iter().map(late), 0);
}
