//! When laggard itself was stopped: what waited then says nothing of the
//! machine.

use laggard_model::Nanos;

/// A gap in the readings that is longer than this, or than two periods, is
/// held to be part of a stop, where there was one.
const GAP: Nanos = Nanos::from_ms(100);

/// Stretches in which no thread of ours could run, because laggard was stopped.
#[derive(Debug, Default)]
pub struct Stops {
    stretches: Vec<(Nanos, Nanos)>,
}

impl Stops {
    /// Takes note that laggard was stopped between two looks, `looks.0` and
    /// `looks.1`; `readings`: when threads of ours ran meanwhile. While it was
    /// stopped none did, so it was in a gap between them: all that are too long
    /// for the period count, or else the longest.
    pub fn add(&mut self, looks: (Nanos, Nanos), mut readings: Vec<Nanos>, period: Nanos) {
        readings.retain(|reading| *reading > looks.0 && *reading < looks.1);
        readings.extend([looks.0, looks.1]);
        readings.sort_unstable();
        let gaps = || readings.windows(2).map(|two| (two[0], two[1]));
        let length = |gap: &(Nanos, Nanos)| gap.1.saturating_sub(gap.0);
        let longest = gaps().map(|gap| length(&gap)).max().unwrap_or_default();
        let least = GAP.min(period * 2).min(longest);
        self.stretches
            .extend(gaps().filter(|gap| length(gap) >= least));
    }

    /// Whether laggard was stopped at some time from `from` to `to`.
    pub fn overlap(&self, from: Nanos, to: Nanos) -> bool {
        // The last is asked for most often; there are few.
        let mut latest = self.stretches.iter().rev();
        latest.any(|stretch| from < stretch.1 && to > stretch.0)
    }

    /// When it was first stopped at `since` or later, how often, and for how
    /// long in all.
    pub fn since(&self, since: Nanos) -> Option<(Nanos, usize, Nanos)> {
        let later = || self.stretches.iter().filter(|stretch| stretch.1 > since);
        let (first, _) = later().next()?;
        let all = later().map(|stretch| stretch.1.saturating_sub(stretch.0));
        let all = all.fold(Nanos::ZERO, |sum, length| sum + length);
        Some((*first, later().count(), all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_ms;

    #[test]
    fn the_gap_in_which_no_thread_ran_is_the_stop() {
        let mut stops = Stops::default();
        let readings = (0..=1_800).filter(|ms| !(60..1_560).contains(ms));

        stops.add((MS(0), MS(1_800)), readings.map(MS).collect(), MS(1));

        assert!(stops.overlap(MS(59), MS(1_560)));
        assert!(stops.overlap(MS(700), MS(701)));
        assert!(!stops.overlap(MS(40), MS(59)));
        assert!(!stops.overlap(MS(1_560), MS(1_561)));
        assert_eq!(stops.since(MS(0)), Some((MS(59), 1, MS(1_501))));
        assert_eq!(stops.since(MS(1_560)), None);
    }

    #[test]
    fn where_threads_seldom_run_all_that_lies_between_two_looks_may_be_the_stop() {
        let mut stops = Stops::default();

        stops.add((MS(0), MS(230)), vec![], Nanos::from_secs(10));

        assert!(stops.overlap(MS(100), MS(101)));
    }

    #[test]
    fn a_stop_shorter_than_the_period_is_in_the_longest_gap() {
        let mut stops = Stops::default();
        let readings = [10, 20, 35, 45].map(MS).to_vec();

        stops.add((MS(0), MS(50)), readings, MS(10));

        assert!(stops.overlap(MS(21), MS(34)));
        assert!(!stops.overlap(MS(11), MS(20)));
    }
}
