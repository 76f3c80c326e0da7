//! Stub for systems without loads. A user starts any load separately.

pub(crate) use std::convert::Infallible as LaunchError;
use std::sync::atomic::AtomicBool;

use laggard_model::{Caveat, LoadRun, Nanos};

use crate::load_ended::{Failure, LoadEnded};
use crate::{LoadChoice, Plan, SessionError};

/// Load of a session, which never exists on this system.
#[derive(Debug, Default)]
pub struct Meanwhile;

#[allow(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the signature is the same as on Linux"
)]
impl Meanwhile {
    /// # Errors
    ///
    /// Returns an error if a load was requested.
    pub(crate) fn launch(plan: &Plan, _: &AtomicBool) -> Result<Self, SessionError> {
        match plan.load {
            LoadChoice::None => Ok(Self),
            LoadChoice::Named(_) | LoadChoice::Command(_) => Err(SessionError::NoLoads),
        }
    }

    pub(crate) const fn go_on(self) -> Result<Self, SessionError> {
        Ok(self)
    }

    pub(crate) const fn failure(&self) -> Option<Failure> {
        None
    }

    pub(crate) const fn begin(&mut self, _: Nanos, _: &AtomicBool) {}

    pub(crate) const fn run(&self) -> Option<LoadRun> {
        None
    }

    pub(crate) const fn has_ended(&mut self, _: Nanos) -> Result<bool, LaunchError> {
        Ok(false)
    }

    pub(crate) const fn news(&mut self) -> Option<LoadEnded> {
        None
    }

    pub(crate) const fn stop(&mut self) -> Result<Vec<Caveat>, LaunchError> {
        Ok(Vec::new())
    }

    pub(crate) const fn leave(&self) -> Vec<Caveat> {
        Vec::new()
    }
}
