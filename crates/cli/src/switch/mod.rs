//! `laggard bench switch`: durations of context switches.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use laggard_answer::switch::{self, StretchFigures, SwitchReport, SwitchesMeasured};
use laggard_model::text::Unit;
use laggard_model::{Cpu, HandOver, Nanos, SwitchPolicy, SwitchRun, SwitchStretch, SwitchWay};
use laggard_trials::switch::{StretchOf, SwitchBench, SwitchPlan};
use laggard_view::picture::{MAX_WAYS, Picture, Style};
use laggard_view::switch::document;
use laggard_workload::load::LoadProcess;

#[cfg(target_os = "linux")]
use self::linux as here;
#[cfg(windows)]
use self::windows as here;
use crate::args::SwitchArgs;
use crate::drawing::Target;
use crate::exit::Exit;
use crate::pipe::Format;
use crate::{measuring, pipe};

/// Stretches of each number of threads: ten show the variation between them, and one
/// without tracing shows the overhead of tracing.
const MIN_STRETCHES: u64 = 11;
/// All context switches of a stretch are in locked memory, 40 MB at most.
const MAX_STRETCH: Nanos = Nanos::from_secs(1);
const MIN_DURATION: Nanos = Nanos::from_secs(1);
const MAX_DURATION: Nanos = Nanos::from_secs(600);
/// Memory of all working sets of a row, bytes.
const MAX_MEMORY: u64 = 1 << 30;
/// Fraction of the free memory that the test may use. If it took all, the kernel would end
/// a process.
const MAX_MEMORY_SHARE: (u64, u64) = (3, 4);

pub(crate) fn switch(args: &SwitchArgs) -> anyhow::Result<Exit> {
    // Checked first, because measuring takes minutes.
    pipe::stdout()?;
    let plans = plans(args)?;
    let pictures = Pictures::new(args, &plans)?;
    #[cfg(target_os = "linux")]
    let mut recordings = linux::check(args)?;
    let stop = measuring::interruption()?;
    let rows: usize = plans.iter().map(|plan| plan.threads.len()).sum();
    let cpu = plans[0].cpus[0];
    pipe::say(&format!(
        "measuring {} of {} on CPU {cpu}, half of each with {}{}, {} in total; Ctrl-C ends it",
        match rows {
            1 => "1 row".into(),
            rows => format!("{rows} rows"),
        },
        Unit::Auto.write_nanos(args.duration),
        plans[0].way.service,
        match (args.policy, plans[0].way.service) {
            (None, SwitchPolicy::Other) => " (this user may not use real-time priorities)",
            _ => "",
        },
        Unit::Auto.write_nanos(args.duration * rows as u64)
    ));
    let mut bench = SwitchBench::new();
    let load = here::start_load(args.load.as_deref(), cpu, &stop)?;
    let runs = measure(&mut bench, &plans, &stop, |plan, row, stretch| {
        #[cfg(target_os = "linux")]
        if let Some(folder) = &mut recordings {
            linux::record(folder, &linux::row_plan(plan, row.threads, args), stretch);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (plan, row, stretch);
    })?;
    end_load(load, args.load.as_deref())?;
    let measured = SwitchesMeasured {
        host: measuring::host(),
        cpu,
        other_cpu: plans[0].cpus.get(1).copied(),
        load: args.load.clone(),
        runs,
        stretches: plans[0].stretches,
        unwatched_because: bench.unwatched_because().cloned(),
        caveats: measuring::caveats(),
    };
    let report = switch::switches(&measured)?;
    print(args, &report)?;
    // The figures come first, because drawing may fail.
    pictures.draw(&report)?;
    #[cfg(target_os = "linux")]
    if let Some(folder) = recordings {
        let count = folder.end(!stop.load(Ordering::Relaxed))?;
        measuring::say_rows(args.output.as_deref(), count);
    }
    Ok(if is_complete(&report) {
        Exit::Ok
    } else {
        Exit::Unmet
    })
}

fn print(args: &SwitchArgs, report: &SwitchReport) -> anyhow::Result<()> {
    let format = Format {
        json: args.json,
        markdown: args.markdown,
    };
    pipe::print_answer(format, report, || document(report))
}

/// Size and colours of pictures.
const STYLE: Style = Style {
    width: 960,
    height: 600,
    dark: false,
};

/// Requested pictures.
struct Pictures<'a> {
    series: Option<Target<'a>>,
    growth: Option<Target<'a>>,
}

impl<'a> Pictures<'a> {
    /// Refuses pictures that cannot be drawn.
    fn new(args: &'a SwitchArgs, plans: &[SwitchPlan]) -> anyhow::Result<Self> {
        if args.growth.is_some() && plans.iter().all(|plan| plan.threads.len() < 2) {
            bail!("--growth needs several numbers of threads in --threads; use two or more");
        }
        if args.growth.is_some() && plans.len() > MAX_WAYS {
            bail!(
                "--growth cannot show {} combinations of --via and --working-set; use at most {MAX_WAYS}",
                plans.len()
            );
        }
        if args.growth.is_some() && args.growth == args.series {
            bail!("--series and --growth have the same file; name two files");
        }
        let target = |file: &'a PathBuf| Target::from_path(file, STYLE);
        Ok(Self {
            series: args.series.as_ref().map(target).transpose()?,
            growth: args.growth.as_ref().map(target).transpose()?,
        })
    }

    /// Draws the pictures and prints their paths on standard error.
    fn draw(&self, report: &SwitchReport) -> anyhow::Result<()> {
        if let Some(to) = &self.series {
            if report.series.is_none() {
                bail!("cannot draw --series: no context switch was measured");
            }
            pipe::say(&to.write(Picture::Series { report })?);
        }
        if let Some(to) = &self.growth {
            pipe::say(&to.write(Picture::Growth { report })?);
        }
        Ok(())
    }
}

fn is_complete(report: &SwitchReport) -> bool {
    let is_complete = |row: &switch::SwitchRow| row.absence.is_none() && row.gross.is_some();
    report.is_complete && report.rows.iter().all(is_complete)
}

/// Measures all plans. `keep` receives each traced stretch before the next one starts.
fn measure(
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
        bar.set_message(plan.way.via.name());
        runs.extend(bench.measure(plan, stop, |row, stretch| {
            bar.inc(1);
            if !row.is_extra {
                keep(plan, row, &stretch);
            }
            StretchFigures::new(&stretch)
        }));
    }
    bar.finish_and_clear();
    let runs = runs.into_iter().map(|run| run.try_map(|figures| figures));
    Ok(runs.collect::<Result<_, _>>()?)
}

/// Returns a plan per mechanism and working set.
fn plans(args: &SwitchArgs) -> anyhow::Result<Vec<SwitchPlan>> {
    let duration = args.duration;
    if !(MIN_DURATION..=MAX_DURATION).contains(&duration) {
        bail!("--duration {duration} is out of range: use 1s to 10min per row");
    }
    let threads = sorted(args.threads.iter().copied());
    let (ways, sets) = (
        sorted(args.via.iter().copied()),
        sorted(args.working_set.iter().copied()),
    );
    check(args, &threads, &ways, &sets)?;
    let service = match args.policy {
        Some(policy) => policy,
        None => measuring::switch_policy(),
    };
    let cpus = cpus(args)?;
    let (stretches, length) = self::stretches(duration);
    let plan = |(via, working_set_bytes)| SwitchPlan {
        threads: threads.clone(),
        way: SwitchWay {
            via,
            service,
            #[cfg(target_os = "linux")]
            are_processes: args.processes,
            #[cfg(not(target_os = "linux"))]
            are_processes: false,
            working_set_bytes,
            is_cross: args.cross,
        },
        cpus: cpus.clone(),
        length,
        stretches,
    };
    let combinations = ways
        .iter()
        .flat_map(|&via| sets.iter().map(move |&set| (via, set)));
    let plans: Vec<SwitchPlan> = combinations.map(plan).collect();
    let bytes = plans.iter().map(SwitchPlan::bytes).max().unwrap_or(0);
    if let Some(free) = measuring::free_memory() {
        check_memory(bytes, free)?;
    }
    Ok(plans)
}

/// Returns the number of traced stretches of a row with this duration, and the length of
/// each stretch, the one without tracing included.
fn stretches(duration: Nanos) -> (usize, Nanos) {
    let total = duration.ns().div_ceil(MAX_STRETCH.ns());
    let total = total.max(MIN_STRETCHES);
    let traced = usize::try_from(total - 1).unwrap_or(usize::MAX);
    (traced, Nanos::from_ns(duration.ns() / total))
}

/// Refuses a test that needs more memory than `free` has to spare.
fn check_memory(bytes: u64, free: u64) -> anyhow::Result<()> {
    let (part, whole) = MAX_MEMORY_SHARE;
    if bytes > free / whole * part {
        bail!(
            "the test needs {} MiB of memory, and {} MiB are free; use fewer threads or smaller working sets",
            bytes >> 20,
            free >> 20
        );
    }
    Ok(())
}

fn sorted<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let unique: std::collections::BTreeSet<T> = values.collect();
    unique.into_iter().collect()
}

/// Refuses combinations of options that do not work.
fn check(
    args: &SwitchArgs,
    threads: &[usize],
    ways: &[HandOver],
    sets: &[u64],
) -> anyhow::Result<()> {
    let is_foreign = |policy: &SwitchPolicy| match policy {
        SwitchPolicy::Realtime(_) => !cfg!(windows),
        SwitchPolicy::Fifo(_) | SwitchPolicy::Deadline => cfg!(windows),
        SwitchPolicy::Other => false,
    };
    if let Some(policy) = args.policy.filter(is_foreign) {
        let own = if cfg!(windows) {
            "other, or realtime:16 to realtime:31"
        } else {
            "other, deadline, or fifo:1 to fifo:99"
        };
        bail!("--policy {policy} is a policy of another system; use {own}");
    }
    let has_yield = ways.contains(&HandOver::Yield);
    if has_yield && args.policy == Some(SwitchPolicy::Deadline) {
        bail!(
            "with --policy deadline, a thread of --via yield waits for its next period; use --via futex, pipe or eventfd"
        );
    }
    if has_yield && args.cross {
        bail!(
            "--via yield wakes no thread on another CPU; with --cross use --via futex, pipe or eventfd"
        );
    }
    if let Some(odd) = threads
        .iter()
        .find(|&&threads| args.cross && threads % 2 == 1)
    {
        bail!("--threads {odd} cannot be divided between two CPUs; with --cross use even numbers");
    }
    let max = threads.iter().max().copied().unwrap_or(0) as u64;
    if let Some(set) = sets.iter().find(|&&set| set * max > MAX_MEMORY) {
        bail!(
            "--threads {max} with --working-set {set} (bytes) needs more than 1 GiB; reduce one of them"
        );
    }
    Ok(())
}

/// Returns the CPU of the threads and, with --cross, a second one.
fn cpus(args: &SwitchArgs) -> anyhow::Result<Vec<Cpu>> {
    let cpu = measuring::one_cpu(args.cpu)?;
    if !args.cross {
        return Ok(vec![cpu]);
    }
    let allowed = measuring::allowed_cpus();
    let other = allowed
        .as_slice()
        .iter()
        .copied()
        .find(|&other| other != cpu);
    match other {
        Some(other) => Ok(vec![cpu, other]),
        None => bail!("--cross needs two CPUs, and this process may use CPU {cpu} only"),
    }
}

/// Ends the load.
///
/// # Errors
/// If it has ended by itself.
fn end_load(mut load: Option<LoadProcess>, name: Option<&str>) -> anyhow::Result<()> {
    match load.as_mut().map(LoadProcess::poll).transpose()?.flatten() {
        Some(status) => {
            let name = name.unwrap_or_default();
            bail!("the load `{name}` ended before the test: {status}");
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_has_enough_stretches_of_at_most_a_second() {
        for (secs, stretches) in [(1, 10), (4, 10), (11, 10), (12, 11), (600, 599)] {
            let duration = Nanos::from_secs(secs);

            let (traced, length) = super::stretches(duration);

            assert_eq!(traced, stretches, "{duration}");
            assert!(length <= MAX_STRETCH, "{duration}: {length}");
            let left = duration.saturating_sub(length * (stretches as u64 + 1));
            assert!(left < Nanos::from_us(1), "{duration}: {left} are left");
        }
    }

    #[test]
    fn locked_memory_does_not_depend_on_the_duration() {
        let bytes = |secs| {
            let (stretches, length) = super::stretches(Nanos::from_secs(secs));
            let plan = SwitchPlan {
                threads: vec![2, 128],
                way: SwitchWay::new(HandOver::Yield, SwitchPolicy::Other),
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
    fn a_test_that_needs_too_much_memory_is_refused() {
        let err = check_memory(800 << 20, 1 << 30).unwrap_err().to_string();

        assert_eq!(
            err,
            "the test needs 800 MiB of memory, and 1024 MiB are free; use fewer threads or smaller working sets"
        );
        assert!(check_memory(700 << 20, 1 << 30).is_ok());
    }
}
