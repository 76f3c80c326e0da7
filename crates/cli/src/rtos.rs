//! `laggard bench rtos`: tests whether this system meets the requirements on a real-time
//! operating system.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};
use laggard_answer::rtos::{RtosInput, RtosReport, rtos as evaluate};
use laggard_model::text::Unit;
use laggard_model::{
    Absence, Cpu, Lacks, Nanos, RtosCriterion, RtosLoadRun, RtosWakeups, WaitQueue, printable,
};
#[cfg(target_os = "linux")]
use laggard_model::{CpuList, InterruptSource};
use laggard_trials::rtos::{RtosBench, RtosPlan};
use laggard_view::doc::{self, Detail};
use laggard_view::rtos::document;
#[cfg(target_os = "linux")]
use laggard_workload::load::Launch;
#[cfg(windows)]
use laggard_workload::load::LoadProcess;

use crate::args::RtosArgs;
use crate::exit::Exit;
use crate::measuring::FoundLoad;
use crate::pipe::Format;
use crate::{measuring, pipe};

const MIN_DURATION: Nanos = Nanos::from_secs(1);
const MAX_DURATION: Nanos = Nanos::from_secs(600);
/// Times between two interrupts of the HPET. The handler takes some microseconds.
#[cfg(target_os = "linux")]
const HPET_PERIODS: [Nanos; 2] = [Nanos::from_us(50), Nanos::from_ms(1)];
/// A computing thread that is not preempted gives up after this time.
const MAX_LIMIT: Nanos = Nanos::from_ms(20);

pub(crate) fn rtos(args: &RtosArgs) -> anyhow::Result<Exit> {
    // Checked first, because measuring takes minutes.
    pipe::stdout()?;
    let (plan, criteria) = plan(args)?;
    if let Some(path) = &args.output {
        laggard_files::check(path, "page")?;
    }
    let loads = if criteria.contains(&RtosCriterion::Bounded) {
        find_loads(&args.loads)?
    } else {
        Vec::new()
    };
    let stop = measuring::interruption()?;
    pipe::say(&announcement(
        plan.cpu,
        criteria.len(),
        args.duration,
        loads.len(),
    ));
    let host = measuring::host();
    let mut input = RtosInput::new(host, plan.cpu, args.within, criteria);
    input.warnings = measuring::caveats();
    let mut bench = RtosBench::new(plan);
    run_tests(&mut bench, args.duration, &loads, &mut input, &stop);
    let report = evaluate(&input);
    print(args, &report)?;
    Ok(if report.is_met() {
        Exit::Ok
    } else {
        Exit::Unmet
    })
}

fn announcement(cpu: Cpu, criteria: usize, duration: Nanos, loads: usize) -> String {
    let tests = match criteria {
        1 => "1 criterion".to_owned(),
        criteria => format!("{criteria} criteria"),
    };
    let loads = match loads {
        0 => String::new(),
        1 => ", `bounded` under 1 load".to_owned(),
        loads => format!(", `bounded` under each of {loads} loads"),
    };
    let duration = Unit::Auto.write_nanos(duration);
    format!(
        "testing {tests} with real-time threads on CPU {cpu}, up to {duration} each{loads}; Ctrl-C ends the test"
    )
}

fn print(args: &RtosArgs, report: &RtosReport) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        let page = doc::html(
            &document(report, Detail::Full),
            "laggard bench rtos",
            &|_| None,
        );
        laggard_files::write(path, "page", page.as_bytes())?;
        let name = path.display().to_string();
        return pipe::print(&format!(
            "Wrote {}; open it in a browser\n",
            printable(&name)
        ));
    }
    let format = Format {
        json: args.json,
        markdown: args.markdown,
    };
    let detail = Detail::new(args.markdown);
    pipe::print_answer(format, report, || document(report, detail))
}

/// Runs one test after the other, until all have run or `stop` is set. A test that ended
/// early does not have a result.
fn run_tests(
    bench: &mut RtosBench,
    duration: Nanos,
    loads: &[FoundLoad],
    input: &mut RtosInput,
    stop: &AtomicBool,
) {
    let bar = ProgressBar::new(input.requested.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos} of {len}: {wide_msg}") {
        bar.set_style(style);
    }
    for criterion in input.requested.clone() {
        bar.set_message(criterion.requirement());
        bar.tick();
        let mut next = input.clone();
        match criterion {
            RtosCriterion::Preemption => next.preemption = Some(bench.preemption(duration, stop)),
            RtosCriterion::Priorities => next.priorities = Some(bench.priorities(stop)),
            RtosCriterion::Order => {
                let queues = WaitQueue::HERE.iter();
                next.order = Some(queues.map(|&queue| bench.order(queue, stop)).collect());
            }
            RtosCriterion::Inversion => next.inversion = Some(bench.inversion(stop)),
            RtosCriterion::Bounded => {
                let half = Nanos::from_ns(duration.ns() / 2);
                next.bounded = Some(run_under_loads(bench, half, loads, input.cpu, stop));
            }
            RtosCriterion::Locked => next.locked = Some(bench.locked(stop)),
            RtosCriterion::Interrupts => next.interrupts = Some(bench.interrupts(stop)),
            RtosCriterion::Deferred => next.deferred = Some(bench.deferred(stop)),
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        *input = next;
        bar.inc(1);
    }
    bar.finish_and_clear();
}

fn find_loads(arguments: &[String]) -> anyhow::Result<Vec<FoundLoad>> {
    arguments
        .iter()
        .map(|argument| measuring::find_load(argument))
        .collect()
}

/// Measures wakeups for `each` under each load, and again in reverse order. Activity of
/// the machine that lasts for a while is then rarely attributed to a load.
fn run_under_loads(
    bench: &mut RtosBench,
    each: Nanos,
    loads: &[FoundLoad],
    cpu: Cpu,
    stop: &AtomicBool,
) -> Vec<RtosLoadRun> {
    let visits = loads.iter().chain(loads.iter().rev());
    let mut first: Vec<RtosLoadRun> = visits
        .map(|load| run_under_load(bench, each, load, cpu, stop))
        .collect();
    let second = first.split_off(loads.len()).into_iter().rev();
    first
        .into_iter()
        .zip(second)
        .map(|(first, second)| RtosLoadRun {
            load: first.load,
            wakeups: first
                .wakeups
                .and_then(|wakeups| Ok(wakeups.and(second.wakeups?))),
        })
        .collect()
}

/// Measures wakeups under a load. The failure of a load does not end the other tests.
fn run_under_load(
    bench: &mut RtosBench,
    each: Nanos,
    load: &FoundLoad,
    cpu: Cpu,
    stop: &AtomicBool,
) -> RtosLoadRun {
    let failure = |err: anyhow::Error| {
        Absence::new(
            format!("the load `{}` failed: {err:#}", load.name),
            format!("see the output of `laggard load run {}`", load.argument),
            Lacks::Machine,
        )
    };
    let wakeups = match &load.absence {
        Some(absence) => Err(absence.clone()),
        // The user ended the tests. The caller leaves this criterion out.
        None if stop.load(Ordering::Relaxed) => Ok(RtosWakeups::default()),
        None => measure_while_running(bench, each, &load.argument, cpu, stop)
            .unwrap_or_else(|err| Err(failure(err))),
    };
    RtosLoadRun {
        load: load.name.clone(),
        wakeups,
    }
}

/// Measures wakeups while the load runs on `cpu`. On another CPU it would delay no wakeup.
fn measure_while_running(
    bench: &mut RtosBench,
    each: Nanos,
    load: &str,
    cpu: Cpu,
    stop: &AtomicBool,
) -> anyhow::Result<Result<RtosWakeups, Absence>> {
    let helper = std::env::current_exe().context("cannot find this program, which runs loads")?;
    #[cfg(windows)]
    let mut process = LoadProcess::start(&helper, load.parse()?, Some(cpu), stop)?;
    #[cfg(target_os = "linux")]
    let mut process = {
        let launch = Launch::named(helper, load)
            .held()
            .cpus(CpuList::from_iter([cpu]));
        let mut process = launch.user(measuring::load_user(load)).start()?;
        if !process.wait_until_ready(stop)? {
            process.stop()?;
            return Ok(Ok(RtosWakeups::default()));
        }
        process
    };
    process.begin();
    let wakeups = bench.wakeups_under_load(each, stop);
    if let Some(status) = process.poll()? {
        bail!("it ended before the test: {status}");
    }
    process.stop()?;
    Ok(wakeups)
}

fn plan(args: &RtosArgs) -> anyhow::Result<(RtosPlan, Vec<RtosCriterion>)> {
    let duration = args.duration;
    if !(MIN_DURATION..=MAX_DURATION).contains(&duration) {
        bail!("--duration {duration} is out of range: use 1s to 10min per criterion");
    }
    if args.within >= MAX_LIMIT {
        bail!(
            "--within {} is too long: use less than {MAX_LIMIT} (a test thread then gives up)",
            args.within
        );
    }
    let mut criteria = if args.only.is_empty() {
        RtosCriterion::ALL.to_vec()
    } else {
        args.only.clone()
    };
    criteria.sort_unstable();
    criteria.dedup();
    #[cfg(target_os = "linux")]
    check_source(args, &criteria)?;
    let plan = RtosPlan {
        cpu: measuring::one_cpu(args.cpu)?,
        duration,
        #[cfg(target_os = "linux")]
        source: args.source,
        #[cfg(target_os = "linux")]
        hpet_period: args.every,
        #[cfg(not(target_os = "linux"))]
        source: None,
        #[cfg(not(target_os = "linux"))]
        hpet_period: None,
    };
    Ok((plan, criteria))
}

/// Refuses options of interrupts that do not work.
#[cfg(target_os = "linux")]
fn check_source(args: &RtosArgs, criteria: &[RtosCriterion]) -> anyhow::Result<()> {
    if let Some(source) = args.source
        && !criteria.contains(&RtosCriterion::Interrupts)
    {
        bail!("--source {source} needs the criterion `interrupts`: add it to --only");
    }
    if let Some(every) = args.every {
        if args.source != Some(InterruptSource::Hpet) {
            bail!("--every {every} sets the HPET; add --source hpet");
        }
        if !(HPET_PERIODS[0]..=HPET_PERIODS[1]).contains(&every) {
            bail!(
                "--every {every} is not {} to {}",
                HPET_PERIODS[0],
                HPET_PERIODS[1]
            );
        }
    }
    Ok(())
}
