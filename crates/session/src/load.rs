//! What else the machine does while it is measured.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;

use laggard_measure::linux;
use laggard_model::text::rough_time;
use laggard_model::{Caveat, CaveatKind, LoadRun, Nanos};
pub(crate) use laggard_workload::load::LaunchError;
use laggard_workload::load::{Halt, Launch, LoadProcess, NamedLoad, Output};

use crate::load_ended::{Failure, LoadEnded};
use crate::{LoadChoice, Plan, SessionError};

/// The load of a session, if any. It can outlive the session, see
/// [`Session::run_on`](crate::Session::run_on); it ends with this value.
#[derive(Debug, Default)]
pub struct Meanwhile {
    run: Option<LoadRun>,
    process: Option<LoadProcess>,
    is_command: bool,
    /// Whether it has the word to begin.
    is_begun: bool,
    failure: Option<Failure>,
    /// Whether it was told that it ended by itself.
    is_told: bool,
    stops: Stops,
}

/// When a load was found to be stopped.
#[derive(Debug, Default)]
struct Stops {
    /// The latest look, where it was then.
    since: Option<Nanos>,
    /// How long, from look to look; `None`: it never was.
    time: Option<Nanos>,
    /// Whether it was told.
    is_told: bool,
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
            is_begun: false,
            failure: None,
            is_told: false,
            stops: Stops::default(),
        })
    }

    /// Makes it the load of a later session, which hears nothing of what came to it
    /// before.
    ///
    /// # Errors
    /// When it has ended, of which it was to go on.
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

    /// How the user's command failed, if it ended by itself and did. Known
    /// once it was stopped.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.clone()
    }

    /// Gives the word to begin, `now`, unless it has it.
    pub(crate) fn begin(&mut self, now: Nanos) {
        let (Some(process), Some(run)) = (&mut self.process, &mut self.run) else {
            return;
        };
        // What stopped it before it had to work is nothing to tell.
        process.halt();
        if !std::mem::replace(&mut self.is_begun, true) {
            run.begun_ns = Some(now);
            process.begin();
        }
    }

    /// What the manifest says of it.
    pub(crate) fn run(&self) -> Option<LoadRun> {
        self.run.clone()
    }

    /// Whether a command of the user's has ended, `now`, and with it measuring. A load
    /// of ours that ends by itself has failed; see [`Meanwhile::stop`].
    pub(crate) fn has_ended(&mut self, now: Nanos) -> Result<bool, LaunchError> {
        let Some(process) = &mut self.process else {
            return Ok(false);
        };
        let Some(ended) = process.poll()? else {
            self.stops.look(process.halt(), now);
            return Ok(false);
        };
        if let Some(run) = &mut self.run {
            run.ended.get_or_insert_with(|| ended.to_string());
        }
        Ok(self.is_command)
    }

    /// That a load of ours has ended by itself, or that one was stopped, once.
    pub(crate) fn news(&mut self) -> Option<LoadEnded> {
        if let (Some(time), Some(run), false) = (self.stops.time, &self.run, self.stops.is_told) {
            self.stops.is_told = true;
            return Some(LoadEnded {
                run: run.clone(),
                caveat: was_stopped(&run.name, time),
            });
        }
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
        let is_done = self.is_command && ended.status.success();
        Ok(self.said(is_done))
    }

    /// What is to be said of it so far, if it goes on.
    pub(crate) fn leave(&self) -> Vec<Caveat> {
        self.said(false)
    }

    /// What came to it that should not have; `is_done`: its end should.
    fn said(&self, is_done: bool) -> Vec<Caveat> {
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
        "the figures are partly of a machine without it; run the load by itself to see why",
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
            "the load `{name}` was stopped meanwhile{long}: by a signal, or frozen with its control group"
        ),
        "the figures are partly of a machine without it; record again, and leave the load alone",
    )
}

impl Stops {
    /// Notes a look, `now`. How long a stop was that began and ended between two looks
    /// is not known.
    fn look(&mut self, halt: Halt, now: Nanos) {
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

/// A status as shells have it.
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
    fn a_load_is_stopped_from_the_first_look_to_the_one_that_finds_it_running() {
        use Halt::{Meanwhile, No, Now};
        let time = |looks: &[Halt]| {
            let mut stops = Stops::default();
            for (at, &halt) in (0..).zip(looks) {
                stops.look(halt, Nanos::from_ms(200 * at));
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
    fn how_long_a_load_was_stopped_is_said_where_it_is_known() {
        let said = |time| was_stopped("fp", time).what;

        assert!(said(Nanos::ZERO).starts_with("the load `fp` was stopped meanwhile: "));
        assert!(said(Nanos::from_ms(4_200)).contains(" was stopped meanwhile, for about 4 s: "));
    }
}
