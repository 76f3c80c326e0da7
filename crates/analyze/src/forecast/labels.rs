//! Peaks with the causes that made them.

use laggard_model::Nanos;

use super::{ObservedPeaks, Peaks};
use crate::InputError;

/// A late activation whose causes are known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExplainedLatency {
    /// Its programmed time, `CLOCK_MONOTONIC`.
    pub expiry: Nanos,
    /// How late the activation was.
    pub latency: Nanos,
    /// How much of it each cause took, by the caller's numbers for causes.
    pub parts: Vec<(usize, Nanos)>,
}

/// The explained activations of each peak.
#[derive(Clone, Debug)]
pub struct Labels<'a> {
    by_peak: Vec<Vec<&'a ExplainedLatency>>,
}

impl<'a> Labels<'a> {
    /// Gives each peak of `observed` the activations of `late` that belong to
    /// its cluster. `late` has the explained activations of one service by
    /// observation, in order of expiry.
    pub fn new(observed: &ObservedPeaks, late: &'a [Vec<ExplainedLatency>]) -> Self {
        let by_peak = observed
            .spans
            .iter()
            .map(|span| {
                let all = late.get(span.observation).map_or(&[][..], Vec::as_slice);
                let from = all.partition_point(|one| one.expiry < span.from);
                let to = all.partition_point(|one| one.expiry <= span.to);
                all.get(from..to).unwrap_or_default().iter().collect()
            })
            .collect();
        Self { by_peak }
    }

    /// By peak: what took most of the latest of its activations; `None` where
    /// none was kept.
    pub fn main_causes(&self) -> Vec<Option<usize>> {
        self.by_peak
            .iter()
            .map(|members| {
                let latest = members.iter().max_by_key(|one| one.latency)?;
                let most = latest.parts.iter().max_by_key(|(_, time)| *time)?;
                Some(most.0)
            })
            .collect()
    }

    /// The peaks above `threshold`, and their [`Labels::main_causes`]: below
    /// it, no activation was kept.
    ///
    /// # Errors
    /// Never for the peaks that the labels were made for.
    pub fn above(
        &self,
        peaks: &Peaks,
        threshold: f64,
    ) -> Result<(Peaks, Vec<Option<usize>>), InputError> {
        let threshold = threshold.max(peaks.threshold());
        let mut times = Vec::new();
        let mut sizes = Vec::new();
        let mut causes = Vec::new();
        let all = peaks.times().iter().zip(peaks.sizes());
        for ((&time, &size), cause) in all.zip(self.main_causes()) {
            if size > threshold {
                times.push(time);
                sizes.push(size);
                causes.push(cause);
            }
        }
        let peaks = Peaks::new(threshold, peaks.exposure(), times, sizes)?;
        Ok((peaks, causes))
    }

    /// The peaks as they would have been had `cause` taken no time. A peak of
    /// which no activation was kept stays as it is.
    ///
    /// # Errors
    /// Never for the peaks that the labels were made for.
    pub fn without(&self, peaks: &Peaks, cause: usize) -> Result<Peaks, InputError> {
        let left = |one: &ExplainedLatency| {
            let own = one.parts.iter().filter(|(number, _)| *number == cause);
            let taken = own.fold(Nanos::ZERO, |sum, &(_, time)| sum + time);
            one.latency.saturating_sub(taken).as_f64()
        };
        let (times, sizes) = peaks
            .times()
            .iter()
            .zip(peaks.sizes())
            .zip(&self.by_peak)
            .map(|((&time, &size), members)| {
                let rest = members.iter().map(|one| left(one)).reduce(f64::max);
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

    /// Three peaks, at 1, 2 and 3 s, of 9, 5 and 7 ms.
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
    fn a_peak_has_the_cause_of_the_latest_activation_in_its_cluster() {
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
    fn without_a_cause_what_the_others_took_is_left() {
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
