//! Compares stock with `PREEMPT_RT` kernels under four loads, on test hosts.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Parser;
use laggard_model::{Nanos, Route, Service};
use laggard_testkit::host::Kernel;
use laggard_testkit::versus::{LOADS, Repetition, VersusCell, VersusPlan, page, repeat};

/// Compare stock with real-time kernels under four loads; prints Markdown.
#[derive(Debug, Parser)]
#[command(name = "compare-kernels")]
struct Arguments {
    /// The laggard that measures; statically linked, or with its libraries.
    #[arg(long)]
    program: PathBuf,
    /// Which series: each stock against its `-rt`.
    #[arg(long, value_delimiter = ',', default_value = "6.12,7.2")]
    series: Vec<String>,
    /// How many repetitions, each with another seed.
    #[arg(long, default_value_t = 3)]
    repetitions: u64,
    /// How long each load is recorded, virtual time.
    #[arg(long, default_value = "10s")]
    duration: Nanos,
    /// Mean time between two expiries of a service.
    #[arg(long, default_value = "2ms")]
    period: Nanos,
    /// How late is too late.
    #[arg(long, value_delimiter = ',', default_value = "200us,1ms")]
    slacks: Vec<Nanos>,
    /// How much real time a host has for all loads.
    #[arg(long, default_value = "1800s")]
    deadline: Nanos,
    /// Where the recordings go; those that are there already are taken as they
    /// are.
    #[arg(long)]
    results: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let plan = VersusPlan {
        program: arguments.program,
        seeds: (1..=arguments.repetitions).collect(),
        duration: arguments.duration,
        period: arguments.period,
        slacks: arguments.slacks,
        deadline: arguments.deadline.into(),
    };
    for series in &arguments.series {
        let names = [series.clone(), format!("{series}-rt")];
        println!("{}", compare(&names, &plan, &arguments.results)?);
    }
    Ok(())
}

fn compare(names: &[String; 2], plan: &VersusPlan, results: &Path) -> Result<String> {
    // By kernel, then by load, the repetitions.
    let mut seen: [Vec<Vec<Repetition>>; 2] = [const { Vec::new() }; 2];
    for all in &mut seen {
        all.resize(LOADS.len(), Vec::new());
    }
    for (round, &seed) in plan.seeds.iter().enumerate() {
        // In turn, as a real machine would ask for; here order means nothing.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for side in order {
            let name = &names[side];
            eprintln!("{name}: repetition {} of {}", round + 1, plan.seeds.len());
            let kernel = Kernel::fetch(name).with_context(|| format!("fetch kernel {name}"))?;
            let into = results.join(format!("{name}-{seed}"));
            let loads = repeat(&kernel, plan, seed, &into)
                .with_context(|| format!("record on {name} with seed {seed}"))?;
            for (all, one) in seen[side].iter_mut().zip(loads) {
                all.push(one);
            }
        }
    }
    let mut loads = Vec::new();
    for (stock, rt) in seen[0].iter().zip(&seen[1]) {
        let keys: BTreeSet<(Route, Service)> = stock
            .iter()
            .chain(rt)
            .flat_map(|one| one.streams.keys().copied())
            .collect();
        loads.push(
            keys.into_iter()
                .map(|key| VersusCell::of(key, [stock, rt], &plan.slacks))
                .collect::<Result<Vec<_>, _>>()?,
        );
    }
    let lost = seen
        .each_ref()
        .map(|all| all.iter().flatten().map(|one| one.lost).sum());
    let [stock, rt] = names;
    Ok(page([stock, rt], &loads, lost)?)
}
