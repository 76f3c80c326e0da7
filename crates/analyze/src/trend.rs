//! Trend of a series of figures.

/// Robust line through a series of figures, and its significance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Median of the slopes between all pairs, per step (Sen 1968), in the figures'
    /// unit.
    pub slope: f64,
    /// Probability that figures in random order are at least as ordered, rising or
    /// falling (Kendall 1938; Mann 1945), 0 to 1.
    pub chance: f64,
}

/// Returns the trend of `figures`; `None` if there are fewer than two, or one is NaN.
///
/// Pairs of equal figures count in neither direction, so ties make `chance` larger, not
/// smaller. The probability is exact for independent figures. Figures that resemble
/// their neighbours rise and fall for a while by themselves, which looks like a trend:
/// pass figures of parts that are long in comparison.
pub fn trend(figures: &[f64]) -> Option<Trend> {
    if figures.len() < 2 || figures.iter().any(|figure| !figure.is_finite()) {
        return None;
    }
    let mut slopes = Vec::with_capacity(figures.len() * (figures.len() - 1) / 2);
    let (mut rising, mut falling) = (0_usize, 0_usize);
    for (later, second) in figures.iter().enumerate() {
        for (earlier, first) in figures[..later].iter().enumerate() {
            slopes.push((second - first) / (later - earlier) as f64);
            rising += usize::from(second > first);
            falling += usize::from(second < first);
        }
    }
    let pairs = slopes.len();
    slopes.sort_by(f64::total_cmp);
    let slope = f64::midpoint(slopes[(pairs - 1) / 2], slopes[pairs / 2]);
    // Maximum number of pairs out of order without ties.
    let against = (pairs - rising.abs_diff(falling)) / 2;
    let few: f64 = orders_by_inversions(figures.len())[..=against].iter().sum();
    Some(Trend {
        slope,
        chance: (2.0 * few).min(1.0),
    })
}

/// Returns the fraction of all orders of `number` items that have 0, 1, 2, ... pairs
/// out of order (Kendall 1938): the next item precedes 0 to all of the previous ones.
fn orders_by_inversions(number: usize) -> Vec<f64> {
    let mut shares = vec![1.0];
    for count in 2..=number {
        let mut next = vec![0.0; shares.len() + count - 1];
        for (inversions, share) in shares.iter().enumerate() {
            for more in 0..count {
                next[inversions + more] += share / count as f64;
            }
        }
        shares = next;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn ordered_figures_are_as_rare_as_their_order() {
        let rising: Vec<f64> = (0..8).map(|figure| 3.0 * f64::from(figure)).collect();
        let mut falling = rising.clone();
        falling.reverse();

        let trends = [trend(&rising).unwrap(), trend(&falling).unwrap()];

        // 2 of 8! orders.
        assert!(
            trends
                .iter()
                .all(|trend| near(trend.chance, 2.0 / 40_320.0))
        );
        assert_eq!(trends.map(|trend| trend.slope), [3.0, -3.0]);
    }

    #[test]
    fn orders_of_five_are_counted_correctly() {
        // Of 120 orders: 1, 4, 9, 15, 20, 22, 20, 15, 9, 4, 1 (Kendall's table).
        let counts = orders_by_inversions(5)
            .into_iter()
            .map(|share| share * 120.0);
        let expected = [1., 4., 9., 15., 20., 22., 20., 15., 9., 4., 1.];
        assert!(counts.zip(expected).all(|(a, b)| near(a, b)));
        // Two pairs of ten out of order: 2 * (1 + 4 + 9) / 120.
        let trend = trend(&[2.0, 1.0, 4.0, 3.0, 5.0]).unwrap();
        assert!(near(trend.chance, 28.0 / 120.0), "{trend:?}");
        // -1 -1 1/3 1/2 3/4 1 1 4/3 2 3.
        assert!(near(trend.slope, 0.875), "{trend:?}");
    }

    #[test]
    fn equal_figures_have_no_trend_nor_does_a_single_one() {
        let equal = trend(&[1.0; 6]).unwrap();

        assert_eq!((equal.slope, equal.chance), (0.0, 1.0));
        assert_eq!(trend(&[1.0]), None);
        assert_eq!(trend(&[1.0, f64::NAN]), None);
    }
}
