//! `laggard switch`: how long a CPU takes from one thread to another.

use std::sync::atomic::AtomicBool;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use laggard_answer::switch::{self, SwitchReport, SwitchesMeasured};
use laggard_measure::host::{self, Files};
use laggard_measure::linux::{self, SwitchBench, SwitchPlan};
use laggard_model::text::Unit;
use laggard_model::{Absence, Nanos, Service, SwitchRun};
use laggard_view::text;

use crate::args::SwitchArgs;
use crate::exit::Exit;
use crate::{measuring, pipe, terminal};

/// Of each number of threads: enough that what differs between them is known.
const STRETCHES: usize = 10;
/// One more that no program watches, so that it is known what watching costs.
const ALL_STRETCHES: usize = STRETCHES + 1;
const LEAST_DURATION: Nanos = Nanos::from_secs(1);
const MOST_DURATION: Nanos = Nanos::from_secs(600);
/// As in the paper: above all that is ordinary, below what guards the machine.
const PRIORITY: u8 = 80;

pub(crate) fn switch(args: &SwitchArgs) -> anyhow::Result<Exit> {
    let plans = plans(args)?;
    let stop = measuring::interruption()?;
    let rows: usize = plans.iter().map(|plan| plan.threads.len()).sum();
    let cpu = plans[0].cpu;
    pipe::say(&format!(
        "{rows} rows of {} on CPU {cpu}, half of each as {}: {} in all; Ctrl-C ends it",
        Unit::Auto.write_nanos(args.duration),
        plans[0].service,
        Unit::Auto.write_nanos(args.duration * rows as u64)
    ));
    let (runs, unwatched_because) = measured(&plans, rows, &stop);
    let report = switch::switches(&SwitchesMeasured {
        host: host::identify(&Files::default()),
        cpu,
        runs,
        stretches: STRETCHES,
        unwatched_because,
    })?;
    pipe::print(&match args.json {
        true => pipe::json(&report)?,
        false => text::switches(&report, terminal::look(Unit::Auto)),
    })?;
    Ok(match is_had(&report) {
        true => Exit::Ok,
        false => Exit::Unmet,
    })
}

fn is_had(report: &SwitchReport) -> bool {
    let is_whole = |row: &switch::SwitchRow| row.absence.is_none() && row.took.is_some();
    report.is_whole && report.rows.iter().all(is_whole)
}

/// What was measured, and why nothing tells what came between.
fn measured(
    plans: &[SwitchPlan],
    rows: usize,
    stop: &AtomicBool,
) -> (Vec<SwitchRun>, Option<Absence>) {
    let mut bench = SwitchBench::new();
    let bar = ProgressBar::new((rows * ALL_STRETCHES) as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos} of {len} stretches {wide_msg}")
    {
        bar.set_style(style);
    }
    let mut runs = Vec::new();
    for plan in plans {
        bar.set_message(format!("by {}", plan.via));
        runs.extend(bench.measure(plan, stop, || bar.inc(1)));
    }
    bar.finish_and_clear();
    (runs, bench.unwatched_because().cloned())
}

/// A plan for each way of handing over.
fn plans(args: &SwitchArgs) -> anyhow::Result<Vec<SwitchPlan>> {
    let duration = args.duration;
    if !(LEAST_DURATION..=MOST_DURATION).contains(&duration) {
        bail!("--duration {duration} is for each row; use 1s to 10min");
    }
    let service = match args.policy {
        Some(service) if service.is_thread() => service,
        Some(other) => {
            bail!("`{other}` is no thread that can hand over; use other, or fifo:1 to fifo:99")
        }
        None if linux::may_run_as(Service::Fifo(PRIORITY)) => Service::Fifo(PRIORITY),
        None => Service::Other,
    };
    let mut threads: Vec<usize> = args.threads.iter().map(|&one| one as usize).collect();
    threads.sort_unstable();
    threads.dedup();
    let mut ways = args.via.clone();
    ways.sort_unstable();
    ways.dedup();
    let cpu = measuring::one_cpu(args.cpu)?;
    let plan = |via| SwitchPlan {
        threads: threads.clone(),
        via,
        service,
        cpu,
        length: Nanos::from_ns(duration.ns() / ALL_STRETCHES as u64),
        stretches: STRETCHES,
    };
    Ok(ways.into_iter().map(plan).collect())
}
