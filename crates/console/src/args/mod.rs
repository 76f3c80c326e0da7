//! Arguments that several commands have.

mod episodes;
mod parse;
#[cfg(target_os = "linux")]
mod plan;
mod size;

use laggard_model::Nanos;

pub use episodes::EpisodesArg;
pub use parse::parse;
#[cfg(target_os = "linux")]
pub use plan::{BackendArg, StagesArg};
pub use size::SizeLimitArg;

/// Reads a length of time that is not zero.
///
/// # Errors
/// When it is zero, or none.
pub fn some_time(text: &str) -> Result<Nanos, String> {
    match text.parse::<Nanos>() {
        Ok(Nanos::ZERO) => Err("nothing happens in no time; write it as `30s`".into()),
        Ok(time) => Ok(time),
        Err(err) => Err(err.to_string()),
    }
}
