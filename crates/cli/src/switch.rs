//! `laggard bench switch`: how long a CPU takes from one thread to another.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};
use laggard_answer::switch::{self, StretchFigures, SwitchReport, SwitchesMeasured};
use laggard_measure::host::{self, Files};
use laggard_measure::linux;
use laggard_model::text::Unit;
use laggard_model::{
    Cpu, CpuList, HandOver, Nanos, RowsOf, Service, SwitchPolicy, SwitchRun, SwitchStretch,
    SwitchWay,
};
use laggard_trials::switch::{StretchOf, SwitchBench, SwitchPlan};
use laggard_view::picture::{MOST_WAYS, Picture, Style};
use laggard_view::text;
use laggard_workload::load::{Launch, LoadProcess, NamedLoad};

use crate::args::SwitchArgs;
use crate::drawing::Target;
use crate::exit::Exit;
use crate::rows::{RowFolder, RowPlan};
use crate::{measuring, pipe, terminal};

/// Of each number of threads, at least: enough that what differs between them is
/// known, and one more that no program watches, so that it is known what watching
/// costs.
const LEAST_STRETCHES: u64 = 11;
/// All hand-overs of a stretch are in memory, one by one, and that is locked: room for
/// 40 MB of them.
const LONGEST_STRETCH: Nanos = Nanos::from_secs(1);
const LEAST_DURATION: Nanos = Nanos::from_secs(1);
const MOST_DURATION: Nanos = Nanos::from_secs(600);
/// As in the paper: above all that is ordinary, below what guards the machine.
const PRIORITY: u8 = 80;
/// Of all working sets of a row, bytes.
const MOST_MEMORY: u64 = 1 << 30;
/// Of the memory that is free, it takes three quarters at most: who takes all of it
/// is ended by the kernel, or somebody else is.
const SHARE_OF_FREE: (u64, u64) = (3, 4);

pub(crate) fn switch(args: &SwitchArgs) -> anyhow::Result<Exit> {
    // Before anything is measured, which takes minutes.
    pipe::stdout()?;
    let plans = plans(args)?;
    let pictures = Pictures::of(args, &plans)?;
    // Before it is said that anything is measured.
    args.load.as_deref().map(NamedLoad::find).transpose()?;
    let mut recorded = args.output.as_deref().map(RowFolder::make).transpose()?;
    let stop = measuring::interruption()?;
    let rows: usize = plans.iter().map(|plan| plan.threads.len()).sum();
    let cpu = plans[0].cpus[0];
    pipe::say(&format!(
        "{} of {} on CPU {cpu}, half of each as {}{}: {} in all; Ctrl-C ends it",
        match rows {
            1 => "1 row".into(),
            rows => format!("{rows} rows"),
        },
        Unit::Auto.write_nanos(args.duration),
        plans[0].way.service,
        match (args.policy, plans[0].way.service) {
            (None, SwitchPolicy::Other) =>
                format!(" (this user may have no thread of fifo:{PRIORITY})"),
            _ => String::new(),
        },
        Unit::Auto.write_nanos(args.duration * rows as u64)
    ));
    let mut bench = SwitchBench::new();
    let mut load = loaded(args.load.as_deref(), cpu, &stop)?;
    let runs = measured(&mut bench, &plans, &stop, |plan, of, stretch| {
        if let Some(folder) = &mut recorded {
            record(folder, &row_plan(plan, of.threads, args), stretch);
        }
    })?;
    if let Some(ended) = load.as_mut().map(LoadProcess::poll).transpose()?.flatten() {
        bail!("the load ended by itself: {ended}");
    }
    drop(load);
    let measured = SwitchesMeasured {
        host: host::identify(&Files::default()),
        cpu,
        other_cpu: plans[0].cpus.get(1).copied(),
        load: args.load.clone(),
        runs,
        stretches: plans[0].stretches,
        unwatched_because: bench.unwatched_because().cloned(),
        caveats: measuring::caveats(),
    };
    let report = switch::switches(&measured)?;
    pipe::print(&if args.json {
        pipe::json(&report)?
    } else {
        text::switches(&report, terminal::look(Unit::Auto))
    })?;
    // The figures are shown first: they are good without a picture.
    pictures.draw(&report, &measured)?;
    if let Some(folder) = recorded {
        let count = folder.end(!stop.load(Ordering::Relaxed))?;
        measuring::say_rows(args.output.as_deref(), count);
    }
    Ok(if is_had(&report) {
        Exit::Ok
    } else {
        Exit::Unmet
    })
}

/// How large pictures are, and with which letters.
const STYLE: Style = Style {
    width: 960,
    height: 600,
    dark: false,
};
/// Of so many threads the paper has a series.
const OF_SERIES: usize = 10;

/// Pictures that are asked for.
struct Pictures<'a> {
    series: Option<Target<'a>>,
    growth: Option<Target<'a>>,
}

impl<'a> Pictures<'a> {
    /// Refuses what could not be drawn, before anything is measured.
    fn of(args: &'a SwitchArgs, plans: &[SwitchPlan]) -> anyhow::Result<Self> {
        if args.growth.is_some() && plans.iter().all(|plan| plan.threads.len() < 2) {
            bail!("--growth is drawn over the number of threads; ask for two numbers or more");
        }
        if args.growth.is_some() && plans.len() > MOST_WAYS {
            bail!(
                "{} ways to hand over are too many for --growth; ask for at most {MOST_WAYS}",
                plans.len()
            );
        }
        if args.growth.is_some() && args.growth == args.series {
            bail!("--series and --growth are two pictures; name a file for each");
        }
        let target = |file: &'a PathBuf| Target::of(file, STYLE);
        Ok(Self {
            series: args.series.as_ref().map(target).transpose()?,
            growth: args.growth.as_ref().map(target).transpose()?,
        })
    }

    /// Draws them, and says where on standard error.
    fn draw(&self, report: &SwitchReport, measured: &SwitchesMeasured) -> anyhow::Result<()> {
        if let Some(to) = &self.series {
            let Some(series) = switch::series(measured, OF_SERIES) else {
                bail!("nobody handed over, so that there is no series to draw");
            };
            let series = &series;
            pipe::say(&to.write(Picture::Series { report, series })?);
        }
        if let Some(to) = &self.growth {
            pipe::say(&to.write(Picture::Growth { report })?);
        }
        Ok(())
    }
}

fn is_had(report: &SwitchReport) -> bool {
    let is_whole = |row: &switch::SwitchRow| row.absence.is_none() && row.took.is_some();
    report.is_whole && report.rows.iter().all(is_whole)
}

/// What the recording of a row is of.
fn row_plan(plan: &SwitchPlan, threads: usize, args: &SwitchArgs) -> RowPlan {
    let way = plan.way;
    let set = match way.working_set_bytes {
        0 => String::new(),
        bytes => format!("-{bytes}"),
    };
    RowPlan {
        name: format!("{}-{threads}{set}", way.via),
        rows: RowsOf::HandOvers {
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
            way,
        },
        service: match way.service {
            SwitchPolicy::Fifo(priority) => Service::Fifo(priority),
            SwitchPolicy::Other => Service::Other,
            SwitchPolicy::Deadline => Service::Deadline,
        },
        cpu: plan.cpus[0],
        period: Nanos::ZERO,
        duration: args.duration,
        load: args.load.clone(),
    }
}

/// Adds a stretch to the recording of its row: gross, at the instants before.
fn record(folder: &mut RowFolder, plan: &RowPlan, stretch: &SwitchStretch) {
    let at = |&ns: &u32| stretch.begin + Nanos::from_ns(ns.into());
    let took = |&ns: &u32| Nanos::from_ns(ns.into());
    let seen = stretch.at_ns.iter().map(at);
    let seen = seen.zip(stretch.took_ns.iter().map(took));
    folder.add(plan, seen, stretch.left_out);
}

/// `keep` has each stretch that counts, before the next one begins.
fn measured(
    bench: &mut SwitchBench,
    plans: &[SwitchPlan],
    stop: &AtomicBool,
    mut keep: impl FnMut(&SwitchPlan, StretchOf, &SwitchStretch),
) -> anyhow::Result<Vec<SwitchRun<StretchFigures>>> {
    let stretches = |plan: &SwitchPlan| plan.threads.len() * (plan.stretches + 1);
    let bar = ProgressBar::new(plans.iter().map(stretches).sum::<usize>() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos} of {len} stretches {wide_msg}")
    {
        bar.set_style(style);
    }
    let mut runs = Vec::new();
    for plan in plans {
        bar.set_message(format!("by {}", plan.way.via));
        runs.extend(bench.measure(plan, stop, |of, stretch| {
            bar.inc(1);
            if !of.is_extra {
                keep(plan, of, &stretch);
            }
            StretchFigures::of(&stretch)
        }));
    }
    bar.finish_and_clear();
    let runs = runs.into_iter().map(|run| run.try_map(|figures| figures));
    Ok(runs.collect::<Result<_, _>>()?)
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
    let (stretches, length) = parted(duration);
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
        length,
        stretches,
    };
    let all = ways
        .iter()
        .flat_map(|&via| sets.iter().map(move |&set| (via, set)));
    let plans: Vec<SwitchPlan> = all.map(plan).collect();
    let most = plans.iter().map(SwitchPlan::bytes).max().unwrap_or(0);
    if let Some(free) = host::free_memory(&Files::default()) {
        has_room(most, free)?;
    }
    Ok(plans)
}

/// How many stretches of each number of threads are watched where each takes so long
/// in all, and how long each of these, and the one that is not, is.
fn parted(duration: Nanos) -> (usize, Nanos) {
    let all = duration.ns().div_ceil(LONGEST_STRETCH.ns());
    let all = all.max(LEAST_STRETCHES);
    let watched = usize::try_from(all - 1).unwrap_or(usize::MAX);
    (watched, Nanos::from_ns(duration.ns() / all))
}

/// Refuses what takes `bytes` of memory where too little is `free`.
fn has_room(bytes: u64, free: u64) -> anyhow::Result<()> {
    let (part, whole) = SHARE_OF_FREE;
    if bytes > free / whole * part {
        bail!(
            "this takes {} MiB of memory, and {} MiB are free here; ask for fewer threads or smaller working sets",
            bytes >> 20,
            free >> 20
        );
    }
    Ok(())
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

/// Starts the load that is asked for, if any. It ends with the result. One that takes
/// turns on one CPU has that on which the threads hand over.
fn loaded(name: Option<&str>, cpu: Cpu, stop: &AtomicBool) -> anyhow::Result<Option<LoadProcess>> {
    let Some(name) = name else {
        return Ok(None);
    };
    let program = std::env::current_exe().context("find this program, which runs the load")?;
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
        .with_context(|| format!("set up the load `{name}`"))?;
    load.begin();
    Ok(Some(load))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_any_length_has_stretches_enough_and_none_is_longer_than_a_second() {
        for (secs, stretches) in [(1, 10), (4, 10), (11, 10), (12, 11), (600, 599)] {
            let duration = Nanos::from_secs(secs);

            let (watched, length) = parted(duration);

            assert_eq!(watched, stretches, "{duration}");
            assert!(length <= LONGEST_STRETCH, "{duration}: {length}");
            let left = duration.saturating_sub(length * (stretches as u64 + 1));
            assert!(left < Nanos::from_us(1), "{duration}: {left} are left");
        }
    }

    /// What a row takes does not depend on how long it is measured.
    #[test]
    fn ten_minutes_lock_no_more_than_eleven_seconds_do() {
        let bytes = |secs| {
            let (stretches, length) = parted(Nanos::from_secs(secs));
            let plan = SwitchPlan {
                threads: vec![2, 128],
                way: SwitchWay {
                    via: HandOver::Yield,
                    service: SwitchPolicy::Other,
                    are_processes: false,
                    working_set_bytes: 0,
                    is_cross: false,
                },
                cpus: vec![Cpu(0)],
                length,
                stretches,
            };
            plan.bytes()
        };

        assert_eq!(bytes(600), bytes(11));
        assert!(bytes(600) < 64 << 20, "{}", bytes(600));
    }

    #[test]
    fn what_has_no_room_is_refused_with_what_it_takes_and_what_there_is() {
        let refused = has_room(800 << 20, 1 << 30).unwrap_err().to_string();

        assert_eq!(
            refused,
            "this takes 800 MiB of memory, and 1024 MiB are free here; ask for fewer threads or smaller working sets"
        );
        assert!(has_room(700 << 20, 1 << 30).is_ok());
    }
}
