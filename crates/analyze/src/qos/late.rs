//! Counting late jobs without playing those that nothing hinders.

use super::blackouts::Cpu;
use super::{Blackout, Buffering};
use crate::InputError;
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

/// Means over replays from several phases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanReplay {
    /// Jobs that missed.
    pub misses: f64,
    /// Runs of consecutive misses.
    pub episodes: f64,
}

/// As [`super::replay_blackouts`], but only the jobs near a blackout are
/// played: the work grows with the blackouts, not with the jobs, unless every
/// job is late.
///
/// # Errors
/// As [`super::replay_blackouts`].
pub fn late_jobs(
    blackouts: &[Blackout],
    until: f64,
    buffering: Buffering,
    phase: f64,
    base: f64,
) -> Result<LateJobs, InputError> {
    super::blackouts::check(blackouts)?;
    positive("end of the replay", until)?;
    not_negative("phase", phase)?;
    let cost = buffering.compute() + not_negative("base latency", base)?;
    let period = buffering.period();
    let always_late = buffering.is_missed(cost);
    let mut cpu = Cpu::new(blackouts);
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

/// The mean of [`late_jobs`] over `phases` phases, equally spaced over one
/// buffer period; 16 or more are enough (docs/method.md 6.4).
///
/// # Errors
/// As [`super::replay_blackouts`], or with no phase.
pub fn late_over_phases(
    blackouts: &[Blackout],
    until: f64,
    buffering: Buffering,
    phases: u32,
    base: f64,
) -> Result<MeanReplay, InputError> {
    let count = positive("number of phases", f64::from(phases))?;
    let (mut misses, mut episodes) = (0, 0);
    for index in 0..phases {
        let phase = (f64::from(index) + 0.5) / count * buffering.period();
        let late = late_jobs(blackouts, until, buffering, phase, base)?;
        misses += late.misses.len();
        episodes += late.episodes.len();
    }
    Ok(MeanReplay {
        misses: misses as f64 / count,
        episodes: episodes as f64 / count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qos::replay_blackouts;
    use proptest::prelude::{prop, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn skipping_unhindered_jobs_changes_no_count(
            gaps in prop::collection::vec((0.0..200.0_f64, 0.1..40.0_f64), 0..20),
            // A deadline shorter than the period lets a late job be followed by an unhindered one.
            slack in 0.0..24.0_f64, compute in 0.0..5.9_f64, base in 0.0..2.0_f64, phase in 0.0..6.0_f64,
        ) {
            let mut now = 0.0;
            let blackouts: Vec<Blackout> = gaps
                .into_iter()
                .map(|(gap, length)| {
                    let start = now + gap;
                    now = start + length;
                    Blackout { start, end: now }
                })
                .collect();
            let buffering = Buffering::with_deadline(6.0, compute, compute + slack).unwrap();
            let whole = replay_blackouts(&blackouts, now + 100.0, buffering, phase, base).unwrap();

            let late = late_jobs(&blackouts, now + 100.0, buffering, phase, base).unwrap();

            prop_assert_eq!((late.misses.len(), late.episodes.len()), (whole.misses, whole.episodes));
        }
    }

    /// docs/method.md 6.6: predicted and simulated misses of isolated stalls.
    #[test]
    fn isolated_stalls_fail_as_often_as_the_closed_form_says() {
        use crate::qos::failures_of_isolated_stalls;
        use rand::{RngExt, SeedableRng};

        let buffering = Buffering::new(3, 6.0, 1.5).unwrap();
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(7);
        let (gap, stalls) = (400.0, 2_000);
        let lengths: Vec<f64> = (0..stalls)
            .map(|_| 8.0 - 5.0 * (1.0 - random.random::<f64>()).ln())
            .collect();
        let blackouts: Vec<Blackout> = (0_u32..)
            .zip(&lengths)
            .map(|(index, length)| {
                let start = f64::from(index) * gap + 200.0 * random.random::<f64>();
                let end = start + length;
                Blackout { start, end }
            })
            .collect();
        let until = gap * f64::from(stalls);

        let replay = late_over_phases(&blackouts, until, buffering, 16, 0.0).unwrap();

        let predicted = failures_of_isolated_stalls(1.0 / gap, &lengths, buffering).unwrap();
        let (episodes, misses) = (
            replay.episodes / (predicted.episode_rate * until),
            replay.misses / (predicted.miss_rate * until),
        );
        assert!((episodes - 1.0).abs() < 0.03, "episodes {episodes}");
        assert!((misses - 1.0).abs() < 0.03, "misses {misses}");
    }
}
