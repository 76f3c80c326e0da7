//! Loads of a session on systems other than Linux: those that are part of laggard.

use std::sync::atomic::{AtomicBool, Ordering};

use laggard_model::{Caveat, CaveatKind, LoadRun, Nanos};
pub(crate) use laggard_workload::load::LaunchError;
use laggard_workload::load::{Builtin, LoadProcess};

use crate::load_ended::{Failure, LoadEnded};
use crate::{LoadChoice, Plan, SessionError};

/// Load of a session, if there is one. It ends with this value.
#[derive(Debug, Default)]
pub struct Meanwhile {
    run: Option<LoadRun>,
    process: Option<LoadProcess>,
    /// Whether its end was reported.
    is_reported: bool,
}

impl Meanwhile {
    /// Launches the requested load. It waits for the start signal.
    ///
    /// # Errors
    ///
    /// Returns an error if the load is not part of laggard, or cannot be started.
    pub(crate) fn launch(plan: &Plan, interrupted: &AtomicBool) -> Result<Self, SessionError> {
        let name = match &plan.load {
            LoadChoice::None => return Ok(Self::default()),
            LoadChoice::Named(name) => name,
            LoadChoice::Command(_) => return Err(SessionError::NoLoads),
        };
        let load: Builtin = name.parse()?;
        Ok(Self {
            run: Some(LoadRun {
                name: name.clone(),
                command: Vec::new(),
                usage: None,
                ended: None,
                begun_ns: None,
                throughput: None,
            }),
            process: Some(LoadProcess::start(&plan.helper, load, None, interrupted)?),
            is_reported: false,
        })
    }

    #[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
    pub(crate) const fn go_on(self) -> Result<Self, SessionError> {
        Ok(self)
    }

    #[allow(clippy::unused_self, reason = "as on Linux")]
    pub(crate) const fn failure(&self) -> Option<Failure> {
        None
    }

    /// Starts the load at `now`, unless the measurement was interrupted.
    pub(crate) fn begin(&mut self, now: Nanos, interrupted: &AtomicBool) {
        if let (Some(process), Some(run)) = (&mut self.process, &mut self.run)
            && !interrupted.load(Ordering::Relaxed)
        {
            run.begun_ns = Some(now);
            process.begin();
        }
    }

    /// Returns the load's entry in the manifest.
    pub(crate) fn run(&self) -> Option<LoadRun> {
        self.run.clone()
    }

    /// Notes the end of the load. It does not end the measurement.
    pub(crate) fn has_ended(&mut self, _: Nanos) -> Result<bool, LaunchError> {
        if let (Some(process), Some(run)) = (&mut self.process, &mut self.run)
            && let Some(status) = process.poll()?
        {
            run.ended.get_or_insert_with(|| status.to_string());
        }
        Ok(false)
    }

    /// Returns, once, that the load has ended by itself.
    pub(crate) fn news(&mut self) -> Option<LoadEnded> {
        let caveat = self.leave().pop()?;
        let is_reported = std::mem::replace(&mut self.is_reported, true);
        let run = self.run.clone().filter(|_| !is_reported)?;
        Some(LoadEnded { run, caveat })
    }

    /// Ends the load and returns its warnings.
    pub(crate) fn stop(&mut self) -> Result<Vec<Caveat>, LaunchError> {
        if let (Some(process), Some(run)) = (self.process.take(), &mut self.run) {
            run.throughput = process.stop()?;
        }
        Ok(self.leave())
    }

    /// Returns the warnings so far.
    pub(crate) fn leave(&self) -> Vec<Caveat> {
        let run = self.run.as_ref();
        let ended = run.and_then(|run| Some((&run.name, run.ended.as_ref()?)));
        let caveat = ended.map(|(name, how)| {
            Caveat::new(
                CaveatKind::LoadEnded,
                format!("the load `{name}` ended before the recording: {how}"),
                "part of the recording is without this load; run the load separately to see why",
            )
        });
        caveat.into_iter().collect()
    }
}
