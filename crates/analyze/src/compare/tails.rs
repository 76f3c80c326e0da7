//! Whether two tails are of one form (docs/method.md 10.9): how late what is late
//! is, however often that happens.

use crate::forecast::{
    Fitted, Pareto, Peaks, Reason, SHAPE_FLOOR, anderson_darling, anderson_darling_p,
    fit_likelihood, tail_threshold,
};

/// Fewest peaks of each side above the common threshold.
const FEWEST_PEAKS: usize = 50;
/// Of n peaks the statistic is so many n-ths larger than it would be of very many,
/// n being those of the side that has fewer: without, equal tails of 75 peaks
/// differ at 5 % in 8 % of simulated comparisons. A correction of the form of
/// Bartlett's (Lawley 1956); with it, 5 % (`tests` below).
const FEW: f64 = 15.0;
/// Below this p-value a tail is not of the form that is fitted to it.
const LEAST_FIT: f64 = 0.05;

/// Two tails above one threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TailsCompared {
    /// The threshold, ns.
    pub threshold: f64,
    /// Peaks of each side above it.
    pub peaks: [usize; 2],
    /// The most likely form of each.
    pub forms: [Pareto; 2],
    /// Twice the logarithm of how much likelier two forms are than one, corrected for
    /// how few peaks there are.
    pub statistic: f64,
    /// How often tails of one form look as different.
    pub p: f64,
}

/// Why two tails are not compared: the reasons of the first side, and of the
/// second.
#[derive(Clone, Debug, PartialEq)]
pub struct TailsRefused(pub [Vec<Reason>; 2]);

/// Compares the sizes of the peaks of two sides above the larger of the lowest
/// thresholds above which each has a Pareto tail: by the likelihood ratio of two
/// forms, of which the shape and the scale are free, to one (Wilks 1938; of such
/// tails Coles 2001, 2.6.6). With two degrees of freedom p = exp(-statistic / 2).
///
/// # Errors
/// Where a side does not carry a model, for the reasons that refuse a forecast
/// (docs/method.md 8.6).
pub fn compare_tails(first: &Peaks, second: &Peaks) -> Result<TailsCompared, TailsRefused> {
    let sides = [first, second];
    let threshold = match sides.map(tail_threshold) {
        [Ok(one), Ok(other)] => one.max(other),
        refused => {
            return Err(TailsRefused(
                refused.map(|one| one.err().unwrap_or_default()),
            ));
        }
    };
    let excesses = sides.map(|peaks| {
        let over = peaks.sizes().iter().map(|size| size - threshold);
        over.filter(|&excess| excess > 0.0).collect::<Vec<f64>>()
    });
    let [one, other] = match excesses.each_ref().map(|all| fitted(all)) {
        [Ok(one), Ok(other)] => [one, other],
        refused => {
            let reasons = refused.map(|one| one.err().into_iter().collect());
            return Err(TailsRefused(reasons));
        }
    };
    let unusable = |_| TailsRefused([vec![Reason::Unusable], vec![Reason::Unusable]]);
    let both = fit_likelihood(&excesses.concat()).map_err(unusable)?;
    let peaks = excesses.each_ref().map(Vec::len);
    let few = 1.0 + FEW / peaks[0].min(peaks[1]) as f64;
    let statistic = (2.0 * (both.loss - one.loss - other.loss) / few).max(0.0);
    Ok(TailsCompared {
        threshold,
        peaks,
        forms: [one.pareto, other.pareto],
        statistic,
        p: (-statistic / 2.0).exp(),
    })
}

/// The most likely form of a side's excesses, which must be of that form.
fn fitted(excesses: &[f64]) -> Result<Fitted, Reason> {
    if excesses.len() < FEWEST_PEAKS {
        return Err(Reason::TooFewPeaks {
            peaks: excesses.len(),
            needed: FEWEST_PEAKS,
        });
    }
    let found = fit_likelihood(excesses)?;
    let shape = found.pareto.shape;
    if shape <= SHAPE_FLOOR + 1e-6 {
        return Err(Reason::BoundedTail);
    }
    let statistic = anderson_darling(excesses, found.pareto)?;
    if anderson_darling_p(statistic, shape) < LEAST_FIT {
        Err(Reason::NoFit)
    } else {
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    const SPAN: f64 = 3.6e12;

    /// So many peaks above 1 ms of this form, at random times of an hour.
    fn peaks(count: usize, form: Pareto, random: &mut Pcg64Mcg) -> Peaks {
        let mut times: Vec<f64> = (0..count).map(|_| random.random::<f64>() * SPAN).collect();
        times.sort_by(f64::total_cmp);
        let size = |_| {
            1e6 + form
                .exceeded_once_in(1.0 / (1.0 - random.random::<f64>()))
                .max(1.0)
        };
        let sizes = (0..count).map(size).collect();
        Peaks::new(1e6, SPAN, times, sizes).unwrap()
    }

    const FORM: Pareto = Pareto {
        scale: 5e5,
        shape: 0.1,
    };

    #[test]
    fn equal_tails_differ_in_5_of_100_comparisons_and_a_longer_one_is_found() {
        let longer = Pareto { scale: 1e6, ..FORM };
        let found = |other: Pareto, count: usize| -> Vec<f64> {
            let runs = (0..300).filter_map(|seed| {
                let mut random = Pcg64Mcg::seed_from_u64(seed);
                let [a, b] = [FORM, other].map(|form| peaks(count, form, &mut random));
                compare_tails(&a, &b).ok().map(|found| found.p)
            });
            runs.collect()
        };
        let share = |p: &[f64]| p.iter().filter(|&&p| p <= 0.05).count() as f64 / p.len() as f64;

        let (equal, differing) = (found(FORM, 150), found(longer, 150));

        eprintln!(
            "{} {}, {} {}",
            equal.len(),
            share(&equal),
            differing.len(),
            share(&differing)
        );
        assert!(equal.len() > 150 && differing.len() > 150);
        assert!(share(&equal) <= 0.08, "{}", share(&equal));
        assert!(share(&differing) > 0.8, "{}", share(&differing));
    }

    #[test]
    fn what_carries_no_model_is_refused_with_its_side() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let (few, many) = (peaks(20, FORM, &mut random), peaks(200, FORM, &mut random));
        let equal = Peaks::new(
            1e6,
            SPAN,
            (0..200).map(|at| f64::from(at) * 1e9).collect(),
            vec![2e6; 200],
        )
        .unwrap();

        let TailsRefused([first, second]) = compare_tails(&few, &many).unwrap_err();
        let ties = compare_tails(&many, &equal).unwrap_err();

        assert_eq!(
            first,
            [Reason::TooFewPeaks {
                peaks: 20,
                needed: 50
            }]
        );
        assert_eq!(second, []);
        assert!(matches!(ties.0[1][0], Reason::Ties { .. }), "{ties:?}");
    }
}
