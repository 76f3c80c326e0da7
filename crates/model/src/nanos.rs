//! Time in whole nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Mul};
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::whole;

/// Duration in whole nanoseconds, never negative.
///
/// A plain `u64` does not show whether it counts ns, us or clock ticks, and it adds to
/// anything. This type has a unit and adds only to itself. The range is about 584
/// years. Readings of `CLOCK_MONOTONIC` are durations since that clock's zero.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Deserialize,
    Eq,
    Hash,
    JsonSchema,
    Ord,
    PartialEq,
    PartialOrd,
    Serialize,
)]
#[repr(transparent)]
#[serde(transparent)]
pub struct Nanos(u64);

impl Nanos {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// Longest representable time.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Returns `us` microseconds; saturates after 584 years.
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// Returns `ms` milliseconds; saturates after 584 years.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// Returns `s` seconds; saturates after 584 years.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// Returns whether the duration is zero.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// Returns the number of nanoseconds.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// Returns the number of nanoseconds, for mathematics; exact up to 104 days.
    pub const fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// Returns the whole nanoseconds in `ns`: zero for negative values and NaN, and the
    /// maximum for values beyond the range.
    pub const fn from_f64(ns: f64) -> Self {
        Self(whole(ns))
    }

    /// Returns the number of seconds, rounded to the precision of `f64`.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time from `start` to `end`, both read from the same clock.
    ///
    /// Returns `None` if `end` is earlier. That happens: two CPUs can read a clock in
    /// an order other than the order of the events. The caller counts it; a wrapped or clamped
    /// value would corrupt a maximum.
    pub const fn between(start: Self, end: Self) -> Option<Self> {
        match end.0.checked_sub(start.0) {
            Some(ns) => Some(Self(ns)),
            None => None,
        }
    }

    /// Returns the share of this time that `part` is of `whole`; 0 if `whole` is 0.
    pub fn share(self, part: Self, whole: Self) -> Self {
        let scaled = u128::from(self.0) * u128::from(part.0);
        let scaled = scaled.checked_div(u128::from(whole.0)).unwrap_or(0);
        Self(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// Returns this time minus `other`, or zero if `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<u64> for Nanos {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl From<Nanos> for Duration {
    fn from(time: Nanos) -> Self {
        Self::from_nanos(time.0)
    }
}

impl From<Duration> for Nanos {
    fn from(time: Duration) -> Self {
        Self(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Formats the shortest exact form: `1ms`, `250us`, `30s`, `1500ns`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, ns) in [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)] {
            if self.0 != 0 && self.0.is_multiple_of(ns) {
                return write!(f, "{}{unit}", self.0 / ns);
            }
        }
        write!(f, "{}ns", self.0)
    }
}

/// Reason why a text is not a duration.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseNanosError {
    /// There is a number without a unit, and laggard does not guess one.
    #[error("`{0}` has no unit; write it as `{0}us`, `{0}ms` or `{0}s`")]
    NoUnit(String),
    /// The unit is unknown.
    #[error("`{0}` has an unknown unit `{1}`; use ns, us, ms, s, min or h")]
    UnknownUnit(String, String),
    /// The part before the unit is not a number.
    #[error("`{0}` is not a length of time; write a number and a unit, as in `1ms` or `1.5s`")]
    NotANumber(String),
    /// The number is negative, not finite, or longer than 584 years.
    #[error("`{0}` is out of range; use a time from 0ns to 500 years")]
    OutOfRange(String),
}

impl FromStr for Nanos {
    type Err = ParseNanosError;

    fn from_str(text: &str) -> Result<Self, ParseNanosError> {
        let text = text.trim();
        let unit_at = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-' || c == '+'))
            .unwrap_or(text.len());
        let (number, unit) = (&text[..unit_at], text[unit_at..].trim());
        let factor = match unit {
            "ns" => 1_u64,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "min" | "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" if number.is_empty() => return Err(ParseNanosError::NotANumber(text.into())),
            "" => return Err(ParseNanosError::NoUnit(text.into())),
            _ if number.is_empty() => return Err(ParseNanosError::NotANumber(text.into())),
            other => return Err(ParseNanosError::UnknownUnit(text.into(), other.into())),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole
                .checked_mul(factor)
                .map(Self)
                .ok_or_else(|| ParseNanosError::OutOfRange(text.into()));
        }
        let value: f64 = number
            .parse()
            .map_err(|_| ParseNanosError::NotANumber(text.into()))?;
        let ns = (value * factor as f64).round();
        if !(0.0..1.8e19).contains(&ns) {
            return Err(ParseNanosError::OutOfRange(text.into()));
        }
        Ok(Self::from_f64(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, proptest};

    #[test]
    fn invalid_number_becomes_the_nearest_time() {
        for (ns, whole) in [
            (1_999.9, 1_999),
            (-1.0, 0),
            (f64::NAN, 0),
            (f64::INFINITY, u64::MAX),
        ] {
            assert_eq!(Nanos::from_f64(ns), Nanos::from_ns(whole), "for {ns}");
        }
    }

    #[test]
    fn between_is_none_if_the_clock_runs_backwards() {
        let (early, late) = (Nanos::from_ns(5), Nanos::from_ns(8));

        assert_eq!(Nanos::between(early, late), Some(Nanos::from_ns(3)));
        assert_eq!(Nanos::between(late, early), None);
    }

    #[test]
    fn parse_refuses_a_number_without_a_unit_with_the_remedy() {
        let err = "250".parse::<Nanos>().unwrap_err();

        assert_eq!(
            err.to_string(),
            "`250` has no unit; write it as `250us`, `250ms` or `250s`"
        );
    }

    #[test]
    fn parse_accepts_units_and_fractions() {
        for (text, ns) in [
            ("1ms", 1_000_000),
            ("1.5s", 1_500_000_000),
            ("250us", 250_000),
            ("250 µs", 250_000),
            ("7ns", 7),
            ("2h", 7_200_000_000_000),
            ("0.5us", 500),
        ] {
            assert_eq!(text.parse(), Ok(Nanos::from_ns(ns)), "for {text}");
        }
    }

    #[test]
    fn parse_refuses_other_text() {
        for text in [
            "",
            "ms",
            "1.2.3ms",
            "-5ms",
            "9e9s",
            "1parsec",
            "99999999999h",
        ] {
            assert!(text.parse::<Nanos>().is_err(), "for {text:?}");
        }
    }

    proptest! {
        #[test]
        fn display_parses_back_to_the_same_time(ns in any::<u64>()) {
            let time = Nanos::from_ns(ns);
            assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}
