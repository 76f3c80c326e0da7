//! What a run needs before it begins.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use laggard_measure::fake::{FakeProbe, Script};
use laggard_measure::linux::{self, Awake, LinuxProbe, Wanted};
use laggard_measure::{Probe, ProbeError, Request};
use laggard_model::{Manifest, Nanos, OwnCost, Service};
use laggard_record::Recorder;

use super::beginning;
use super::episodes::EpisodeWatch;
use super::keeper::Keeper;
use super::meanwhile::{Failure, Meanwhile};
use super::onlooker::Onlooker;
use super::price::{Price, Verdict};
use super::session::Session;
use crate::args::{BackendArg, RecordArgs};

/// A run that is ready to begin.
pub(crate) struct Setup<'a> {
    interrupted: &'a AtomicBool,
    duration: Option<Nanos>,
    probe: Box<dyn Probe>,
    watch: Option<EpisodeWatch>,
    meanwhile: Meanwhile,
    manifest: Manifest,
    /// Held until the run has ended.
    _awake: Option<Awake>,
}

impl<'a> Setup<'a> {
    /// Loads the probe and launches the load. The run will end after `duration`, or
    /// when `interrupted` is set, and a recording will go to `dir` if there is one.
    pub(crate) fn new(
        args: &RecordArgs,
        dir: Option<&Path>,
        duration: Option<Nanos>,
        interrupted: &'a AtomicBool,
    ) -> anyhow::Result<Self> {
        // What follows takes seconds.
        dir.map(Recorder::check).transpose()?;
        let seed = linux::now().ns();
        let awake = match args.hold_cpu_awake {
            true => Some(
                Awake::hold().context("keep CPUs awake (needs root and /dev/cpu_dma_latency)")?,
            ),
            false => None,
        };
        let probe = probe(args, seed)?;
        let (watch, caveats) = EpisodeWatch::start(args, probe.as_ref())?;
        let meanwhile = Meanwhile::launch(args, interrupted)?;
        let mut manifest =
            beginning::manifest(args, probe.as_ref(), meanwhile.run(), duration, seed);
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
            duration,
            probe,
            watch,
            meanwhile,
            manifest,
            _awake: awake,
        })
    }

    /// What a recording would say of this run.
    pub(crate) const fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Whether late activations come with evidence of who caused them.
    pub(crate) const fn explains(&self) -> bool {
        self.watch.is_some()
    }

    /// Measures while `onlooker` watches, and records from the start into
    /// `dir` if there is one. Calls `begun` once measuring has begun.
    pub(crate) fn run(
        mut self,
        dir: Option<&Path>,
        onlooker: &mut dyn Onlooker,
        begun: impl FnOnce(),
    ) -> anyhow::Result<Done> {
        let recorder = dir
            .map(|dir| Recorder::create(dir, self.manifest.clone()))
            .transpose()?;
        if let (Some(watch), Some(dir)) = (&mut self.watch, dir) {
            watch
                .record_into(dir)
                .context("start the thread that writes episodes")?;
        }
        let start = match self.begin(onlooker) {
            Ok(start) => start,
            Err(err) => {
                drop(self.watch);
                recorder.map(Recorder::discard).transpose()?;
                return Err(err);
            }
        };
        // The load works when the first activation can be late by it, not before.
        while self.probe.now() < start {
            let left = start.saturating_sub(self.probe.now());
            self.probe.pause(left.into());
        }
        self.meanwhile.begin(self.probe.now());
        begun();
        self.manifest.clock.start_ns = start;
        self.manifest.load = self.meanwhile.run();
        let keeper = match (dir, recorder) {
            (Some(dir), Some(mut recorder)) => {
                recorder.update(|manifest| manifest.load.clone_from(&self.manifest.load));
                Some(Keeper::start(dir, recorder, start, OwnCost::default())?)
            }
            _ => None,
        };
        let session = Session {
            probe: self.probe.as_mut(),
            manifest: self.manifest,
            keeper,
            start,
            watch: self.watch,
            meanwhile: &mut self.meanwhile,
            onlooker,
        };
        let dir = session.run(self.duration, self.interrupted)?;
        Ok(Done {
            dir,
            failure: self.meanwhile.failure(),
        })
    }
}

impl Setup<'_> {
    /// Begins to measure, unless that cannot be afforded. Returns when.
    fn begin(&mut self, onlooker: &mut dyn Onlooker) -> anyhow::Result<Nanos> {
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
            Verdict::Fits => Ok(start),
            Verdict::Dear(what) => {
                onlooker.say(&what);
                Ok(start)
            }
            Verdict::Refused(what) => Err(ProbeError::Unaffordable(what).into()),
        }
    }
}

/// What a run leaves.
#[derive(Debug)]
pub(crate) struct Done {
    /// The recording, if one was made.
    pub(crate) dir: Option<PathBuf>,
    /// How the user's command failed, if it did.
    pub(crate) failure: Option<Failure>,
}

fn probe(args: &RecordArgs, seed: u64) -> anyhow::Result<Box<dyn Probe>> {
    let wanted = match &args.backend {
        BackendArg::Fake(script) => {
            let text = std::fs::read_to_string(script)
                .with_context(|| format!("read the script `{}`", script.display()))?;
            return Ok(Box::new(FakeProbe::new(Script::parse(&text)?)?));
        }
        BackendArg::Best => Wanted::Best,
        BackendArg::Bpf => Wanted::Bpf,
        BackendArg::User => Wanted::User,
    };
    let request = Request {
        cpus: args.cpus.clone().unwrap_or_else(linux::allowed_cpus),
        services: args
            .services
            .clone()
            .unwrap_or_else(|| Service::DEFAULTS.to_vec()),
        optional: args.services.is_none(),
        period: args.period,
        dither: !args.no_dither,
        seed,
        drive: args.source.0.clone(),
        stages: args.stages.as_ref().map(|stages| stages.0.clone()),
    };
    Ok(Box::new(LinuxProbe::new(request, wanted)?))
}
