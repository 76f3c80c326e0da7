//! Forecasts for several loads, each with its usage pattern.

use laggard_model::UsagePattern;

use super::{FORECAST_SCHEMA, ForecastReport, Horizon, UsageSource, predict};
use crate::error::AnswerError;
use crate::load::Load;

/// Forecasts each load with `usage`, or with the usage pattern of its recordings.
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
        .map(|load| {
            let used = used(usage, load);
            let causes = load.causes()?;
            Ok(predict(load, &causes, used, horizons)?)
        })
        .collect::<Result<Vec<_>, AnswerError>>()?;
    Ok(ForecastReport {
        schema: FORECAST_SCHEMA,
        loads,
    })
}

/// Returns the usage pattern and its source.
fn used(given: Option<UsagePattern>, load: &Load) -> (UsagePattern, UsageSource) {
    match (given, load.usage()) {
        (Some(usage), _) => (usage, UsageSource::Given),
        (None, Some(usage)) => (usage, UsageSource::Load),
        (None, None) => (UsagePattern::ALWAYS, UsageSource::Assumed),
    }
}
