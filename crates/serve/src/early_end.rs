//! Reasons to end a measurement early.

use std::sync::{Arc, Mutex, PoisonError};

/// Reason to end a piece early.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum EarlyEnd {
    /// The recording in progress was lost from the store, for this reason.
    StoreLost(String),
    /// The store can be written again.
    StoreBack,
    /// The set of CPUs to measure has changed: a CPU went offline or came online.
    Cpus,
}

/// Request to end the current piece, which another thread may make.
#[derive(Clone, Debug, Default)]
pub(crate) struct EarlyEndRequest(Arc<Mutex<Option<EarlyEnd>>>);

impl EarlyEndRequest {
    pub(crate) fn ask(&self, reason: EarlyEnd) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }

    pub(crate) fn take(&self) -> Option<EarlyEnd> {
        let mut request = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        request.take()
    }
}
