//! `laggard bench timers`: which timers of this machine expire as requested.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use laggard_answer::timers::{self, TimerClass, TimersMeasured, TimersReport};
use laggard_model::text::Unit;
use laggard_model::{Nanos, Service, TimerApi, TimerRun};
use laggard_trials::timers::TimerPlan;
use laggard_view::doc::Detail;
use laggard_view::timers::document;

#[cfg(target_os = "linux")]
use self::linux as here;
#[cfg(windows)]
use self::windows as here;
use crate::args::{TimerChoice, TimersArgs};
use crate::exit::Exit;
use crate::pipe;
use crate::pipe::Format;

/// In shorter waits the call itself dominates, and a real-time thread keeps all others from the
/// CPU.
const MIN_PERIOD: Nanos = Nanos::from_us(50);
const MAX_PERIOD: Nanos = Nanos::from_secs(1);
const MAX_DURATION: Nanos = Nanos::from_secs(600);
/// Waits for the period per row.
const MIN_WAITS: u64 = 10;
/// Minimum duration. It allows enough single waits for a result.
const MIN_DURATION: Nanos = Nanos::from_ms(500);

pub(crate) fn timers(args: &TimersArgs) -> anyhow::Result<Exit> {
    // Checked first, because measuring takes minutes.
    pipe::stdout()?;
    let plans = plans(args)?;
    let is_named = !args.api.contains(&TimerChoice::All);
    if args.max_lateness.is_some() && !is_named {
        bail!("--max-lateness needs --api; select timers with --api");
    }
    let mut kept = here::rows(args)?;
    let stop = here::interruption()?;
    let cpu = plans[0].cpu;
    let whole = args.duration * plans.len() as u64;
    pipe::say(&format!(
        "testing {} of {} each on CPU {cpu}, {} in total; Ctrl-C ends it",
        match plans.len() {
            1 => "1 row".into(),
            rows => format!("{rows} rows"),
        },
        args.duration,
        Unit::Auto.write_nanos(whole)
    ));
    let runs = measured(&plans, &stop, |plan, run| kept.add(plan, run));
    let report = timers::timers(&TimersMeasured {
        host: here::host(),
        cpu,
        clocks: here::clocks(),
        planned: plans.len(),
        runs,
        caveats: here::caveats(),
    });
    print(args, &report)?;
    kept.end(!stop.load(Ordering::Relaxed))?;
    let is_available = |class| class != TimerClass::Unavailable;
    let is_complete =
        report.unmeasured == 0 && report.rows.iter().all(|row| is_available(row.class));
    let is_within = args
        .max_lateness
        .is_none_or(|limit| report.is_within(limit));
    Ok(
        if (is_complete || !is_named) && is_within && !report.rows.is_empty() {
            Exit::Ok
        } else {
            Exit::Unmet
        },
    )
}

fn print(args: &TimersArgs, report: &TimersReport) -> anyhow::Result<()> {
    let format = Format {
        json: args.json,
        markdown: args.markdown,
    };
    let detail = Detail::new(args.all || args.markdown);
    pipe::print_answer(format, report, || document(report, detail))
}

/// Measures one row after the other, until all are done or `stop` is set. `keep` receives
/// each before the next one starts.
fn measured(
    plans: &[TimerPlan],
    stop: &AtomicBool,
    mut keep: impl FnMut(&TimerPlan, &TimerRun),
) -> Vec<TimerRun> {
    let mut bench = here::bench();
    let bar = ProgressBar::new(plans.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos} of {len}: {wide_msg}") {
        bar.set_style(style);
    }
    let mut runs = Vec::new();
    for plan in plans {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        bar.set_message(format!("{}, {}, {}", plan.api, plan.service, plan.period));
        let run = bench.measure(plan, stop);
        // A row that was ended early has figures of another duration.
        if stop.load(Ordering::Relaxed) {
            break;
        }
        keep(plan, &run);
        runs.push(run);
        bar.inc(1);
    }
    bar.finish_and_clear();
    runs
}

/// Returns the planned runs, in the order of rows.
fn plans(args: &TimersArgs) -> anyhow::Result<Vec<TimerPlan>> {
    let (cpu, duration) = (here::one_cpu(args.cpu)?, args.duration);
    if duration > MAX_DURATION {
        bail!("--duration {duration} is too long for a row; use at most {MAX_DURATION}");
    }
    if duration < MIN_DURATION {
        bail!("--duration {duration} is too short for a result; use at least {MIN_DURATION}");
    }
    let named = named(&args.api);
    for &period in &args.period {
        check_period(period, duration)?;
        if let Some(api) = named.iter().find(|api| period < api.unit()) {
            bail!(
                "--period {period} is too short for `{api}`, which takes whole units of {}; use a longer period or another timer",
                api.unit()
            );
        }
    }
    here::check_policies(&args.policy)?;
    let apis = if named.is_empty() {
        let apis = TimerApi::HERE.iter().copied();
        apis.filter(|api| !api.is_injected()).collect()
    } else {
        named
    };
    let blocks = each_once(&args.policy)
        .into_iter()
        .flat_map(|service: Service| {
            each_once(&args.period)
                .into_iter()
                .map(move |period| (service, period))
        });
    Ok(blocks
        .flat_map(|(service, period)| {
            apis.iter().map(move |&api| TimerPlan {
                api,
                service,
                period,
                duration,
                cpu,
            })
        })
        .collect())
}

/// Returns the timers that the user named, each once; none if the user chose all.
fn named(choices: &[TimerChoice]) -> Vec<TimerApi> {
    let named = choices.iter().map(|choice| match choice {
        TimerChoice::All => None,
        TimerChoice::Api(api) => Some(*api),
    });
    each_once(&named.collect::<Option<Vec<_>>>().unwrap_or_default())
}

fn each_once<T: Copy + PartialEq>(values: &[T]) -> Vec<T> {
    let mut unique = Vec::new();
    for value in values {
        if !unique.contains(value) {
            unique.push(*value);
        }
    }
    unique
}

fn check_period(period: Nanos, duration: Nanos) -> anyhow::Result<()> {
    if period < MIN_PERIOD {
        bail!(
            "--period {period} is too short: the call itself would dominate; use at least {MIN_PERIOD}"
        );
    }
    if period > MAX_PERIOD {
        bail!("--period {period} is too long; use at most {MAX_PERIOD}");
    }
    let min = period * (2 * MIN_WAITS);
    if duration < min {
        bail!(
            "--duration {duration} has fewer than {MIN_WAITS} waits for --period {period}; use --duration {min} or more"
        );
    }
    Ok(())
}
