//! An application's buffers (OSDI'99 Table 1).

use crate::InputError;
use crate::input::{between, not_negative, positive};

/// How much later than the tolerance, as a share of it, a response must be to
/// miss: rounding in sums of times must not decide.
const ROUNDING: f64 = 1e-12;

/// What becomes of the buffers after a miss: what does not end in time need not
/// be for nothing, or can be given up (OSDI'99 5.1, footnote 6).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AfterMiss {
    /// A late job is done to its end, and those behind it wait for that.
    #[default]
    Late,
    /// A job is given up when its time is over, and the next one begins: something
    /// else is played in its place.
    Drop,
    /// When the late job has ended, all that was due meanwhile is thrown away, and
    /// the stream begins anew: the next job is due then, with all of its time.
    Reset,
}

/// `buffers` buffers of `period` each, every one filled by `compute` of work,
/// or a periodic job with a deadline; all times in ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buffering {
    period: f64,
    compute: f64,
    tolerance: f64,
    after: AfterMiss,
}

impl Buffering {
    /// A stream with these buffers.
    ///
    /// # Errors
    /// With fewer than two buffers, a period that is not positive, or a
    /// compute time that is negative or as long as the period.
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

    /// A stream of jobs, one each `period`, that miss when they end more than
    /// `deadline` after they were due.
    ///
    /// # Errors
    /// With a period that is not positive, a compute time that is negative or
    /// as long as the period, or a deadline shorter than the compute time.
    pub fn with_deadline(period: f64, compute: f64, deadline: f64) -> Result<Self, InputError> {
        positive("buffer period", period)?;
        not_negative("compute time", compute)?;
        let range = "shorter than the buffer period";
        between("compute time", compute, (-1.0, period), range)?;
        if deadline < compute || !deadline.is_finite() {
            return Err(InputError::OutOfRange {
                name: "deadline",
                value: deadline,
                range: "as long as the compute time or longer",
            });
        }
        Ok(Self {
            period,
            compute,
            tolerance: deadline,
            after: AfterMiss::Late,
        })
    }

    /// The same stream that goes on so after a miss.
    #[must_use]
    pub const fn after_miss(self, after: AfterMiss) -> Self {
        Self { after, ..self }
    }

    pub(super) const fn after(self) -> AfterMiss {
        self.after
    }

    /// The length of one buffer: a job starts every so often.
    pub const fn period(self) -> f64 {
        self.period
    }

    /// The work of one job.
    pub const fn compute(self) -> f64 {
        self.compute
    }

    /// The latency tolerance, (n - 1) t or the deadline: a job that responds
    /// later misses.
    pub const fn tolerance(self) -> f64 {
        self.tolerance
    }

    /// Whether a job that takes `response` from its due start misses.
    pub(super) fn is_missed(self, response: f64) -> bool {
        response > self.tolerance() + self.rounding()
    }

    /// How much longer than the tolerance a response may be that is no miss.
    pub(super) fn rounding(self) -> f64 {
        self.tolerance() * ROUNDING
    }

    /// The slack, tolerance - c: a start later than this makes a job miss.
    pub fn slack(self) -> f64 {
        self.tolerance() - self.compute
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_buffer_or_too_much_work_is_refused() {
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
    fn a_deadline_is_a_tolerance_of_any_length() {
        let one = Buffering::with_deadline(6.0, 1.0, 2.5).unwrap();

        assert_eq!((one.tolerance(), one.slack()), (2.5, 1.5));
        assert_eq!(
            Buffering::with_deadline(6.0, 1.0, 0.5)
                .unwrap_err()
                .to_string(),
            "deadline is 0.5; it must be as long as the compute time or longer"
        );
        let buffers = Buffering::new(3, 6.0, 1.0).unwrap();
        assert_eq!(Buffering::with_deadline(6.0, 1.0, 12.0), Ok(buffers));
    }
}
