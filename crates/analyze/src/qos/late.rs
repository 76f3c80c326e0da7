//! Counting late jobs without playing those that nothing hinders.

use super::Buffering;
use super::cpu::StalledCpu;
use crate::InputError;
use crate::exceedance::{Blackout, check_blackouts};
use crate::input::{not_negative, positive};

/// What missed in one replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LateJobs {
    /// When each job that missed was due.
    pub misses: Vec<f64>,
    /// When the first late job of each run of consecutive misses was due.
    pub episodes: Vec<f64>,
}

impl LateJobs {
    /// The length of each run of consecutive misses.
    pub(super) fn runs(&self) -> impl Iterator<Item = usize> + '_ {
        let begins = self.episodes.iter();
        let ends = self.episodes.iter().skip(1).copied().chain([f64::INFINITY]);
        let before = |at: f64| self.misses.partition_point(|&miss| miss < at);
        begins
            .zip(ends)
            .map(move |(&begin, end)| before(end) - before(begin))
    }
}

/// Replays `blackouts` from time 0 to `until`: jobs are due at `phase` and
/// every buffer period after it, are served in order, each takes the compute
/// time and `base` more (the ordinary latency), and nothing runs in a blackout.
/// Exact for any number of buffers, bursts included (docs/method.md 6.4).
///
/// Only the jobs near a blackout are played: the work grows with the blackouts,
/// not with the jobs, unless every job is late.
///
/// # Errors
/// When the blackouts do not ascend or overlap, or a time is out of its range.
pub fn late_jobs(
    blackouts: &[Blackout],
    until: f64,
    buffering: Buffering,
    phase: f64,
    base: f64,
) -> Result<LateJobs, InputError> {
    check_blackouts(blackouts)?;
    positive("end of the replay", until)?;
    not_negative("phase", phase)?;
    let cost = buffering.compute() + not_negative("base latency", base)?;
    let period = buffering.period();
    let always_late = buffering.is_missed(cost);
    let mut cpu = StalledCpu::new(blackouts);
    let mut late = LateJobs::default();
    let mut before = false;
    let mut job = 0.0_f64;
    loop {
        let due = phase + job * period;
        if due >= until {
            return Ok(late);
        }
        cpu.start(due);
        let free_until = cpu.next_blackout().unwrap_or(until);
        let is_unhindered = cpu.now() <= due && cost < period && due + cost < free_until;
        if is_unhindered && !always_late {
            before = false;
            // The last job that ends before the blackout is played again:
            // rounding must not decide which one that is.
            job = (job + 1.0).max(((free_until - cost - phase) / period).floor() - 1.0);
            continue;
        }
        cpu.work(cost);
        let missed = buffering.is_missed(cpu.now() - due);
        if missed {
            late.misses.push(due);
            if !before {
                late.episodes.push(due);
            }
        }
        before = missed;
        job += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exceedance::in_a_row;
    use proptest::prelude::{prop, prop_assert_eq, proptest};

    /// How many runs of misses there are.
    fn episodes_of(missed: &[bool]) -> usize {
        missed
            .chunk_by(|one, next| one == next)
            .filter(|run| run[0])
            .count()
    }

    /// Which jobs miss, each of them played.
    fn every_job(
        blackouts: &[Blackout],
        until: f64,
        buffering: Buffering,
        (phase, base): (f64, f64),
    ) -> Vec<bool> {
        let mut cpu = StalledCpu::new(blackouts);
        let due = (0..).map(|job: u32| phase + f64::from(job) * buffering.period());
        due.take_while(|&due| due < until)
            .map(|due| {
                cpu.start(due);
                cpu.work(buffering.compute() + base);
                buffering.is_missed(cpu.now() - due)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn skipping_unhindered_jobs_changes_no_count(
            gaps in prop::collection::vec((0.0..200.0_f64, 0.1..40.0_f64), 0..20),
            // A deadline shorter than the period lets a late job be followed by an unhindered one.
            slack in 0.0..24.0_f64, compute in 0.0..5.9_f64, base in 0.0..2.0_f64, phase in 0.0..6.0_f64,
        ) {
            let (blackouts, now) = in_a_row(gaps);
            let buffering = Buffering::with_deadline(6.0, compute, compute + slack).unwrap();
            let missed = every_job(&blackouts, now + 100.0, buffering, (phase, base));

            let late = late_jobs(&blackouts, now + 100.0, buffering, phase, base).unwrap();

            prop_assert_eq!((late.misses.len(), late.episodes.len()), (missed.iter().filter(|&&one| one).count(), episodes_of(&missed)));
        }
    }

    #[test]
    fn a_blackout_that_begins_while_a_job_computes_delays_it() {
        let blackout = [Blackout {
            start: 1.0,
            end: 3.0,
        }];
        let missed = |deadline| {
            let buffering = Buffering::with_deadline(6.0, 1.5, deadline).unwrap();
            late_jobs(&blackout, 6.0, buffering, 0.0, 0.0)
                .unwrap()
                .misses
        };

        assert_eq!(missed(3.4), [0.0]);
        assert_eq!(missed(3.5), [0.0; 0]);
    }

    #[test]
    fn overlapping_blackouts_are_refused() {
        let overlapping = [(0.0, 5.0), (4.0, 6.0)].map(|(start, end)| Blackout { start, end });
        let buffering = Buffering::new(3, 6.0, 1.5).unwrap();

        assert!(late_jobs(&overlapping, 10.0, buffering, 0.0, 0.0).is_err());
    }
}
