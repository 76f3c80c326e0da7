//! Refusal of plans that would hang a machine or be ineffective.

use laggard_model::Nanos;

use super::{Disturbance, FaultKind};

/// Longest hit: well below the 20 s of the soft lockup detector, and short enough for a
/// person to keep typing.
const MAX_LENGTH: Nanos = Nanos::from_ms(500);

/// Longest hit of real-time threads on the only CPU.
const MAX_LENGTH_ALONE: Nanos = Nanos::from_ms(100);

/// Longest hit inside the kernel, which nothing on the same CPU interrupts and other
/// CPUs may have to wait for.
const MAX_LENGTH_IN_KERNEL: Nanos = Nanos::from_ms(100);

/// Shortest hit that is distinguishable from the overhead of the clock.
const MIN_LENGTH: Nanos = Nanos::from_us(10);

/// Maximum part of the time that hits may take, percent.
const MAX_SHARE: u64 = 80;

/// Maximum for hits inside the kernel, percent.
const MAX_SHARE_IN_KERNEL: u64 = 50;

/// Periods of a timer that expires on the hidden tick.
const TIMER_PERIODS: [Nanos; 2] = [Nanos::from_us(100), Nanos::from_secs(1)];

/// Range of a control group's period in the kernel (`cpu.cfs_period_us`).
const QUOTA_PERIODS: [Nanos; 2] = [Nanos::from_ms(1), Nanos::from_secs(1)];

/// Smallest quota that the kernel accepts (`cpu.cfs_quota_us`).
const MIN_QUOTA: Nanos = Nanos::from_ms(1);

/// Reason for refusing a plan.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DisturbRefused {
    /// The hit is longer than is safe here.
    #[error("{kind}: hits of {length} could hang this machine of {cpus} CPUs; use at most {most}")]
    TooLong {
        kind: FaultKind,
        /// Requested length.
        length: Nanos,
        cpus: usize,
        /// Maximum.
        most: Nanos,
    },
    /// The hit is too short.
    #[error("{kind}: hits of {length} cannot be made exactly; use at least {MIN_LENGTH}")]
    TooShort {
        kind: FaultKind,
        /// Requested length.
        length: Nanos,
    },
    /// Hits would follow each other too closely.
    #[error(
        "{kind}: hits of {length} every {every} leave too little time for other threads; use a period of at least {least}"
    )]
    TooOften {
        kind: FaultKind,
        /// Requested length.
        length: Nanos,
        /// Requested period.
        every: Nanos,
        /// Minimum.
        least: Nanos,
    },
    /// A hit of this length cannot be made here.
    #[error(
        "{kind}: hits of {length} cannot be made here; use at most {most}, or allow longer ones with `sysctl -w vm.max_map_count=262144`"
    )]
    Unreachable {
        kind: FaultKind,
        /// Requested length.
        length: Nanos,
        /// Maximum, as just measured.
        most: Nanos,
    },
    /// The plan ends before its first hit.
    #[error("{kind}: no hit in {duration} with one every {every}; run for longer than {every}")]
    TooBrief {
        kind: FaultKind,
        /// Requested period.
        every: Nanos,
        /// Requested duration.
        duration: Nanos,
    },
    /// The timer of this period does not exist.
    #[error("tick: a timer of {every} is out of range; use {} to {}", TIMER_PERIODS[0], TIMER_PERIODS[1])]
    Timer {
        /// Requested period.
        every: Nanos,
    },
    /// A machine cannot inject this fault into itself.
    #[error(
        "steal: a machine cannot stop itself from inside; stop a test host from outside, with `testhost run --mode smp --stall 2s:20ms --truth hits.jsonl` (docs/reference/faults.md)"
    )]
    FromOutside,
    /// The kernel does not accept this quota.
    #[error(
        "throttle: the kernel takes periods from 1ms to 1s that leave at least 1ms for running; {length} every {every} is not one"
    )]
    Quota {
        /// Requested length.
        length: Nanos,
        /// Requested period.
        every: Nanos,
    },
}

impl Disturbance {
    /// Checks that the plan is safe on this machine and has an effect. [`super::run`]
    /// checks it too.
    ///
    /// # Errors
    /// If it is not; the text has the limit.
    pub fn check(&self) -> Result<(), DisturbRefused> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        check_for(self, cpus)
    }
}

fn check_for(plan: &Disturbance, cpus: usize) -> Result<(), DisturbRefused> {
    let &Disturbance {
        kind,
        length,
        every,
        duration,
        ..
    } = plan;
    if kind == FaultKind::Steal {
        return Err(DisturbRefused::FromOutside);
    }
    if kind.has_own_period() {
        return Ok(());
    }
    if kind == FaultKind::Tick && !(TIMER_PERIODS[0]..=TIMER_PERIODS[1]).contains(&every) {
        return Err(DisturbRefused::Timer { every });
    }
    if !kind.has_own_length() {
        check_length(kind, length, every, cpus)?;
    }
    if duration <= every {
        Err(DisturbRefused::TooBrief {
            kind,
            every,
            duration,
        })
    } else {
        Ok(())
    }
}

fn check_length(
    kind: FaultKind,
    length: Nanos,
    every: Nanos,
    cpus: usize,
) -> Result<(), DisturbRefused> {
    let (most, share) = if kind.is_in_kernel() {
        (MAX_LENGTH_IN_KERNEL, MAX_SHARE_IN_KERNEL)
    } else if kind.is_real_time() && cpus == 1 {
        (MAX_LENGTH_ALONE, MAX_SHARE)
    } else {
        (MAX_LENGTH, MAX_SHARE)
    };
    if length > most {
        return Err(DisturbRefused::TooLong {
            kind,
            length,
            cpus,
            most,
        });
    }
    if length < MIN_LENGTH {
        return Err(DisturbRefused::TooShort { kind, length });
    }
    if kind == FaultKind::Throttle {
        let [shortest, longest] = QUOTA_PERIODS;
        let fits =
            (shortest..=longest).contains(&every) && every.saturating_sub(length) >= MIN_QUOTA;
        return fits
            .then_some(())
            .ok_or(DisturbRefused::Quota { length, every });
    }
    let least = Nanos::from_ns(length.ns() * 100 / share);
    if every < least {
        Err(DisturbRefused::TooOften {
            kind,
            length,
            every,
            least,
        })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::Cpu;

    use super::*;

    fn plan(kind: FaultKind, length_ms: u64, every_ms: u64) -> Disturbance {
        Disturbance {
            kind,
            length: Nanos::from_ms(length_ms),
            every: Nanos::from_ms(every_ms),
            cpu: Cpu(0),
            duration: Nanos::from_secs(60),
            victims: vec![],
        }
    }

    #[test]
    fn length_that_could_hang_the_machine_is_refused_with_the_limit() {
        let long = check_for(&plan(FaultKind::Thread, 5000, 10_000), 2).unwrap_err();
        let alone = check_for(&plan(FaultKind::Thread, 200, 10_000), 1).unwrap_err();

        assert_eq!(
            long.to_string(),
            "thread: hits of 5s could hang this machine of 2 CPUs; use at most 500ms"
        );
        assert!(alone.to_string().ends_with("at most 100ms"), "{alone}");
        assert_eq!(check_for(&plan(FaultKind::Queue, 200, 10_000), 1), Ok(()));
    }

    #[test]
    fn dense_hits_are_refused_with_the_shortest_period() {
        let err = check_for(&plan(FaultKind::Lock, 8, 9), 2).unwrap_err();

        assert!(err.to_string().ends_with("at least 10ms"), "{err}");
        assert_eq!(check_for(&plan(FaultKind::Lock, 8, 10), 2), Ok(()));
    }

    #[test]
    fn hits_inside_the_kernel_are_shorter_and_rarer() {
        for kind in [FaultKind::Softirq, FaultKind::Irq, FaultKind::IrqsOff] {
            let long = check_for(&plan(kind, 101, 10_000), 64).unwrap_err();
            let often = check_for(&plan(kind, 100, 199), 64).unwrap_err();

            assert!(long.to_string().ends_with("at most 100ms"), "{long}");
            assert!(often.to_string().ends_with("at least 200ms"), "{often}");
            assert_eq!(check_for(&plan(kind, 100, 200), 1), Ok(()), "for {kind}");
        }
    }

    #[test]
    fn plan_that_ends_before_its_first_hit_is_refused() {
        let err = check_for(&plan(FaultKind::Net, 7, 60_000), 2).unwrap_err();

        assert_eq!(
            err.to_string(),
            "net: no hit in 60s with one every 60s; run for longer than 60s"
        );
        assert_eq!(check_for(&plan(FaultKind::Net, 7, 59_999), 2), Ok(()));
    }

    #[test]
    fn steal_from_inside_is_refused_with_the_remedy() {
        let err = check_for(&plan(FaultKind::Steal, 20, 500), 2).unwrap_err();

        assert!(err.to_string().contains("testhost run"), "{err}");
    }

    #[test]
    fn hidden_tick_serves_only_timers_with_useful_periods() {
        let err = check_for(&plan(FaultKind::Tick, 0, 0), 2).unwrap_err();

        assert_eq!(
            err.to_string(),
            "tick: a timer of 0ns is out of range; use 100us to 1s"
        );
        assert_eq!(check_for(&plan(FaultKind::Tick, 0, 1), 2), Ok(()));
    }

    #[test]
    fn missing_length_is_refused() {
        assert!(check_for(&plan(FaultKind::Net, 0, 10), 2).is_err());
    }

    #[test]
    fn quota_that_the_kernel_does_not_accept_is_refused() {
        assert!(check_for(&plan(FaultKind::Throttle, 20, 2000), 2).is_err());
        assert!(check_for(&plan(FaultKind::Throttle, 20, 20), 2).is_err());
        assert_eq!(check_for(&plan(FaultKind::Throttle, 95, 100), 2), Ok(()));
    }
}
