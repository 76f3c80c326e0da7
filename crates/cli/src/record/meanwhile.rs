//! What else the machine does while it is measured.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use laggard_measure::linux;
use laggard_model::{Caveat, CaveatKind, LoadRun, Nanos};
use laggard_workload::load::{Launch, Load, LoadProcess, Output};

use crate::args::RecordArgs;

/// The load of a recording, if any.
#[derive(Debug)]
pub(super) struct Meanwhile {
    run: Option<LoadRun>,
    process: Option<LoadProcess>,
    is_command: bool,
    failure: Option<Failure>,
}

/// How a command of the user's failed by itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Failure {
    /// What to say of it.
    pub(crate) what: String,
    /// As shells have it: its exit status, or 128 and the signal's number.
    pub(crate) code: u8,
}

impl Meanwhile {
    /// Launches the load that was asked for. It waits for the word to begin,
    /// set up if it is one of ours.
    pub(super) fn launch(args: &RecordArgs, interrupted: &AtomicBool) -> anyhow::Result<Self> {
        let (name, launch, command, usage) = if let Some(name) = &args.load {
            let load = Load::find(name)?;
            let program = std::env::current_exe().context("find this program, to run the load")?;
            (
                load.name().to_owned(),
                Launch::named(program, name).held(),
                Vec::new(),
                load.usage(),
            )
        } else if let Some(first) = args.command.first() {
            let words = args
                .command
                .iter()
                .map(|word| word.to_string_lossy().into_owned());
            let launch = Launch::new(args.command.clone()).output(Output::Null);
            let launch = launch.told();
            (
                first.to_string_lossy().into_owned(),
                launch,
                words.collect(),
                None,
            )
        } else {
            return Ok(Self {
                run: None,
                process: None,
                is_command: false,
                failure: None,
            });
        };
        let launch = launch.open_files(linux::usual_descriptors());
        let launch = match &args.load_cpus {
            Some(cpus) => launch.cpus(cpus.clone()),
            None => launch,
        };
        let mut process = launch.start()?;
        if command.is_empty() {
            process
                .wait_until_ready(interrupted)
                .with_context(|| format!("set up the load `{name}`"))?;
        }
        Ok(Self {
            process: Some(process),
            is_command: !command.is_empty(),
            failure: None,
            run: Some(LoadRun {
                name,
                command,
                usage,
                ended: None,
                begun_ns: None,
                throughput: None,
            }),
        })
    }

    /// How the user's command failed, if it ended by itself and did. Known
    /// once it was stopped.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure.clone()
    }

    /// Gives the word to begin, `now`.
    pub(super) fn begin(&mut self, now: Nanos) {
        if let (Some(process), Some(run)) = (&mut self.process, &mut self.run) {
            run.begun_ns = Some(now);
            process.begin();
        }
    }

    /// What the manifest says of it.
    pub(super) fn run(&self) -> Option<LoadRun> {
        self.run.clone()
    }

    /// Whether a command of the user's has ended, and with it the recording.
    /// A built-in load that ends by itself has failed; see [`Meanwhile::stop`].
    pub(super) fn has_ended(&mut self) -> anyhow::Result<bool> {
        let Some(process) = &mut self.process else {
            return Ok(false);
        };
        let Some(ended) = process.poll()? else {
            return Ok(false);
        };
        if let Some(run) = &mut self.run {
            run.ended.get_or_insert_with(|| ended.to_string());
        }
        Ok(self.is_command)
    }

    /// Ends the load. Returns what is to be said of it.
    pub(super) fn stop(&mut self) -> anyhow::Result<Vec<Caveat>> {
        let (Some(process), Some(run)) = (self.process.take(), &mut self.run) else {
            return Ok(Vec::new());
        };
        let ended = process.stop()?;
        run.throughput = ended.throughput;
        if self.is_command
            && let Some(how) = &run.ended
            && !ended.status.success()
        {
            self.failure = Some(Failure {
                what: format!("`{}` failed: {how}", run.name),
                code: code_of(ended.status),
            });
        }
        let mut caveats = Vec::new();
        if let Some(how) = run
            .ended
            .as_ref()
            .filter(|_| !self.is_command || !ended.status.success())
        {
            caveats.push(Caveat::new(
                CaveatKind::LoadEnded,
                format!("the load `{}` ended before the recording: {how}", run.name),
                "the figures are partly of a machine without it; run the load by itself to see why",
            ));
        }
        Ok(caveats)
    }
}

/// A status as shells have it.
fn code_of(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| code.try_into().ok()).unwrap_or(1)
}
