//! Goal that a user states: a maximum number of failures per time.

use std::str::FromStr;

use laggard_analyze::InputError;
use laggard_analyze::qos::{SeenFailures, odds_of_verdict};
use laggard_model::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

use super::{CONFIDENCE, Fitness, NotAGoal, ServiceOutlook};

/// Minimum mean time to failure of a goal.
const MIN_MEAN_TIME: Nanos = Nanos::from_ms(1);

/// Goal: at most `failures` per `per_ns`.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct XrunGoal {
    pub failures: u32,
    pub per_ns: Nanos,
    /// Sessions without a failure, if the goal was stated as a share of them. Then `per_ns` is
    /// the mean time to failure. Failures at random times then leave that share of the sessions
    /// without a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<SessionGoal>,
}

/// Goal for sessions of a given length.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
pub struct SessionGoal {
    /// Number of sessions without a failure.
    pub without: u32,
    /// Number of all sessions.
    pub of: u32,
    pub length_ns: Nanos,
}

impl SessionGoal {
    /// Parses `9 of 10 sessions of 2h`.
    fn parse(text: &str) -> Option<Self> {
        let (counts, length) = text.split_once(" sessions of ")?;
        let (without, total) = counts.split_once(" of ")?;
        let goal = Self {
            without: without.trim().parse().ok()?,
            of: total.trim().parse().ok()?,
            length_ns: parse_period(length.trim())?,
        };
        (goal.without > 0 && goal.without < goal.of).then_some(goal)
    }

    /// Returns the mean time to failure, ns: the probability of a session of this length without a
    /// failure is exp(-length / mean time).
    fn mean_time(self) -> f64 {
        let share = f64::from(self.without) / f64::from(self.of);
        self.length_ns.as_f64() / -share.ln()
    }
}

impl FromStr for XrunGoal {
    type Err = NotAGoal;

    fn from_str(text: &str) -> Result<Self, NotAGoal> {
        let refused = || NotAGoal(text.to_owned());
        if let Some(sessions) = SessionGoal::parse(text) {
            let per_ns = Nanos::from_f64(sessions.mean_time());
            let sessions = Some(sessions);
            return (per_ns >= MIN_MEAN_TIME)
                .then_some(Self {
                    failures: 1,
                    per_ns,
                    sessions,
                })
                .ok_or_else(refused);
        }
        let (failures, per) = text.split_once(" per ").ok_or_else(refused)?;
        let failures: u32 = failures.trim().parse().map_err(|_| refused())?;
        let per_ns = parse_period(per.trim()).ok_or_else(refused)?;
        let goal = Self {
            failures,
            per_ns,
            sessions: None,
        };
        if failures == 0 || goal.mean_time() < MIN_MEAN_TIME.as_f64() {
            return Err(refused());
        }
        Ok(goal)
    }
}

/// Units of a goal that are words or longer than the units of a recording.
const UNITS: [(&[&str], Nanos); 5] = [
    (&["week", "weeks", "w"], Nanos::from_secs(7 * 86_400)),
    (&["day", "days", "d"], Nanos::from_secs(86_400)),
    (&["hour", "hours"], Nanos::from_secs(3_600)),
    (&["minute", "minutes"], Nanos::from_secs(60)),
    (&["second", "seconds", "sec"], Nanos::from_secs(1)),
];

/// Parses the time of a goal: `8h`, `2 days`, or a unit without a number, which is one of it.
fn parse_period(text: &str) -> Option<Nanos> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = (&text[..unit_at], text[unit_at..].trim());
    let number: u64 = if number.is_empty() {
        1
    } else {
        number.parse().ok()?
    };
    let unit_length = UNITS.iter().find(|(names, _)| names.contains(&unit));
    match unit_length {
        Some((_, length)) => Some(Nanos::from_ns(length.ns().checked_mul(number)?)),
        None if unit_at == 0 => [&*number.to_string(), unit].concat().parse().ok(),
        None => text.parse().ok(),
    }
}

/// Probability that a recording of this length decides about the goal.
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Serialize)]
pub struct VerdictOdds {
    /// Length of the recording, ns.
    pub length_ns: f64,
    /// Probability at a steady rate of failures.
    pub odds: f64,
}

/// Verdict about a stated goal under one load, as the service that would run the
/// application.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct GoalOutlook {
    pub goal: XrunGoal,
    /// Whether the application meets it.
    pub verdict: Fitness,
    /// Odds of a verdict with another recording of the same length, and of two, four and
    /// eight times the length; empty if there is a verdict.
    pub odds: Vec<VerdictOdds>,
}

impl XrunGoal {
    /// Returns the mean time to failure that meets the goal, ns.
    pub fn mean_time(self) -> f64 {
        self.per_ns.as_f64() / f64::from(self.failures)
    }

    /// Compares the outlook of `service` with the goal.
    ///
    /// # Errors
    /// If a figure of the outlook is out of its range.
    pub fn assess(self, service: &ServiceOutlook) -> Result<GoalOutlook, InputError> {
        let (by_rate, ..) = service.against(self.mean_time());
        let verdict = match (by_rate, service.waited_ns) {
            // The stall that had not ended can be longer than any other.
            (Fitness::Fit, Some(_)) => Fitness::Unknown,
            (verdict, _) => verdict,
        };
        let (figures, cpus) = service.judged();
        let span = figures.exposure_ns / cpus.max(1) as f64;
        let is_open = by_rate == Fitness::Unknown && !service.resolution.is_too_coarse();
        let clusters = figures.clusters.filter(|_| is_open);
        let odds = clusters.map_or_else(Vec::new, |clusters| {
            let failures = figures.failures.unwrap_or_default() / cpus.max(1) as f64;
            let each = if clusters > 0.0 && failures > 0.0 {
                failures / clusters
            } else {
                1.0
            };
            let seen_failures = SeenFailures {
                clusters,
                each,
                span,
            };
            [1.0, 2.0, 4.0, 8.0]
                .map(|times| (seen_failures, times * span))
                .to_vec()
        });
        // The number of failures is whole, so the odds of a length can be below the odds of a
        // shorter one. A longer recording includes a shorter one.
        let mut limit = 0.0_f64;
        let odds = odds
            .into_iter()
            .map(|(seen_failures, length_ns)| {
                let odds = odds_of_verdict(seen_failures, length_ns, self.mean_time(), CONFIDENCE)?;
                limit = limit.max(odds);
                Ok(VerdictOdds {
                    length_ns,
                    odds: limit,
                })
            })
            .collect::<Result<_, InputError>>()?;
        Ok(GoalOutlook {
            goal: self,
            verdict,
            odds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goal_has_a_number_and_a_time() {
        let goal: XrunGoal = "2 per 8h".parse().unwrap();

        assert_eq!(goal.mean_time(), 4.0 * 3.6e12);
        for (text, hours) in [
            ("1 per week", 168.0),
            ("1 per day", 24.0),
            ("1 per h", 1.0),
            ("3 per hour", 1.0 / 3.0),
            ("1 per 2 weeks", 336.0),
            ("1 per 1.5h", 1.5),
            ("1 per minute", 1.0 / 60.0),
        ] {
            let goal: XrunGoal = text.parse().unwrap();
            assert_eq!(goal.mean_time() / 3.6e12, hours, "{text}");
        }
        let goal: XrunGoal = "9 of 10 sessions of 2h".parse().unwrap();
        // 2 / -ln .9
        assert!((goal.mean_time() / 3.6e12 - 18.982_443).abs() < 1e-6);
        for text in [
            "10 of 10 sessions of 2h",
            "0 of 10 sessions of 2h",
            "9 of 10 sessions of 0s",
            "9 of 10 sessions",
            "-1 of 10 sessions of 2h",
            "",
            "1",
            "per 8h",
            "0 per 8h",
            "1 per 0s",
            "2000 per 1s",
            "1 per x",
            "1 per",
            "1 per 3",
            "1 per -1h",
            "1 per 99999999999 weeks",
            "-1 per 8h",
        ] {
            assert!(text.parse::<XrunGoal>().is_err(), "{text}");
        }
    }
}
