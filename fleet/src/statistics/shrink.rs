//! Rates of many machines, each as far as it is known by itself and by the others.
//!
//! k late minutes of m are Poisson with the machine's own rate, and the machines'
//! rates are gamma distributed, with the shape a and the mean a / b. Then the
//! counts are negative binomial, which gives a and b by maximum likelihood
//! (empirical Bayes; Robbins 1956; Clayton & Kaldor 1987, section 2.2), and a
//! machine's rate is gamma (k + a, m + b). A short recording tells little of its
//! machine, and stays near the mean of all.

use statrs::distribution::{ContinuousCDF as _, Normal};
use statrs::function::gamma::{gamma_lr, ln_gamma};

/// Late minutes of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// Minutes in which it was late.
    pub late: f64,
    /// Minutes that were looked at; more than 0.
    pub minutes: f64,
}

/// How the rates of machines differ: a gamma distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    shape: f64,
    /// Minutes.
    rate: f64,
    /// Minutes of all machines together.
    minutes: f64,
}

/// A machine's rate, late minutes a minute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shrunk {
    /// Its expectation.
    pub mean: f64,
    /// The rate is less with 5 % probability.
    pub low: f64,
    /// The rate is more with 5 % probability.
    pub high: f64,
}

/// Shapes that are tried, as logarithms: from machines that have next to nothing
/// in common to machines that are all alike.
const SHAPES: (f64, f64) = (-7.0, 12.0);
/// Golden sections of the searches: to 1e-8 of the range.
const SECTIONS: usize = 40;

impl Prior {
    /// How the rates of these machines differ. `None`: none was ever late, so
    /// there is no rate to tell.
    pub fn of(all: &[Counted]) -> Option<Self> {
        let late: f64 = all.iter().map(|one| one.late).sum();
        let minutes: f64 = all.iter().map(|one| one.minutes).sum();
        if late <= 0.0 || minutes <= 0.0 {
            return None;
        }
        let mean = (late / minutes).ln();
        // The mean of the machines' rates need not be that of all minutes.
        let means = (mean - 12.0, mean + 12.0);
        let at = |shape: f64| {
            let constant: f64 = all
                .iter()
                .map(|one| ln_gamma(one.late + shape) - ln_gamma(shape))
                .sum();
            let likelihood = |mean: f64| constant + rest(all, shape, shape / mean.exp());
            let best = highest(likelihood, means);
            (likelihood(best), best)
        };
        let shape = highest(|shape| at(shape.exp()).0, SHAPES).exp();
        let mean = at(shape).1.exp();
        Some(Self {
            shape,
            rate: shape / mean,
            minutes,
        })
    }

    /// A machine's rate, as far as it is known; as a minute is late or not, it is
    /// no more than 1.
    pub fn shrink(&self, one: Counted) -> Shrunk {
        // What the others tell is no more than was seen of them: the fit of few that
        // look alike is as sure as that of many. Without others nothing is known
        // before (Jeffreys' prior of a Poisson rate, shape 1/2).
        let known = ((self.minutes - one.minutes) / self.rate).clamp(0.0, 1.0);
        let (before, of) = (self.shape * known + 0.5 * (1.0 - known), self.rate * known);
        let (shape, rate) = (before + one.late, of + one.minutes);
        let quantile = |p: f64| (below(shape, p) / rate).min(1.0);
        Shrunk {
            mean: (shape / rate).min(1.0),
            low: quantile(0.05),
            high: quantile(0.95),
        }
    }
}

/// The logarithm of the likelihood without what the mean does not change.
fn rest(all: &[Counted], shape: f64, rate: f64) -> f64 {
    all.iter()
        .map(|one| {
            let share = rate / (rate + one.minutes);
            shape * share.ln() + one.late * (one.minutes / (rate + one.minutes)).ln()
        })
        .sum()
}

/// Where `of` is highest within a range in which it rises, then falls.
fn highest(of: impl Fn(f64) -> f64, (mut low, mut high): (f64, f64)) -> f64 {
    let golden = 0.5 * (5.0_f64.sqrt() - 1.0);
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_left, mut at_right) = (of(left), of(right));
    for _ in 0..SECTIONS {
        if at_left < at_right {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = of(right);
        } else {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = of(left);
        }
    }
    f64::midpoint(low, high)
}

/// The value that a gamma variable of this shape and the rate 1 is below with
/// probability `p`: Newton's method from the approximation of Wilson & Hilferty
/// (1931), within limits that every step narrows.
fn below(shape: f64, p: f64) -> f64 {
    let (mut low, mut high) = (0.0, shape + 20.0 * shape.sqrt() + 20.0);
    let ninth = 1.0 / (9.0 * shape);
    let near = shape * (1.0 - ninth + Normal::standard().inverse_cdf(p) * ninth.sqrt()).powi(3);
    let mut at = if near > low && near < high {
        near
    } else {
        f64::midpoint(low, high)
    };
    for _ in 0..100 {
        let beyond = gamma_lr(shape, at) - p;
        if beyond < 0.0 {
            low = at;
        } else {
            high = at;
        }
        let density = ((shape - 1.0) * at.ln() - at - ln_gamma(shape)).exp();
        let next = at - beyond / density;
        let next = if next > low && next < high {
            next
        } else {
            f64::midpoint(low, high)
        };
        if (next - at).abs() <= 1e-9 * at {
            return next;
        }
        at = next;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(late: u32, minutes: u32) -> Counted {
        Counted {
            late: late.into(),
            minutes: minutes.into(),
        }
    }

    #[test]
    fn the_shortest_recording_does_not_win() {
        // 200 machines a day each, late once an hour or so; one is late every other
        // minute, one was looked at for two minutes and late in one of them.
        let mut all: Vec<Counted> = (0..200)
            .map(|number| counted(20 + number % 9, 1_440))
            .collect();
        all.push(counted(720, 1_440));
        all.push(counted(1, 2));

        let prior = Prior::of(&all).unwrap();

        let [faulty, short] = [all[200], all[201]].map(|one| prior.shrink(one));
        assert!(faulty.low > 10.0 * short.low, "{faulty:?} {short:?}");
        assert!(
            short.mean < 0.5 && short.low < short.mean && short.mean < short.high,
            "{short:?}"
        );
        // Of 200 that are nearly alike even a day is drawn towards them.
        assert!((0.4..0.5).contains(&faulty.mean), "{faulty:?}");
    }

    #[test]
    fn the_prior_of_simulated_machines_is_found() {
        // Quantiles of gamma rates of the shape 2 and the mean 0.01, and counts
        // that are their expectations, at 100,000 minutes.
        let all: Vec<Counted> = (0..500)
            .map(|number| {
                let rate = below(2.0, (f64::from(number) + 0.5) / 500.0) / 2.0 * 0.01;
                Counted {
                    late: (rate * 1e5).round(),
                    minutes: 1e5,
                }
            })
            .collect();

        let prior = Prior::of(&all).unwrap();

        assert!((prior.shape - 2.0).abs() < 0.1, "{prior:?}");
        assert!(
            (prior.shape / prior.rate - 0.01).abs() < 0.000_2,
            "{prior:?}"
        );
    }

    #[test]
    fn few_minutes_of_few_machines_leave_much_likely() {
        let [alone, four] = [1, 4].map(|machines| {
            let all = vec![counted(1, 1); machines];
            Prior::of(&all).unwrap().shrink(all[0])
        });

        // Gamma (1.5, 1): half of the 5 % quantile of chi-squared with 3 degrees.
        assert!((alone.low - 0.351_846 / 2.0).abs() < 1e-5, "{alone:?}");
        assert!(four.low > alone.low && four.low < 0.5, "{four:?}");
    }

    #[test]
    fn no_machine_is_likely_to_be_late_more_often_than_every_minute() {
        let mut all = vec![counted(1, 1_440); 50];
        all.push(counted(60, 60));

        let prior = Prior::of(&all).unwrap();

        let always = prior.shrink(all[50]);
        assert!(always.high <= 1.0 && always.mean <= 1.0, "{always:?}");
        assert!(always.low > 0.5, "{always:?}");
    }

    #[test]
    fn machines_that_are_alike_get_one_rate_and_none_that_is_late_gets_none() {
        let alike = vec![counted(10, 1_000); 50];

        let prior = Prior::of(&alike).unwrap();

        let one = prior.shrink(counted(0, 10));
        assert!((one.mean - 0.01).abs() < 0.001, "{one:?}");
        assert_eq!(Prior::of(&[counted(0, 1_000)]), None);
    }

    #[test]
    fn quantiles_of_a_gamma_variable_are_those_of_tables() {
        // Half of chi-squared quantiles with 2 k degrees of freedom.
        for (shape, p, expected) in [
            (1.0, 0.95, 2.995_732),
            (5.0, 0.05, 1.970_149),
            (0.5, 0.5, 0.227_468),
        ] {
            assert!(
                (below(shape, p) - expected).abs() < 1e-5,
                "for {shape} {p}: {}",
                below(shape, p)
            );
        }
    }
}
