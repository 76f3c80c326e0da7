//! Stub for systems where handlers cannot be counted.

use laggard_model::{CpuList, HandlerCounts, Nanos, ProgramCost};

use crate::SessionError;

/// Watch that does not exist on this system.
#[derive(Debug)]
pub(crate) enum HandlerWatch {}

#[allow(
    clippy::unnecessary_wraps,
    reason = "the signature is the same as on Linux"
)]
impl HandlerWatch {
    /// # Errors
    ///
    /// Always returns an error.
    pub(crate) const fn new(_: &CpuList, _: &[String]) -> Result<Self, SessionError> {
        Err(SessionError::NoHandlers)
    }

    pub(crate) const fn begin(&mut self) -> Result<(), SessionError> {
        match *self {}
    }

    pub(crate) const fn recent(&mut self, _: Nanos) -> Result<Option<HandlerCounts>, SessionError> {
        match *self {}
    }

    pub(crate) const fn last(&self) -> Result<Option<HandlerCounts>, SessionError> {
        match *self {}
    }

    pub(crate) const fn cost(&self) -> Vec<ProgramCost> {
        match *self {}
    }
}
