//! A comparison in plain words.

use laggard_model::name::line_name;
use laggard_model::text::{Unit, count, rate, rough_time};

use super::rows::RowsCompared;
use super::{
    Change, CompareReport, LEAST_RECORDINGS, LateCount, LevelComparison, ServiceComparison,
    WorkComparison, looks,
};

/// So many services have a sentence of their own.
const MOST: usize = 3;
/// Digits of a mean time that is known to some per cent at best.
const DIGITS: i32 = 2;

pub(super) fn sentences(report: &CompareReport, rows: Option<&RowsCompared>) -> Vec<String> {
    let mut all = Vec::new();
    let [one, other] = [&report.first, &report.second].map(|side| side.recordings.len());
    if !report.is_enough {
        all.push(format!(
            "Recordings: {one} of A, {other} of B. With so few, what was changed cannot be told from what changes by \
             itself; record {LEAST_RECORDINGS} of each, in turn (A B A B B A B A)."
        ));
    }
    let repeats = report.order.repeats_after.filter(|_| report.is_enough);
    if let Some(rows) = rows {
        let is_enough = report.is_enough && repeats.is_none();
        all.extend(rows.sentences(&report.services, is_enough));
        all.extend(repeats.map(fixed_order));
        all.extend(report.work.as_ref().map(work));
        return all;
    }
    let levels = |is_it: fn(Change) -> bool| {
        let all = report.services.iter();
        all.flat_map(|one| one.levels.iter().map(move |level| (one, level)))
            .filter(move |(_, level)| is_it(level.change))
            .collect::<Vec<_>>()
    };
    let mut told = levels(|change| matches!(change, Change::Worse | Change::Better));
    told.sort_by(|one, other| distance(other.1).total_cmp(&distance(one.1)));
    let rest = told.len().saturating_sub(MOST);
    all.extend(
        told.iter()
            .take(MOST)
            .map(|(one, level)| of_level(one, level)),
    );
    if rest > 0 {
        all.push(format!("And {rest} more, below."));
    }
    let equal = names(&levels(|change| change == Change::Equivalent));
    if !equal.is_empty() {
        all.push(format!("Equal within {} times: {equal}.", report.equal));
    }
    if told.is_empty() && report.is_enough {
        let unclear = levels(|change| matches!(change, Change::Unclear(_)));
        let of_what = match (equal.is_empty(), unclear.is_empty()) {
            (true, _) => Some("No difference was found"),
            (false, false) => Some("Of the others no difference was found"),
            (false, true) => None,
        };
        all.extend(of_what.map(|what| format!("{what}; that is no proof that there is none.")));
    }
    all.extend(repeats.map(fixed_order));
    all.extend(report.order.seed.map(|seed| {
        format!(
            "The order {} was drawn from seed {seed}; `--seed {seed}` makes it again.",
            report.order.sides
        )
    }));
    all.extend(looks::sentences(report));
    all.extend(report.work.as_ref().map(work));
    all
}

/// What an order that repeats itself costs.
fn fixed_order(after: usize) -> String {
    let every = match after {
        2 => "2nd".into(),
        3 => "3rd".into(),
        after => format!("{after}th"),
    };
    format!(
        "The order of the recordings repeats itself after {after}: a job that runs in every {every} of them is on one \
         side only. Intervals cover such a job, which makes them wide; use `laggard compare --run`, or record in the \
         order A B A B B A B A."
    )
}

/// How far from equal the interval is, as a factor.
fn distance(level: &LevelComparison) -> f64 {
    match level.change {
        Change::Better => 1.0 / level.ratio_high.unwrap_or(1.0),
        Change::Worse | Change::Equivalent | Change::Unclear(_) => level.ratio_low,
    }
}

fn names(levels: &[(&ServiceComparison, &LevelComparison)]) -> String {
    let mut names: Vec<String> = levels
        .iter()
        .map(|(one, _)| line_name(one.service, one.route))
        .collect();
    names.dedup();
    names.join(", ")
}

/// The papers' own sentence (OSDI'99 4.2).
fn of_level(one: &ServiceComparison, level: &LevelComparison) -> String {
    let how = match (level.change, level.is_ten_times) {
        (Change::Better, true) => "better, at least 10 times",
        (Change::Better, false) => "better",
        (_, true) => "worse, at least 10 times",
        (_, false) => "worse",
    };
    format!(
        "{} is {how}: later than {} {} in B, against {} in A; {}.",
        line_name(one.service, one.route),
        Unit::Auto.write_nanos(level.level_ns),
        often(&level.second),
        often(&level.first),
        times(level.ratio, level.ratio_low, level.ratio_high)
    )
}

fn often(side: &LateCount) -> String {
    let Some(every) = side.every_ns() else {
        return "never".into();
    };
    let every = rough_time(every, DIGITS);
    match side.samples.checked_div(side.later) {
        Some(waits) => format!("once in {} waits, every {every}", count(rough(waits))),
        None => format!("every {every}"),
    }
}

/// With two digits that count.
fn rough(number: u64) -> u64 {
    let mut digit = 1;
    while number / digit >= 100 {
        digit *= 10;
    }
    (number + digit / 2) / digit * digit
}

/// How many times as often, with an interval; with one limit where a side was
/// never so late.
pub(crate) fn times(ratio: Option<f64>, low: f64, high: Option<f64>) -> String {
    match (ratio, high) {
        (Some(ratio), Some(high)) if ratio > 0.0 => {
            let [ratio, low, high] = [ratio, low, high].map(factor);
            format!("{ratio} times as often [{low}, {high}]")
        }
        (Some(_), Some(high)) => format!("{} times as often at most", factor(high)),
        _ => format!("more than {} times as often", factor(low)),
    }
}

/// A ratio with two digits.
fn factor(value: f64) -> String {
    match value {
        10.0.. => format!("{value:.0}"),
        1.0..10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn work(work: &WorkComparison) -> String {
    let interval = match (work.ratio_low, work.ratio_high) {
        (Some(low), Some(high)) => format!(" [{low:.2}, {high:.2}]"),
        _ => String::new(),
    };
    format!(
        "The load did {:.2} times as much in B{interval}: {}, against {}.",
        work.ratio,
        rate(work.second_per_second, &work.unit),
        rate(work.first_per_second, &work.unit)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_factors_have_two_digits() {
        assert_eq!([rough(7), rough(165_432), rough(995)], [7, 170_000, 1_000]);
        let factors = [0.123, 1.26, 11.4].map(factor);
        assert_eq!(factors, ["0.12", "1.3", "11"]);
        let told = [
            times(Some(4.0), 3.2, Some(5.8)),
            times(Some(0.0), 0.0, Some(0.44)),
            times(None, 3.0, None),
        ];
        assert_eq!(
            told,
            [
                "4.0 times as often [3.2, 5.8]",
                "0.44 times as often at most",
                "more than 3.0 times as often",
            ]
        );
    }
}
