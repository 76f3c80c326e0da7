//! Random times of runs and wakeups.

use laggard_model::Nanos;

use super::preemption::{self, PlannedWakeup};
use super::{MAX_COMPUTE, RUNNING_PRIORITY, WOKEN_PRIORITY};
use crate::random::Random;

/// Length of a run, during which one thread computes and the other is woken.
pub(super) const RUN: Nanos = Nanos::from_ms(20);
/// Minimum length of the pause after a run.
const PAUSE: Nanos = Nanos::from_ms(10);
/// Random addition to a pause, so that no activity with a fixed period falls into each
/// pause.
const PAUSE_JITTER: Nanos = Nanos::from_ms(20);
/// Minimum time between two wakeups of a run.
const INTERVAL: Nanos = Nanos::from_us(500);
/// Random addition to the interval, so that wakeups meet each phase of a tick. The sum is
/// so short that the computing thread does not sleep between wakeups.
const INTERVAL_JITTER: Nanos = Nanos::from_us(900);
/// Number of runs between two checks of the stop flag.
const RUNS: usize = 6;
/// Maximum length of these runs.
pub(super) const MAX_RUNS: Nanos = Nanos::from_ms(300);

/// Returns the start of each run, from the start of the first pause. Each run and its pause have
/// `parts` parts, which are runs with pauses.
pub(super) fn run_starts(random: &mut Random, parts: u64) -> Vec<Nanos> {
    let part = |time: Nanos| Nanos::from_ns(time.ns() / parts);
    let mut end = Nanos::ZERO;
    std::iter::repeat_with(|| {
        let start = end + part(PAUSE) + random.below(part(PAUSE_JITTER));
        end = start + part(RUN);
        start
    })
    .take(RUNS * usize::try_from(parts).unwrap_or(1))
    .collect()
}

/// Plans wakeups at random times of some runs.
pub(super) fn runs(random: &mut Random) -> Vec<PlannedWakeup> {
    let mut rounds = Vec::new();
    for begin in run_starts(random, 1) {
        let mut due = begin + preemption::LEAD;
        while due < begin + RUN {
            rounds.push(PlannedWakeup {
                running: RUNNING_PRIORITY,
                woken: WOKEN_PRIORITY,
                due,
                max_compute: MAX_COMPUTE,
            });
            due = due + INTERVAL + random.below(INTERVAL_JITTER);
        }
    }
    rounds
}

/// Plans wakeups at random times.
pub(super) fn random_wakeups(random: &mut Random) -> Vec<Nanos> {
    let gaps = std::iter::repeat_with(|| INTERVAL + random.below(INTERVAL_JITTER));
    let due = gaps.scan(Nanos::ZERO, |due, gap| {
        *due += gap;
        Some(*due)
    });
    due.take_while(|&due| due < MAX_RUNS).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::super::MASKED_PARTS;
    use super::*;

    #[test]
    fn computing_thread_sleeps_between_runs_and_not_between_wakeups() {
        let rounds = runs(&mut Random(7));

        let gap = |pair: &[PlannedWakeup]| pair[1].due.saturating_sub(pair[0].due);
        let gaps: Vec<Nanos> = rounds.windows(2).map(gap).collect();
        let long = gaps.iter().filter(|&&gap| gap > preemption::LEAD).count();
        assert_eq!(long, RUNS - 1);
        assert!(gaps.iter().all(
            |&gap| gap <= PAUSE + PAUSE_JITTER + preemption::LEAD + INTERVAL + INTERVAL_JITTER
        ));
        let last = rounds.last().unwrap().due;
        assert!(last <= MAX_RUNS, "{last}");
    }

    /// A masked interrupt comes once per part: with whole runs, 48 in 2 s.
    #[test]
    fn parts_of_runs_take_the_time_of_whole_runs() {
        let begins = run_starts(&mut Random(7), MASKED_PARTS);

        assert!(begins.len() >= 100, "{}", begins.len());
        let end = begins[begins.len() - 1] + Nanos::from_ns(RUN.ns() / MASKED_PARTS);
        assert!(end <= MAX_RUNS, "{end}");
    }

    /// With fixed pauses, a run and its pause took 40 ms. A disturbance with this period fell into
    /// each pause, and the test passed.
    #[test]
    fn no_phase_of_a_period_falls_into_each_pause() {
        const PERIOD: Nanos = Nanos::from_ms(40);
        let mut random = Random(7);
        let (mut from, mut met) = (Nanos::ZERO, [0; 40]);
        for _ in 0..8 {
            let begins = run_starts(&mut random, 1);
            for &begin in &begins {
                let first = (from + begin).ns() % PERIOD.ns() / 1_000_000;
                for ms in first..first + 20 {
                    met[usize::try_from(ms % 40).unwrap()] += 1;
                }
            }
            from += begins[begins.len() - 1] + RUN;
        }

        // 48 runs; half of them should meet each phase.
        assert!(met.iter().all(|&count| count >= 8), "{met:?}");
    }
}
