//! How a few applications fare, where none is named.

use laggard_model::{LoadLabel, Service};

use super::{Application, ApplicationError, QosError, ServiceOutlook, by_name, of_line, runs};
use crate::load::Load;
use crate::note::Note;

/// One of each kind, from the shortest slack to the longest: what is answered
/// for where no application is named.
const EXAMPLES: [&str; 7] = [
    "ethercat-1ms",
    "jack-64",
    "jack-128",
    "vr-90",
    "jack-512",
    "video-call",
    "sdr",
];

/// How one of several applications fares, or why that cannot be told.
pub type Choice = (Application, Result<ServiceOutlook, QosError>);

/// How a few applications fare under one load.
#[derive(Debug)]
pub struct LoadChoices {
    /// The load, or `no load`.
    pub load: LoadLabel,
    /// The recordings that were read for it.
    pub recordings: Vec<String>,
    /// The applications, those with the shortest slack first.
    pub applications: Vec<Choice>,
    /// What is missing from the recordings, or spoils the answer.
    pub notes: Vec<Note>,
}

/// The applications that are answered for where none is named.
///
/// # Errors
/// When the catalogue is damaged: a test holds that it is not.
pub fn examples() -> Result<Vec<Application>, ApplicationError> {
    EXAMPLES.into_iter().map(by_name).collect()
}

/// How `applications` fare under `seen`, each run as its own service, or all as
/// `only` one; `None` where that was not recorded.
pub fn choose(
    seen: &Load,
    applications: &[Application],
    only: Option<Service>,
) -> Option<LoadChoices> {
    let mut lines = seen.lines();
    lines.retain(|line| only.is_none_or(|only| only == line.0));
    if lines.is_empty() {
        return None;
    }
    let outlook = |application: &Application| {
        let line = runs(only.or(application.service), lines.iter().copied());
        let found = of_line(seen, application, line.ok_or(QosError::NoThread)?)?;
        Ok(ServiceOutlook {
            is_own: true,
            ..found
        })
    };
    Some(LoadChoices {
        load: seen.label.clone(),
        recordings: seen.paths(),
        applications: applications
            .iter()
            .map(|one| (one.clone(), outlook(one)))
            .collect(),
        notes: seen.notes(),
    })
}

#[cfg(test)]
mod tests {
    use laggard_model::Nanos;

    use super::*;

    #[test]
    fn the_examples_are_in_the_catalogue_in_the_order_of_their_slack() {
        let slacks: Vec<Nanos> = examples().unwrap().iter().map(|one| one.slack_ns).collect();

        assert!(slacks.is_sorted(), "{slacks:?}");
    }
}
