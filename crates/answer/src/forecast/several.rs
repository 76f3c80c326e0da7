//! Forecasts for several loads, each by the usage pattern that it says.

use laggard_model::UsagePattern;

use super::{FORECAST_SCHEMA, ForecastReport, Horizon, predict};
use crate::error::AnswerError;
use crate::load::Load;

/// The forecasts of each load; by `usage` where one is given, else by what its
/// recordings say.
///
/// # Errors
/// When a recording cannot be read again, or a usage pattern's numbers are not
/// positive.
pub fn forecasts(
    loads: &[Load],
    usage: Option<UsagePattern>,
    horizons: &[Horizon],
) -> Result<ForecastReport, AnswerError> {
    let loads = loads
        .iter()
        .map(|one| {
            let (pattern, from) = used(usage, one);
            let known = one.causes()?;
            Ok(predict(one, &known, pattern, from.into(), horizons)?)
        })
        .collect::<Result<Vec<_>, AnswerError>>()?;
    Ok(ForecastReport {
        schema: FORECAST_SCHEMA,
        loads,
    })
}

/// The usage pattern, and where it comes from.
fn used(given: Option<UsagePattern>, load: &Load) -> (UsagePattern, &'static str) {
    match (given, load.usage()) {
        (Some(usage), _) => (usage, "as given"),
        (None, Some(usage)) => (usage, "the load's own"),
        (None, None) => (UsagePattern::ALWAYS, "not given: in use all the time"),
    }
}
