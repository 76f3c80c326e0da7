//! Errors caused by the machine.

use laggard_session::SessionError;
use laggard_workload::disturb::DisturbError;
use laggard_workload::load::{LoadRunError, RecipeError};
use laggard_workload::task::TaskError;

/// Returns true if this machine cannot do the requested operation. Otherwise an error occurred.
pub(crate) fn is_unmet(err: &anyhow::Error) -> bool {
    let kinds = [
        err.downcast_ref().map(SessionError::is_unmet),
        err.downcast_ref().map(DisturbError::is_unmet),
        err.downcast_ref().map(RecipeError::is_unmet),
        err.downcast_ref().map(LoadRunError::is_unmet),
        err.downcast_ref().map(TaskError::is_unmet),
    ];
    kinds.contains(&Some(true))
}
