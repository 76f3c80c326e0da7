//! Intervals between the callbacks of a periodic timer (Jones & Regehr 1999,
//! section 3).

use crate::sample::{mean, variance};

/// What Jones & Regehr's Table 1 says of intervals, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intervals {
    /// The shortest.
    pub least: f64,
    /// The longest.
    pub largest: f64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub deviation: f64,
}

/// Of `gaps`; `None`: there are fewer than two.
pub fn intervals(gaps: &[f64]) -> Option<Intervals> {
    (gaps.len() > 1).then(|| Intervals {
        least: gaps.iter().copied().fold(f64::INFINITY, f64::min),
        largest: gaps.iter().copied().fold(0.0, f64::max),
        mean: mean(gaps),
        deviation: variance(gaps).sqrt(),
    })
}

/// The share of `gaps` next to nothing, each right after one of about two
/// periods: a timer that waits too long by one and then fires twice. After a
/// stall several such gaps follow one that is long, which is none of it.
pub fn paired(gaps: &[f64], period: f64) -> f64 {
    let is_double = |gap: f64| (1.5..2.5).contains(&(gap / period));
    let is_none = |gap: f64| gap < period / 5.0;
    let pairs = gaps
        .windows(2)
        .filter(|two| is_double(two[0]) && is_none(two[1]))
        .count();
    pairs as f64 / gaps.len().max(1) as f64
}

/// The tick behind a timer that waits two of them and then fires twice, from the
/// share of intervals that are next to nothing: of all intervals the others
/// last two ticks, and their mean is the period (docs/method.md 11).
pub fn tick_from_none(period: f64, share: f64) -> f64 {
    period / (2.0 * (1.0 - share))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jones & Regehr 1999, Table 2, "P2, NT5": 4880 of 10,000 intervals of the
    /// 1 ms timer are shorter than 100 us, and 5014 last 1.9 to 2 ms.
    #[test]
    fn the_tick_of_the_paper_comes_from_its_intervals_of_nothing() {
        let tick = tick_from_none(1_000.0, 4_880.0 / 10_000.0);

        assert!((tick - 976.5625).abs() < 1e-9, "{tick}");
    }

    #[test]
    fn a_timer_that_fires_twice_is_told_from_one_that_catches_up_after_a_stall() {
        let twice: Vec<f64> = (0..100).map(|at| f64::from(1 - at % 2) * 1.95).collect();
        let mut caught_up = vec![1.0; 90];
        caught_up.extend([6.0, 0.01, 0.01, 0.01, 0.01, 0.01, 1.0]);

        assert!((paired(&twice, 1.0) - 0.5).abs() < 0.02);
        assert!(paired(&caught_up, 1.0) < 0.02);
        assert!(paired(&[], 1.0) < 0.02);
    }

    #[test]
    fn two_intervals_have_all_four_figures() {
        let found = intervals(&[1.0, 3.0]).unwrap();

        assert_eq!((found.least, found.largest, found.mean), (1.0, 3.0, 2.0));
        assert!((found.deviation - 2.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(intervals(&[1.0]), None);
    }
}
