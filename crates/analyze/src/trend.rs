//! Whether figures rise or fall in their order.

/// A line through figures in their order that does not mind single ones, and how sure
/// it is that they do not lie in that order by chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// From one figure to the next: the median of the slopes between all pairs (Sen
    /// 1968), in the figures' unit.
    pub slope: f64,
    /// How often figures in a random order lie at least as much in one order, rising or
    /// falling (Kendall 1938; Mann 1945), 0 to 1.
    pub chance: f64,
}

/// The trend of `figures`; `None`: there are fewer than two, or one is no number.
///
/// Pairs of equal figures are in neither order, so that ties make `chance` larger, not
/// smaller. It is exact for figures that have nothing to do with each other; those that
/// resemble their neighbours rise and fall by themselves for a while, which this takes
/// for a trend: give figures of parts that are long against that.
pub fn trend(figures: &[f64]) -> Option<Trend> {
    if figures.len() < 2 || figures.iter().any(|one| !one.is_finite()) {
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
    // In a random order without ties so many pairs at most are out of the order.
    let against = (pairs - rising.abs_diff(falling)) / 2;
    let few: f64 = orders_by_inversions(figures.len())[..=against].iter().sum();
    Some(Trend {
        slope,
        chance: (2.0 * few).min(1.0),
    })
}

/// What share of all orders of `number` things has 0, 1, 2 .. pairs out of order
/// (Kendall 1938): the next thing comes before 0 to all of those before it.
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
    fn figures_in_order_are_as_rare_as_that_order() {
        let rising: Vec<f64> = (0..8).map(|one| 3.0 * f64::from(one)).collect();
        let mut falling = rising.clone();
        falling.reverse();

        let found = [trend(&rising).unwrap(), trend(&falling).unwrap()];

        // 2 of 8! orders.
        assert!(found.iter().all(|one| near(one.chance, 2.0 / 40_320.0)));
        assert_eq!(found.map(|one| one.slope), [3.0, -3.0]);
    }

    #[test]
    fn all_orders_of_five_are_counted_as_they_are() {
        // Of 120 orders: 1, 4, 9, 15, 20, 22, 20, 15, 9, 4, 1 (Kendall's table).
        let counts = orders_by_inversions(5).into_iter().map(|one| one * 120.0);
        let expected = [1., 4., 9., 15., 20., 22., 20., 15., 9., 4., 1.];
        assert!(counts.zip(expected).all(|(one, other)| near(one, other)));
        // Two pairs of ten out of order: 2 * (1 + 4 + 9) / 120.
        let found = trend(&[2.0, 1.0, 4.0, 3.0, 5.0]).unwrap();
        assert!(near(found.chance, 28.0 / 120.0), "{found:?}");
        // -1 -1 1/3 1/2 3/4 1 1 4/3 2 3.
        assert!(near(found.slope, 0.875), "{found:?}");
    }

    #[test]
    fn equal_figures_have_no_trend_and_one_has_none_either() {
        let equal = trend(&[1.0; 6]).unwrap();

        assert_eq!((equal.slope, equal.chance), (0.0, 1.0));
        assert_eq!(trend(&[1.0]), None);
        assert_eq!(trend(&[1.0, f64::NAN]), None);
    }
}
