//! How much work a replay is, before it is done.

use super::{Buffering, Observed};

/// Jobs that one replay of everything `observed` plays, at most: those near
/// blackouts, or all, where the work and ordinary latency of a job take the
/// whole period.
pub fn jobs_to_play(observed: &[Observed], buffering: Buffering) -> f64 {
    let period = buffering.period();
    let of_cpu = |one: &Observed| {
        let all = one.exposure / period + 1.0;
        let idle = period - buffering.compute() - one.base;
        if idle <= 0.0 {
            return all;
        }
        // While a blackout lasts a backlog grows, and then goes by what is
        // idle in each period; three more are played around it.
        let blackouts = one.blackouts.outer.iter();
        let near: f64 = blackouts
            .map(|blackout| (blackout.end - blackout.start) / idle + 3.0)
            .sum();
        near.min(all)
    };
    observed.iter().map(of_cpu).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exceedance::Blackout;
    use crate::exceedance::StreamBlackouts;

    fn observed(base: f64) -> [Observed; 1] {
        let outer = vec![Blackout {
            start: 100.0,
            end: 160.0,
        }];
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
    fn only_jobs_near_blackouts_count_unless_every_job_is_late() {
        let buffering = Buffering::new(2, 4.0, 1.0).unwrap();

        assert_eq!(jobs_to_play(&observed(0.0), buffering), 23.0);
        assert_eq!(jobs_to_play(&observed(3.0), buffering), 2_501.0);
    }
}
