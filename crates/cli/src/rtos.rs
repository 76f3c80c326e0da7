//! `laggard rtos`: whether this system has what a real-time operating system needs.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};
use laggard_answer::rtos::{self, RtosMeasured, RtosReport};
use laggard_measure::host::{self, Files};
use laggard_measure::linux::{RtosBench, RtosPlan};
use laggard_model::text::Unit;
use laggard_model::{
    Absence, Cpu, CpuList, DuelsSeen, InterruptSource, Lacks, LoadedDuels, Nanos, RtosCriterion,
    WaitQueue, printable,
};
use laggard_view::{criteria, criteria_page, text};
use laggard_workload::load::{Launch, NamedLoad, RecipeError};

use crate::args::RtosArgs;
use crate::exit::Exit;
use crate::{measuring, pipe, terminal};

const LEAST_DURATION: Nanos = Nanos::from_secs(1);
const MOST_DURATION: Nanos = Nanos::from_secs(600);
/// A thread that is not taken over from gives up after 20 ms.
const MOST_WITHIN: Nanos = Nanos::from_ms(20);

pub(crate) fn rtos(args: &RtosArgs) -> anyhow::Result<Exit> {
    let (plan, asked) = planned(args)?;
    if let Some(path) = &args.output {
        laggard_files::check(path, "page")?;
    }
    let loads = match asked.contains(&RtosCriterion::Largest) {
        true => loads(&args.loads)?,
        false => Vec::new(),
    };
    let stop = measuring::interruption()?;
    pipe::say(&format!(
        "{} on CPU {}, as real-time threads, at most {} each{}; Ctrl-C ends it",
        match asked.len() {
            1 => "1 criterion".into(),
            many => format!("{many} criteria"),
        },
        plan.cpu,
        Unit::Auto.write_nanos(args.duration),
        match loads.len() {
            0 => String::new(),
            1 => ", `largest` under 1 load".into(),
            many => format!(", `largest` under {many} loads in turn"),
        }
    ));
    let host = host::identify(&Files::default());
    let mut measured = RtosMeasured::new(host, plan.cpu, args.within, asked);
    measured.caveats = measuring::caveats();
    let mut bench = RtosBench::new(plan);
    tried(&mut bench, args.duration, &loads, &mut measured, &stop);
    let report = rtos::rtos(&measured);
    show(args, &report)?;
    Ok(match report.is_met() {
        true => Exit::Ok,
        false => Exit::Unmet,
    })
}

fn show(args: &RtosArgs, report: &RtosReport) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        laggard_files::write(path, "page", criteria_page(report).as_bytes())?;
        let name = path.display().to_string();
        let said = format!("Wrote {}; open it in a browser\n", printable(&name));
        return pipe::print(&said);
    }
    pipe::print(&match (args.json, args.markdown) {
        (true, _) => pipe::json(report)?,
        (_, true) => criteria(report),
        _ => text::rtos(report, terminal::look(Unit::Auto)),
    })
}

/// One after the other, until all were tried or `stop` is set. What was ended early
/// is not told.
fn tried(
    bench: &mut RtosBench,
    duration: Nanos,
    loads: &[RtosLoad],
    measured: &mut RtosMeasured,
    stop: &AtomicBool,
) {
    let bar = ProgressBar::new(measured.asked.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos} of {len}: {wide_msg}") {
        bar.set_style(style);
    }
    for criterion in measured.asked.clone() {
        bar.set_message(criterion.about());
        bar.tick();
        let mut one = measured.clone();
        match criterion {
            RtosCriterion::Preemption => one.preemption = Some(bench.take_overs(duration, stop)),
            RtosCriterion::Priorities => one.priorities = Some(bench.priorities(stop)),
            RtosCriterion::Order => {
                let queues = WaitQueue::ALL.into_iter();
                one.order = Some(queues.map(|queue| bench.wakes(queue, stop)).collect());
            }
            RtosCriterion::Inversion => one.inversion = Some(bench.inversions(stop)),
            RtosCriterion::Largest => {
                let half = Nanos::from_ns(duration.ns() / 2);
                one.largest = Some(there_and_back(bench, half, loads, measured.cpu, stop));
            }
            RtosCriterion::Locked => one.locked = Some(bench.pages(stop)),
            RtosCriterion::Interrupts => one.interrupts = Some(bench.interrupts(stop)),
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        *measured = one;
        bar.inc(1);
    }
    bar.finish_and_clear();
}

/// A load by its name, or what it lacks here.
struct RtosLoad {
    /// A name, or a TOML file.
    asked: String,
    name: String,
    absence: Option<Absence>,
}

fn loads(names: &[String]) -> anyhow::Result<Vec<RtosLoad>> {
    let load = |asked: &String| match NamedLoad::find(asked) {
        Ok(load) => Ok(RtosLoad {
            asked: asked.clone(),
            name: load.name().into(),
            absence: None,
        }),
        Err(RecipeError::Missing {
            load,
            programs,
            packages,
        }) => Ok(RtosLoad {
            asked: asked.clone(),
            name: load,
            absence: Some(Absence {
                reason: format!("{} not there", programs.join(", ")),
                remedy: format!("apt-get install {}", packages.join(" ")),
                lacks: Lacks::Machine,
            }),
        }),
        Err(RecipeError::Unusable { load, program }) => Ok(RtosLoad {
            asked: asked.clone(),
            name: load,
            absence: Some(Absence {
                reason: format!("{} cannot be used: {}", program.program, program.why),
                remedy: format!("apt-get install {}", program.package),
                lacks: Lacks::Machine,
            }),
        }),
        Err(err) => Err(err.into()),
    };
    names.iter().map(load).collect()
}

/// Responses under each load for so long and, the last first, under each again: what
/// the machine does by itself for a while is then seldom taken for a load's doing.
fn there_and_back(
    bench: &mut RtosBench,
    each: Nanos,
    loads: &[RtosLoad],
    cpu: Cpu,
    stop: &AtomicBool,
) -> Vec<LoadedDuels> {
    let visits = loads.iter().chain(loads.iter().rev());
    let visits = visits.map(|load| under_load(bench, each, load, cpu, stop));
    let mut there: Vec<LoadedDuels> = visits.collect();
    let back = there.split_off(loads.len()).into_iter().rev();
    there
        .into_iter()
        .zip(back)
        .map(|(there, back)| LoadedDuels {
            load: there.load,
            duels: there.duels.and_then(|first| Ok(first.and(back.duels?))),
        })
        .collect()
}

/// Responses under a load. One that fails is one that could not be tried: what was
/// tried of others, and of other criteria, is told.
fn under_load(
    bench: &mut RtosBench,
    each: Nanos,
    load: &RtosLoad,
    cpu: Cpu,
    stop: &AtomicBool,
) -> LoadedDuels {
    let failed = |err: anyhow::Error| Absence {
        reason: format!("the load `{}` failed: {err:#}", load.name),
        remedy: format!("see what `laggard load run {}` says", load.asked),
        lacks: Lacks::Machine,
    };
    let duels = match &load.absence {
        Some(absence) => Err(absence.clone()),
        None => beside(bench, each, &load.asked, cpu, stop).unwrap_or_else(|err| Err(failed(err))),
    };
    LoadedDuels {
        load: load.name.clone(),
        duels,
    }
}

/// Responses while the load runs on `cpu`, where they are asked for: elsewhere it would
/// keep nobody waiting. For so long; it ends with this.
fn beside(
    bench: &mut RtosBench,
    each: Nanos,
    load: &str,
    cpu: Cpu,
    stop: &AtomicBool,
) -> anyhow::Result<Result<DuelsSeen, Absence>> {
    let helper = std::env::current_exe().context("find this program, which runs the loads")?;
    let launch = Launch::named(helper, load)
        .held()
        .cpus(CpuList::from_iter([cpu]));
    let mut process = launch.user(measuring::caller()).start()?;
    process.wait_until_ready(stop)?;
    process.begin();
    let duels = bench.responses(each, stop);
    if let Some(ended) = process.poll()? {
        bail!("it ended before the trial did: {ended}");
    }
    process.stop()?;
    Ok(duels)
}

fn planned(args: &RtosArgs) -> anyhow::Result<(RtosPlan, Vec<RtosCriterion>)> {
    let duration = args.duration;
    if !(LEAST_DURATION..=MOST_DURATION).contains(&duration) {
        bail!("--duration {duration} is for each criterion; use 1s to 10min");
    }
    if args.within >= MOST_WITHIN {
        bail!(
            "--within {} is as long as a thread computes here before it gives up; use less than {MOST_WITHIN}",
            args.within
        );
    }
    let mut asked = match args.only.is_empty() {
        true => RtosCriterion::ALL.to_vec(),
        false => args.only.clone(),
    };
    asked.sort_unstable();
    asked.dedup();
    if args.source != InterruptSource::default() && !asked.contains(&RtosCriterion::Interrupts) {
        bail!(
            "--source {} is for the criterion `interrupts`, which --only leaves out; add it there",
            args.source
        );
    }
    let plan = RtosPlan {
        cpu: measuring::one_cpu(args.cpu)?,
        duration,
        source: args.source,
    };
    Ok((plan, asked))
}
