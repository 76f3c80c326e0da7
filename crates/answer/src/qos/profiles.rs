//! Outlook of a few profiles of the catalogue, if the user names no application.

use laggard_model::{LoadLabel, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Application, ApplicationError, Fitness, QosError, ServiceOutlook, assess_series, by_name, runs,
    today,
};
use crate::load::Load;
use crate::note::Note;

/// One profile of each kind, in the order of their slack.
const PROFILES: [&str; 7] = [
    "ethercat-1ms",
    "jack-64",
    "jack-128",
    "vr-90",
    "jack-512",
    "video-call",
    "sdr",
];

/// Outlooks of a few typical applications: `qos --json` without an application.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ProfilesReport {
    /// Version of this layout.
    pub schema: u32,
    pub loads: Vec<LoadProfiles>,
}

#[derive(Debug, JsonSchema, Serialize)]
pub struct ProfileOutlook {
    /// The profile.
    pub application: Application,
    /// Outlook as the service that would run it; absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlook: Option<ServiceOutlook>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingOutlook>,
}

#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissingOutlook {
    /// No recorded thread could run the application.
    NoThread,
    /// The buffers are too short for a replay.
    TooShort,
    OutOfRange,
}

impl From<QosError> for MissingOutlook {
    fn from(error: QosError) -> Self {
        match error {
            QosError::NoThread => Self::NoThread,
            QosError::TooShort { .. } => Self::TooShort,
            QosError::Input(_) => Self::OutOfRange,
        }
    }
}

/// Verdict on a profile without a row.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ProfileVerdict {
    pub name: String,
    /// Verdict on it, as the service that would run it.
    pub verdict: Fitness,
}

/// Outlook of a few profiles under one load.
#[derive(Debug, JsonSchema, Serialize)]
pub struct LoadProfiles {
    /// The load, or `no load`.
    pub load: LoadLabel,
    /// Recordings under this load.
    pub recordings: Vec<String>,
    /// The profiles, in the order of their slack.
    pub profiles: Vec<ProfileOutlook>,
    /// Verdicts on the other current profiles of the catalogue, in the order of their slack.
    pub others: Vec<ProfileVerdict>,
    /// Doubts about the recordings.
    pub notes: Vec<Note>,
}

/// Returns the profiles that are evaluated if the user names no application.
///
/// # Errors
/// When the catalogue is damaged. A test excludes this.
pub fn profiles() -> Result<Vec<Application>, ApplicationError> {
    PROFILES.into_iter().map(by_name).collect()
}

/// Returns the other current profiles of the catalogue, in the order of their slack.
///
/// # Errors
/// When the catalogue is damaged. A test excludes this.
pub fn other_profiles() -> Result<Vec<Application>, ApplicationError> {
    let mut others = today()?;
    others.retain(|profile| !PROFILES.contains(&profile.name.as_str()));
    others.sort_by_key(|profile| profile.slack_ns);
    Ok(others)
}

/// Evaluates `profiles` and `others` under `load`, each run as its own service, or each as
/// the service `only`. Returns `None` if that service was not recorded.
pub fn assess_profiles(
    load: &Load,
    profiles: &[Application],
    others: &[Application],
    only: Option<Service>,
) -> Option<LoadProfiles> {
    let mut series = load.lines();
    series.retain(|(service, _)| only.is_none_or(|only| only == *service));
    if series.is_empty() {
        return None;
    }
    let outlook = |application: &Application| -> Result<ServiceOutlook, QosError> {
        let own = runs(only.or(application.service), series.iter().copied());
        let outlook = assess_series(load, application, own.ok_or(QosError::NoThread)?)?;
        Ok(ServiceOutlook {
            is_own: true,
            ..outlook
        })
    };
    Some(LoadProfiles {
        load: load.label.clone(),
        recordings: load.paths(),
        profiles: profiles
            .iter()
            .map(|application| {
                let (outlook, missing) = match outlook(application) {
                    Ok(outlook) => (Some(outlook), None),
                    Err(error) => (None, Some(MissingOutlook::from(error))),
                };
                ProfileOutlook {
                    application: application.clone(),
                    outlook,
                    missing,
                }
            })
            .collect(),
        others: others
            .iter()
            .filter_map(|application| {
                Some(ProfileVerdict {
                    name: application.name.clone(),
                    verdict: outlook(application).ok()?.verdict,
                })
            })
            .collect(),
        notes: load.notes(),
    })
}

#[cfg(test)]
mod tests {
    use laggard_model::Nanos;

    use super::*;

    #[test]
    fn profiles_are_in_the_catalogue_in_the_order_of_their_slack() {
        let slacks: Vec<Nanos> = profiles()
            .unwrap()
            .iter()
            .map(|profile| profile.slack_ns)
            .collect();

        assert!(slacks.is_sorted(), "{slacks:?}");
    }
}
