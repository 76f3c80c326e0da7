//! Forecast of a tail with several causes (docs/method.md 8.7).

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::bootstrap::redrawn;
use super::{Bootstrap, Tail};
use crate::input::{all_positive, at_least, positive, probability};
use crate::sample::{quantile, sorted};
use crate::solve::root_between;
use crate::{InputError, Interval};

/// Cause of late wakeups.
#[derive(Clone, Debug, PartialEq)]
pub enum Component {
    /// Periodic cause. It follows wall-clock time, not the load, so its times are never
    /// compressed. Its sizes are the observed ones, so it never exceeds their maximum.
    Periodic {
        /// Period in wall-clock time.
        period: f64,
        /// Latency of each occurrence.
        sizes: Vec<f64>,
    },
    /// Random cause, more frequent under a heavier load.
    Random {
        /// Tail of its latencies.
        tail: Tail,
        /// Exposure of its observation, for the interval.
        exposure: f64,
    },
}

/// Mixture of independent causes.
///
/// Exact for independent causes, by simulation (`tests/it/mixture.rs`). Causes that
/// come together and whose latencies add up exceed the level more often: at twice the rate if the
/// rarer one never comes alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    components: Vec<Component>,
    compression: f64,
}

impl Mixture {
    /// Creates a mixture of `components`, recorded under a load that drives the machine
    /// `compression` times as fast as its use does.
    ///
    /// # Errors
    /// If components are missing, the size of a periodic one is missing, or a number is not
    /// positive.
    pub fn new(components: Vec<Component>, compression: f64) -> Result<Self, InputError> {
        at_least("components", &components, 1)?;
        positive("compression", compression)?;
        for component in &components {
            match component {
                Component::Periodic { period, sizes } => {
                    positive("period", *period)?;
                    at_least("sizes of a periodic component", sizes, 1)?;
                    all_positive("size of a periodic component", sizes)?;
                }
                Component::Random { tail, exposure } => {
                    positive("exposure", *exposure)?;
                    positive("rate of a tail", tail.rate)?;
                    positive("scale of a tail", tail.excess.scale)?;
                }
            }
        }
        Ok(Self {
            components,
            compression,
        })
    }

    /// Returns the level that is exceeded once per `horizon` of use on average.
    ///
    /// # Errors
    /// If `horizon` is not positive, or the level lies below every threshold.
    pub fn return_level(&self, horizon: f64) -> Result<f64, InputError> {
        positive("horizon", horizon)?;
        let excess = |level| self.expected_above(level, horizon) - 1.0;
        let floor = self.floor();
        positive(
            "expected peaks above the lowest threshold, less one",
            excess(floor),
        )?;
        let mut high = 2.0 * floor.abs().max(f64::MIN_POSITIVE);
        while excess(high) > 0.0 && high.is_finite() {
            high *= 2.0;
        }
        positive("level", high)?;
        Ok(root_between(excess, floor, high))
    }

    /// Returns the percentile interval of [`Mixture::return_level`]: random components
    /// are drawn and fitted again; periodic ones stay as observed.
    ///
    /// # Errors
    /// As for [`Mixture::return_level`].
    pub fn return_level_interval(
        &self,
        horizon: f64,
        confidence: f64,
        bootstrap: Bootstrap,
    ) -> Result<Interval, InputError> {
        probability("confidence", confidence)?;
        let mut random = Pcg64Mcg::seed_from_u64(bootstrap.seed);
        let mut levels = Vec::with_capacity(bootstrap.rounds);
        for _ in 0..bootstrap.rounds {
            let mut drawn = self.clone();
            for component in &mut drawn.components {
                if let Component::Random { tail, exposure } = component {
                    *tail = redrawn(*tail, *exposure, &mut random)?;
                }
            }
            // A level below the threshold is unknown. The threshold stands for it.
            levels.push(
                drawn
                    .return_level(horizon)
                    .unwrap_or_else(|_| drawn.floor()),
            );
        }
        at_least("bootstrap rounds", &levels, 2)?;
        let levels = sorted(&levels);
        let share = (1.0 - confidence) / 2.0;
        Ok(Interval::new(
            quantile(&levels, share),
            quantile(&levels, 1.0 - share),
        ))
    }

    /// Returns the expected number of latencies above `level` in `horizon` of use.
    pub fn expected_above(&self, level: f64, horizon: f64) -> f64 {
        let compressed = horizon / self.compression;
        let expected = |component: &Component| match component {
            Component::Periodic { period, sizes } => horizon / period * share_above(sizes, level),
            Component::Random { tail, .. } => tail.expected_above(level, compressed),
        };
        self.components.iter().map(expected).sum()
    }

    /// Returns the lowest level where every random component is known.
    pub(super) fn floor(&self) -> f64 {
        self.components
            .iter()
            .fold(0.0, |floor: f64, component| match component {
                Component::Periodic { .. } => floor,
                Component::Random { tail, .. } => floor.max(tail.threshold),
            })
    }
}

fn share_above(sizes: &[f64], level: f64) -> f64 {
    let above = sizes.iter().filter(|&&size| size > level).count();
    above as f64 / sizes.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::Pareto;

    fn tail() -> Tail {
        Tail {
            threshold: 5.0,
            rate: 10.0,
            excess: Pareto::new(1.0, 0.1),
        }
    }

    fn random() -> Component {
        Component::Random {
            tail: tail(),
            exposure: 10.0,
        }
    }

    fn periodic(size: f64) -> Component {
        Component::Periodic {
            period: 0.5,
            sizes: vec![size; 20],
        }
    }

    #[test]
    fn single_random_component_is_its_own_forecast() {
        let mixture = Mixture::new(vec![random()], 1.0).unwrap();

        for horizon in [1.0, 10.0, 100.0] {
            let (both, alone) = (
                mixture.return_level(horizon).unwrap(),
                tail().return_level(horizon).unwrap(),
            );
            assert!((both - alone).abs() < 1e-9, "for {horizon}");
        }
    }

    #[test]
    fn periodic_component_sets_the_level_until_random_ones_exceed_it() {
        let mixture = Mixture::new(vec![random(), periodic(9.0)], 1.0).unwrap();

        let short = mixture.return_level(1.0).unwrap();
        let long = mixture.return_level(1e4).unwrap();

        assert!((short - 9.0).abs() < 1e-6, "{short}");
        assert!(long > 9.0);
    }

    #[test]
    fn compression_thins_random_components_but_not_periodic_ones() {
        let level = |component, compression| {
            let mixture = Mixture::new(vec![component], compression).unwrap();
            mixture.return_level(10.0).unwrap()
        };

        assert!(level(random(), 10.0) < level(random(), 1.0));
        assert_eq!(level(periodic(9.0), 10.0), level(periodic(9.0), 1.0));
    }

    #[test]
    fn interval_contains_the_level_and_is_reproducible() {
        let mixture = Mixture::new(vec![random(), periodic(4.0)], 1.0).unwrap();
        let interval = || {
            mixture
                .return_level_interval(100.0, 0.95, Bootstrap::default())
                .unwrap()
        };

        assert!(interval().contains(mixture.return_level(100.0).unwrap()));
        assert_eq!(interval(), interval());
    }
}
