//! Comparison of two kernels under the same loads (OSDI'99 section 4.2, for current kernels):
//! recorded on test hosts, and compared by laggard.

mod fold;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use laggard_model::Nanos;

use crate::host::{GuestError, Kernel, TestHost};
use fold::folded;

/// Loads in the order of their runs on a host. `kernel` is `KERNEL_LOAD`; the others are built in.
pub const LOADS: [&str; 4] = ["idle", "fp", "fileio", "kernel"];

/// The load `kernel`, limited to the programs of a test host.
const KERNEL_LOAD: &str = include_str!("kernel.toml");

/// Services to record.
const SERVICES: &str = "irq,softirq,worker,fifo:90,fifo:50,other";

/// Heading of laggard's Markdown output.
const HEADING: &str = "## B against A\n";

/// Plan of a comparison.
#[derive(Clone, Debug)]
pub struct VersusPlan {
    /// Program that measures on the hosts, and compares on this machine.
    pub program: PathBuf,
    /// Seeds, one per repetition: a seed determines the placement of kernel and data.
    pub seeds: Vec<u64>,
    /// Duration of the recording under each load, virtual time.
    pub duration: Nanos,
    /// Mean time between two expiries of a service.
    pub period: Nanos,
    /// Maximum latencies, each tested separately.
    pub slacks: Vec<Nanos>,
    /// Maximum real time of a host for all loads.
    pub deadline: Duration,
}

/// Reason why the comparison failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VersusError {
    /// The host did not run, or a program is missing on it.
    #[error(transparent)]
    Run(#[from] GuestError),
    /// A file for the host could not be written, or the program could not be run.
    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The recording on the host failed.
    #[error("laggard ended with status {status} on the test host; it wrote:\n{output}")]
    Laggard {
        status: i32,
        /// Output of laggard.
        output: String,
    },
    /// The comparison of the recordings failed.
    #[error("load {load}: laggard compare ended with {status}; it wrote:\n{output}")]
    Compare {
        load: String,
        status: std::process::ExitStatus,
        /// Standard error of laggard.
        output: String,
    },
}

/// Records all loads on one kernel with one seed in a directory of `results`. Existing recordings
/// are not repeated, so that an interrupted comparison can continue.
///
/// # Errors
///
/// Returns an error if the host or a recording on it fails.
pub fn record(
    kernel: &Kernel,
    name: &str,
    plan: &VersusPlan,
    seed: u64,
    results: &Path,
) -> Result<(), VersusError> {
    let into = results.join(folder(name, seed));
    if into.join("result").exists() {
        return Ok(());
    }
    std::fs::create_dir_all(&into).map_err(io(&into))?;
    let load = into.join("kernel.toml");
    std::fs::write(&load, KERNEL_LOAD).map_err(io(&load))?;
    let outcome = TestHost::new(kernel.clone())
        .seed(seed)
        .deadline(plan.deadline)
        .program(&plan.program)
        .file(&load, "/root/kernel.toml")
        .results(&into)
        .command(&command(plan))
        .run()?;
    if outcome.status != 0 {
        return Err(VersusError::Laggard {
            status: outcome.status,
            output: outcome.output,
        });
    }
    Ok(())
}

/// Compares the second kernel with the first under all loads, as laggard's Markdown with a
/// heading per load.
///
/// # Errors
///
/// Returns an error if laggard cannot be run, or refuses to compare the recordings.
pub fn compared(
    names: [&str; 2],
    plan: &VersusPlan,
    results: &Path,
) -> Result<String, VersusError> {
    let [first, second] = names;
    let mut text = format!("## {second} against {first}\n");
    for load in LOADS {
        let markdown = of_load(names, plan, load, results)?;
        let markdown = markdown.strip_prefix(HEADING).unwrap_or(&markdown);
        text += &format!("\n### `{load}`: {second} (B) against {first} (A)\n");
        text += &folded(markdown);
    }
    Ok(text)
}

fn of_load(
    names: [&str; 2],
    plan: &VersusPlan,
    load: &str,
    results: &Path,
) -> Result<String, VersusError> {
    let [first, second] = names.map(|name| {
        let seeds = plan.seeds.iter();
        seeds.map(move |&seed| {
            let result = Path::new(&folder(name, seed)).join("result");
            result.join(format!("{load}.laggard"))
        })
    });
    let slacks = plan.slacks.iter().map(Nanos::to_string);
    // Runs in the directory of the results, so that paths are short.
    let output = Command::new(&plan.program)
        .current_dir(results)
        .arg("compare")
        .args(first)
        .arg("--with")
        .args(second)
        .arg("--at")
        .arg(slacks.collect::<Vec<_>>().join(","))
        .args(["--markdown", "--all"])
        .output()
        .map_err(io(&plan.program))?;
    if !output.status.success() {
        return Err(VersusError::Compare {
            load: load.into(),
            status: output.status,
            output: String::from_utf8_lossy(&output.stderr).into_owned(),
        });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the directory of a repetition on a kernel, below the results.
fn folder(name: &str, seed: u64) -> String {
    format!("{name}-{seed}")
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> VersusError {
    let path = path.to_owned();
    move |source| VersusError::Io { path, source }
}

/// Returns the shell text that a host runs.
fn command(plan: &VersusPlan) -> String {
    let mut text = String::new();
    for load in LOADS {
        let with = match load {
            "idle" => String::new(),
            "kernel" => "--load ./kernel.toml ".into(),
            other => format!("--load {other} "),
        };
        // Status 3: recorded, with warnings that the results show.
        text += &format!(
            "laggard record -q --episodes off --services {SERVICES} --period {} --duration {} \
             {with}-o /result/{load}.laggard || [ $? = 3 ] || exit 1\n",
            plan.period, plan.duration
        );
    }
    text
}
