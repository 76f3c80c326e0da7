//! Reasons to end a piece of measuring before its time.

use std::sync::{Arc, Mutex, PoisonError};

/// Reason to end a piece before its time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum EarlyEnd {
    /// The recording that is being written is no longer in the store, for this reason.
    StoreLost(String),
    /// The store can be written again.
    StoreBack,
    /// Other CPUs are to be measured: some went offline or came online.
    Cpus,
}

/// Request to end the piece that is measured, which another thread may make.
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
