//! Estimate of the work of a replay.

use super::{Buffering, Observed};

/// Returns the maximum number of jobs in a replay of everything `observed`: the jobs near
/// blackouts, or all jobs if the work and ordinary latency of a job take the whole period.
pub fn jobs_to_play(observed: &[Observed], buffering: Buffering) -> f64 {
    let period = buffering.period();
    let of_cpu = |cpu: &Observed| {
        let jobs = cpu.exposure / period + 1.0;
        let idle = period - buffering.compute() - cpu.base;
        if idle <= 0.0 {
            return jobs;
        }
        // During a blackout a backlog grows; afterwards the idle part of each period
        // drains it. Three more jobs are played around it.
        let blackouts = cpu.blackouts.outer.iter();
        let near: f64 = blackouts
            .map(|blackout| (blackout.end - blackout.start) / idle + 3.0)
            .sum();
        near.min(jobs)
    };
    observed.iter().map(of_cpu).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exceedance::Blackout;
    use crate::exceedance::StreamBlackouts;

    fn observed(base: f64) -> [Observed; 1] {
        let outer = vec![Blackout::new(100.0, 160.0)];
        [Observed {
            recording: 0,
            blackouts: StreamBlackouts {
                outer,
                ..StreamBlackouts::default()
            },
            exposure: 10_000.0,
            base,
        }]
    }

    #[test]
    fn jobs_near_blackouts_count_unless_every_job_is_late() {
        let buffering = Buffering::new(2, 4.0, 1.0).unwrap();

        assert_eq!(jobs_to_play(&observed(0.0), buffering), 23.0);
        assert_eq!(jobs_to_play(&observed(3.0), buffering), 2_501.0);
    }
}
