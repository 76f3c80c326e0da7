//! Rates of many machines, estimated from the data of each machine and of all others.
//!
//! k late minutes of m are Poisson distributed with the machine's rate, and the rates of the
//! machines are gamma distributed with the shape a and the mean a / b. The counts are then negative
//! binomial. Maximum likelihood gives a and b (empirical Bayes; Robbins 1956; Clayton & Kaldor
//! 1987, section 2.2), and a machine's rate is gamma (k + a, m + b). A short recording contains
//! little information about its machine, and its estimate stays near the mean of all.

use statrs::distribution::{ContinuousCDF as _, Normal};
use statrs::function::gamma::{gamma_lr, ln_gamma};

/// Late minutes of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// Number of late minutes.
    pub late: f64,
    /// Number of measured minutes; more than 0.
    pub minutes: f64,
}

/// Gamma distribution of the rates of machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    shape: f64,
    /// Minutes.
    rate: f64,
    /// Measured minutes of all machines.
    minutes: f64,
}

/// Rate of a machine, late minutes per minute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shrunk {
    /// Expected value.
    pub mean: f64,
    /// The rate is less with 5 % probability.
    pub low: f64,
    /// The rate is more with 5 % probability.
    pub high: f64,
}

/// Range of the logarithm of the shape: from machines with very different rates to machines with
/// equal rates.
const SHAPES: (f64, f64) = (-7.0, 12.0);
/// Number of golden-section steps: reaches 1e-8 of the range.
const SECTIONS: usize = 40;

impl Prior {
    /// Estimates the distribution of the rates of these machines. Returns `None` if no machine was
    /// ever late, because the rate is then unknown.
    pub fn fit(machines: &[Counted]) -> Option<Self> {
        let late: f64 = machines.iter().map(|machine| machine.late).sum();
        let minutes: f64 = machines.iter().map(|machine| machine.minutes).sum();
        if late <= 0.0 || minutes <= 0.0 {
            return None;
        }
        let mean = (late / minutes).ln();
        // The mean of the machines' rates can differ from the mean over all minutes.
        let means = (mean - 12.0, mean + 12.0);
        let maximum_at = |shape: f64| {
            let constant: f64 = machines
                .iter()
                .map(|machine| ln_gamma(machine.late + shape) - ln_gamma(shape))
                .sum();
            let likelihood = |mean: f64| constant + rest(machines, shape, shape / mean.exp());
            let best = highest(likelihood, means);
            (likelihood(best), best)
        };
        let shape = highest(|shape| maximum_at(shape.exp()).0, SHAPES).exp();
        let mean = maximum_at(shape).1.exp();
        Some(Self {
            shape,
            rate: shape / mean,
            minutes,
        })
    }

    /// Estimates a machine's rate. It is at most 1, because a minute is late or not.
    pub fn shrink(&self, machine: Counted) -> Shrunk {
        // The weight of the other machines is limited by their data: a fit of a few similar
        // machines is as certain as a fit of many. Without other machines, the prior is
        // uninformative (Jeffreys' prior of a Poisson rate, shape 1/2).
        let weight = ((self.minutes - machine.minutes) / self.rate).clamp(0.0, 1.0);
        let (before, prior_rate) = (
            self.shape * weight + 0.5 * (1.0 - weight),
            self.rate * weight,
        );
        let (shape, rate) = (before + machine.late, prior_rate + machine.minutes);
        let quantile = |p: f64| (below(shape, p) / rate).min(1.0);
        Shrunk {
            mean: (shape / rate).min(1.0),
            low: quantile(0.05),
            high: quantile(0.95),
        }
    }
}

/// Returns the logarithm of the likelihood, without the terms that do not depend on the mean.
fn rest(machines: &[Counted], shape: f64, rate: f64) -> f64 {
    machines
        .iter()
        .map(|machine| {
            let share = rate / (rate + machine.minutes);
            shape * share.ln() + machine.late * (machine.minutes / (rate + machine.minutes)).ln()
        })
        .sum()
}

/// Returns the position of the maximum of `function` in a range with a single maximum.
fn highest(function: impl Fn(f64) -> f64, (mut low, mut high): (f64, f64)) -> f64 {
    let golden = 0.5 * (5.0_f64.sqrt() - 1.0);
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_left, mut at_right) = (function(left), function(right));
    for _ in 0..SECTIONS {
        if at_left < at_right {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = function(right);
        } else {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = function(left);
        }
    }
    f64::midpoint(low, high)
}

/// Returns the quantile `p` of a gamma variable of this shape and the rate 1. Uses Newton's method
/// from the approximation of Wilson & Hilferty (1931), within limits that every step narrows.
fn below(shape: f64, p: f64) -> f64 {
    let (mut low, mut high) = (0.0, shape + 20.0 * shape.sqrt() + 20.0);
    let ninth = 1.0 / (9.0 * shape);
    let near = shape * (1.0 - ninth + Normal::standard().inverse_cdf(p) * ninth.sqrt()).powi(3);
    let mut position = if near > low && near < high {
        near
    } else {
        f64::midpoint(low, high)
    };
    for _ in 0..100 {
        let beyond = gamma_lr(shape, position) - p;
        if beyond < 0.0 {
            low = position;
        } else {
            high = position;
        }
        let density = ((shape - 1.0) * position.ln() - position - ln_gamma(shape)).exp();
        let next = position - beyond / density;
        let next = if next > low && next < high {
            next
        } else {
            f64::midpoint(low, high)
        };
        if (next - position).abs() <= 1e-9 * position {
            return next;
        }
        position = next;
    }
    position
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
    fn shortest_recording_is_not_ranked_first() {
        // 200 machines with one day each that are late about once per hour. One additional machine
        // is late every other minute. Another was measured for two minutes and was late in one of
        // them.
        let mut machines: Vec<Counted> = (0..200)
            .map(|number| counted(20 + number % 9, 1_440))
            .collect();
        machines.push(counted(720, 1_440));
        machines.push(counted(1, 2));

        let prior = Prior::fit(&machines).unwrap();

        let [faulty, short] = [machines[200], machines[201]].map(|machine| prior.shrink(machine));
        assert!(faulty.low > 10.0 * short.low, "{faulty:?} {short:?}");
        assert!(
            short.mean < 0.5 && short.low < short.mean && short.mean < short.high,
            "{short:?}"
        );
        // Among 200 similar machines, even a full day is pulled towards them.
        assert!((0.4..0.5).contains(&faulty.mean), "{faulty:?}");
    }

    #[test]
    fn prior_of_simulated_machines_is_estimated() {
        // Quantiles of gamma rates with the shape 2 and the mean 0.01. The counts are their
        // expected values at 100,000 minutes.
        let counts: Vec<Counted> = (0..500)
            .map(|number| {
                let rate = below(2.0, (f64::from(number) + 0.5) / 500.0) / 2.0 * 0.01;
                Counted {
                    late: (rate * 1e5).round(),
                    minutes: 1e5,
                }
            })
            .collect();

        let prior = Prior::fit(&counts).unwrap();

        assert!((prior.shape - 2.0).abs() < 0.1, "{prior:?}");
        assert!(
            (prior.shape / prior.rate - 0.01).abs() < 0.000_2,
            "{prior:?}"
        );
    }

    #[test]
    fn few_minutes_of_few_machines_give_a_wide_interval() {
        let [alone, four] = [1, 4].map(|machines| {
            let counts = vec![counted(1, 1); machines];
            Prior::fit(&counts).unwrap().shrink(counts[0])
        });

        // Gamma (1.5, 1): half of the 5 % quantile of chi-squared with 3 degrees of freedom.
        assert!((alone.low - 0.351_846 / 2.0).abs() < 1e-5, "{alone:?}");
        assert!(four.low > alone.low && four.low < 0.5, "{four:?}");
    }

    #[test]
    fn rate_is_at_most_one_per_minute() {
        let mut counts = vec![counted(1, 1_440); 50];
        counts.push(counted(60, 60));

        let prior = Prior::fit(&counts).unwrap();

        let always = prior.shrink(counts[50]);
        assert!(always.high <= 1.0 && always.mean <= 1.0, "{always:?}");
        assert!(always.low > 0.5, "{always:?}");
    }

    #[test]
    fn equal_machines_get_equal_rates_and_no_late_machine_gives_no_prior() {
        let alike = vec![counted(10, 1_000); 50];

        let prior = Prior::fit(&alike).unwrap();

        let estimate = prior.shrink(counted(0, 10));
        assert!((estimate.mean - 0.01).abs() < 0.001, "{estimate:?}");
        assert_eq!(Prior::fit(&[counted(0, 1_000)]), None);
    }

    #[test]
    fn gamma_quantiles_match_tables() {
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
