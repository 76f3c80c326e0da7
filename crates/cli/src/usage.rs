//! Usage patterns by name, and as text.

use std::str::FromStr;

use laggard_model::UsagePattern;

/// Names, hours a day, days a week, compression. OSDI'99: section 3.1 gives
/// the compression (10, 5, 1, 4), section 4.3 days of 6-8 h and weeks of 5
/// days for office and workstation, 3-4 h and 7 days for games and the web.
const NAMED: [(&str, f64, f64, f64); 5] = [
    ("always", 24.0, 7.0, 1.0),
    ("office", 7.0, 5.0, 10.0),
    ("workstation", 7.0, 5.0, 5.0),
    ("game", 3.5, 7.0, 1.0),
    ("web", 3.5, 7.0, 4.0),
];

/// A machine that is in use all the time, at the pace of the load.
pub(crate) const ALWAYS: UsagePattern = UsagePattern {
    compression: 1.0,
    hours_per_day: 24.0,
    days_per_week: 7.0,
};

/// The smallest of each number: less is a mistake in writing, and a horizon
/// in hours of use would be next to nothing of a recording.
const LEAST: f64 = 0.01;

/// A usage pattern as a user writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Usage(pub(crate) UsagePattern);

impl FromStr for Usage {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = NAMED.iter().find(|one| one.0 == text);
        let (hours_per_day, days_per_week, compression) = match named {
            Some(&(_, hours, days, compression)) => (hours, days, compression),
            None => numbers(text).ok_or(
                "use always, office, workstation, game, web, or three numbers: hours a day, days a week, compression, as in `7,5,10`",
            )?,
        };
        let pattern = UsagePattern {
            compression,
            hours_per_day,
            days_per_week,
        };
        check(pattern).map(Self)
    }
}

/// The pattern, if its numbers can be.
pub(crate) fn check(pattern: UsagePattern) -> Result<UsagePattern, String> {
    let within = |value: f64, most: f64| (LEAST..=most).contains(&value);
    if !within(pattern.hours_per_day, 24.0) {
        return Err("a day has 0.01 to 24 hours of use".into());
    }
    if !within(pattern.days_per_week, 7.0) {
        return Err("a week has 0.01 to 7 days of use".into());
    }
    if !within(pattern.compression, 1_000.0) {
        return Err(
            "the compression is 0.01 to 1000: how many hours of use a measured hour stands for"
                .into(),
        );
    }
    Ok(pattern)
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
    fn names_and_numbers_are_the_same_pattern() {
        assert_eq!("office".parse::<Usage>(), "7,5,10".parse());
        assert_eq!("always".parse(), Ok(Usage(ALWAYS)));
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
            assert!(text.parse::<Usage>().is_err(), "for {text}");
        }
    }
}
