//! Intervals between the callbacks of a periodic timer (Jones & Regehr 1999,
//! section 3).

use std::collections::BTreeMap;

use crate::sample::{index, mean, median, variance};

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

/// Of a timer whose intervals are longer than the period, the share of those next to
/// nothing, by which it makes up for it: it owes more with each callback, until one comes
/// at once. One that follows a stall is none of it. 0: it makes up for nothing.
pub fn caught_up(gaps: &[f64], period: f64) -> f64 {
    let is_none = |gap: f64| gap < AT_ONCE * period;
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
    if !others.is_empty() && median(&others) > OWES * period {
        caught_up as f64 / gaps.len() as f64
    } else {
        0.0
    }
}

/// The tick behind a timer that waits two of them and then fires twice, from the
/// share of intervals that are next to nothing: of all intervals the others
/// last two ticks, and their mean is the period (docs/method.md 11).
pub fn tick_from_none(period: f64, share: f64) -> f64 {
    period / (2.0 * (1.0 - share))
}

/// The tick behind a timer that waits one of them, and two where one falls within
/// the period, from the share of intervals of two: their mean is the period
/// (docs/method.md 11).
fn tick_from_doubled(period: f64, share: f64) -> f64 {
    period / (1.0 + share)
}

/// The tick that the intervals of a timer tell that keeps time, ns; `None`: they
/// tell none. Most intervals are shorter than the period then, by just what the
/// double ones are longer; after a stall they are not.
pub fn tick_of_doubled(gaps: &[f64], period: f64) -> Option<f64> {
    let share = |from: f64, to: f64| {
        let within = gaps
            .iter()
            .filter(|gap| (from..to).contains(&(*gap / period)));
        within.count() as f64 / gaps.len().max(1) as f64
    };
    let tick = tick_from_doubled(period, share(1.5, 2.5));
    let is_shorter = tick < NOT_THE_PERIOD * period;
    let is_seen = !gaps.is_empty() && (median(gaps) / tick - 1.0).abs() < AGREES;
    let is_caught_up = share(0.0, 0.2) > share(1.5, 2.5) / 4.0;
    (is_shorter && is_seen && !is_caught_up).then_some(tick)
}

/// Intervals shorter than this share of a period are next to nothing; as long as so many
/// of them, a stall.
const AT_ONCE: f64 = 0.2;
const STALL: f64 = 1.5;

/// A timer owes more with each callback whose intervals are longer than the period by this,
/// in the median of those that are not next to nothing.
const OWES: f64 = 1.01;

/// A tick closer to the period than this share of it is none that can be told.
const NOT_THE_PERIOD: f64 = 0.995;
/// The median interval and the share of double ones tell the same tick.
const AGREES: f64 = 2e-3;

/// The width of the bins of Jones & Regehr's tables, ns.
const BIN_NS: u64 = 100_000;

/// How many of `gaps` fall into each bin of 100 us, by where it begins, ns; no bin
/// is empty.
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

    /// Jones & Regehr 1999, Tables 2 and 3: intervals of the 1 ms timer, by where
    /// their bins of 100 us begin.
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
        let all: u32 = table.iter().map(|(_, count)| count).sum();
        assert_eq!(all, 10_000, "each table is of so many");
        let of = table.iter().filter(|one| one.0 == bin);
        f64::from(of.map(|(_, count)| count).sum::<u32>()) / f64::from(all)
    }

    #[test]
    fn the_tick_of_the_papers_machine_comes_from_each_of_its_tables() {
        for ticks in [
            tick_from_none(1_000.0, share_of(&TABLE_2_P2_NT4, 0)),
            tick_from_none(1_000.0, share_of(&TABLE_2_P2_NT5, 0)),
            tick_from_doubled(1_000.0, share_of(&TABLE_3_FIXED, 1900)),
        ] {
            assert!((ticks - 976.5625).abs() < 1e-9, "{ticks}");
        }
    }

    #[test]
    fn a_timer_that_sometimes_waits_two_ticks_shows_its_tick() {
        let tick = 976_562.5;
        // Served at the first tick after each whole millisecond.
        let served: Vec<f64> = (1..10_000)
            .map(|at| (f64::from(at) * 1e6 / tick).ceil() * tick)
            .collect();
        let gaps: Vec<f64> = served.windows(2).map(|two| two[1] - two[0]).collect();

        let found = tick_of_doubled(&gaps, 1e6).unwrap();

        assert!((found / tick - 1.0).abs() < 1e-3, "{found}");
        // One that keeps its period, but for stalls of a period.
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
    fn a_timer_that_fires_twice_is_told_from_one_that_catches_up_after_a_stall() {
        let twice: Vec<f64> = (0..100).map(|at| f64::from(1 - at % 2) * 1.95).collect();
        let mut caught_up = vec![1.0; 90];
        caught_up.extend([6.0, 0.01, 0.01, 0.01, 0.01, 0.01, 1.0]);

        assert!((paired(&twice, 1.0) - 0.5).abs() < 0.02);
        let in_ns: Vec<f64> = twice.iter().map(|gap| gap * 1e6).collect();
        assert!((paired(&in_ns, 1e6) - 0.5).abs() < 0.02);
        assert!(paired(&[1.95e6, 0.3e6, 1.95e6, 0.3e6], 1e6) < 0.02);
        assert!(paired(&caught_up, 1.0) < 0.02);
        assert!(paired(&[], 1.0) < 0.02);
    }

    /// Under Wine: 1.09 ms each, and none once in eleven.
    #[test]
    fn a_timer_that_owes_more_with_each_callback_is_told_from_stalls_and_from_noise() {
        let owes: Vec<f64> = (0..2_200)
            .map(|at| if at % 11 == 10 { 2e4 } else { 1.098e6 })
            .collect();
        // Late by less than half a period, and then in time.
        let noisy: Vec<f64> = (0..999)
            .map(|at| [1.4e6, 1.45e6, 0.15e6][at % 3])
            .chain([1e6; 3_000])
            .collect();
        // One expiry at once for each that passed in a stall.
        let stalled: Vec<f64> = (0..1_000)
            .map(|at| [6e6, 1e4, 1e4, 1e4, 1e4, 1e4, 1e6, 1e6][at % 8])
            .collect();
        let twice: Vec<f64> = (0..1_000).map(|at| [1.95e6, 1e4][at % 2]).collect();

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
        let found = intervals(&[1.0, 3.0]).unwrap();

        assert_eq!((found.least, found.largest, found.mean), (1.0, 3.0, 2.0));
        assert!((found.deviation - 2.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(intervals(&[1.0]), None);
    }
}
