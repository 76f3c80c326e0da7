//! Load that runs during the measurement.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};

use laggard_measure::linux;
use laggard_model::text::rough_time;
use laggard_model::{Caveat, CaveatKind, LoadRun, Nanos};
pub(crate) use laggard_workload::load::LaunchError;
use laggard_workload::load::{Halt, Launch, LoadProcess, NamedLoad, Output};

use crate::load_ended::{Failure, LoadEnded};
use crate::{LoadChoice, Plan, SessionError};

/// Load of a session, if there is one. It can outlive the session, see
/// [`Session::run_on`](crate::Session::run_on); it ends with this value.
#[derive(Debug, Default)]
pub struct Meanwhile {
    run: Option<LoadRun>,
    process: Option<LoadProcess>,
    is_command: bool,
    /// True once it was started.
    has_started: bool,
    failure: Option<Failure>,
    /// Whether its end was reported.
    is_reported: bool,
    stops: Stops,
}

/// Stops of a load.
#[derive(Debug, Default)]
struct Stops {
    /// Time of the last check, if it was stopped then.
    since: Option<Nanos>,
    /// Total time of stops, from check to check; `None` without stops.
    time: Option<Nanos>,
    /// Whether the stops were reported.
    is_reported: bool,
}

/// Reason in the manifest for a load that never ran.
const NOT_STARTED: &str = "not started, because a signal had ended the measurement";

impl Meanwhile {
    /// Launches the requested load. It waits for the start signal. A load of laggard has finished
    /// its preparation on return.
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
                let shown_words: Vec<String> = words
                    .iter()
                    .map(|word| word.to_string_lossy().into_owned())
                    .collect();
                let run = LoadRun {
                    name: shown_words.first().cloned().unwrap_or_default(),
                    command: shown_words,
                    ..run(String::new())
                };
                (run, Launch::new(words.clone()).output(Output::Null).told())
            }
        };
        if interrupted.load(Ordering::Relaxed) {
            // A load that starts now delays the end.
            return Ok(Self {
                run: Some(LoadRun {
                    ended: Some(NOT_STARTED.into()),
                    ..run
                }),
                ..Self::default()
            });
        }
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
            has_started: false,
            failure: None,
            is_reported: false,
            stops: Stops::default(),
        })
    }

    /// Makes it the load of a later session, and forgets earlier events.
    ///
    /// # Errors
    ///
    /// Returns an error if the load has ended.
    pub(crate) fn go_on(mut self) -> Result<Self, SessionError> {
        let Some(process) = &mut self.process else {
            return Ok(self);
        };
        let ended = process.poll()?;
        if let Some(run) = &mut self.run {
            if let Some(ended) = ended {
                return Err(SessionError::LoadGone {
                    name: run.name.clone(),
                    how: ended.to_string(),
                });
            }
            run.begun_ns = None;
        }
        self.stops = Stops::default();
        Ok(self)
    }

    /// Returns how the user's command failed, if it ended by itself with a failure. Known after
    /// `stop`.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.clone()
    }

    /// Starts the load at `now`, unless it has started or the measurement was interrupted.
    pub(crate) fn begin(&mut self, now: Nanos, interrupted: &AtomicBool) {
        let (Some(process), Some(run)) = (&mut self.process, &mut self.run) else {
            return;
        };
        if !self.has_started && interrupted.load(Ordering::Relaxed) {
            run.ended.get_or_insert_with(|| NOT_STARTED.into());
            return;
        }
        // Stops before its start are not reported.
        process.halt();
        if !std::mem::replace(&mut self.has_started, true) {
            run.begun_ns = Some(now);
            process.begin();
        }
    }

    /// Returns the load's entry in the manifest.
    pub(crate) fn run(&self) -> Option<LoadRun> {
        self.run.clone()
    }

    /// Returns whether a command of the user has ended at `now`, which ends the measurement. If
    /// a built-in load ends by itself, this is a failure; see [`Meanwhile::stop`].
    pub(crate) fn has_ended(&mut self, now: Nanos) -> Result<bool, LaunchError> {
        let Some(process) = &mut self.process else {
            return Ok(false);
        };
        let Some(ended) = process.poll()? else {
            self.stops.check(process.halt(), now);
            return Ok(false);
        };
        if let Some(run) = &mut self.run {
            run.ended.get_or_insert_with(|| ended.to_string());
        }
        Ok(self.is_command)
    }

    /// Returns, once, that a built-in load has ended by itself, or that a load was stopped.
    pub(crate) fn news(&mut self) -> Option<LoadEnded> {
        if let (Some(time), Some(run), false) = (self.stops.time, &self.run, self.stops.is_reported)
        {
            self.stops.is_reported = true;
            return Some(LoadEnded {
                run: run.clone(),
                caveat: was_stopped(&run.name, time),
            });
        }
        let run = self.run.as_ref().filter(|_| !self.is_command)?;
        let how = run.ended.as_ref()?;
        let is_reported = std::mem::replace(&mut self.is_reported, true);
        (!is_reported).then(|| LoadEnded {
            run: run.clone(),
            caveat: ended_early(&run.name, how),
        })
    }

    /// Ends the load and returns its warnings.
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
        let is_done = self.is_command && ended.status.success();
        Ok(self.warnings(is_done))
    }

    /// Returns the warnings so far if the load continues.
    pub(crate) fn leave(&self) -> Vec<Caveat> {
        self.warnings(false)
    }

    /// Returns the warnings about unexpected events. `is_done`: an end is expected.
    fn warnings(&self, is_done: bool) -> Vec<Caveat> {
        let Some(run) = &self.run else {
            return Vec::new();
        };
        let stopped = self.stops.time.map(|time| was_stopped(&run.name, time));
        let ended = run.ended.as_ref().filter(|_| !is_done);
        let ended = ended.map(|how| ended_early(&run.name, how));
        stopped.into_iter().chain(ended).collect()
    }
}

fn ended_early(name: &str, how: &str) -> Caveat {
    Caveat::new(
        CaveatKind::LoadEnded,
        format!("the load `{name}` ended before the recording: {how}"),
        "part of the recording is without this load; run the load separately to see why",
    )
}

fn was_stopped(name: &str, time: Nanos) -> Caveat {
    let long = match time {
        Nanos::ZERO => String::new(),
        some => format!(", for about {}", rough_time(some.as_f64(), 1)),
    };
    Caveat::new(
        CaveatKind::LoadEnded,
        format!(
            "the load `{name}` was stopped during the measurement{long}: by a signal, or frozen with its control group"
        ),
        "part of the recording is without this load; record again without stopping the load",
    )
}

impl Stops {
    /// Records a check at `now`. The length of a stop between two checks is unknown.
    fn check(&mut self, halt: Halt, now: Nanos) {
        let before = match halt {
            Halt::Now => self.since.replace(now),
            Halt::Meanwhile | Halt::No => self.since.take(),
        };
        let more = before.map_or(Nanos::ZERO, |before| now.saturating_sub(before));
        if halt != Halt::No || before.is_some() {
            self.time = Some(self.time.unwrap_or_default() + more);
        }
    }
}

/// Returns the exit code as shells report it.
fn code_of(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| code.try_into().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_of_a_load_lasts_from_the_first_check_to_the_one_that_finds_it_running() {
        use Halt::{Meanwhile, No, Now};
        let time = |looks: &[Halt]| {
            let mut stops = Stops::default();
            for (index, &halt) in (0..).zip(looks) {
                stops.check(halt, Nanos::from_ms(200 * index));
            }
            stops.time
        };

        assert_eq!(time(&[No, No]), None);
        assert_eq!(time(&[No, Now]), Some(Nanos::ZERO));
        assert_eq!(time(&[No, Meanwhile, No]), Some(Nanos::ZERO));
        let twice = [No, Now, Now, Meanwhile, No, Now, No];
        assert_eq!(time(&twice), Some(Nanos::from_ms(600)));
    }

    #[test]
    fn length_of_a_stop_is_reported_if_it_is_known() {
        let text = |time| was_stopped("fp", time).what;

        assert!(
            text(Nanos::ZERO).starts_with("the load `fp` was stopped during the measurement: ")
        );
        assert!(
            text(Nanos::from_ms(4_200))
                .contains(" was stopped during the measurement, for about 4 s: ")
        );
    }
}
