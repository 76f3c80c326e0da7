//! Gain from removing a cause: return levels with it and without it.

use laggard_analyze::InputError;
use laggard_model::UsagePattern;
use schemars::JsonSchema;
use serde::Serialize;

use super::{CauseShare, WhyReport};
use crate::causes::KnownCauses;
use crate::forecast::{ExplainedPeaks, Horizon, Outcome};
use crate::load::Load;

/// Share of the latency below which a cause is not a leading cause.
const MIN_LEADING_SHARE: f64 = 0.1;
/// Number of causes that can be leading.
const MAX_LEADING: usize = 3;

/// Return level of a series with a cause, and without its time.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Gain {
    pub horizon: Horizon,
    /// Level as measured.
    pub with: Outcome,
    /// Level without the time of the cause.
    pub without: Outcome,
}

/// Returns the causes that matter: the first three with a tenth of the time or more.
pub fn leading(causes: &[CauseShare]) -> impl Iterator<Item = &CauseShare> {
    causes
        .iter()
        .filter(|cause| cause.share >= MIN_LEADING_SHARE)
        .take(MAX_LEADING)
}

/// Adds the gains of the leading causes of each series. `load` and `known_causes` are the samples
/// and causes of the recording of the report.
///
/// # Errors
/// When the numbers of the usage pattern are not positive.
pub fn add_gains(
    report: &mut WhyReport,
    load: &Load,
    known_causes: &KnownCauses,
    usage: UsagePattern,
) -> Result<(), InputError> {
    for series in &mut report.series {
        let Some(line) = series.service.zip(series.route) else {
            continue;
        };
        let causes = series.causes.iter_mut();
        let leading = causes.filter(|cause| cause.share >= MIN_LEADING_SHARE);
        for cause in leading.take(MAX_LEADING) {
            let Some(number) = known_causes.number_of(&cause.cause) else {
                continue;
            };
            let peaks = ExplainedPeaks::new(load, known_causes, usage, &Horizon::ALL, line)?;
            for horizon in Horizon::ALL {
                cause.gains.push(Gain {
                    horizon,
                    with: peaks.level(horizon),
                    without: peaks.level_without(number, horizon)?,
                });
            }
        }
    }
    Ok(())
}
