//! What the kernel runs beside threads is not counted.

use laggard_model::{CpuList, HandlerCounts, Nanos, ProgramCost};

use crate::SessionError;

/// There is none.
#[derive(Debug)]
pub(crate) enum HandlerWatch {}

#[allow(clippy::unnecessary_wraps, reason = "as where they are counted")]
impl HandlerWatch {
    /// # Errors
    /// Always.
    pub(crate) const fn new(_: &CpuList) -> Result<Self, SessionError> {
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
