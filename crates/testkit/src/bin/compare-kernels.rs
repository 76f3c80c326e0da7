//! Compares stock with `PREEMPT_RT` kernels under four loads, on test hosts.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Parser;
use laggard_model::Nanos;
use laggard_testkit::host::Kernel;
use laggard_testkit::versus::{VersusPlan, compared, record};

/// Compare stock with real-time kernels under four loads and print Markdown.
#[derive(Debug, Parser)]
#[command(name = "compare-kernels")]
struct Arguments {
    /// Program that measures and compares; statically linked, or with its libraries.
    #[arg(long)]
    program: PathBuf,
    /// Kernel series to compare, each stock against its `-rt`.
    #[arg(long, value_delimiter = ',', default_value = "6.12,7.2")]
    series: Vec<String>,
    /// Number of repetitions, each with another seed; a verdict needs at least 4.
    #[arg(long, default_value_t = 4)]
    repetitions: u64,
    /// Duration of the recording under each load, virtual time.
    #[arg(long, default_value = "10s")]
    duration: Nanos,
    /// Mean time between two expiries of a service.
    #[arg(long, default_value = "2ms")]
    period: Nanos,
    /// Maximum latencies to test against.
    #[arg(long, value_delimiter = ',', default_value = "200us,1ms")]
    slacks: Vec<Nanos>,
    /// Maximum real time of a host for all loads.
    #[arg(long, default_value = "1800s")]
    deadline: Nanos,
    /// Directory of the recordings; existing ones are used again.
    #[arg(long)]
    results: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let program = arguments.program;
    let plan = VersusPlan {
        // The program runs in another directory.
        program: std::path::absolute(&program).context("the program's path")?,
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
    for (round, &seed) in plan.seeds.iter().enumerate() {
        // Alternates the order as for a real machine; here the order does not matter.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for name in order.map(|side| &names[side]) {
            eprintln!("{name}: repetition {} of {}", round + 1, plan.seeds.len());
            let kernel = Kernel::fetch(name).with_context(|| format!("fetch kernel {name}"))?;
            record(&kernel, name, plan, seed, results)
                .with_context(|| format!("record on {name} with seed {seed}"))?;
        }
    }
    let [stock, rt] = names;
    Ok(compared([stock, rt], plan, results)?)
}
