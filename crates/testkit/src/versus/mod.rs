//! One kernel against another under the same loads (OSDI'99 section 4.2, for
//! today's kernels): recorded on test hosts, and compared by laggard itself.

mod fold;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use laggard_model::Nanos;

use crate::host::{GuestError, Kernel, TestHost};
use fold::folded;

/// The loads, in the order in which a host runs them. `kernel` is
/// `KERNEL_LOAD`; the others are laggard's own.
pub const LOADS: [&str; 4] = ["idle", "fp", "fileio", "kernel"];

/// The load `kernel` as far as a test host's few programs go.
const KERNEL_LOAD: &str = include_str!("kernel.toml");

/// What is recorded.
const SERVICES: &str = "irq,softirq,worker,fifo:90,fifo:50,other";

/// The heading of laggard's Markdown.
const HEADING: &str = "## B against A\n";

/// How to compare.
#[derive(Clone, Debug)]
pub struct VersusPlan {
    /// The laggard that measures, on the hosts, and compares, here.
    pub program: PathBuf,
    /// One repetition for each: it places kernel and data elsewhere.
    pub seeds: Vec<u64>,
    /// How long each load is recorded, virtual time.
    pub duration: Nanos,
    /// Mean time between two expiries of a service.
    pub period: Nanos,
    /// How long a service may be late; each is judged by itself.
    pub slacks: Vec<Nanos>,
    /// How much real time a host has for all loads.
    pub deadline: Duration,
}

/// Why nothing can be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VersusError {
    /// The host did not run, or a program of it is missing.
    #[error(transparent)]
    Run(#[from] GuestError),
    /// A file for the host could not be written, or the program not be run.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The recording in the host failed.
    #[error("laggard ended with status {status} on the test host; it wrote:\n{output}")]
    Laggard {
        /// Its exit status.
        status: i32,
        /// What it wrote.
        output: String,
    },
    /// The recordings were not compared.
    #[error("load {load}: laggard compare ended with {status}; it wrote:\n{output}")]
    Compare {
        /// The load.
        load: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it wrote to standard error.
        output: String,
    },
}

/// Records all loads on one kernel with one seed in a folder of `results`. What
/// that holds is not recorded again, so that a comparison that was broken off can
/// go on.
///
/// # Errors
/// When the host fails, or a recording on it.
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

/// The second kernel compared with the first under all loads, as laggard's own
/// Markdown, with a heading for each load.
///
/// # Errors
/// When laggard cannot be run, or refuses to compare the recordings.
pub fn compared(
    names: [&str; 2],
    plan: &VersusPlan,
    results: &Path,
) -> Result<String, VersusError> {
    let [first, second] = names;
    let mut text = format!("## {second} against {first}\n");
    for load in LOADS {
        let found = of_load(names, plan, load, results)?;
        let found = found.strip_prefix(HEADING).unwrap_or(&found);
        text += &format!("\n### `{load}`: {second} (B) against {first} (A)\n");
        text += &folded(found);
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
    // In the folder of results: paths are then as short as they can be.
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

/// Where a repetition on a kernel is, in the folder of results.
fn folder(name: &str, seed: u64) -> String {
    format!("{name}-{seed}")
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> VersusError {
    let path = path.to_owned();
    move |source| VersusError::Io { path, source }
}

/// The shell text that a host runs.
fn command(plan: &VersusPlan) -> String {
    let mut text = String::new();
    for load in LOADS {
        let with = match load {
            "idle" => String::new(),
            "kernel" => "--load ./kernel.toml ".into(),
            other => format!("--load {other} "),
        };
        // Status 3: recorded, with reasons for doubt that the figures show.
        text += &format!(
            "laggard record -q --episodes off --services {SERVICES} --period {} --duration {} \
             {with}-o /result/{load}.laggard || [ $? = 3 ] || exit 1\n",
            plan.period, plan.duration
        );
    }
    text
}
