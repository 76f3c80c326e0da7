//! What is refused, because it would hang a machine or makes no fault.

use laggard_model::Nanos;

use super::{Disturbance, FaultKind};

/// The longest hit: well below the 20 s after which the kernel takes a CPU
/// for dead, and short enough for a person to keep typing.
const LONGEST: Nanos = Nanos::from_ms(500);

/// The longest hit of real-time threads on the only CPU.
const LONGEST_ALONE: Nanos = Nanos::from_ms(100);

/// The longest hit inside the kernel, where nothing of the same CPU gets in
/// and other CPUs may have to wait for it.
const LONGEST_IN_KERNEL: Nanos = Nanos::from_ms(100);

/// The shortest hit that can be told from the clock's own cost.
const SHORTEST: Nanos = Nanos::from_us(10);

/// The largest share of the time that hits may take, in percent.
const LARGEST_SHARE: u64 = 80;

/// The same of hits inside the kernel.
const LARGEST_SHARE_IN_KERNEL: u64 = 50;

/// Periods of a timer that is served on the hidden tick.
const TIMER_PERIODS: [Nanos; 2] = [Nanos::from_us(100), Nanos::from_secs(1)];

/// What the kernel takes as a control group's period (`cpu.cfs_period_us`).
const QUOTA_PERIODS: [Nanos; 2] = [Nanos::from_ms(1), Nanos::from_secs(1)];

/// The smallest quota that the kernel takes (`cpu.cfs_quota_us`).
const SMALLEST_QUOTA: Nanos = Nanos::from_ms(1);

/// Why a plan is not carried out.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DisturbRefused {
    /// The hit is longer than is safe here.
    #[error("{kind}: hits of {length} could hang this machine of {cpus} CPUs; use at most {most}")]
    TooLong {
        /// The fault.
        kind: FaultKind,
        /// What was asked for.
        length: Nanos,
        /// How many CPUs there are.
        cpus: usize,
        /// The limit.
        most: Nanos,
    },
    /// The hit is too short to be made.
    #[error("{kind}: hits of {length} cannot be made exactly; use at least {SHORTEST}")]
    TooShort {
        /// The fault.
        kind: FaultKind,
        /// What was asked for.
        length: Nanos,
    },
    /// Hits would follow each other too closely.
    #[error(
        "{kind}: hits of {length} every {every} leave too little for others; use a period of at least {least}"
    )]
    TooOften {
        /// The fault.
        kind: FaultKind,
        /// What was asked for.
        length: Nanos,
        /// What was asked for.
        every: Nanos,
        /// The limit.
        least: Nanos,
    },
    /// There is no way to make so long a hit here.
    #[error(
        "{kind}: hits of {length} cannot be made here; use at most {most}, or allow longer ones with `sysctl -w vm.max_map_count=262144`"
    )]
    Unreachable {
        /// The fault.
        kind: FaultKind,
        /// What was asked for.
        length: Nanos,
        /// The limit, as just measured.
        most: Nanos,
    },
    /// There would be no hit.
    #[error(
        "{kind}: with a hit every {every} there is none in {duration}; go on for longer than {every}"
    )]
    TooBrief {
        /// The fault.
        kind: FaultKind,
        /// What was asked for.
        every: Nanos,
        /// What was asked for.
        duration: Nanos,
    },
    /// No such timer.
    #[error("tick: a timer of {every} is out of range; use {} to {}", TIMER_PERIODS[0], TIMER_PERIODS[1])]
    Timer {
        /// What was asked for.
        every: Nanos,
    },
    /// A machine cannot do that to itself.
    #[error(
        "steal: a machine cannot stop itself from inside; stop a test host from outside, with `testhost run --mode smp --stall 2s:20ms --truth hits.jsonl` (docs/reference/faults.md)"
    )]
    FromOutside,
    /// The kernel has no such quota.
    #[error(
        "throttle: the kernel takes periods from 1ms to 1s that leave at least 1ms for running; {length} every {every} is not one"
    )]
    Quota {
        /// What was asked for.
        length: Nanos,
        /// What was asked for.
        every: Nanos,
    },
}

impl Disturbance {
    /// Whether this is safe on this machine and makes sense. [`super::run`]
    /// checks it too.
    ///
    /// # Errors
    /// When it is not; the text has the limit.
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
        (LONGEST_IN_KERNEL, LARGEST_SHARE_IN_KERNEL)
    } else if kind.is_real_time() && cpus == 1 {
        (LONGEST_ALONE, LARGEST_SHARE)
    } else {
        (LONGEST, LARGEST_SHARE)
    };
    if length > most {
        return Err(DisturbRefused::TooLong {
            kind,
            length,
            cpus,
            most,
        });
    }
    if length < SHORTEST {
        return Err(DisturbRefused::TooShort { kind, length });
    }
    if kind == FaultKind::Throttle {
        let [shortest, longest] = QUOTA_PERIODS;
        let fits =
            (shortest..=longest).contains(&every) && every.saturating_sub(length) >= SMALLEST_QUOTA;
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
    fn a_length_that_could_hang_the_machine_is_refused_with_the_limit() {
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
    fn hits_that_leave_no_time_are_refused_with_the_shortest_period() {
        let err = check_for(&plan(FaultKind::Lock, 8, 9), 2).unwrap_err();

        assert!(err.to_string().ends_with("at least 10ms"), "{err}");
        assert_eq!(check_for(&plan(FaultKind::Lock, 8, 10), 2), Ok(()));
    }

    #[test]
    fn inside_the_kernel_hits_are_shorter_and_rarer() {
        for kind in [FaultKind::Softirq, FaultKind::Irq, FaultKind::IrqsOff] {
            let long = check_for(&plan(kind, 101, 10_000), 64).unwrap_err();
            let often = check_for(&plan(kind, 100, 199), 64).unwrap_err();

            assert!(long.to_string().ends_with("at most 100ms"), "{long}");
            assert!(often.to_string().ends_with("at least 200ms"), "{often}");
            assert_eq!(check_for(&plan(kind, 100, 200), 1), Ok(()), "for {kind}");
        }
    }

    #[test]
    fn a_plan_that_ends_before_its_first_hit_is_refused() {
        let err = check_for(&plan(FaultKind::Net, 7, 60_000), 2).unwrap_err();

        assert_eq!(
            err.to_string(),
            "net: with a hit every 60s there is none in 60s; go on for longer than 60s"
        );
        assert_eq!(check_for(&plan(FaultKind::Net, 7, 59_999), 2), Ok(()));
    }

    #[test]
    fn a_machine_does_not_stop_itself_and_is_told_who_can() {
        let err = check_for(&plan(FaultKind::Steal, 20, 500), 2).unwrap_err();

        assert!(err.to_string().contains("testhost run"), "{err}");
    }

    #[test]
    fn only_timers_with_sensible_periods_are_served_on_the_tick() {
        let err = check_for(&plan(FaultKind::Tick, 0, 0), 2).unwrap_err();

        assert_eq!(
            err.to_string(),
            "tick: a timer of 0ns is out of range; use 100us to 1s"
        );
        assert_eq!(check_for(&plan(FaultKind::Tick, 0, 1), 2), Ok(()));
    }

    #[test]
    fn no_length_is_refused() {
        assert!(check_for(&plan(FaultKind::Net, 0, 10), 2).is_err());
    }

    #[test]
    fn quotas_that_the_kernel_does_not_have_are_refused() {
        assert!(check_for(&plan(FaultKind::Throttle, 20, 2000), 2).is_err());
        assert!(check_for(&plan(FaultKind::Throttle, 20, 20), 2).is_err());
        assert_eq!(check_for(&plan(FaultKind::Throttle, 95, 100), 2), Ok(()));
    }
}
