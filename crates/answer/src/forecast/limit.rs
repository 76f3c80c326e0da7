//! Limits of a forecast.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Ahead, Horizon, ServiceForecast};

/// Fact that limits the chances and bounds of a forecast.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "limit")]
pub enum ForecastLimit {
    /// The recordings cannot be trusted.
    Trust,
    /// A thread was still waiting when measuring ended, so each bound is a lower limit.
    Waiting {
        /// Longest wait by then, ns.
        at_least_ns: f64,
    },
    /// Samples were lost.
    Losses {
        /// Number of lost samples of the service that lost the most.
        lost: u64,
    },
    /// The maxima of neighbouring blocks depend on each other.
    Changing {
        /// Length of the longest blocks that depend on each other, ns.
        block_ns: f64,
        /// Number of services whose blocks depend on each other.
        services: usize,
    },
    /// The recordings are too short.
    Length {
        /// Shortest horizon without a bound.
        horizon: Horizon,
        /// Additional recording time that helps, ns.
        more_ns: f64,
        /// Chance of a new maximum that the additional time halves; absent if the time
        /// gives a bound for nine of ten horizons.
        halves: Option<f64>,
    },
}

impl ForecastLimit {
    /// Returns the limits, the most important first.
    pub(super) fn list(
        is_trusted: bool,
        waited: Option<f64>,
        services: &[ServiceForecast],
    ) -> Vec<Self> {
        let mut limits = Vec::new();
        if !is_trusted {
            limits.push(Self::Trust);
        }
        limits.extend(waited.map(|at_least_ns| Self::Waiting { at_least_ns }));
        let lost = services.iter().map(|service| service.lost).max();
        limits.extend(
            lost.filter(|lost| *lost > 0)
                .map(|lost| Self::Losses { lost }),
        );
        let changing = services
            .iter()
            .filter(|service| service.blocks.is_dependent);
        let lengths = changing.clone().map(|service| service.blocks.least_ns);
        let longest = lengths.reduce(f64::max);
        limits.extend(longest.map(|block_ns| Self::Changing {
            block_ns,
            services: changing.count(),
        }));
        limits.extend(too_short(services));
        limits
    }
}

/// Returns the shortest horizon without a bound, and the missing recording time.
fn too_short(services: &[ServiceForecast]) -> Option<ForecastLimit> {
    let cells = services.iter().flat_map(|service| &service.cells);
    let open = cells.filter(|cell| cell.ahead.is_open());
    let (horizon, ahead) = open
        .map(|cell| (cell.horizon, &cell.ahead))
        .min_by(|a, b| {
            let by_length = a.1.horizon_ns.total_cmp(&b.1.horizon_ns);
            by_length.then(b.1.new_largest.total_cmp(&a.1.new_largest))
        })?;
    let chance = ahead.new_largest;
    // h / (T + h) = p, so T + h = h / p must double to halve p.
    let halving = ahead.horizon_ns / chance;
    let exposure = halving - ahead.horizon_ns;
    let bounding = ahead.stays_below.iter().map(|bound| bound.record_ns);
    let missing = bounding.fold(0.0, f64::max) - exposure;
    Some(if chance > 0.5 {
        ForecastLimit::Length {
            horizon,
            more_ns: halving,
            halves: Some(chance),
        }
    } else {
        ForecastLimit::Length {
            horizon,
            more_ns: missing.max(0.0),
            halves: None,
        }
    })
}

impl Ahead {
    /// Returns whether a bound is unknown.
    fn is_open(&self) -> bool {
        self.stays_below
            .iter()
            .any(|bound| bound.bound_ns.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_the_recordings_are_the_first_limits() {
        let limits = |is_trusted, waited| ForecastLimit::list(is_trusted, waited, &[]);

        assert_eq!(limits(true, None), []);
        let waiting = ForecastLimit::Waiting { at_least_ns: 3e6 };
        assert_eq!(limits(false, Some(3e6)), [ForecastLimit::Trust, waiting]);
    }
}
