//! Suitability of the machine for an application.

use laggard_model::{Route, Service};

use super::{Enough, Fit, Unfailing};
use crate::load::Load;
use crate::qos::{Application, MissFigures, Needed, QosError, ServiceOutlook, assess_series};

/// Number of independent xruns. With it the 95 % limits of the rate differ by a factor of 4
/// (Garwood 1936: 4.8 and 18.4 for 10).
const ENOUGH_CLUSTERS: f64 = 10.0;

impl Fit {
    /// Evaluates `application` as run by this series of `load`.
    pub(super) fn new(
        load: &Load,
        application: &Application,
        line: (Service, Route),
    ) -> Result<Self, QosError> {
        let outlook = assess_series(load, application, line)?;
        let goal = outlook.hourly();
        Ok(Self {
            application: application.clone(),
            service: outlook.service,
            route: outlook.route,
            verdict: outlook.verdict,
            decided_by_ns: goal.and_then(|goal| decided_by(&outlook, goal)),
            narrowed_by_ns: narrowed_by(&outlook),
            enough: goal.and_then(enough),
            unfailing: goal.and_then(|goal| unfailing(&outlook, goal)),
            figures: outlook.outlook,
            apart: outlook.apart,
            waited_ns: outlook.waited_ns,
            resolution: outlook.resolution,
        })
    }

    /// Returns the figures behind the verdict: the xruns of conspicuous CPUs, otherwise of all.
    pub fn judged(&self) -> &MissFigures {
        self.apart.as_ref().map_or(&self.figures, |apart| &apart.on)
    }
}

/// Returns the required length of a recording, ns. More CPUs do not shorten it, because a stall of
/// all of them at once counts once.
fn decided_by(outlook: &ServiceOutlook, goal: &Needed) -> Option<f64> {
    // If a failure could remain undetected, a longer recording would not exclude it.
    let is_none = outlook.outlook.failures == Some(0.0);
    if !is_none || goal.is_coarse {
        return None;
    }
    goal.record_ns
}

/// Returns how long a recording with the same number of CPUs must be to see enough xruns, as
/// expected.
fn narrowed_by(outlook: &ServiceOutlook) -> Option<f64> {
    let (figures, cpus) = outlook.judged();
    let clusters = figures.clusters.filter(|_| figures.mttf_ns.is_some())?;
    let exposure = figures.exposure_ns / cpus.max(1) as f64;
    figures
        .is_wide()
        .then(|| exposure * (ENOUGH_CLUSTERS / clusters.max(1.0)).max(1.0))
}

fn enough(goal: &Needed) -> Option<Enough> {
    let surely = goal.surely.map(|buffers| (buffers, true));
    let about = || goal.by_estimate.map(|buffers| (buffers, false));
    let (buffers, is_sure) = surely.or_else(about)?;
    Some(Enough { buffers, is_sure })
}

/// Returns the smallest number of buffers without an xrun, if the recording would have detected
/// one.
fn unfailing(outlook: &ServiceOutlook, goal: &Needed) -> Option<Unfailing> {
    if enough(goal).is_some() || goal.is_coarse {
        return None;
    }
    Some(Unfailing {
        buffers: outlook.without_failure()?.buffers,
        record_ns: goal.record_ns?,
    })
}
