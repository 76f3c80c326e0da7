//! Count of late jobs without playing the undisturbed ones.

use super::cpu::StalledCpu;
use super::{Buffering, MissPolicy};
use crate::InputError;
use crate::exceedance::{Blackout, check_blackouts};
use crate::input::{not_negative, positive};

/// Misses in one replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LateJobs {
    /// Due times of the missed jobs.
    pub misses: Vec<f64>,
    /// Due time of the first late job of each run of consecutive misses.
    pub episodes: Vec<f64>,
}

impl LateJobs {
    /// Returns the length of each run of consecutive misses.
    pub(super) fn runs(&self) -> impl Iterator<Item = usize> + '_ {
        let begins = self.episodes.iter();
        let ends = self.episodes.iter().skip(1).copied().chain([f64::INFINITY]);
        let before = |time: f64| self.misses.partition_point(|&miss| miss < time);
        begins
            .zip(ends)
            .map(move |(&begin, end)| before(end) - before(begin))
    }
}

/// Blackouts for replays of job streams with different phases.
#[derive(Clone, Debug)]
pub(super) struct Stalls {
    /// Blackouts that can make a job late.
    blackouts: Vec<Blackout>,
    until: f64,
    buffering: Buffering,
    /// Time of a job, including the ordinary latency.
    cost: f64,
}

/// Relative difference below which a time counts as equal to a deadline. Rounding must
/// not decide which blackouts a replay omits.
const EQUAL_FRACTION: f64 = 1e-6;

impl Stalls {
    /// Selects the relevant part of `blackouts` from time 0 to `until` for jobs that
    /// take the compute time plus `base` (the ordinary latency).
    ///
    /// # Errors
    /// If the blackouts do not ascend or overlap, or a time is out of its range.
    pub(super) fn new(
        blackouts: &[Blackout],
        until: f64,
        buffering: Buffering,
        base: f64,
    ) -> Result<Self, InputError> {
        check_blackouts(blackouts)?;
        positive("end of the replay", until)?;
        let cost = buffering.compute() + not_negative("base latency", base)?;
        Ok(Self {
            blackouts: harmful(blackouts, buffering, cost),
            until,
            buffering,
            cost,
        })
    }

    /// Plays jobs that are due at `phase` and every buffer period after it.
    ///
    /// # Errors
    /// If the phase is out of its range.
    pub(super) fn late_jobs(&self, phase: f64) -> Result<LateJobs, InputError> {
        not_negative("phase", phase)?;
        let (until, cost, buffering) = (self.until, self.cost, self.buffering);
        let period = buffering.period();
        let always_late = buffering.is_missed(cost);
        let mut cpu = StalledCpu::new(&self.blackouts);
        let mut late = LateJobs::default();
        let mut before = false;
        // Start of the stream, which can restart.
        let mut begun = phase;
        let mut job = 0.0_f64;
        loop {
            let due = begun + job * period;
            if due >= until {
                return Ok(late);
            }
            cpu.start(due);
            let free_until = cpu.next_blackout().unwrap_or(until);
            let is_unhindered = cpu.now() <= due && cost < period && due + cost < free_until;
            if is_unhindered && !always_late {
                before = false;
                // The last job before the blackout is played again, because rounding
                // must not decide which one that is.
                job = (job + 1.0).max(((free_until - cost - begun) / period).floor() - 1.0);
                continue;
            }
            let missed = match buffering.after() {
                MissPolicy::Drop => {
                    let deadline = due + buffering.tolerance();
                    !cpu.work_before(cost, deadline, buffering.rounding())
                }
                MissPolicy::Late | MissPolicy::Reset => {
                    cpu.work(cost);
                    buffering.is_missed(cpu.now() - due)
                }
            };
            if missed {
                late.misses.push(due);
                if !before {
                    late.episodes.push(due);
                }
            }
            before = missed;
            job += 1.0;
            if missed && buffering.after() == MissPolicy::Reset {
                // Jobs due before the restart are dropped: they miss too.
                let thrown = |job: f64| begun + job * period;
                while thrown(job) < cpu.now().min(until) {
                    late.misses.push(thrown(job));
                    job += 1.0;
                }
                (begun, job) = (cpu.now(), 0.0);
            }
        }
    }
}

/// Replays `blackouts` from time 0 to `until`. Jobs are due at `phase` and every buffer
/// period after it and are served in order. Each takes the compute time plus `base`
/// (the ordinary latency), and nothing runs in a blackout. Exact for any number of
/// buffers, including bursts (docs/method.md 6.4), and for each [`MissPolicy`].
///
/// Only the jobs near a blackout are played, so the work grows with the blackouts and
/// not with the jobs, unless every job is late.
///
/// # Errors
/// If the blackouts do not ascend or overlap, or a time is out of its range.
pub fn late_jobs(
    blackouts: &[Blackout],
    until: f64,
    buffering: Buffering,
    phase: f64,
    base: f64,
) -> Result<LateJobs, InputError> {
    Stalls::new(blackouts, until, buffering, base)?.late_jobs(phase)
}

/// Returns the blackouts that can make a job late which takes `cost`.
///
/// The response of a job is at most its cost plus all blackouts since the processor was
/// last idle. Jobs before it in the same busy period were due earlier by at least their
/// cost. Blackouts between two times when the processor is certainly idle can
/// therefore be omitted if their sum is too short.
///
/// This holds for any handling of misses: a dropped job leaves its time to others, and
/// a stream that restarts does not have a backlog.
fn harmful(blackouts: &[Blackout], buffering: Buffering, cost: f64) -> Vec<Blackout> {
    let period = buffering.period();
    // Average work per ns.
    let load = cost / period;
    let least = buffering.tolerance() * (1.0 - EQUAL_FRACTION) - cost;
    if load >= 1.0 || least <= 0.0 {
        return blackouts.to_vec();
    }
    let mut kept = Vec::new();
    let mut first = 0;
    // Maximum backlog, and blackouts since the processor was idle.
    let (mut waiting, mut length) = (cost, 0.0);
    for (index, blackout) in blackouts.iter().enumerate() {
        let stopped = blackout.end - blackout.start;
        length += stopped;
        waiting += load * stopped + cost;
        let free = match blackouts.get(index + 1) {
            Some(next) => (next.start - blackout.end) * (1.0 - load),
            None => f64::INFINITY,
        };
        if free > waiting + cost {
            if length > least {
                kept.extend_from_slice(&blackouts[first..=index]);
            }
            (first, waiting, length) = (index + 1, cost, 0.0);
        } else {
            waiting = (waiting - free + cost).max(cost);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exceedance::in_a_row;
    use proptest::prelude::{prop, prop_assert_eq, proptest};
    use rand::{RngExt, SeedableRng};

    /// Returns the number of runs of misses.
    fn episodes_of(missed: &[bool]) -> usize {
        missed
            .chunk_by(|previous, next| previous == next)
            .filter(|run| run[0])
            .count()
    }

    /// Returns the missed jobs when every job is played.
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
        fn skipping_undisturbed_jobs_changes_no_count(
            gaps in prop::collection::vec((0.0..200.0_f64, 0.1..40.0_f64), 0..20),
            // With a deadline shorter than the period, an undisturbed job can follow a
            // late one.
            slack in 0.0..24.0_f64, compute in 0.0..5.9_f64, base in 0.0..2.0_f64, phase in 0.0..6.0_f64,
        ) {
            let (blackouts, now) = in_a_row(gaps);
            let buffering = Buffering::with_deadline(6.0, compute, compute + slack).unwrap();
            let missed = every_job(&blackouts, now + 100.0, buffering, (phase, base));

            let late = late_jobs(&blackouts, now + 100.0, buffering, phase, base).unwrap();

            prop_assert_eq!((late.misses.len(), late.episodes.len()), (missed.iter().filter(|&&is_missed| is_missed).count(), episodes_of(&missed)));
        }
    }

    /// Returns the due times of the missed jobs, and of the first of each run, in
    /// integer time steps that follow the definition of [`MissPolicy`] literally.
    fn step_by_step(
        blackouts: &[(u32, u32)],
        until: u32,
        [period, compute, deadline, phase]: [u32; 4],
        after: MissPolicy,
    ) -> LateJobs {
        let mut waiting: std::collections::VecDeque<(u32, u32)> = std::collections::VecDeque::new();
        let mut settled: Vec<(u32, bool)> = Vec::new();
        let (mut next, mut now) = (phase, 0);
        while next < until || !waiting.is_empty() {
            if now == next && next < until {
                waiting.push_back((next, compute));
                next += period;
            }
            if after == MissPolicy::Drop {
                while let Some(&(due, _)) = waiting.front().filter(|(due, _)| due + deadline <= now)
                {
                    settled.push((due, true));
                    waiting.pop_front();
                }
            }
            let is_stopped = blackouts
                .iter()
                .any(|&(from, to)| (from..to).contains(&now));
            now += 1;
            let Some((due, left)) = waiting.front_mut().filter(|_| !is_stopped) else {
                continue;
            };
            *left -= 1;
            if *left > 0 {
                continue;
            }
            let (due, is_missed) = (*due, now - *due > deadline);
            settled.push((due, is_missed));
            waiting.pop_front();
            if is_missed && after == MissPolicy::Reset {
                settled.extend(waiting.drain(..).map(|(due, _)| (due, true)));
                next = now;
            }
        }
        let mut late = LateJobs::default();
        let mut before = false;
        for (due, is_missed) in settled {
            if is_missed {
                late.misses.push(f64::from(due));
                if !before {
                    late.episodes.push(f64::from(due));
                }
            }
            before = is_missed;
        }
        late
    }

    #[test]
    fn replay_equals_stepping_for_every_handling_of_misses() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(16);
        let mut differ = 0;
        for _ in 0..600 {
            let mut time = 0;
            let mut blackouts = Vec::new();
            for _ in 0..random.random_range(1..12_u32) {
                let from = time + random.random_range(1..40_u32);
                time = from + random.random_range(1..50_u32);
                blackouts.push((from, time));
            }
            let period = random.random_range(2..9_u32);
            let compute = random.random_range(1..period);
            let deadline = compute + random.random_range(0..20_u32);
            let phase = random.random_range(0..period);
            let until = time + random.random_range(0..40_u32);
            let stalls: Vec<Blackout> = blackouts
                .iter()
                .map(|&(start, end)| Blackout::new(start.into(), end.into()))
                .collect();
            let times = [period, compute, deadline, phase];
            let [period, compute, deadline, phase] = times.map(f64::from);
            let buffering = Buffering::with_deadline(period, compute, deadline).unwrap();
            let mut runs = Vec::new();
            for after in [MissPolicy::Late, MissPolicy::Drop, MissPolicy::Reset] {
                let buffering = buffering.after_miss(after);
                let replayed = late_jobs(&stalls, until.into(), buffering, phase, 0.0).unwrap();

                let stepped = step_by_step(&blackouts, until, times, after);

                assert_eq!(
                    replayed, stepped,
                    "{after:?} {times:?} {blackouts:?} {until}"
                );
                runs.push(replayed);
            }
            differ += usize::from(runs[0] != runs[1] && runs[1] != runs[2]);
        }
        assert!(differ > 100, "{differ}");
    }

    /// Two buffers of 4, 1 of work each; nothing runs from 9 to 29.
    #[test]
    fn dropped_job_delays_no_other_and_reset_restarts() {
        let blackout = [Blackout::new(9.0, 29.0)];
        let buffering = Buffering::new(2, 4.0, 1.0).unwrap();
        let missed = |after| {
            let buffering = buffering.after_miss(after);
            late_jobs(&blackout, 60.0, buffering, 0.0, 0.0)
                .unwrap()
                .misses
        };

        // The job due at 28 ends at 34, behind four others; alone it ends at 30.
        assert_eq!(missed(MissPolicy::Late), [12.0, 16.0, 20.0, 24.0, 28.0]);
        assert_eq!(missed(MissPolicy::Drop), [12.0, 16.0, 20.0, 24.0]);
        assert_eq!(missed(MissPolicy::Reset), [12.0, 16.0, 20.0, 24.0, 28.0]);
    }

    /// A job is dropped only when its time is over.
    #[test]
    fn job_that_ends_at_its_deadline_is_not_dropped() {
        let blackout = [Blackout::new(0.1, 3.3)];
        let missed = |deadline| {
            let buffering = Buffering::with_deadline(6.0, 0.3, deadline).unwrap();
            let buffering = buffering.after_miss(MissPolicy::Drop);
            late_jobs(&blackout, 6.0, buffering, 0.0, 0.0)
                .unwrap()
                .misses
        };

        assert_eq!(missed(3.5), [0.0; 0]);
        assert_eq!(missed(3.49), [0.0]);
    }

    #[test]
    fn omitted_blackouts_make_no_job_late() {
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(3);
        let mut left_out = 0;
        for _ in 0..300 {
            let mut gaps = Vec::new();
            for _ in 0..random.random_range(1..40_u32) {
                let gap = 60.0 * random.random::<f64>().powi(3);
                gaps.push((gap, 12.0 * random.random::<f64>().powi(2)));
            }
            let (blackouts, end) = in_a_row(gaps);
            let compute = 5.9 * random.random::<f64>();
            let slack = 14.0 * random.random::<f64>();
            let buffering = Buffering::with_deadline(6.0, compute, compute + slack).unwrap();
            let each = [MissPolicy::Late, MissPolicy::Drop, MissPolicy::Reset];
            let buffering = buffering.after_miss(each[random.random_range(0..3_usize)]);
            let base = random.random::<f64>();
            let (until, phase) = (end + 30.0, 6.0 * random.random::<f64>());
            let stalls = Stalls::new(&blackouts, until, buffering, base).unwrap();
            left_out += blackouts.len() - stalls.blackouts.len();
            let unpruned = Stalls {
                blackouts,
                ..stalls.clone()
            };

            assert_eq!(stalls.late_jobs(phase), unpruned.late_jobs(phase));
        }
        assert!(left_out > 500, "{left_out}");
    }

    #[test]
    fn blackout_during_the_work_of_a_job_delays_it() {
        let blackout = [Blackout::new(1.0, 3.0)];
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
        let overlapping = [(0.0, 5.0), (4.0, 6.0)].map(|(start, end)| Blackout::new(start, end));
        let buffering = Buffering::new(3, 6.0, 1.5).unwrap();

        assert!(late_jobs(&overlapping, 10.0, buffering, 0.0, 0.0).is_err());
    }
}
