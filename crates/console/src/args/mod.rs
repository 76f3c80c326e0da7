//! Arguments that several commands share.

mod episodes;
#[cfg(target_os = "linux")]
mod on_late;
mod parse;
#[cfg(target_os = "linux")]
mod plan;
mod size;

use laggard_model::Nanos;

pub use episodes::EpisodesArg;
#[cfg(target_os = "linux")]
pub use on_late::OnLateArgs;
pub use parse::parse;
#[cfg(target_os = "linux")]
pub use plan::{BackendArg, StagesArg};
pub use size::SizeLimitArg;

/// Parses a duration that is not zero.
///
/// # Errors
///
/// Returns an error if it is zero, or not a duration.
pub fn some_time(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(Nanos::ZERO) => Err("a duration must not be zero; write it as `30s`".into()),
        Ok(time) => Ok(time),
        Err(err) => Err(err.to_string()),
    }
}
