//! What a cause is worth: the level of latency with it and without it.

use laggard_analyze::InputError;
use laggard_analyze::causes::Signature;
use laggard_model::name::line_name;
use laggard_model::text::{Unit, mean_time};
use laggard_model::{Route, Service, UsagePattern};
use schemars::JsonSchema;
use serde::Serialize;

use super::words::{WORTH_A_SENTENCE, capital};
use super::{CauseRow, WhyReport};
use crate::causes::KnownCauses;
use crate::forecast::{ExplainedPeaks, Horizon, Level, Outcome};
use crate::load::Load;

/// So many causes are weighed: those with most time.
const MOST: usize = 3;

/// The return level of a service with a cause, and had it taken no time.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Worth {
    /// The service that the cause took most time from.
    pub service: Service,
    /// How it is reached.
    pub route: Route,
    /// The horizon of the levels.
    pub horizon: Horizon,
    /// As it is.
    pub with: Outcome,
    /// Had the cause taken no time.
    pub without: Outcome,
}

/// Adds to a report what its leading causes are worth, by the peaks of `seen`
/// and their causes `known`, which are of the report's recording.
///
/// # Errors
/// When the usage pattern's numbers are not positive.
pub fn weigh(
    report: &mut WhyReport,
    seen: &Load,
    known: &KnownCauses,
    usage: UsagePattern,
) -> Result<(), InputError> {
    let mut sentences = Vec::new();
    let wanted = report.service;
    let leading = report
        .causes
        .iter_mut()
        .filter(|row| row.share >= WORTH_A_SENTENCE)
        .take(MOST);
    for row in leading {
        let signature = Signature {
            class: row.class,
            who: row.who.clone(),
        };
        let Some(cause) = known.number_of(&signature) else {
            continue;
        };
        let Some(line) = known.most_hit(cause, wanted) else {
            continue;
        };
        let tails = ExplainedPeaks::new(seen, known, usage, &Horizon::ALL, line)?;
        for horizon in Horizon::ALL {
            row.worth.push(Worth {
                service: line.0,
                route: line.1,
                horizon,
                with: tails.level(horizon),
                without: tails.level_without(cause, horizon)?,
            });
        }
        sentences.push(sentence(row));
    }
    report.sentences.extend(sentences);
    Ok(())
}

/// The longest horizon of which a level can be told.
fn sentence(row: &CauseRow) -> String {
    let cause = row.name();
    let told = row.worth.iter().rev().find_map(|one| {
        let level = one.with.level()?;
        Some((one, level))
    });
    let Some((worth, with)) = told else {
        return refused(row, &cause);
    };
    let level = format!(
        "the {} return level of {}",
        adjective(worth.horizon),
        line_name(worth.service, worth.route)
    );
    let with_it = write(with);
    let cause = capital(&cause);
    match without(worth) {
        Ok((most, without)) if most < with.low_ns => {
            format!("{cause}: without it {level} would fall from {with_it} to {without}.")
        }
        Ok((_, without)) => format!(
            "{cause}: that {level} would fall without it is not shown: {with_it} with it, {without} without."
        ),
        Err(why) => {
            format!(
                "{cause}: {level} is {with_it}; what it would be without it cannot be told{why}."
            )
        }
    }
}

/// The most that the level would be without the cause, ns, and the level in
/// words; or why neither can be told.
fn without(worth: &Worth) -> Result<(f64, String), String> {
    if let Some(level) = worth.without.level() {
        return Ok((level.high_ns, write(level)));
    }
    match &worth.without {
        Outcome::Refused(refused) => match refused.at_most_ns {
            Some(most) => Ok((most, format!("at most {}", Unit::Auto.write(most)))),
            None => Err(format!(" ({})", refused.reasons_in_words())),
        },
        Outcome::OrderStatistics(_) | Outcome::PeaksOverThreshold(_) | Outcome::ByCause(_) => {
            Err(String::new())
        }
    }
}

fn refused(row: &CauseRow, cause: &str) -> String {
    let hour = row.worth.iter().find_map(|one| match &one.with {
        Outcome::Refused(refused) => Some((one, refused)),
        Outcome::OrderStatistics(_) | Outcome::PeaksOverThreshold(_) | Outcome::ByCause(_) => None,
    });
    let Some((worth, refused)) = hour else {
        return format!(
            "{}: what it is worth in the long run cannot be told.",
            capital(cause)
        );
    };
    format!(
        "{}: what it is worth in the long run cannot be told. No level of {} for the {}: {}. \
         Recording {} in all takes no model.",
        capital(cause),
        line_name(worth.service, worth.route),
        worth.horizon.name(),
        refused.reasons_in_words(),
        mean_time(refused.record_without_model_ns)
    )
}

const fn adjective(horizon: Horizon) -> &'static str {
    match horizon {
        Horizon::Hour => "hourly",
        Horizon::Day => "daily",
        Horizon::Week => "weekly",
    }
}

/// A level with its 95 % interval.
fn write(level: &Level) -> String {
    let time = |ns| Unit::Auto.write(ns);
    format!(
        "{} [{}, {}]",
        time(level.level_ns),
        time(level.low_ns),
        time(level.high_ns)
    )
}

#[cfg(test)]
mod tests {
    use laggard_analyze::forecast::Reason;
    use laggard_model::{CauseClass, Nanos};

    use super::super::{RankedCause, Ranking, row};
    use super::*;
    use crate::forecast::{Against, Refused};

    fn level(level_ns: f64, low_ns: f64, high_ns: f64) -> Outcome {
        Outcome::OrderStatistics(Level {
            level_ns,
            low_ns,
            high_ns,
            doubts: Vec::new(),
            doubts_without_figures: Vec::new(),
        })
    }

    fn refused(at_most_ns: Option<f64>) -> Outcome {
        Outcome::Refused(Refused {
            reasons: vec![Against::Peaks(Reason::Periodic { share: 0.5 })],
            reasons_without_figures: Vec::new(),
            at_most_ns,
            record_for_model_ns: None,
            record_without_model_ns: 1e12,
        })
    }

    /// What is said of a hog with which the hourly level is 9 ms [8 ms, 10 ms].
    fn said(without: Outcome) -> String {
        let cause = RankedCause {
            signature: Signature {
                class: CauseClass::HigherPriority,
                who: Some("hog".into()),
            },
            episodes: 1,
            first_in: 1,
            wakeups: 1,
            total: Nanos::ZERO,
            largest: Nanos::ZERO,
            largest_episode: 1,
            is_at_least: false,
            cpus: Vec::new(),
            largest_without: Nanos::ZERO,
            met: Vec::new(),
        };
        let all = Ranking {
            causes: Vec::new(),
            episodes: 1,
            wakeups: 1,
            total: Nanos::ZERO,
            largest: Nanos::ZERO,
            is_at_least: false,
        };
        let worth = Worth {
            service: Service::Fifo(90),
            route: Route::Direct,
            horizon: Horizon::Hour,
            with: level(9e6, 8e6, 1e7),
            without,
        };
        sentence(&CauseRow {
            worth: vec![worth],
            ..row(&cause, &all, Nanos::ZERO, Nanos::ZERO)
        })
    }

    #[test]
    fn that_a_level_would_fall_is_said_only_where_the_intervals_show_it() {
        for (without, told) in [
            (
                level(1e6, 9e5, 2e6),
                "without it the hourly return level of fifo:90 would fall from 9.00 ms [8.00 ms, 10.0 ms] to 1.00 ms [900 us, 2.00 ms].",
            ),
            (
                refused(Some(5e6)),
                "without it the hourly return level of fifo:90 would fall from 9.00 ms [8.00 ms, 10.0 ms] to at most 5.00 ms.",
            ),
            // Less as a point only.
            (
                level(7e6, 5e6, 9e6),
                "that the hourly return level of fifo:90 would fall without it is not shown: 9.00 ms [8.00 ms, 10.0 ms] with it, 7.00 ms [5.00 ms, 9.00 ms] without.",
            ),
            (
                refused(Some(2e7)),
                "that the hourly return level of fifo:90 would fall without it is not shown: 9.00 ms [8.00 ms, 10.0 ms] with it, at most 20.0 ms without.",
            ),
            (
                refused(None),
                "the hourly return level of fifo:90 is 9.00 ms [8.00 ms, 10.0 ms]; what it would be without it cannot be told (REASONS).",
            ),
        ] {
            let why = match &without {
                Outcome::Refused(refused) => refused.reasons_in_words(),
                _ => String::new(),
            };
            let told = told.replace("REASONS", &why);
            assert_eq!(
                said(without),
                format!("Higher-priority thread: hog: {told}")
            );
        }
    }
}
