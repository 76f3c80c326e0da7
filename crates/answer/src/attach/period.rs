//! Period of wakes.

use laggard_model::{Nanos, ThreadActivation};

use super::line::MIN_PAUSE_PERIODS;

/// A gap is this near to a multiple of the period, as a part of the period.
const TOLERANCE: f64 = 1.0 / 10.0;
/// Share of the gaps that fit, and share of the gaps that are one period long.
const MIN_FITTING: f64 = 0.9;
const MIN_SINGLE: f64 = 0.6;
const MIN_WAKES: usize = 8;

/// Returns the period of wakes that were due at these times, in order, if they have one.
/// Gaps are compared, not phases: a program that skips a cycle may go on at another phase.
pub(super) fn period(origins: &[Nanos]) -> Option<Nanos> {
    if origins.len() < MIN_WAKES {
        return None;
    }
    let gaps: Vec<f64> = origins
        .windows(2)
        .map(|two| two[1].saturating_sub(two[0]).as_f64())
        .collect();
    let mut sorted = gaps.clone();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    if median <= 0.0 {
        return None;
    }
    let fits = |gap: f64| multiple_of(gap, median).is_some();
    let is_single = |gap: f64| multiple_of(gap, median) == Some(1);
    let share = |is_it: &dyn Fn(f64) -> bool| {
        gaps.iter().filter(|gap| is_it(**gap)).count() as f64 / gaps.len() as f64
    };
    (share(&fits) >= MIN_FITTING && share(&is_single) >= MIN_SINGLE)
        .then(|| Nanos::from_f64(mean_period(&gaps, median)))
}

/// Wakeup of a thread: its due time, and the time when the thread slept again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wake {
    pub(super) origin: Nanos,
    pub(super) done: Nanos,
}

impl Wake {
    pub(super) const fn new(cycle: &ThreadActivation) -> Self {
        Self {
            origin: cycle.origin,
            done: cycle.done,
        }
    }

    /// Creates a wakeup without work.
    #[cfg(test)]
    const fn at(origin: Nanos) -> Self {
        Self {
            origin,
            done: origin,
        }
    }
}

/// Returns the period of the wakeups of a thread, in order, if they have one.
pub(super) fn period_of_wakes(wakes: &[Wake]) -> Option<Nanos> {
    let origins: Vec<Nanos> = wakes.iter().map(|wake| wake.origin).collect();
    period(&origins).filter(|&period| !sleeps_past(wakes, period))
}

/// Returns whether a thread sleeps past the due times of this period too often: its wakeups belong
/// to several timers, such as 10 and 20 ms with an offset of 5 ms. A late thread works past them.
pub(super) fn sleeps_past(wakes: &[Wake], period: Nanos) -> bool {
    const MAX_SHARE: f64 = 0.2;
    let catches_up = catches_up(wakes);
    let slept = wakes.windows(2).filter(|two| {
        let gap = two[1].origin.saturating_sub(two[0].origin).as_f64();
        let length = two[0].done.saturating_sub(two[0].origin).as_f64();
        let worked = if catches_up {
            1.0
        } else {
            (length / period.as_f64()).ceil().max(1.0)
        };
        (gap / period.as_f64()).round() > worked
    });
    slept.count() as f64 > MAX_SHARE * wakes.len() as f64
}

/// Returns whether a late thread runs the cycles whose due times have passed: it does not skip due
/// times, so that it has a wakeup for each of them.
fn catches_up(wakes: &[Wake]) -> bool {
    const MIN_SHARE: f64 = 0.2;
    /// Time from when a thread sets its timer until it sleeps.
    const TOLERANCE: Nanos = Nanos::from_us(200);
    let passed = wakes
        .windows(2)
        .filter(|two| two[1].origin + TOLERANCE < two[0].done);
    passed.count() as f64 >= MIN_SHARE * wakes.len() as f64
}

/// Returns the mean of the gaps that are about one or more medians long. A program that rounds its
/// timeouts has long gaps and a few short ones.
fn mean_period(gaps: &[f64], median: f64) -> f64 {
    /// As a part of the median.
    const ROUNDING: f64 = 0.15;
    let (mut time, mut periods) = (0.0, 0.0);
    for gap in gaps {
        let count = (gap / median).round();
        if count >= 1.0 && (gap - count * median).abs() <= ROUNDING * median {
            time += gap;
            periods += count;
        }
    }
    time / periods
}

/// Returns the period of a timer with these expiries, in order, if they are on a grid. A thread that
/// is often late wakes only for some of the expiries, so most gaps may be several periods long.
pub(super) fn grid(expiries: &[Nanos]) -> Option<Nanos> {
    /// The expiries of a periodic timer do not depend on the thread.
    const GRID_TOLERANCE: f64 = 1.0 / 100.0;
    /// Maximum number of periods in the shortest gap.
    const MAX_SHORTEST: u32 = 3;
    if expiries.len() < MIN_WAKES {
        return None;
    }
    let gaps = expiries
        .windows(2)
        .map(|two| two[1].saturating_sub(two[0]).as_f64());
    let gaps: Vec<f64> = gaps.collect();
    let shortest = gaps.iter().copied().min_by(f64::total_cmp)?;
    let periods = (1..=MAX_SHORTEST).map(|number| shortest / f64::from(number));
    let mut periods = periods.filter(|&period| {
        let is_multiple = |gap: &f64| {
            let phase = gap - (gap / period).round() * period;
            phase.abs() <= GRID_TOLERANCE * period
        };
        period > 0.0 && gaps.iter().all(is_multiple)
    });
    periods.next().map(Nanos::from_f64)
}

/// Returns the period of a thread that sleeps until due times and is nearly always late: most gaps
/// are several periods long, not all of them equally long, and the thread never sleeps past a due
/// time. `is_relative`: its sleeps are relative. If they are equally long, they do not end at due
/// times.
pub(super) fn period_of_late_thread(wakes: &[Wake], is_relative: bool) -> Option<Nanos> {
    /// Minimum number of gaps that differ from the median.
    const MIN_OTHER: usize = 2;
    const TOLERANCE: f64 = 1.02;
    /// Maximum difference between sleeps for the same time.
    const MAX_DIFFERENCE: f64 = 0.05;
    let origins: Vec<Nanos> = wakes.iter().map(|wake| wake.origin).collect();
    let period = grid(&origins)?;
    let gaps = origins.windows(2);
    let gaps = gaps.map(|two| two[1].saturating_sub(two[0]).as_f64() / period.as_f64());
    let mut gaps: Vec<f64> = gaps.map(f64::round).collect();
    gaps.sort_by(f64::total_cmp);
    let median = gaps[gaps.len() / 2];
    let others = gaps.iter().filter(|gap| (*gap - median).abs() > 0.5);
    let sleeps = wakes.windows(2);
    let sleeps = sleeps.map(|two| two[1].origin.saturating_sub(two[0].done).as_f64());
    let mut sleeps: Vec<f64> = sleeps.collect();
    sleeps.sort_by(f64::total_cmp);
    let usual = sleeps[sleeps.len() / 2];
    let is_usual = |sleep: &&f64| (*sleep - usual).abs() <= MAX_DIFFERENCE * usual;
    let sleeps_differ = 2 * sleeps.iter().filter(is_usual).count() < sleeps.len();
    let is_late = median > 1.5 && others.count() >= MIN_OTHER && !catches_up(wakes);
    let sleeps_until_next = sleeps
        .iter()
        .all(|sleep| *sleep <= TOLERANCE * period.as_f64());
    (is_late && (sleeps_differ || !is_relative) && sleeps_until_next).then_some(period)
}

/// Returns the length of a gap in periods; `None` if it is not a multiple of the period.
fn multiple_of(gap: f64, period: f64) -> Option<u64> {
    let periods = (gap / period).round();
    let is_near = (gap - periods * period).abs() <= TOLERANCE * period;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it saturates"
    )]
    let count = periods as u64;
    (periods >= 1.0 && is_near).then_some(count)
}

/// Counts of the gaps between wakeups of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gaps {
    all: u64,
    /// Multiples of the period of their time.
    regular: u64,
    /// Pauses between series of wakeups.
    pauses: u64,
}

impl Gaps {
    /// Adds a gap, and returns its length in periods; `None` if it is not a multiple of the period.
    pub(super) fn add(&mut self, gap: f64, period: f64) -> Option<u64> {
        let periods = multiple_of(gap, period);
        self.all += 1;
        self.regular += u64::from(periods.is_some());
        self.pauses += u64::from(gap >= MIN_PAUSE_PERIODS as f64 * period);
        periods
    }

    /// Returns whether most gaps are known not to be regular.
    pub(super) const fn are_irregular(&self) -> bool {
        const MIN_GAPS: u64 = 64;
        self.all >= MIN_GAPS && 2 * self.regular < self.all
    }

    /// Returns whether most gaps are regular, or too few are known. Messages that arrive in bursts have
    /// short equal gaps, but no period.
    pub(super) fn are_regular(&self) -> bool {
        const MIN_GAPS: u64 = 32;
        const MIN_SHARE: f64 = 0.7;
        const MAX_PAUSE_SHARE: f64 = 0.05;
        let share = |count: u64| count as f64 / self.all as f64;
        let has_bursts = share(self.pauses) > MAX_PAUSE_SHARE;
        self.all < MIN_GAPS || (share(self.regular) >= MIN_SHARE && !has_bursts)
    }
}

/// Returns true if two periods differ too much for a wake of one to belong to the other.
pub(super) fn differ(first: Nanos, second: Nanos) -> bool {
    const APART: f64 = 1.05;
    let (first, second) = (first.as_f64(), second.as_f64());
    first.max(second) > APART * first.min(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(us: impl Iterator<Item = u64>) -> Vec<Nanos> {
        us.map(Nanos::from_us).collect()
    }

    #[test]
    fn period_is_found_if_a_few_wakes_are_missing() {
        let regular = times(
            (0..64)
                .filter(|number| number % 17 != 5)
                .map(|number| number * 2_667 + number % 3),
        );

        let estimate = period(&regular).unwrap().as_f64();

        assert!((estimate - 2_667e3).abs() < 3e3, "{estimate}");
        assert_eq!(period(&regular[..7]), None);
    }

    /// Expiries every 5 ms; the thread wakes for every third, and sometimes for the next one, too.
    #[test]
    fn expiries_of_a_late_thread_are_on_a_grid() {
        let expiries = [3, 6, 9, 11, 14, 17, 20, 22, 25, 28, 31, 33];
        let late = times(expiries.into_iter().map(|number| number * 5_000));

        assert_eq!(period(&late), None);
        assert_eq!(grid(&late), Some(Nanos::from_ms(5)));
        assert_eq!(grid(&late[..7]), None);
    }

    /// Timers of 10 and 25 ms, with timeouts rounded up to whole milliseconds: each second wakeup
    /// shows that the thread sleeps past the due times of 5 ms.
    #[test]
    fn thread_sleeps_past_the_due_times_of_a_common_divisor() {
        let expiries = [0, 10_600, 20_650, 25_900, 30_700, 40_650, 50_900, 60_700];
        let wakes: Vec<Wake> = times(expiries.into_iter())
            .into_iter()
            .map(Wake::at)
            .collect();

        assert!(sleeps_past(&wakes, Nanos::from_ms(5)));
        assert!(!sleeps_past(&wakes, Nanos::from_ms(10)));
    }

    /// A loop of 10 ms with 13 to 24 ms of work that skips the due times in them, and one that sleeps
    /// for different intervals.
    #[test]
    fn thread_that_works_past_its_due_times_has_a_shorter_period() {
        let wakes = |gaps: &[u64], work: u64| -> Vec<Wake> {
            let mut origin = 0;
            let wakes = gaps.iter().map(|gap| {
                origin += gap;
                let [origin, done] = [origin, origin + work].map(Nanos::from_ms);
                Wake { origin, done }
            });
            wakes.collect()
        };
        let gaps = [20, 30, 20, 20, 30, 30, 20, 30, 20, 30, 20, 30];

        let mut late = wakes(&gaps, 0);
        for place in 0..late.len() - 1 {
            late[place].done = late[place + 1].origin.saturating_sub(Nanos::from_ms(7));
        }
        let period = |wakes: &[Wake]| period_of_late_thread(wakes, false);
        assert_eq!(period(&late), Some(Nanos::from_ms(10)));
        assert_eq!(period(&wakes(&gaps, 1)), None);
        assert_eq!(period(&wakes(&[20; 12], 13)), None);
        // With relative sleeps, which all take 7 ms, it has no due times.
        assert_eq!(period_of_late_thread(&late, true), None);
        // Intervals of 10 and 30 ms in turn: each second cycle starts late.
        let mut in_turn = wakes(&[10, 30, 10, 30, 10, 30, 10, 30, 10, 30, 10, 30], 25);
        for wake in in_turn.iter_mut().step_by(2) {
            wake.done = wake.origin + Nanos::from_ms(12);
        }
        assert_eq!(period(&in_turn), None);
    }

    #[test]
    fn irregular_wakes_have_no_period() {
        let mut time = 0;
        let irregular = times((1..64).map(|number: u64| {
            time += 1 + number * number * 7_919 % 4_001;
            time
        }));

        assert_eq!(period(&irregular), None);
        assert_eq!(grid(&irregular), None);
    }
}
