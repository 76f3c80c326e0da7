//! Peaks over a threshold, with their exposure.

use super::Cluster;
use crate::InputError;
use crate::input::{finite, not_negative, paired, positive};

/// Peaks of independent clusters above a threshold.
#[derive(Clone, Debug, PartialEq)]
pub struct Peaks {
    threshold: f64,
    exposure: f64,
    times: Vec<f64>,
    sizes: Vec<f64>,
}

impl Peaks {
    /// Creates peaks from `sizes` above `threshold` at `times` (in the same order)
    /// after the start of an observation that lasted `exposure`.
    ///
    /// # Errors
    /// If a time lies outside the exposure, a size is not above the threshold, or the
    /// two differ in length.
    pub fn new(
        threshold: f64,
        exposure: f64,
        times: Vec<f64>,
        sizes: Vec<f64>,
    ) -> Result<Self, InputError> {
        paired("sizes of peaks", &sizes, "times", &times)?;
        finite("sizes of peaks", &sizes)?;
        finite("threshold", &[threshold])?;
        positive("exposure", exposure)?;
        for &time in &times {
            not_negative("time of a peak", time)?;
            not_negative("exposure left after a peak", exposure - time)?;
        }
        for &size in &sizes {
            positive("excess of a peak over the threshold", size - threshold)?;
        }
        Ok(Self {
            threshold,
            exposure,
            times,
            sizes,
        })
    }

    /// Returns the peaks of clusters whose times count from the start of `exposure`.
    ///
    /// # Errors
    /// As for [`Peaks::new`].
    pub fn from_clusters(
        clusters: &[Cluster],
        threshold: f64,
        exposure: f64,
    ) -> Result<Self, InputError> {
        let times = clusters.iter().map(|cluster| cluster.time).collect();
        let sizes = clusters.iter().map(|cluster| cluster.peak).collect();
        Self::new(threshold, exposure, times, sizes)
    }

    /// Returns the threshold.
    pub const fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Returns the duration of the observation.
    pub const fn exposure(&self) -> f64 {
        self.exposure
    }

    /// Returns the time of each peak.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// Returns the size of each peak, in time order.
    pub fn sizes(&self) -> &[f64] {
        &self.sizes
    }

    /// Returns the observed maximum. It is not a forecast.
    pub fn largest(&self) -> Option<f64> {
        self.sizes.iter().copied().max_by(f64::total_cmp)
    }
}
