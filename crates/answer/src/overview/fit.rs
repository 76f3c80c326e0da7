//! Whether the machine serves an application.

use laggard_model::{Route, Service};

use super::{Enough, Fit, Unfailing};
use crate::load::Load;
use crate::qos::{Application, MissFigures, Needed, QosError, ServiceOutlook, assess_series};

/// Of so many independent dropouts the 95 % limits of the rate are a factor of 4
/// apart (Garwood 1936: 4.8 and 18.4 for 10).
const ENOUGH_CLUSTERS: f64 = 10.0;

impl Fit {
    /// Evaluates `application` as run by this series of `load`.
    pub(super) fn new(
        load: &Load,
        application: &Application,
        line: (Service, Route),
    ) -> Result<Self, QosError> {
        let found = assess_series(load, application, line)?;
        let goal = found.hourly();
        Ok(Self {
            application: application.clone(),
            service: found.service,
            route: found.route,
            verdict: found.verdict,
            decided_by_ns: goal.and_then(|goal| decided_by(&found, goal)),
            narrowed_by_ns: narrowed_by(&found),
            enough: goal.and_then(enough),
            unfailing: goal.and_then(|goal| unfailing(&found, goal)),
            figures: found.outlook,
            apart: found.apart,
            waited_ns: found.waited_ns,
            resolution: found.resolution,
        })
    }

    /// What the verdict rests on: how often buffers run dry on CPUs that stand out,
    /// or else on all.
    pub fn judged(&self) -> &MissFigures {
        self.apart.as_ref().map_or(&self.figures, |apart| &apart.on)
    }
}

/// How long a recording takes, ns: more CPUs do not make it shorter, for a stall
/// of all of them at once is one.
fn decided_by(found: &ServiceOutlook, goal: &Needed) -> Option<f64> {
    // Where one could come unseen, a longer recording would not show that none does.
    let is_none = found.outlook.failures == Some(0.0);
    if !is_none || goal.is_coarse {
        return None;
    }
    goal.record_ns
}

/// How long a recording of as many CPUs is expected to see enough dropouts.
fn narrowed_by(found: &ServiceOutlook) -> Option<f64> {
    let (figures, cpus) = found.judged();
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

/// By a recording that could have seen one run dry.
fn unfailing(found: &ServiceOutlook, goal: &Needed) -> Option<Unfailing> {
    if enough(goal).is_some() || goal.is_coarse {
        return None;
    }
    Some(Unfailing {
        buffers: found.without_failure()?.buffers,
        record_ns: goal.record_ns?,
    })
}
