//! One kernel against another under the same loads, on test hosts (OSDI'99
//! section 4.2, for today's kernels).

mod cell;
mod page;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use laggard_analyze::exceedance::{Collector, Stream};
use laggard_model::{Nanos, Route, Service};
use laggard_record::{Columns, OpenError, Recording};

use crate::host::{GuestError, Kernel, TestHost};
pub use cell::{Side, SlackComparison, VersusCell};
pub use page::page;

/// The loads, in the order in which a host runs them. `kernel` is
/// `KERNEL_LOAD`; the others are laggard's own.
pub const LOADS: [&str; 4] = ["idle", "fp", "fileio", "kernel"];

/// The load `kernel` as far as a test host's few programs go.
const KERNEL_LOAD: &str = include_str!("kernel.toml");

/// What is recorded.
const SERVICES: &str = "irq,softirq,worker,fifo:90,fifo:50,other";

/// How to compare.
#[derive(Clone, Debug)]
pub struct VersusPlan {
    /// The laggard that measures.
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
    /// A file for the host could not be written.
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
    /// What came back cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A recording lacks something.
    #[error("{0}")]
    Shortfall(String),
    /// The figures cannot be compared.
    #[error(transparent)]
    Input(#[from] laggard_analyze::InputError),
}

/// What one repetition under one load gave, by service and route.
#[derive(Clone, Debug)]
pub struct Repetition {
    /// Every latency, in order of the expiries.
    pub latencies: BTreeMap<(Route, Service), Vec<Nanos>>,
    /// When each was late: here of all activations, since so many are kept.
    pub streams: BTreeMap<(Route, Service), Stream>,
    /// When measuring began, by the clock of the streams.
    pub start: Nanos,
    /// How long was recorded.
    pub exposure: Nanos,
    /// Activations that were lost.
    pub lost: u64,
}

/// All loads on one kernel with one seed. What `into` already holds is not
/// recorded again, so that a comparison that was broken off can go on.
///
/// # Errors
/// When the host, the recordings or their reading fail.
pub fn repeat(
    kernel: &Kernel,
    plan: &VersusPlan,
    seed: u64,
    into: &Path,
) -> Result<Vec<Repetition>, VersusError> {
    let files = into.join("result");
    if !files.exists() {
        record(kernel, plan, seed, into)?;
    }
    LOADS
        .into_iter()
        .map(|load| read(&files.join(format!("{load}.laggard")), plan))
        .collect()
}

fn record(kernel: &Kernel, plan: &VersusPlan, seed: u64, into: &Path) -> Result<(), VersusError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| VersusError::Io { path, source }
    };
    std::fs::create_dir_all(into).map_err(io(into))?;
    let load = into.join("kernel.toml");
    std::fs::write(&load, KERNEL_LOAD).map_err(io(&load))?;
    let outcome = TestHost::new(kernel.clone())
        .seed(seed)
        .deadline(plan.deadline)
        .program(&plan.program)
        .file(&load, "/root/kernel.toml")
        .results(into)
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

fn read(directory: &Path, plan: &VersusPlan) -> Result<Repetition, VersusError> {
    let recording = Recording::open(directory)?;
    let lines = &recording.manifest().lines;
    let mut collector = Collector::new(lines.len(), plan.period * 2);
    let mut all: BTreeMap<(Route, Service), Vec<(Nanos, Nanos)>> = BTreeMap::new();
    let shortfalls = recording.scan(Columns::all(), |batch| {
        collector.add(batch);
        for one in batch.iter() {
            let line = lines[usize::from(one.line.0)];
            for (of, latency) in one.readings().of(line) {
                let key = (of.route, of.service);
                all.entry(key).or_default().push((one.expiry, latency));
            }
        }
    });
    if let Some(shortfall) = shortfalls.first() {
        return Err(VersusError::Shortfall(format!(
            "{}: {shortfall:?}",
            directory.display()
        )));
    }
    let in_order = |mut latencies: Vec<(Nanos, Nanos)>| {
        latencies.sort_unstable();
        latencies.into_iter().map(|(_, latency)| latency).collect()
    };
    Ok(Repetition {
        latencies: all
            .into_iter()
            .map(|(key, latencies)| (key, in_order(latencies)))
            .collect(),
        streams: collector
            .streams(lines)
            .into_iter()
            .map(|stream| ((stream.route, stream.service), stream))
            .collect(),
        start: recording.manifest().clock.start_ns,
        exposure: plan.duration,
        lost: recording.manifest().losses.activations(),
    })
}
