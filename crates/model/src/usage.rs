//! Usage patterns: the relation of measured time to a user's hours.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Usage of a load by a person, and how much faster the load drives the machine
/// (OSDI'99 3.1, 4.3).
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct UsagePattern {
    /// Hours of a person's use per measured hour. An assumption, not a measurement.
    pub compression: f64,
    /// Hours of use per day, 0 to 24.
    pub hours_per_day: f64,
    /// Days of use per week, 0 to 7.
    pub days_per_week: f64,
}

/// Names, hours per day, days per week, compression. OSDI'99: section 3.1 gives the
/// compression (10, 5, 1, 4), section 4.3 days of 6-8 h and weeks of 5 days for office
/// and workstation, 3-4 h and 7 days for games and the web.
const NAMED: [(&str, f64, f64, f64); 5] = [
    ("always", 24.0, 7.0, 1.0),
    ("office", 7.0, 5.0, 10.0),
    ("workstation", 7.0, 5.0, 5.0),
    ("game", 3.5, 7.0, 1.0),
    ("web", 3.5, 7.0, 4.0),
];

/// Minimum of each number: a lower one is a typing error, and a horizon in hours of use
/// would be a negligible part of a recording.
const LEAST: f64 = 0.01;

impl UsagePattern {
    /// Machine in permanent use, at the pace of the load.
    pub const ALWAYS: Self = Self {
        compression: 1.0,
        hours_per_day: 24.0,
        days_per_week: 7.0,
    };

    /// Returns the pattern if its numbers are valid.
    fn checked(self) -> Result<Self, ParseUsageError> {
        let within = |value: f64, most: f64| (LEAST..=most).contains(&value);
        if !within(self.hours_per_day, 24.0) {
            return Err(ParseUsageError::Day);
        }
        if !within(self.days_per_week, 7.0) {
            return Err(ParseUsageError::Week);
        }
        if !within(self.compression, 1_000.0) {
            return Err(ParseUsageError::Compression);
        }
        Ok(self)
    }
}

/// Reason why a text is not a usage pattern.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseUsageError {
    /// Neither a name nor three numbers.
    #[error(
        "use always, office, workstation, game, web, or three numbers: hours a day, days a week, compression, as in `7,5,10`"
    )]
    Unknown,
    /// Hours per day out of range.
    #[error("a day has 0.01 to 24 hours of use")]
    Day,
    /// Days per week out of range.
    #[error("a week has 0.01 to 7 days of use")]
    Week,
    /// Compression out of range.
    #[error("the compression is 0.01 to 1000: how many hours of use a measured hour stands for")]
    Compression,
}

/// Parses a name, or hours per day, days per week and compression: `office`, `7,5,10`.
impl FromStr for UsagePattern {
    type Err = ParseUsageError;

    fn from_str(text: &str) -> Result<Self, ParseUsageError> {
        let named = NAMED.iter().find(|pattern| pattern.0 == text);
        let (hours_per_day, days_per_week, compression) = match named {
            Some(&(_, hours, days, compression)) => (hours, days, compression),
            None => numbers(text).ok_or(ParseUsageError::Unknown)?,
        };
        let pattern = Self {
            compression,
            hours_per_day,
            days_per_week,
        };
        pattern.checked()
    }
}

fn numbers(text: &str) -> Option<(f64, f64, f64)> {
    let parts: Vec<f64> = text
        .split(',')
        .map(|part| part.trim().parse().ok())
        .collect::<Option<_>>()?;
    match parts[..] {
        [hours, days, compression] => Some((hours, days, compression)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_give_the_same_pattern() {
        assert_eq!("office".parse::<UsagePattern>(), "7,5,10".parse());
        assert_eq!("always".parse(), Ok(UsagePattern::ALWAYS));
    }

    #[test]
    fn impossible_patterns_are_refused() {
        for text in [
            "25,5,1",
            "8,8,1",
            "8,5,0",
            "8,5",
            "8,5,nan",
            "tuesday",
            "24,7,1e-300",
            "1e-9,7,1",
            "24,0.001,1",
        ] {
            assert!(text.parse::<UsagePattern>().is_err(), "for {text}");
        }
    }
}
