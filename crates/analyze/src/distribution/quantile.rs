//! Quantiles that the sample supports.

use laggard_model::{Histogram, Nanos};

/// The shares that reports show.
pub const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];

/// How many samples must be expected beyond a quantile: from this many on a
/// two-sided 95 % interval by order statistics has an upper end, since
/// exp(-3.689) = 2.5 % (METHODS 2.3).
pub const MIN_BEYOND: f64 = 3.688_879_454_113_936;

/// A quantile, or how many samples it takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Quantile {
    /// The time that this share of all does not exceed.
    Is(Nanos),
    /// The sample is too small; so many samples support it.
    Needs(u64),
}

/// The quantile `q` (0 to 1) of what was counted, as its bucket's upper edge
/// (at most 1.09 % high).
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]
pub fn quantile(histogram: &Histogram, q: f64) -> Quantile {
    // The median of three samples is no estimate either.
    let share = (1.0 - q).min(q);
    if (histogram.count() as f64) * share >= MIN_BEYOND
        && let Some(time) = histogram.quantile(q)
    {
        return Quantile::Is(time);
    }
    // Without this, 1 - 0.9999 asks for one sample more than it should.
    Quantile::Needs((MIN_BEYOND / share - 1e-6).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram_of(count: u64) -> Histogram {
        let mut histogram = Histogram::default();
        (1..=count).for_each(|us| histogram.add(Nanos::from_us(us)));
        histogram
    }

    #[test]
    fn a_quantile_beyond_the_sample_says_how_many_it_needs() {
        assert_eq!(
            quantile(&histogram_of(1_000), 0.9999),
            Quantile::Needs(36_889)
        );
        assert_eq!(quantile(&histogram_of(3), 0.5), Quantile::Needs(8));
    }

    #[test]
    fn a_supported_quantile_is_at_most_a_bucket_high() {
        let Quantile::Is(found) = quantile(&histogram_of(10_000), 0.99) else {
            panic!("10,000 samples support p99");
        };

        assert!((9_900_000..=10_000_000).contains(&found.ns()), "{found}");
    }
}
