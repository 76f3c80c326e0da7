//! What a measurement needs before it begins, and how it begins.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use laggard_measure::fake::{FakeProbe, Script};
use laggard_measure::{Probe, ProbeError, Request};
use laggard_model::{Manifest, Nanos, OwnCost, Service};
use laggard_record::{Access, Destination, Recorder};

use crate::beginning;
use crate::episodes::EpisodeWatch;
use crate::keeper::Keeper;
use crate::load::Meanwhile;
use crate::load_ended::Failure;
use crate::price::{Price, PriceVerdict};
use crate::run::RunParts;
use crate::system::{self, Awake};
use crate::watcher::Watchers;
use crate::{Plan, ProbeChoice, ScriptPace, SessionError, Watcher};

/// A measurement that is ready to begin: the probe is loaded, and the load, if
/// there is one, is set up and waits.
pub struct Session<'a> {
    interrupted: &'a AtomicBool,
    duration: Option<Nanos>,
    recording: Option<Destination>,
    access: Access,
    pace: ScriptPace,
    probe: Box<dyn Probe>,
    watch: Option<EpisodeWatch>,
    meanwhile: Meanwhile,
    manifest: Manifest,
    /// Held until measuring has ended.
    _awake: Option<Awake>,
}

/// What a session leaves.
#[derive(Debug)]
#[non_exhaustive]
pub struct Done {
    /// The recording, if one was made.
    pub recording: Option<Destination>,
    /// How the user's command failed, if it did.
    pub failure: Option<Failure>,
}

impl<'a> Session<'a> {
    /// Loads the probe and sets up the load, which takes seconds. Measuring will
    /// end as planned, or when `interrupted` is set.
    ///
    /// # Errors
    /// When what was planned cannot be had here; see [`SessionError::is_unmet`].
    /// Nothing is left running then, and no folder.
    pub fn ready(plan: &Plan, interrupted: &'a AtomicBool) -> Result<Self, SessionError> {
        Self::ready_with(plan, interrupted, None)
    }

    /// As [`Session::ready`], beside a load that works already: that of the same plan,
    /// which [`Session::run_on`] left.
    ///
    /// # Errors
    /// As there, and when the load has ended. Whatever is wrong, it is ended.
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
        let probe = probe(plan, seed)?;
        let (watch, caveats) = EpisodeWatch::start(plan, probe.as_ref())?;
        let meanwhile = match load {
            Some(load) => load.go_on()?,
            None => Meanwhile::launch(plan, interrupted)?,
        };
        let mut manifest = beginning::manifest(plan, probe.as_ref(), meanwhile.run());
        for caveat in caveats {
            if !manifest
                .caveats
                .iter()
                .any(|known| known.kind == caveat.kind)
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
            probe,
            watch,
            meanwhile,
            manifest,
            _awake: awake,
        })
    }

    /// With a script's time passing as `pace` says.
    #[must_use]
    pub const fn at_pace(mut self, pace: ScriptPace) -> Self {
        self.pace = pace;
        self
    }

    /// What a recording would say of this measurement.
    pub const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether late activations come with evidence of who caused them.
    pub const fn explains(&self) -> bool {
        self.watch.is_some()
    }

    /// Measures while `watchers` watch. Whatever happens, what was to be kept is
    /// kept, and the probe and the load are ended.
    ///
    /// # Errors
    /// When measuring cannot begin, or something went wrong meanwhile.
    pub fn run(self, watchers: &mut [&mut dyn Watcher]) -> Result<Done, SessionError> {
        self.measure(watchers, false).map(|(done, _)| done)
    }

    /// As [`Session::run`], and leaves the load as it is, at work, for a later session.
    /// How much it did is not told then. It is ended where this fails.
    ///
    /// # Errors
    /// As there.
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
        // The load works when the first activation can be late by it, not before.
        while self.probe.now() < start {
            let left = start.saturating_sub(self.probe.now());
            self.probe.pause(left.into());
        }
        self.meanwhile.begin(self.probe.now());
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
        };
        let recording = run.run(self.duration, self.interrupted)?;
        let done = Done {
            recording,
            failure: self.meanwhile.failure(),
        };
        Ok((done, self.meanwhile))
    }

    /// Begins to measure, unless that cannot be afforded. Returns when.
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
            PriceVerdict::Dear(what) => {
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

/// What is measured unless asked otherwise.
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
