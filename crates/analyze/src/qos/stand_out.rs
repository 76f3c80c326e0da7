//! CPUs on which a stream of jobs fails more often than on the rest.

use laggard_model::whole;

use crate::InputError;
use crate::counts::binomial;
use crate::input::{all_positive, paired, probability};

/// Which CPUs stand out, the worst first, at most half of them: `clusters` of
/// failures were seen on each in its `exposure`.
///
/// Where all fail alike, each of the clusters is on a CPU with the chance that is
/// its part of the time, so their number there is binomial. The CPU with the
/// highest rate stands out where so many or more would be there with a chance of
/// at most `error` over the number of CPUs (Bonferroni); then it is set aside, and
/// the rest are looked at in the same way. What stops several CPUs at once
/// is on each of them, and makes the CPUs more alike than chance does.
///
/// # Errors
/// When there are not as many exposures as counts, or a number is out of its range.
pub fn stand_out(clusters: &[f64], exposure: &[f64], error: f64) -> Result<Vec<usize>, InputError> {
    paired("counts", clusters, "exposures", exposure)?;
    all_positive("exposures", exposure)?;
    probability("error", error)?;
    let mut rest: Vec<usize> = (0..clusters.len()).collect();
    let rate = |at: &usize| clusters[*at] / exposure[*at];
    rest.sort_by(|one, other| rate(one).total_cmp(&rate(other)));
    let mut found = Vec::new();
    while found.len() < clusters.len() / 2
        && let Some(worst) = rest.pop()
    {
        let others: f64 = rest.iter().map(|at| clusters[*at]).sum();
        let time: f64 = rest.iter().map(|at| exposure[*at]).sum();
        // Rounded so that it is never told of less than whole clusters.
        let (here, elsewhere) = (whole(clusters[worst].floor()), whole(others.ceil()));
        let share = exposure[worst] / (exposure[worst] + time);
        let chance = binomial::at_least(here.cast_signed(), here + elsewhere, share);
        let tried = (rest.len() + 1) as f64;
        if here == 0 || chance * tried > error {
            break;
        }
        found.push(worst);
    }
    Ok(found)
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
    fn one_bad_cpu_of_many_stands_out_and_so_do_two() {
        let mut clusters = [0.0; 64];
        clusters[17] = 3.0;
        assert_eq!(of(&clusters), [17]);
        clusters[40] = 30.0;
        assert_eq!(of(&clusters), [40, 17]);
    }

    #[test]
    fn what_one_of_few_cpus_saw_by_chance_does_not() {
        assert!(of(&[10.0, 0.0]).is_empty());
        assert_eq!(of(&[0.0, 12.0]), [1]);
        assert!(of(&[0.0; 4]).is_empty());
        assert!(of(&[9.0]).is_empty());
        assert!(of(&[0.9, 0.0]).is_empty());
    }

    #[test]
    fn at_most_half_stand_out_and_time_is_counted() {
        assert_eq!(of(&[500.0, 400.0, 90.0, 0.0]).len(), 2);
        // Ten times the time, ten times the failures.
        let alike = stand_out(&[100.0, 10.0, 10.0], &[10.0, 1.0, 1.0], ERROR).unwrap();
        assert!(alike.is_empty(), "{alike:?}");
    }

    #[test]
    fn of_cpus_that_fail_alike_none_is_told_more_often_than_asked() {
        let mut chance = Pcg64::seed_from_u64(7);
        for (cpus, mean) in [(2, 40.0), (8, 3.0), (64, 0.5), (64, 20.0)] {
            let draw = Poisson::new(mean).unwrap();
            let told = (0..2_000)
                .filter(|_| {
                    let clusters: Vec<f64> = (0..cpus).map(|_| draw.sample(&mut chance)).collect();
                    let exposure = vec![1.0; cpus];
                    !stand_out(&clusters, &exposure, 0.05).unwrap().is_empty()
                })
                .count();
            // 5 % asked; three standard deviations of 2,000 draws above that.
            assert!(told <= 130, "{told} of 2,000 with {cpus} CPUs and {mean}");
        }
    }

    #[test]
    fn a_bad_number_is_refused() {
        assert!(stand_out(&[1.0], &[1.0, 1.0], ERROR).is_err());
        assert!(stand_out(&[1.0, 1.0], &[1.0, 0.0], ERROR).is_err());
        assert!(stand_out(&[1.0, 1.0], &[1.0, 1.0], 2.0).is_err());
    }
}
