//! What else the machine does while it is measured.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;

use laggard_measure::linux;
use laggard_model::{Caveat, CaveatKind, LoadRun, Nanos};
use laggard_workload::load::{Launch, LaunchError, LoadProcess, NamedLoad, Output};

use crate::{LoadChoice, Plan, SessionError};

/// The load of a session, if any.
#[derive(Debug, Default)]
pub(crate) struct Meanwhile {
    run: Option<LoadRun>,
    process: Option<LoadProcess>,
    is_command: bool,
    failure: Option<Failure>,
    /// Whether it was told that it ended by itself.
    is_told: bool,
}

/// A load of ours ended by itself, which it should not have.
#[derive(Clone, Debug)]
pub(crate) struct LoadEnded {
    /// What the manifest says of it.
    pub(crate) run: LoadRun,
    pub(crate) caveat: Caveat,
}

/// How the user's own command failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// What to say of it.
    pub what: String,
    /// How it ended: `exit status 3`.
    pub how: String,
    /// As shells have it: its exit status, or 128 and the signal's number.
    pub code: u8,
}

impl Meanwhile {
    /// Launches the load that was asked for. It waits for the word to begin,
    /// set up if it is one of ours.
    pub(crate) fn launch(plan: &Plan, interrupted: &AtomicBool) -> Result<Self, SessionError> {
        let run = |name: String| LoadRun {
            name,
            command: Vec::new(),
            usage: None,
            ended: None,
            begun_ns: None,
            throughput: None,
        };
        let (run, launch) = match &plan.load {
            LoadChoice::None => return Ok(Self::default()),
            LoadChoice::Named(name) => {
                let load = NamedLoad::find(name)?;
                let run = LoadRun {
                    usage: load.usage(),
                    ..run(load.name().into_owned())
                };
                (run, Launch::named(plan.helper.clone(), name).held())
            }
            LoadChoice::Command(words) => {
                let told: Vec<String> = words
                    .iter()
                    .map(|word| word.to_string_lossy().into_owned())
                    .collect();
                let run = LoadRun {
                    name: told.first().cloned().unwrap_or_default(),
                    command: told,
                    ..run(String::new())
                };
                (run, Launch::new(words.clone()).output(Output::Null).told())
            }
        };
        let launch = launch
            .open_files(linux::usual_descriptors())
            .user(plan.load_user);
        let launch = match &plan.load_cpus {
            Some(cpus) => launch.cpus(cpus.clone()),
            None => launch,
        };
        let mut process = launch.start()?;
        let is_command = matches!(plan.load, LoadChoice::Command(_));
        if !is_command {
            process
                .wait_until_ready(interrupted)
                .map_err(|source| SessionError::SetUp {
                    name: run.name.clone(),
                    source,
                })?;
        }
        Ok(Self {
            run: Some(run),
            process: Some(process),
            is_command,
            failure: None,
            is_told: false,
        })
    }

    /// How the user's command failed, if it ended by itself and did. Known
    /// once it was stopped.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.clone()
    }

    /// Gives the word to begin, `now`.
    pub(crate) fn begin(&mut self, now: Nanos) {
        if let (Some(process), Some(run)) = (&mut self.process, &mut self.run) {
            run.begun_ns = Some(now);
            process.begin();
        }
    }

    /// What the manifest says of it.
    pub(crate) fn run(&self) -> Option<LoadRun> {
        self.run.clone()
    }

    /// Whether a command of the user's has ended, and with it measuring. A load
    /// of ours that ends by itself has failed; see [`Meanwhile::stop`].
    pub(crate) fn has_ended(&mut self) -> Result<bool, LaunchError> {
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

    /// That a load of ours has ended by itself, once.
    pub(crate) fn news(&mut self) -> Option<LoadEnded> {
        let run = self.run.as_ref().filter(|_| !self.is_command)?;
        let how = run.ended.as_ref()?;
        let is_told = std::mem::replace(&mut self.is_told, true);
        (!is_told).then(|| LoadEnded {
            run: run.clone(),
            caveat: ended_early(&run.name, how),
        })
    }

    /// Ends the load. Returns what is to be said of it.
    pub(crate) fn stop(&mut self) -> Result<Vec<Caveat>, LaunchError> {
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
                how: how.clone(),
                code: code_of(ended.status),
            });
        }
        let mut caveats = Vec::new();
        if let Some(how) = run
            .ended
            .as_ref()
            .filter(|_| !self.is_command || !ended.status.success())
        {
            caveats.push(ended_early(&run.name, how));
        }
        Ok(caveats)
    }
}

fn ended_early(name: &str, how: &str) -> Caveat {
    Caveat::new(
        CaveatKind::LoadEnded,
        format!("the load `{name}` ended before the recording: {how}"),
        "the figures are partly of a machine without it; run the load by itself to see why",
    )
}

/// A status as shells have it.
fn code_of(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| code.try_into().ok()).unwrap_or(1)
}
