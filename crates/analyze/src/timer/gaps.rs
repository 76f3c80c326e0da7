//! Intervals between the callbacks of a periodic timer (Jones & Regehr 1999, section
//! 3).

use std::collections::BTreeMap;

use crate::sample::{index, mean, median, variance};

/// Statistics of intervals as in Jones & Regehr's Table 1, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intervals {
    /// Shortest interval.
    pub least: f64,
    /// Longest interval.
    pub largest: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
}

/// Computes the statistics of `gaps`; `None` if there are fewer than two.
pub fn intervals(gaps: &[f64]) -> Option<Intervals> {
    (gaps.len() > 1).then(|| Intervals {
        least: gaps.iter().copied().fold(f64::INFINITY, f64::min),
        largest: gaps.iter().copied().fold(0.0, f64::max),
        mean: mean(gaps),
        deviation: variance(gaps).sqrt(),
    })
}

/// Returns the fraction of `gaps` near zero that directly follow one of about two
/// periods: the timer waits one period too long and then fires twice. After a stall,
/// several gaps near zero follow a long one. They do not count.
pub fn paired(gaps: &[f64], period: f64) -> f64 {
    let is_double = |gap: f64| (1.5..2.5).contains(&(gap / period));
    let is_none = |gap: f64| gap < period / 5.0;
    let pairs = gaps
        .windows(2)
        .filter(|two| is_double(two[0]) && is_none(two[1]))
        .count();
    pairs as f64 / gaps.len().max(1) as f64
}

/// Returns the fraction of intervals near zero. With them a timer of too long intervals catches up:
/// its debt grows with each callback until one comes at once. Intervals after a stall do not count.
/// 0 if the timer does not catch up.
pub fn caught_up(gaps: &[f64], period: f64) -> f64 {
    let is_none = |gap: f64| gap < MAX_NEAR_ZERO * period;
    let mut is_after_stall = true;
    let mut caught_up = 0_usize;
    for gap in gaps {
        if is_none(*gap) {
            caught_up += usize::from(!is_after_stall)
        } else {
            is_after_stall = *gap >= STALL * period
        }
    }
    let others: Vec<f64> = gaps.iter().copied().filter(|gap| !is_none(*gap)).collect();
    if !others.is_empty() && median(&others) > MIN_DEBT_RATIO * period {
        caught_up as f64 / gaps.len() as f64
    } else {
        0.0
    }
}

/// Returns the tick behind a timer that waits two ticks and then fires twice, from the
/// fraction of intervals near zero. The other intervals last two ticks, and the mean of
/// all is the period (docs/method.md 11).
pub fn tick_from_none(period: f64, share: f64) -> f64 {
    period / (2.0 * (1.0 - share))
}

/// Returns the tick behind a timer that waits one tick, or two if a tick falls within
/// the period, from the fraction of intervals of two. Their mean is the period
/// (docs/method.md 11).
fn tick_from_doubled(period: f64, share: f64) -> f64 {
    period / (1.0 + share)
}

/// Returns the tick behind the intervals of a timer without drift, ns; `None` if they
/// do not show one. Most intervals are then shorter than the period, by the same total
/// as the double ones are longer. After a stall they are not.
pub fn tick_of_doubled(gaps: &[f64], period: f64) -> Option<f64> {
    let share = |from: f64, to: f64| {
        let within = gaps
            .iter()
            .filter(|gap| (from..to).contains(&(*gap / period)));
        within.count() as f64 / gaps.len().max(1) as f64
    };
    let tick = tick_from_doubled(period, share(1.5, 2.5));
    let is_shorter = tick < MAX_TICK_FRACTION * period;
    let is_seen = !gaps.is_empty() && (median(gaps) / tick - 1.0).abs() < MAX_DISAGREEMENT;
    let is_caught_up = share(0.0, 0.2) > share(1.5, 2.5) / 4.0;
    (is_shorter && is_seen && !is_caught_up).then_some(tick)
}

/// Fraction of a period below which an interval is near zero. An interval of n periods is a stall
/// if n intervals near zero follow it.
const MAX_NEAR_ZERO: f64 = 0.2;
const STALL: f64 = 1.5;

/// Minimum median (in periods) of the intervals not near zero for a timer whose debt
/// grows with each callback.
const MIN_DEBT_RATIO: f64 = 1.01;

/// Maximum tick as a fraction of the period. A closer one cannot be detected.
const MAX_TICK_FRACTION: f64 = 0.995;
/// Maximum relative difference of the tick by the median interval and by the fraction
/// of double ones.
const MAX_DISAGREEMENT: f64 = 2e-3;

/// Width of the bins of Jones & Regehr's tables, ns.
const BIN_NS: u64 = 100_000;

/// Counts `gaps` in bins of 100 us, by the start of the bin, ns; without empty bins.
pub fn binned(gaps: &[f64]) -> Vec<(u64, usize)> {
    let mut bins = BTreeMap::new();
    for gap in gaps {
        *bins.entry(index(gap / BIN_NS as f64) as u64).or_insert(0) += 1;
    }
    let begin = |(bin, count)| (bin * BIN_NS, count);
    bins.into_iter().map(begin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jones & Regehr 1999, Tables 2 and 3: intervals of the 1 ms timer, by the start
    /// of their 100 us bins.
    const TABLE_2_P2_NT4: [(u32, u32); 5] =
        [(0, 4880), (1700, 2), (1800, 9), (1900, 5107), (2100, 2)];
    const TABLE_2_P2_NT5: [(u32, u32); 8] = [
        (0, 4880),
        (1400, 2),
        (1700, 5),
        (1800, 91),
        (1900, 5014),
        (2000, 4),
        (2100, 2),
        (2300, 2),
    ];
    const TABLE_3_FIXED: [(u32, u32); 12] = [
        (0, 1),
        (500, 1),
        (600, 3),
        (700, 2),
        (800, 7),
        (900, 9609),
        (1000, 127),
        (1100, 4),
        (1200, 2),
        (1300, 2),
        (1400, 2),
        (1900, 240),
    ];

    fn share_of(table: &[(u32, u32)], bin: u32) -> f64 {
        let total: u32 = table.iter().map(|(_, count)| count).sum();
        assert_eq!(total, 10_000, "total of each table");
        let matching = table.iter().filter(|entry| entry.0 == bin);
        f64::from(matching.map(|(_, count)| count).sum::<u32>()) / f64::from(total)
    }

    #[test]
    fn tick_of_the_papers_machine_follows_from_each_of_its_tables() {
        for ticks in [
            tick_from_none(1_000.0, share_of(&TABLE_2_P2_NT4, 0)),
            tick_from_none(1_000.0, share_of(&TABLE_2_P2_NT5, 0)),
            tick_from_doubled(1_000.0, share_of(&TABLE_3_FIXED, 1900)),
        ] {
            assert!((ticks - 976.5625).abs() < 1e-9, "{ticks}");
        }
    }

    #[test]
    fn timer_that_sometimes_waits_two_ticks_shows_its_tick() {
        let tick = 976_562.5;
        // Served at the first tick after each whole millisecond.
        let served: Vec<f64> = (1..10_000)
            .map(|expiry| (f64::from(expiry) * 1e6 / tick).ceil() * tick)
            .collect();
        let gaps: Vec<f64> = served.windows(2).map(|two| two[1] - two[0]).collect();

        let result = tick_of_doubled(&gaps, 1e6).unwrap();

        assert!((result / tick - 1.0).abs() < 1e-3, "{result}");
        // A timer that keeps its period, except for stalls of a period.
        let mut kept = vec![1e6; 1_000];
        kept.extend([2e6; 25]);
        assert_eq!(tick_of_doubled(&kept, 1e6), None);
        assert_eq!(tick_of_doubled(&[], 1e6), None);
    }

    #[test]
    fn intervals_are_counted_in_bins_of_100_us() {
        assert_eq!(
            binned(&[0.0, 99_999.0, 100_000.0, 1.95e6]),
            [(0, 2), (100_000, 1), (1_900_000, 1)]
        );
    }

    #[test]
    fn double_firing_is_distinguished_from_catching_up_after_a_stall() {
        let twice: Vec<f64> = (0..100)
            .map(|index| f64::from(1 - index % 2) * 1.95)
            .collect();
        let mut caught_up = vec![1.0; 90];
        caught_up.extend([6.0, 0.01, 0.01, 0.01, 0.01, 0.01, 1.0]);

        assert!((paired(&twice, 1.0) - 0.5).abs() < 0.02);
        let in_ns: Vec<f64> = twice.iter().map(|gap| gap * 1e6).collect();
        assert!((paired(&in_ns, 1e6) - 0.5).abs() < 0.02);
        assert!(paired(&[1.95e6, 0.3e6, 1.95e6, 0.3e6], 1e6) < 0.02);
        assert!(paired(&caught_up, 1.0) < 0.02);
        assert!(paired(&[], 1.0) < 0.02);
    }

    /// Seen under Wine: 1.09 ms each, and one interval near zero in eleven.
    #[test]
    fn growing_debt_is_distinguished_from_stalls_and_noise() {
        let owes: Vec<f64> = (0..2_200)
            .map(|index| if index % 11 == 10 { 2e4 } else { 1.098e6 })
            .collect();
        // Late by less than half a period, and then in time.
        let noisy: Vec<f64> = (0..999)
            .map(|index| [1.4e6, 1.45e6, 0.15e6][index % 3])
            .chain([1e6; 3_000])
            .collect();
        // One immediate callback for each expiry that passed in a stall.
        let stalled: Vec<f64> = (0..1_000)
            .map(|index| [6e6, 1e4, 1e4, 1e4, 1e4, 1e4, 1e6, 1e6][index % 8])
            .collect();
        let twice: Vec<f64> = (0..1_000).map(|index| [1.95e6, 1e4][index % 2]).collect();

        assert!((caught_up(&owes, 1e6) - 1.0 / 11.0).abs() < 1e-3);
        assert_eq!(caught_up(&noisy, 1e6), 0.0);
        assert!(caught_up(&twice, 1e6) < 1e-9);
        assert_eq!(caught_up(&[], 1e6), 0.0);
        assert_eq!(caught_up(&[1e3; 50], 1e6), 0.0);
        assert_eq!(caught_up(&stalled, 1e6), 0.0);
        assert_eq!(
            caught_up(&[6e6, 1e4, 1e4, 1e4, 1e4, 1e4].repeat(9), 1e6),
            0.0
        );
    }

    #[test]
    fn two_intervals_have_all_four_figures() {
        let figures = intervals(&[1.0, 3.0]).unwrap();

        assert_eq!(
            (figures.least, figures.largest, figures.mean),
            (1.0, 3.0, 2.0)
        );
        assert!((figures.deviation - 2.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(intervals(&[1.0]), None);
    }
}
