//! `laggard timers`: which timer of this machine does what it says.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use laggard_answer::timers::{self, TimerClass, TimersMeasured};
use laggard_model::text::Unit;
use laggard_model::{Nanos, Service, TimerApi, TimerRun};
use laggard_trials::timers::TimerPlan;
use laggard_view::text::{self, TimerTables};

#[cfg(target_os = "linux")]
use self::linux as here;
#[cfg(windows)]
use self::windows as here;
use crate::args::{SomeTimers, TimersArgs};
use crate::exit::Exit;
use crate::{pipe, terminal};

/// Shorter waits are mostly the call itself, and a real-time thread that asks for
/// them leaves nobody else the CPU.
const LEAST_PERIOD: Nanos = Nanos::from_us(50);
const MOST_PERIOD: Nanos = Nanos::from_secs(1);
const MOST_DURATION: Nanos = Nanos::from_secs(600);
/// A row has at least so many waits for the period.
const LEAST_WAITS: u64 = 10;
/// Single waits take so long at most to say something.
const LEAST_DURATION: Nanos = Nanos::from_ms(500);

pub(crate) fn timers(args: &TimersArgs) -> anyhow::Result<Exit> {
    // Before anything is measured, which takes minutes.
    pipe::stdout()?;
    let plans = plans(args)?;
    let is_named = !args.api.contains(&SomeTimers::All);
    if args.max_lateness.is_some() && !is_named {
        bail!("--max-lateness is for timers named with --api; name those that matter");
    }
    let mut kept = here::rows(args)?;
    let stop = here::interruption()?;
    let cpu = plans[0].cpu;
    let whole = args.duration * plans.len() as u64;
    pipe::say(&format!(
        "{} of {} each on CPU {cpu}: {} in all; Ctrl-C ends it",
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
    pipe::print(&if args.json {
        pipe::json(&report)?
    } else {
        let tables = TimerTables {
            first: args.table1,
            second: args.table2,
        };
        text::timers(&report, tables, terminal::look(Unit::Auto))
    })?;
    kept.end(!stop.load(Ordering::Relaxed))?;
    let is_there = |class| class != TimerClass::Unavailable;
    let is_whole = report.unmeasured == 0;
    let is_had = is_whole && report.rows.iter().all(|row| is_there(row.class));
    let keeps = args.max_lateness.is_none_or(|most| report.keeps(most));
    let is_told = !report.rows.is_empty();
    Ok(if (is_had || !is_named) && keeps && is_told {
        Exit::Ok
    } else {
        Exit::Unmet
    })
}

/// One after the other, until all were tried or `stop` is set; `keep` has each before
/// the next one.
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
        bar.set_message(format!("{} as {}, {}", plan.api, plan.service, plan.period));
        let run = bench.measure(plan, stop);
        // What was ended early is no row: its figures are of another length.
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

/// What is to be measured, in the order of rows.
fn plans(args: &TimersArgs) -> anyhow::Result<Vec<TimerPlan>> {
    let (cpu, duration) = (here::one_cpu(args.cpu)?, args.duration);
    if duration > MOST_DURATION {
        bail!("--duration {duration} is too long for a row; use at most {MOST_DURATION}");
    }
    if duration < LEAST_DURATION {
        bail!("--duration {duration} is too short to tell anything; use at least {LEAST_DURATION}");
    }
    let named = named(&args.api);
    for &period in &args.period {
        check_period(period, duration)?;
        if let Some(api) = named.iter().find(|api| period < api.unit()) {
            bail!(
                "`{api}` takes whole units of {}, and --period {period} is less than one; use a longer period or another timer",
                api.unit()
            );
        }
    }
    here::check_policies(&args.policy)?;
    let apis = if named.is_empty() {
        TimerApi::HERE.to_vec()
    } else {
        named
    };
    let blocks = each_once(&args.policy)
        .into_iter()
        .flat_map(|service: Service| {
            each_once(&args.period)
                .into_iter()
                .map(move |it| (service, it))
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

/// The timers asked for by name, each once; none where all are asked for.
fn named(asked: &[SomeTimers]) -> Vec<TimerApi> {
    let named = asked.iter().map(|one| match one {
        SomeTimers::All => None,
        SomeTimers::One(api) => Some(*api),
    });
    each_once(&named.collect::<Option<Vec<_>>>().unwrap_or_default())
}

fn each_once<T: Copy + PartialEq>(all: &[T]) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(one) {
            found.push(*one);
        }
    }
    found
}

fn check_period(period: Nanos, duration: Nanos) -> anyhow::Result<()> {
    if period < LEAST_PERIOD {
        bail!(
            "--period {period} is less than a timer can do: what would be measured is the call itself; use at least {LEAST_PERIOD}"
        );
    }
    if period > MOST_PERIOD {
        bail!("--period {period} is too long; use at most {MOST_PERIOD}");
    }
    let least = period * (2 * LEAST_WAITS);
    if duration < least {
        bail!(
            "a row of {duration} has fewer than {LEAST_WAITS} waits for --period {period}; use --duration {least} or more"
        );
    }
    Ok(())
}
