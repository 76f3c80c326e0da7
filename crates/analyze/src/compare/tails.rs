//! Test whether two tails have the same form (docs/method.md 10.9): the sizes of late
//! latencies, independent of their rate.

use crate::forecast::{
    LikelihoodFit, Pareto, Peaks, Reason, SHAPE_FLOOR, anderson_darling, anderson_darling_p,
    fit_likelihood, tail_threshold,
};

/// Minimum number of peaks of each side above the common threshold.
const MIN_PEAKS: usize = 50;
/// Small-sample correction. With n peaks on the side with fewer, the statistic is
/// larger by a factor of 1 + `FEW` / n than with very many. Without the correction,
/// equal tails of 75 peaks differ at 5 % in 8 % of simulated comparisons; with it in 5
/// % (`tests` below). It has the form of Bartlett's correction (Lawley 1956).
const FEW_PEAKS: f64 = 15.0;
/// Minimum p-value of the goodness of fit of a tail.
const MIN_FIT_P: f64 = 0.05;

/// Comparison of two tails above one threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TailsCompared {
    /// Threshold, ns.
    pub threshold: f64,
    /// Number of peaks of each side above the threshold.
    pub peaks: [usize; 2],
    /// Most likely form of each tail.
    pub forms: [Pareto; 2],
    /// Twice the logarithm of the likelihood ratio of two forms to one, corrected for
    /// the number of peaks.
    pub statistic: f64,
    /// Probability that tails of the same form look at least this different.
    pub p: f64,
}

/// Reasons that prevent a comparison of two tails, for the first and the second side.
#[derive(Clone, Debug, PartialEq)]
pub struct TailsRefused(pub [Vec<Reason>; 2]);

/// Compares the sizes of the peaks of two sides. Each side has a lowest threshold where its Pareto
/// tail starts. The larger one is used. The test is the likelihood ratio of two forms, with free
/// shape and scale, to one (Wilks 1938; for such tails Coles 2001, 2.6.6). With two degrees of
/// freedom p = exp(-statistic / 2).
///
/// # Errors
/// If a side does not support a model, for the reasons that refuse a forecast
/// (docs/method.md 8.6).
pub fn compare_tails(first: &Peaks, second: &Peaks) -> Result<TailsCompared, TailsRefused> {
    let sides = [first, second];
    let threshold = match sides.map(tail_threshold) {
        [Ok(first), Ok(second)] => first.max(second),
        refused => {
            return Err(TailsRefused(
                refused.map(|refusal| refusal.err().unwrap_or_default()),
            ));
        }
    };
    let excesses = sides.map(|peaks| {
        let over = peaks.sizes().iter().map(|size| size - threshold);
        over.filter(|&excess| excess > 0.0).collect::<Vec<f64>>()
    });
    let [first, second] = match excesses.each_ref().map(|excesses| fitted(excesses)) {
        [Ok(first), Ok(second)] => [first, second],
        refused => {
            let reasons = refused.map(|fit| fit.err().into_iter().collect());
            return Err(TailsRefused(reasons));
        }
    };
    let unusable = |_| TailsRefused([vec![Reason::Unusable], vec![Reason::Unusable]]);
    let both = fit_likelihood(&excesses.concat()).map_err(unusable)?;
    let peaks = excesses.each_ref().map(Vec::len);
    let few = 1.0 + FEW_PEAKS / peaks[0].min(peaks[1]) as f64;
    let statistic = (2.0 * (both.loss - first.loss - second.loss) / few).max(0.0);
    Ok(TailsCompared {
        threshold,
        peaks,
        forms: [first.pareto, second.pareto],
        statistic,
        p: (-statistic / 2.0).exp(),
    })
}

/// Fits a Pareto distribution to a side's excesses and tests the fit.
fn fitted(excesses: &[f64]) -> Result<LikelihoodFit, Reason> {
    if excesses.len() < MIN_PEAKS {
        return Err(Reason::TooFewPeaks {
            peaks: excesses.len(),
            needed: MIN_PEAKS,
        });
    }
    let fit = fit_likelihood(excesses)?;
    let shape = fit.pareto.shape;
    if shape <= SHAPE_FLOOR + 1e-6 {
        return Err(Reason::BoundedTail);
    }
    let statistic = anderson_darling(excesses, fit.pareto)?;
    if anderson_darling_p(statistic, shape) < MIN_FIT_P {
        Err(Reason::NoFit)
    } else {
        Ok(fit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    const SPAN: f64 = 3.6e12;

    /// Returns `count` peaks above 1 ms of this form at random times of an hour.
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

    const FORM: Pareto = Pareto::new(5e5, 0.1);

    #[test]
    fn equal_tails_differ_at_the_nominal_rate_and_a_longer_tail_is_found() {
        let longer = Pareto { scale: 1e6, ..FORM };
        let p_values = |other: Pareto, count: usize| -> Vec<f64> {
            let runs = (0..300).filter_map(|seed| {
                let mut random = Pcg64Mcg::seed_from_u64(seed);
                let [a, b] = [FORM, other].map(|form| peaks(count, form, &mut random));
                compare_tails(&a, &b).ok().map(|comparison| comparison.p)
            });
            runs.collect()
        };
        let share = |p: &[f64]| p.iter().filter(|&&p| p <= 0.05).count() as f64 / p.len() as f64;

        let (equal, differing) = (p_values(FORM, 150), p_values(longer, 150));

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
    fn side_without_a_model_is_refused_by_name() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let (few, many) = (peaks(20, FORM, &mut random), peaks(200, FORM, &mut random));
        let equal = Peaks::new(
            1e6,
            SPAN,
            (0..200).map(|second| f64::from(second) * 1e9).collect(),
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
