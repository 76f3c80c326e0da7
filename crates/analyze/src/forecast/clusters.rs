//! Runs declustering of exceedances (docs/method.md 8.1).

use crate::InputError;
use crate::input::{ascending, finite, not_negative, paired};

/// Exceedances of one cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// Time of the largest value.
    pub time: f64,
    /// Largest value.
    pub peak: f64,
    /// Number of exceedances.
    pub size: usize,
    /// Time of the first exceedance.
    pub first: f64,
    /// End of the last exceedance.
    pub last: f64,
}

/// Returns the clusters of `values` above `threshold` that are more than `run` apart,
/// in time order. Each value lasts from its time in `times` to its end in `ends`.
/// Distances are measured from an end to the next start, so a long stall is one
/// cluster.
///
/// A good `run` is the time that a backlog takes to drain: the larger of two ticks and the
/// buffering n t.
///
/// # Errors
/// If times do not ascend, a number is not finite, or the lengths differ.
pub fn decluster(
    times: &[f64],
    ends: &[f64],
    values: &[f64],
    threshold: f64,
    run: f64,
) -> Result<Vec<Cluster>, InputError> {
    paired("values", values, "times", times)?;
    paired("ends", ends, "times", times)?;
    finite("times", times)?;
    finite("ends", ends)?;
    finite("values", values)?;
    ascending("times", times)?;
    not_negative("run", run)?;
    let mut clusters: Vec<Cluster> = Vec::new();
    for ((&time, &end), &value) in times.iter().zip(ends).zip(values) {
        if value <= threshold {
            continue;
        }
        match clusters.last_mut() {
            Some(cluster) if time - cluster.last <= run => {
                if value > cluster.peak {
                    (cluster.time, cluster.peak) = (time, value);
                }
                cluster.size += 1;
                cluster.last = cluster.last.max(end);
            }
            _ => clusters.push(Cluster {
                time,
                peak: value,
                size: 1,
                first: time,
                last: end,
            }),
        }
    }
    Ok(clusters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn every_exceedance_is_in_one_cluster_whose_peak_is_its_max(
            steps in proptest::collection::vec((0.0..5.0_f64, 0.0..10.0_f64), 1..60),
            run in 0.0..6.0_f64,
        ) {
            let mut now = 0.0;
            let times: Vec<f64> = steps.iter().map(|(step, _)| { now += step; now }).collect();
            let values: Vec<f64> = steps.iter().map(|(_, value)| *value).collect();
            let clusters = decluster(&times, &times, &values, 5.0, run).unwrap();
            let above: Vec<f64> = values.iter().copied().filter(|v| *v > 5.0).collect();
            prop_assert_eq!(clusters.iter().map(|c| c.size).sum::<usize>(), above.len());
            let largest = clusters.iter().map(|c| c.peak).fold(f64::NEG_INFINITY, f64::max);
            prop_assert_eq!(largest, above.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            prop_assert!(clusters.windows(2).all(|pair| pair[1].first - pair[0].last > run));
        }

        #[test]
        fn longer_run_makes_no_more_clusters(
            steps in proptest::collection::vec(0.1..5.0_f64, 1..60), run in 0.0..6.0_f64,
        ) {
            let mut now = 0.0;
            let times: Vec<f64> = steps.iter().map(|step| { now += step; now }).collect();
            let values = vec![1.0; times.len()];
            let count = |run| decluster(&times, &times, &values, 0.0, run).unwrap().len();
            prop_assert!(count(run * 2.0) <= count(run));
        }
    }
}
