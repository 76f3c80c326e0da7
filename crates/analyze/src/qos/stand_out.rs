//! CPUs where a stream of jobs fails more often than on the others.

use laggard_model::whole;

use crate::InputError;
use crate::counts::binomial;
use crate::input::{all_positive, paired, probability};

/// Returns the CPUs that stand out, worst first, at most half of them, from the
/// `clusters` of failures on each CPU in its `exposure`.
///
/// If all CPUs fail alike, a cluster is on a CPU with a probability equal to its
/// fraction of the time, so the number on a CPU is binomial. The CPU with the highest
/// rate stands out if the probability of this number or more is at most `error` divided
/// by the number of CPUs (Bonferroni). It is then removed, and the rest is tested in
/// the same way. A simultaneous stop of several CPUs counts on each of them and makes
/// the CPUs more alike than chance does.
///
/// # Errors
/// If the numbers of exposures and counts differ, or a number is out of its range.
pub fn stand_out(clusters: &[f64], exposure: &[f64], error: f64) -> Result<Vec<usize>, InputError> {
    paired("counts", clusters, "exposures", exposure)?;
    all_positive("exposures", exposure)?;
    probability("error", error)?;
    let mut rest: Vec<usize> = (0..clusters.len()).collect();
    let rate = |cpu: &usize| clusters[*cpu] / exposure[*cpu];
    rest.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let mut outliers = Vec::new();
    while outliers.len() < clusters.len() / 2
        && let Some(worst) = rest.pop()
    {
        let others: f64 = rest.iter().map(|cpu| clusters[*cpu]).sum();
        let time: f64 = rest.iter().map(|cpu| exposure[*cpu]).sum();
        // Rounded so that a fraction of a cluster is never significant.
        let (here, elsewhere) = (whole(clusters[worst].floor()), whole(others.ceil()));
        let share = exposure[worst] / (exposure[worst] + time);
        let chance = binomial::at_least(here.cast_signed(), here + elsewhere, share);
        let tried = (rest.len() + 1) as f64;
        if here == 0 || chance * tried > error {
            break;
        }
        outliers.push(worst);
    }
    Ok(outliers)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_distr::{Distribution as _, Poisson};
    use rand_pcg::Pcg64;

    use super::*;

    const ERROR: f64 = 1e-3;

    fn of(clusters: &[f64]) -> Vec<usize> {
        stand_out(clusters, &vec![1.0; clusters.len()], ERROR).unwrap()
    }

    #[test]
    fn one_or_two_bad_cpus_of_many_stand_out() {
        let mut clusters = [0.0; 64];
        clusters[17] = 3.0;
        assert_eq!(of(&clusters), [17]);
        clusters[40] = 30.0;
        assert_eq!(of(&clusters), [40, 17]);
    }

    #[test]
    fn chance_on_one_of_few_cpus_does_not_stand_out() {
        assert!(of(&[10.0, 0.0]).is_empty());
        assert_eq!(of(&[0.0, 12.0]), [1]);
        assert!(of(&[0.0; 4]).is_empty());
        assert!(of(&[9.0]).is_empty());
        assert!(of(&[0.9, 0.0]).is_empty());
    }

    #[test]
    fn at_most_half_of_the_cpus_stand_out_by_rate() {
        assert_eq!(of(&[500.0, 400.0, 90.0, 0.0]).len(), 2);
        // Ten times the time, ten times the failures.
        let alike = stand_out(&[100.0, 10.0, 10.0], &[10.0, 1.0, 1.0], ERROR).unwrap();
        assert!(alike.is_empty(), "{alike:?}");
    }

    #[test]
    fn error_rate_of_equal_cpus_is_nominal() {
        let mut chance = Pcg64::seed_from_u64(7);
        for (cpus, mean) in [(2, 40.0), (8, 3.0), (64, 0.5), (64, 20.0)] {
            let draw = Poisson::new(mean).unwrap();
            let alarms = (0..2_000)
                .filter(|_| {
                    let clusters: Vec<f64> = (0..cpus).map(|_| draw.sample(&mut chance)).collect();
                    let exposure = vec![1.0; cpus];
                    !stand_out(&clusters, &exposure, 0.05).unwrap().is_empty()
                })
                .count();
            // 5 % requested; three standard deviations of 2,000 draws above that.
            assert!(
                alarms <= 130,
                "{alarms} of 2,000 with {cpus} CPUs and {mean}"
            );
        }
    }

    #[test]
    fn bad_number_is_refused() {
        assert!(stand_out(&[1.0], &[1.0, 1.0], ERROR).is_err());
        assert!(stand_out(&[1.0, 1.0], &[1.0, 0.0], ERROR).is_err());
        assert!(stand_out(&[1.0, 1.0], &[1.0, 1.0], 2.0).is_err());
    }
}
