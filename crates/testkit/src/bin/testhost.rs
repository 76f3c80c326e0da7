//! Boots a Debian kernel in QEMU, runs a command, and fetches its results.

#![forbid(unsafe_code)]

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand, ValueEnum};
use laggard_model::Nanos;
use laggard_testkit::host::{
    Architecture, HostOutcome, InstructionTime, Kernel, KernelName, Mode, TestHost,
};
use laggard_workload::disturb::{Hit, write_hits};

/// Boot a Debian kernel in QEMU, run a command, and fetch its results.
#[derive(Debug, Parser)]
#[command(name = "testhost")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Fetch kernels into the cache; all amd64 kernels by default.
    Fetch {
        /// Kernels such as 6.1, 6.12-rt or arm64-6.12.
        kernels: Vec<String>,
    },
    /// Boot a kernel, run a command, print its output and exit with its status.
    Run(Box<RunArguments>),
}

#[derive(Debug, clap::Args)]
struct RunArguments {
    /// Kernel such as 6.1, 6.12-rt or arm64-6.12.
    #[arg(long)]
    kernel: String,
    /// Clock: virtual time on one CPU, or real time on two.
    #[arg(long, value_enum, default_value_t = Time::Icount)]
    mode: Time,
    /// Number of CPUs. Only with --mode smp; the default is 2.
    #[arg(long)]
    cpus: Option<u32>,
    /// Virtual time per instruction: 1ns, 2ns, 4ns or 8ns.
    #[arg(long, default_value = "8ns")]
    instruction: Nanos,
    /// Program of this machine that is copied to /usr/bin with its libraries.
    #[arg(long)]
    program: Vec<PathBuf>,
    /// File of this machine and its path in the guest, as FROM:TO.
    #[arg(long, value_name = "FROM:TO")]
    file: Vec<String>,
    /// Add QEMU's `edu` device as /dev/uio0.
    #[arg(long)]
    edu: bool,
    /// Stop the whole machine: time after the start of the command and length, as 2s:20ms. Only
    /// with --mode smp.
    #[arg(long, value_name = "AT:LENGTH")]
    stall: Vec<String>,
    /// Write each stall by the guest's clock to this file: a line of JSON per CPU, as `laggard
    /// provoke --json` does.
    #[arg(long, value_name = "FILE", requires = "stall")]
    truth: Option<PathBuf>,
    /// Additional text of the kernel's command line.
    #[arg(long, default_value = "")]
    append: String,
    /// Memory in MiB; the default is 512, and 704 on arm64.
    #[arg(long)]
    memory: Option<u64>,
    /// Seed of the guest's random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Maximum real time, including the boot, without the time for which QEMU waits for a CPU.
    #[arg(long, default_value = "120s")]
    deadline: Nanos,
    /// Directory for `output` and the files that the command leaves in /result.
    #[arg(long)]
    results: Option<PathBuf>,
    /// Also show the guest's console.
    #[arg(long)]
    console: bool,
    /// Shell text to run.
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Time {
    Icount,
    Smp,
}

fn main() -> ExitCode {
    match Arguments::parse().verb {
        Verb::Fetch { kernels } => fetch(&kernels).map(|()| ExitCode::SUCCESS),
        Verb::Run(run) => boot(*run),
    }
    .unwrap_or_else(|error| {
        eprintln!("testhost: {error:#}");
        ExitCode::FAILURE
    })
}

fn fetch(kernels: &[String]) -> Result<()> {
    let amd64: Vec<String> = KernelName::of(Architecture::Amd64)
        .map(|name| name.to_string())
        .collect();
    for name in if kernels.is_empty() { &amd64 } else { kernels } {
        let kernel = Kernel::fetch(name).with_context(|| format!("fetch kernel {name}"))?;
        println!("{name}: {} in {}", kernel.release, kernel.image().display());
    }
    Ok(())
}

fn boot(run: RunArguments) -> Result<ExitCode> {
    let Some(instruction) = InstructionTime::new(run.instruction) else {
        bail!(
            "--instruction takes 1ns, 2ns, 4ns or 8ns, not {}",
            run.instruction
        );
    };
    let mode = match run.mode {
        Time::Icount => Mode::Icount,
        Time::Smp => Mode::Smp,
    };
    let cpus = run.cpus.unwrap_or(mode.cpus());
    if mode == Mode::Icount && cpus != 1 {
        bail!("--cpus needs --mode smp: in virtual time, a guest with several CPUs hangs");
    }
    let kernel = Kernel::fetch(&run.kernel)?;
    let mut host = TestHost::new(kernel)
        .mode(mode)
        .cpus(cpus)
        .instruction(instruction)
        .seed(run.seed)
        .kernel_arguments(&run.append)
        .deadline(run.deadline.into())
        .command(&run.command.join(" "));
    if let Some(memory) = run.memory {
        host = host.memory_mib(memory);
    }
    for program in run.program {
        host = host.program(program);
    }
    for pair in &run.file {
        let Some((from, to)) = pair.split_once(':') else {
            bail!("`{pair}` is not FROM:TO; write it as notes.txt:/root/notes.txt");
        };
        host = host.file(from, to);
    }
    for pair in &run.stall {
        let (start, length) = stall(pair)?;
        host = host.stall_at(start, length);
    }
    if run.edu {
        host = host.edu();
    }
    if let Some(directory) = run.results {
        host = host.results(directory);
    }
    let outcome = host.run()?;
    show(&outcome, run.console);
    if let Some(path) = run.truth {
        let hits: Vec<Hit> = outcome
            .stalls
            .iter()
            .flat_map(|stall| stall.hits(cpus))
            .collect();
        File::create(&path)
            .and_then(|file| write_hits(&hits, file))
            .with_context(|| format!("write `{}`", path.display()))?;
    }
    // As in a shell: statuses above 255 do not exist.
    Ok(ExitCode::from(u8::try_from(outcome.status).unwrap_or(255)))
}

fn stall(pair: &str) -> Result<(Duration, Duration)> {
    let Some((start, length)) = pair.split_once(':') else {
        bail!("`{pair}` is not AT:LENGTH; write it as 2s:20ms");
    };
    let (start, length): (Nanos, Nanos) = (start.parse()?, length.parse()?);
    Ok((start.into(), length.into()))
}

fn show(outcome: &HostOutcome, console: bool) {
    if console {
        eprint!("{}", outcome.console);
    }
    print!("{}", outcome.output);
    for stall in &outcome.stalls {
        eprintln!(
            "testhost: stalled {:.3} s after the command started, for {:.3} ms",
            stall.at.as_secs_f64(),
            stall.length.as_secs_f64() * 1e3
        );
    }
    for death in &outcome.deaths {
        eprintln!("testhost: booted again: {death}");
    }
    eprintln!(
        "testhost: status {}; {:.1} s real time, {:.1} s of it to boot",
        outcome.status,
        outcome.total.as_secs_f64(),
        outcome.boot.as_secs_f64()
    );
}
