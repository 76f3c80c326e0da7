//! Measurements of the trials that this machine supports, for `laggard doctor`.

use laggard_measure::linux::obstacle::Help;
use laggard_measure::linux::{not_loaded, optional_ability};
use laggard_model::Ability;

/// Loads the BPF objects of the trials once and removes them again.
pub fn abilities() -> Vec<Ability> {
    vec![
        optional_ability(
            "BPF object handover",
            crate::switch::try_watch().map_err(|refused| not_loaded(refused.reason)),
            Help::TypesOfKernel,
        ),
        optional_ability(
            "BPF object interruption",
            crate::rtos::try_watch().map_err(|refused| not_loaded(refused.reason)),
            Help::CallTracepoints,
        ),
    ]
}
