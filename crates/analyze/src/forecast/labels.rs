//! Peaks with their causes.

use laggard_model::Nanos;

use super::{ObservedPeaks, Peaks};
use crate::InputError;

/// Late wakeup with known causes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExplainedLatency {
    /// Programmed time, `CLOCK_MONOTONIC`.
    pub expiry: Nanos,
    /// Latency.
    pub latency: Nanos,
    /// Time of each cause, by the caller's numbers for causes.
    pub parts: Vec<(usize, Nanos)>,
}

/// Explained activations of each peak.
#[derive(Clone, Debug)]
pub struct Labels<'a> {
    by_peak: Vec<Vec<&'a ExplainedLatency>>,
}

impl<'a> Labels<'a> {
    /// Assigns to each peak of `observed` the activations of `late` in its cluster.
    /// `late` has the explained activations of one service per observation, in order of
    /// expiry.
    pub fn new(observed: &ObservedPeaks, late: &'a [Vec<ExplainedLatency>]) -> Self {
        let by_peak = observed
            .spans
            .iter()
            .map(|span| {
                let activations = late.get(span.observation).map_or(&[][..], Vec::as_slice);
                let from = activations.partition_point(|activation| activation.expiry < span.from);
                let to = activations.partition_point(|activation| activation.expiry <= span.to);
                activations
                    .get(from..to)
                    .unwrap_or_default()
                    .iter()
                    .collect()
            })
            .collect();
        Self { by_peak }
    }

    /// Returns for each peak the cause of most of its latest activation; `None` if no
    /// activation was kept.
    pub fn main_causes(&self) -> Vec<Option<usize>> {
        self.by_peak
            .iter()
            .map(|members| {
                let latest = members.iter().max_by_key(|activation| activation.latency)?;
                let most = latest.parts.iter().max_by_key(|(_, time)| *time)?;
                Some(most.0)
            })
            .collect()
    }

    /// Returns the peaks above `threshold` with their [`Labels::main_causes`]. Below
    /// the threshold, no activation was kept.
    ///
    /// # Errors
    /// Never for the peaks that the labels were made from.
    pub fn above(
        &self,
        peaks: &Peaks,
        threshold: f64,
    ) -> Result<(Peaks, Vec<Option<usize>>), InputError> {
        let threshold = threshold.max(peaks.threshold());
        let mut times = Vec::new();
        let mut sizes = Vec::new();
        let mut causes = Vec::new();
        let pairs = peaks.times().iter().zip(peaks.sizes());
        for ((&time, &size), cause) in pairs.zip(self.main_causes()) {
            if size > threshold {
                times.push(time);
                sizes.push(size);
                causes.push(cause);
            }
        }
        let peaks = Peaks::new(threshold, peaks.exposure(), times, sizes)?;
        Ok((peaks, causes))
    }

    /// Returns the peaks as if `cause` had taken no time. A peak without a kept
    /// activation stays unchanged.
    ///
    /// # Errors
    /// Never for the peaks that the labels were made from.
    pub fn without(&self, peaks: &Peaks, cause: usize) -> Result<Peaks, InputError> {
        let left = |activation: &ExplainedLatency| {
            let own = activation
                .parts
                .iter()
                .filter(|(number, _)| *number == cause);
            let taken = own.fold(Nanos::ZERO, |sum, &(_, time)| sum + time);
            activation.latency.saturating_sub(taken).as_f64()
        };
        let (times, sizes) = peaks
            .times()
            .iter()
            .zip(peaks.sizes())
            .zip(&self.by_peak)
            .map(|((&time, &size), members)| {
                let rest = members
                    .iter()
                    .map(|activation| left(activation))
                    .reduce(f64::max);
                (time, rest.map_or(size, |rest| rest.min(size)))
            })
            .filter(|(_, size)| *size > peaks.threshold())
            .unzip();
        Peaks::new(peaks.threshold(), peaks.exposure(), times, sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::PeakSpan;
    use super::*;

    fn explained(ms: u64, latency_us: u64, parts: &[(usize, u64)]) -> ExplainedLatency {
        ExplainedLatency {
            expiry: Nanos::from_ms(ms),
            latency: Nanos::from_us(latency_us),
            parts: parts
                .iter()
                .map(|&(cause, us)| (cause, Nanos::from_us(us)))
                .collect(),
        }
    }

    /// Returns three peaks of 9, 5 and 7 ms after 1, 2 and 3 s.
    fn observed() -> ObservedPeaks {
        let peaks = Peaks::new(1e6, 10e9, vec![1e9, 2e9, 3e9], vec![9e6, 5e6, 7e6]).unwrap();
        let span = |ms| PeakSpan {
            observation: 0,
            from: Nanos::from_ms(ms),
            to: Nanos::from_ms(ms + 5),
        };
        ObservedPeaks {
            events: Vec::new(),
            peaks,
            spans: vec![span(1_000), span(2_000), span(3_000)],
        }
    }

    #[test]
    fn peak_has_the_cause_of_the_latest_activation_in_its_cluster() {
        let late = [vec![
            explained(1_000, 9_000, &[(4, 8_000), (2, 1_000)]),
            explained(1_004, 5_000, &[(2, 5_000)]),
            explained(2_003, 5_000, &[(2, 5_000)]),
            explained(2_900, 8_000, &[(1, 8_000)]),
        ]];

        let labels = Labels::new(&observed(), &late);

        assert_eq!(labels.main_causes(), [Some(4), Some(2), None]);
        let (above, causes) = labels.above(&observed().peaks, 6e6).unwrap();
        assert_eq!((above.sizes(), above.threshold()), (&[9e6, 7e6][..], 6e6));
        assert_eq!(causes, [Some(4), None]);
    }

    #[test]
    fn peak_without_a_cause_keeps_the_time_of_the_others() {
        let late = [vec![
            explained(1_000, 9_000, &[(4, 7_000), (2, 2_000)]),
            explained(1_004, 3_500, &[(2, 3_000), (4, 500)]),
            explained(2_003, 5_000, &[(4, 4_900), (2, 100)]),
        ]];
        let observed = observed();
        let labels = Labels::new(&observed, &late);

        let left = labels.without(&observed.peaks, 4).unwrap();

        assert_eq!(left.sizes(), [3e6, 7e6]);
        assert_eq!(left.times(), [1e9, 3e9]);
        assert_eq!(left.exposure(), 10e9);
    }
}
