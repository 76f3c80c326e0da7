//! Buffers of an application (OSDI'99 Table 1).

use schemars::JsonSchema;
use serde::Serialize;

use crate::InputError;
use crate::input::{between, not_negative, positive};

/// Minimum excess of a response over the tolerance, as a fraction of it, for a miss.
/// Rounding in sums of times must not decide.
const ROUNDING_FRACTION: f64 = 1e-12;

/// Treatment of buffers after an xrun (OSDI'99 5.1, footnote 6).
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MissPolicy {
    /// A late buffer is still filled, and later buffers wait for it.
    #[default]
    Late,
    /// A buffer is dropped at its deadline, and a dummy is played.
    Drop,
    /// All due buffers are discarded, and the stream restarts: the next buffer has all of its
    /// time.
    Reset,
}

impl MissPolicy {
    /// Returns whether this is the default.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        matches!(self, Self::Late)
    }
}

/// `buffers` buffers of `period` each, every one filled by `compute` of work, or a
/// periodic job with a deadline; all times in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buffering {
    period: f64,
    compute: f64,
    tolerance: f64,
    after: MissPolicy,
}

impl Buffering {
    /// Creates a stream with these buffers.
    ///
    /// # Errors
    /// With fewer than two buffers, a period that is not positive, or a compute time
    /// that is negative or not shorter than the period.
    pub fn new(buffers: u32, period: f64, compute: f64) -> Result<Self, InputError> {
        if buffers < 2 {
            return Err(InputError::OutOfRange {
                name: "number of buffers",
                value: f64::from(buffers),
                range: "2 or more",
            });
        }
        let tolerance = f64::from(buffers - 1) * positive("buffer period", period)?;
        Self::with_deadline(period, compute, tolerance)
    }

    /// Creates a stream with a job per `period`. A job misses if it ends more than
    /// `deadline` after its due time.
    ///
    /// # Errors
    /// With a period that is not positive, a compute time that is negative or not shorter than the
    /// period, or a deadline shorter than the compute time.
    pub fn with_deadline(period: f64, compute: f64, deadline: f64) -> Result<Self, InputError> {
        positive("buffer period", period)?;
        not_negative("compute time", compute)?;
        let range = "shorter than the buffer period";
        between("compute time", compute, (-1.0, period), range)?;
        if deadline < compute || !deadline.is_finite() {
            return Err(InputError::OutOfRange {
                name: "deadline",
                value: deadline,
                range: "at least the compute time",
            });
        }
        Ok(Self {
            period,
            compute,
            tolerance: deadline,
            after: MissPolicy::Late,
        })
    }

    /// Returns the same stream with this handling of misses.
    #[must_use]
    pub const fn after_miss(self, after: MissPolicy) -> Self {
        Self { after, ..self }
    }

    pub(super) const fn after(self) -> MissPolicy {
        self.after
    }

    /// Returns the length of one buffer, the period of the jobs.
    pub const fn period(self) -> f64 {
        self.period
    }

    /// Returns the compute time of one job.
    pub const fn compute(self) -> f64 {
        self.compute
    }

    /// Returns the latency tolerance, (n - 1) t or the deadline: a job that responds
    /// later misses.
    pub const fn tolerance(self) -> f64 {
        self.tolerance
    }

    /// Returns whether a job that takes `response` from its due start misses.
    pub(super) fn is_missed(self, response: f64) -> bool {
        response > self.tolerance() + self.rounding()
    }

    /// Returns the maximum excess of a response over the tolerance that is not a miss.
    pub(super) fn rounding(self) -> f64 {
        self.tolerance() * ROUNDING_FRACTION
    }

    /// Returns the slack, tolerance - c: a start later than this makes a job miss.
    pub fn slack(self) -> f64 {
        self.tolerance() - self.compute
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_buffer_or_too_much_work_is_refused() {
        assert_eq!(
            Buffering::new(1, 6.0, 1.0).unwrap_err().to_string(),
            "number of buffers is 1; it must be 2 or more"
        );
        assert_eq!(
            Buffering::new(2, 6.0, 6.0).unwrap_err().to_string(),
            "compute time is 6; it must be shorter than the buffer period"
        );
        assert!(Buffering::new(2, f64::NAN, 1.0).is_err());
    }

    #[test]
    fn deadline_is_a_tolerance_of_any_length() {
        let buffering = Buffering::with_deadline(6.0, 1.0, 2.5).unwrap();

        assert_eq!((buffering.tolerance(), buffering.slack()), (2.5, 1.5));
        assert_eq!(
            Buffering::with_deadline(6.0, 1.0, 0.5)
                .unwrap_err()
                .to_string(),
            "deadline is 0.5; it must be at least the compute time"
        );
        let buffers = Buffering::new(3, 6.0, 1.0).unwrap();
        assert_eq!(Buffering::with_deadline(6.0, 1.0, 12.0), Ok(buffers));
    }
}
