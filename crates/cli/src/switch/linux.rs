//! Loads and recordings of `laggard bench switch`, on Linux.

use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use laggard_measure::linux;
use laggard_model::{Cpu, CpuList, Nanos, RowsOf, Service, SwitchPolicy, SwitchStretch};
use laggard_trials::switch::SwitchPlan;
use laggard_workload::load::{Launch, LoadProcess, NamedLoad};

use crate::args::SwitchArgs;
use crate::measuring;
use crate::rows::{RowFolder, RowPlan};

/// Checks the load, and creates the directory of the recordings.
pub(super) fn check(args: &SwitchArgs) -> anyhow::Result<Option<RowFolder>> {
    args.load.as_deref().map(NamedLoad::find).transpose()?;
    args.output.as_deref().map(RowFolder::make).transpose()
}

/// Describes the recording of a row.
pub(super) fn row_plan(plan: &SwitchPlan, threads: usize, args: &SwitchArgs) -> RowPlan {
    let series = plan.way;
    let set = match series.working_set_bytes {
        0 => String::new(),
        bytes => format!("-{bytes}"),
    };
    RowPlan {
        name: format!("{}-{threads}{set}", series.via),
        rows: RowsOf::HandOvers {
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
            way: series,
        },
        service: match series.service {
            SwitchPolicy::Fifo(priority) => Service::Fifo(priority),
            SwitchPolicy::Realtime(priority) => Service::Realtime(priority),
            SwitchPolicy::Other => Service::Other,
            SwitchPolicy::Deadline => Service::Deadline,
        },
        cpu: plan.cpus[0],
        period: Nanos::ZERO,
        duration: args.duration,
        load: args.load.clone(),
    }
}

/// Adds a stretch to the recording of its row: gross durations, with the times before.
pub(super) fn record(folder: &mut RowFolder, plan: &RowPlan, stretch: &SwitchStretch) {
    let expiry = |&ns: &u32| stretch.begin + Nanos::from_ns(ns.into());
    let took = |&ns: &u32| Nanos::from_ns(ns.into());
    let samples = stretch.at_ns.iter().map(expiry);
    let samples = samples.zip(stretch.took_ns.iter().map(took));
    folder.add(plan, samples, stretch.left_out);
}

/// Starts the load. It ends when the result is dropped. A load that runs on one CPU runs on
/// the CPU of the threads.
pub(super) fn start_load(
    name: Option<&str>,
    cpu: Cpu,
    stop: &AtomicBool,
) -> anyhow::Result<Option<LoadProcess>> {
    let Some(name) = name else {
        return Ok(None);
    };
    let program =
        std::env::current_exe().context("cannot find this program, which runs the load")?;
    let launch = Launch::named(program, name).held();
    let launch = launch.open_files(linux::usual_descriptors());
    let takes_turns =
        |load: &NamedLoad| matches!(load, NamedLoad::Busy(busy) if busy.turns.is_some());
    let launch = if takes_turns(&NamedLoad::named(name)?) {
        launch.cpus(CpuList::from_iter([cpu]))
    } else {
        launch
    };
    let mut load = launch.user(measuring::caller()).start()?;
    load.wait_until_ready(stop)
        .with_context(|| format!("cannot set up the load `{name}`"))?;
    load.begin();
    Ok(Some(load))
}
