//! Arguments that several commands share.

mod choice;
mod episodes;
#[cfg(target_os = "linux")]
mod on_late;
mod parse;
mod size;
#[cfg(target_os = "linux")]
mod stages;

use laggard_model::Nanos;

pub use choice::choice;
pub use episodes::episodes;
#[cfg(target_os = "linux")]
pub use on_late::OnLateArgs;
pub use parse::parse;
pub use size::size_limit;
#[cfg(target_os = "linux")]
pub use stages::StagesArg;

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
