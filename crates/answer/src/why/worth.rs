//! What a cause is worth: the level of latency with it and without it.

use laggard_analyze::InputError;
use laggard_analyze::causes::Signature;
use laggard_model::name;
use laggard_model::name::line_name;
use laggard_model::text::{Unit, mean_time};
use laggard_model::{Route, Service, UsagePattern};
use schemars::JsonSchema;
use serde::Serialize;

use super::{CauseRow, WORTH_A_SENTENCE, WhyReport, capital};
use crate::causes::KnownCauses;
use crate::forecast::{Horizon, Level, Outcome, Tails};
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
    /// How far.
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
        let tails = Tails::new(seen, known, usage, &Horizon::ALL, line)?;
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
    let cause = name::cause_name(row.class, row.who.as_deref());
    let told = row.worth.iter().rev().find_map(|one| {
        let level = one.with.level()?;
        Some((one, level))
    });
    let Some((worth, with)) = told else {
        return refused(row, &cause);
    };
    let verb = match worth.without.level() {
        Some(without) if without.level_ns >= with.level_ns => "would not fall: from",
        _ => "would fall from",
    };
    format!(
        "{}: without it the {} return level of {} {verb} {} to {}.",
        capital(&cause),
        adjective(worth.horizon),
        line_name(worth.service, worth.route),
        write(with),
        match (&worth.without, worth.without.level()) {
            (_, Some(without)) => write(without),
            (Outcome::Refused(refused), None) => match refused.at_most_ns {
                Some(most) => format!("at most {}", Unit::Auto.write(most)),
                None => format!("one that cannot be told ({})", refused.reasons_in_words()),
            },
            (_, None) => "one that cannot be told".into(),
        }
    )
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

/// A level with its interval.
fn write(level: &Level) -> String {
    let time = |ns| Unit::Auto.write(ns);
    format!(
        "{} [{}, {}]",
        time(level.level_ns),
        time(level.low_ns),
        time(level.high_ns)
    )
}
