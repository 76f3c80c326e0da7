//! `laggard switch`: how long a CPU takes from one thread to another.

use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};
use laggard_answer::switch::{self, SwitchReport, SwitchesMeasured};
use laggard_measure::host::{self, Files};
use laggard_measure::linux::{self, SwitchBench, SwitchPlan};
use laggard_model::text::Unit;
use laggard_model::{Cpu, HandOver, Nanos, Service, SwitchPolicy, SwitchRun, SwitchWay};
use laggard_view::text;
use laggard_workload::load::{Launch, LoadProcess, NamedLoad};

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
/// Of all working sets of a row.
const MOST_MEMORY: u64 = 1 << 30;

pub(crate) fn switch(args: &SwitchArgs) -> anyhow::Result<Exit> {
    let plans = plans(args)?;
    let stop = measuring::interruption()?;
    let rows: usize = plans.iter().map(|plan| plan.threads.len()).sum();
    let cpu = plans[0].cpus[0];
    pipe::say(&format!(
        "{rows} rows of {} on CPU {cpu}, half of each as {}: {} in all; Ctrl-C ends it",
        Unit::Auto.write_nanos(args.duration),
        plans[0].way.service,
        Unit::Auto.write_nanos(args.duration * rows as u64)
    ));
    let mut bench = SwitchBench::new();
    let mut load = loaded(args.load.as_deref(), &stop)?;
    let runs = measured(&mut bench, &plans, rows, &stop);
    if let Some(ended) = load.as_mut().map(LoadProcess::poll).transpose()?.flatten() {
        bail!("the load ended by itself: {ended}");
    }
    drop(load);
    let report = switch::switches(&SwitchesMeasured {
        host: host::identify(&Files::default()),
        cpu,
        other_cpu: plans[0].cpus.get(1).copied(),
        load: args.load.clone(),
        runs,
        stretches: STRETCHES,
        unwatched_because: bench.unwatched_because().cloned(),
        caveats: measuring::caveats(),
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

fn measured(
    bench: &mut SwitchBench,
    plans: &[SwitchPlan],
    rows: usize,
    stop: &AtomicBool,
) -> Vec<SwitchRun> {
    let bar = ProgressBar::new((rows * ALL_STRETCHES) as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos} of {len} stretches {wide_msg}")
    {
        bar.set_style(style);
    }
    let mut runs = Vec::new();
    for plan in plans {
        bar.set_message(format!("by {}", plan.way.via));
        runs.extend(bench.measure(plan, stop, || bar.inc(1)));
    }
    bar.finish_and_clear();
    runs
}

/// A plan for each way of handing over.
fn plans(args: &SwitchArgs) -> anyhow::Result<Vec<SwitchPlan>> {
    let duration = args.duration;
    if !(LEAST_DURATION..=MOST_DURATION).contains(&duration) {
        bail!("--duration {duration} is for each row; use 1s to 10min");
    }
    let threads = sorted(args.threads.iter().map(|&one| one as usize));
    let (ways, sets) = (
        sorted(args.via.iter().copied()),
        sorted(args.working_set.iter().copied()),
    );
    check(args, &threads, &ways, &sets)?;
    let service = match args.policy {
        Some(policy) => policy,
        None if linux::may_run_as(Service::Fifo(PRIORITY)) => SwitchPolicy::Fifo(PRIORITY),
        None => SwitchPolicy::Other,
    };
    let cpus = cpus(args)?;
    let plan = |(via, working_set_bytes)| SwitchPlan {
        threads: threads.clone(),
        way: SwitchWay {
            via,
            service,
            are_processes: args.processes,
            working_set_bytes,
            is_cross: args.cross,
        },
        cpus: cpus.clone(),
        length: Nanos::from_ns(duration.ns() / ALL_STRETCHES as u64),
        stretches: STRETCHES,
    };
    let all = ways
        .iter()
        .flat_map(|&via| sets.iter().map(move |&set| (via, set)));
    Ok(all.map(plan).collect())
}

fn sorted<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let all: std::collections::BTreeSet<T> = values.collect();
    all.into_iter().collect()
}

/// Whether what is asked for makes sense together.
fn check(
    args: &SwitchArgs,
    threads: &[usize],
    ways: &[HandOver],
    sets: &[u64],
) -> anyhow::Result<()> {
    let is_yielded = ways.contains(&HandOver::Yield);
    if is_yielded && args.policy == Some(SwitchPolicy::Deadline) {
        bail!(
            "a deadline thread that yields waits for its next period; hand over by `--via futex`, pipe or eventfd"
        );
    }
    if is_yielded && args.cross {
        bail!(
            "who yields wakes nobody on another CPU; with --cross use `--via futex`, pipe or eventfd"
        );
    }
    if let Some(odd) = threads.iter().find(|&&one| args.cross && one % 2 == 1) {
        bail!("{odd} threads cannot take turns between two CPUs; with --cross use even numbers");
    }
    let most = threads.iter().max().copied().unwrap_or(0) as u64;
    if let Some(set) = sets.iter().find(|&&set| set * most > MOST_MEMORY) {
        bail!(
            "{most} threads with a working set of {set} bytes each are more than 1 GiB; ask for less of either"
        );
    }
    Ok(())
}

/// The CPU that is asked for, and another one where threads are to take turns.
fn cpus(args: &SwitchArgs) -> anyhow::Result<Vec<Cpu>> {
    let cpu = measuring::one_cpu(args.cpu)?;
    if !args.cross {
        return Ok(vec![cpu]);
    }
    let allowed = linux::allowed_cpus();
    let other = allowed.as_slice().iter().copied().find(|&one| one != cpu);
    match other {
        Some(other) => Ok(vec![cpu, other]),
        None => bail!("--cross takes two CPUs, and this process may use CPU {cpu} only"),
    }
}

/// Starts the load that is asked for, if any. It ends with the result.
fn loaded(name: Option<&str>, stop: &AtomicBool) -> anyhow::Result<Option<LoadProcess>> {
    let Some(name) = name else {
        return Ok(None);
    };
    NamedLoad::find(name)?;
    let program = std::env::current_exe().context("find this program, which runs the load")?;
    let launch = Launch::named(program, name).held();
    let launch = launch.open_files(linux::usual_descriptors());
    let mut load = launch.user(measuring::caller()).start()?;
    load.wait_until_ready(stop)
        .with_context(|| format!("set up the load `{name}`"))?;
    load.begin();
    Ok(Some(load))
}
