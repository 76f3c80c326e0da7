//! Preparation and start of a measurement.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use laggard_measure::fake::{FakeProbe, Script};
use laggard_measure::{Probe, ProbeError, Request};
#[cfg(target_os = "linux")]
use laggard_model::Backend;
use laggard_model::{Manifest, Nanos, OwnCost, Service};
use laggard_record::{Access, Destination, Recorder};

use crate::beginning;
use crate::episodes::EpisodeWatch;
use crate::keeper::Keeper;
use crate::load::Meanwhile;
use crate::load_ended::Failure;
#[cfg(target_os = "linux")]
use crate::on_late::{DescribeLate, LateActions, LateWatcher, PASS_INTERVAL};
use crate::price::{Price, PriceVerdict};
use crate::run::{LOOK_EVERY, RunParts};
use crate::system::{self, Awake};
use crate::watcher::Watchers;
use crate::{Plan, ProbeChoice, ScriptPace, SessionError, Watcher};

/// Measurement that is ready to start: the probe is loaded, and the load, if there is one, is set
/// up and waits.
pub struct Session<'a> {
    interrupted: &'a AtomicBool,
    duration: Option<Nanos>,
    recording: Option<Destination>,
    access: Access,
    pace: ScriptPace,
    pass_interval: Duration,
    probe: Box<dyn Probe>,
    watch: Option<EpisodeWatch>,
    meanwhile: Meanwhile,
    manifest: Manifest,
    /// Held until the measurement has ended.
    _awake: Option<Awake>,
}

/// Result of a session.
#[derive(Debug)]
#[non_exhaustive]
pub struct Done {
    /// Recording, if one was made.
    pub recording: Option<Destination>,
    /// Failure of the user's command, if it failed.
    pub failure: Option<Failure>,
}

impl<'a> Session<'a> {
    /// Loads the probe and sets up the load, which takes seconds. The measurement will end as
    /// planned, or when `interrupted` is set.
    ///
    /// # Errors
    ///
    /// Returns an error if the plan is not possible; see [`SessionError::is_unmet`]. In this case
    /// its processes and directories are removed.
    pub fn ready(plan: &Plan, interrupted: &'a AtomicBool) -> Result<Self, SessionError> {
        Self::ready_with(plan, interrupted, None)
    }

    /// Does the same as [`Session::ready`] with a load that is already running. [`Session::run_on`]
    /// left it, and it belongs to the same plan.
    ///
    /// # Errors
    ///
    /// Returns the same errors, and an error if the load has ended. In every case of error the
    /// load is ended.
    pub fn ready_beside(
        plan: &Plan,
        interrupted: &'a AtomicBool,
        load: Meanwhile,
    ) -> Result<Self, SessionError> {
        Self::ready_with(plan, interrupted, Some(load))
    }

    fn ready_with(
        plan: &Plan,
        interrupted: &'a AtomicBool,
        load: Option<Meanwhile>,
    ) -> Result<Self, SessionError> {
        if let Some(place) = &plan.recording {
            Recorder::check(place)?;
        }
        let seed = system::now().ns();
        let awake = if plan.hold_cpu_awake {
            Some(system::hold_awake().map_err(SessionError::Awake)?)
        } else {
            None
        };
        let mut probe = probe(plan, seed)?;
        let (watch, caveats) = EpisodeWatch::start(plan, probe.as_mut())?;
        let meanwhile = match load {
            Some(load) => load.go_on()?,
            None => Meanwhile::launch(plan, interrupted)?,
        };
        let mut manifest = beginning::manifest(plan, probe.as_ref(), meanwhile.run());
        for caveat in caveats {
            if !manifest
                .caveats
                .iter()
                .any(|present| present.kind == caveat.kind)
            {
                manifest.caveats.push(caveat);
            }
        }
        Ok(Self {
            interrupted,
            duration: plan.duration,
            recording: plan.recording.clone(),
            access: plan.access,
            pace: ScriptPace::default(),
            pass_interval: LOOK_EVERY,
            probe,
            watch,
            meanwhile,
            manifest,
            _awake: awake,
        })
    }

    /// Sets the pace of a script.
    #[must_use]
    pub const fn at_pace(mut self, pace: ScriptPace) -> Self {
        self.pace = pace;
        self
    }

    /// Returns the manifest of a recording of this measurement.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns whether late wakeups are kept with trace data.
    pub const fn explains(&self) -> bool {
        self.watch.is_some()
    }

    /// Measures while `watchers` watch. In every case the recording is kept, and the probe and
    /// the load are ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the measurement cannot start or fails.
    pub fn run(self, watchers: &mut [&mut dyn Watcher]) -> Result<Done, SessionError> {
        self.measure(watchers, false).map(|(done, _)| done)
    }

    /// Does the same as [`Session::run`], and acts on late wakeups. `plan` is the plan of this
    /// session, and `describe` returns the input of commands.
    ///
    /// # Errors
    ///
    /// Returns the same errors.
    #[cfg(target_os = "linux")]
    pub fn run_acting(
        mut self,
        watcher: &mut dyn Watcher,
        plan: &Plan,
        actions: &mut LateActions,
        describe: &mut DescribeLate<'_>,
    ) -> Result<Done, SessionError> {
        self.pass_interval = PASS_INTERVAL;
        self.manifest.caveats.extend(actions.caveat());
        // A script at once is a thousand times faster than real time, and so than the actions.
        let waits = self.probe.backend() == Backend::Fake && self.pace == ScriptPace::AtOnce;
        let mut acting = LateWatcher::new(actions, describe, plan, &self.manifest, waits);
        self.run(&mut [watcher, &mut acting])
    }

    /// Does the same as [`Session::run`], and leaves the running load to a later session. The
    /// amount of its work is then not reported. The load is ended if this fails.
    ///
    /// # Errors
    ///
    /// Returns the same errors.
    pub fn run_on(
        self,
        watchers: &mut [&mut dyn Watcher],
    ) -> Result<(Done, Meanwhile), SessionError> {
        self.measure(watchers, true)
    }

    fn measure(
        mut self,
        watchers: &mut [&mut dyn Watcher],
        leaves_load: bool,
    ) -> Result<(Done, Meanwhile), SessionError> {
        let mut watchers = Watchers(watchers);
        let place = self.recording.clone();
        let recorder = place
            .clone()
            .map(|place| Recorder::create_for(place, self.manifest.clone(), self.access))
            .transpose()?;
        if let (Some(watch), Some(recorder)) = (&mut self.watch, &recorder) {
            watch.record_into(recorder.folder())?;
        }
        let start = match self.begin(&mut watchers) {
            Ok(start) => start,
            Err(err) => {
                self.watch = None;
                return Err(match recorder.map(Recorder::discard).transpose() {
                    Ok(_) => err,
                    Err(left) => SessionError::Left {
                        why: Box::new(err),
                        left,
                    },
                });
            }
        };
        // The load must work before the first wakeup that it can delay, not earlier.
        while self.probe.now() < start {
            let left = start.saturating_sub(self.probe.now());
            self.probe.pause(left.into());
        }
        self.meanwhile.begin(self.probe.now(), self.interrupted);
        watchers.begun(start);
        self.manifest.clock.start_ns = start;
        self.manifest.load = self.meanwhile.run();
        let keeper = match (place, recorder) {
            (Some(place), Some(mut recorder)) => {
                recorder.update(|manifest| manifest.load.clone_from(&self.manifest.load));
                Some(Keeper::start(place, recorder, start, OwnCost::default())?)
            }
            _ => None,
        };
        let run = RunParts {
            access: self.access,
            probe: self.probe.as_mut(),
            manifest: self.manifest,
            keeper,
            start,
            watch: self.watch,
            meanwhile: &mut self.meanwhile,
            leaves_load,
            watchers,
            pace: self.pace,
            pass_interval: self.pass_interval,
        };
        let recording = run.run(self.duration, self.interrupted)?;
        let done = Done {
            recording,
            failure: self.meanwhile.failure(),
        };
        Ok((done, self.meanwhile))
    }

    /// Starts the measurement, unless it costs too much. Returns the start time.
    fn begin(&mut self, watchers: &mut Watchers<'_, '_>) -> Result<Nanos, SessionError> {
        let start = self.probe.start()?;
        let Some(share) = self.probe.price() else {
            return Ok(start);
        };
        let lines = self.probe.lines();
        let services: BTreeSet<Service> = lines.iter().map(|line| line.service).collect();
        let price = Price {
            share,
            period: self.manifest.plan.period_ns,
            cpus: lines.iter().map(|line| line.cpu).collect(),
            services: services.len(),
        };
        match price.verdict() {
            PriceVerdict::Fits => Ok(start),
            PriceVerdict::Expensive(what) => {
                watchers.say(&what);
                Ok(start)
            }
            PriceVerdict::Refused(what) => Err(ProbeError::Unaffordable(what).into()),
        }
    }
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("duration", &self.duration)
            .field("recording", &self.recording)
            .field("manifest", &self.manifest)
            .field("meanwhile", &self.meanwhile)
            .finish_non_exhaustive()
    }
}

/// Default services.
#[cfg(target_os = "linux")]
const DEFAULTS: &[Service] = &Service::DEFAULTS;
#[cfg(not(target_os = "linux"))]
const DEFAULTS: &[Service] = &Service::WINDOWS_DEFAULTS;

fn probe(plan: &Plan, seed: u64) -> Result<Box<dyn Probe>, SessionError> {
    if let ProbeChoice::Script(path) = &plan.probe {
        let text = laggard_files::read_text(path).map_err(|source| SessionError::Script {
            path: path.clone(),
            source,
        })?;
        return Ok(Box::new(FakeProbe::new(Script::parse(&text)?)?));
    }
    let (services, optional) = match &plan.services {
        Some(services) => (services.clone(), plan.optional.clone()),
        None => (DEFAULTS.to_vec(), DEFAULTS.to_vec()),
    };
    let request = Request {
        cpus: plan.cpus.clone().unwrap_or_else(system::usual_cpus),
        services,
        optional,
        period: plan.period,
        every: plan.every(),
        dither: plan.dither,
        seed,
        drive: plan.drive.clone(),
        stages: plan.stages.clone(),
        contexts: plan.contexts,
    };
    Ok(system::open(request, &plan.probe)?)
}
