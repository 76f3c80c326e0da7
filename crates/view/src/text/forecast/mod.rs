//! `laggard forecast` for the terminal: what needs no model first, then levels.

mod assumed;
mod levels;
mod told;

use laggard_answer::forecast::{
    Against, Ahead, Cell, ForecastReport, LoadForecast, Outcome, ServiceForecast, StaysBelow,
    is_almost_sure, percent,
};
use laggard_answer::show::at_least;
use laggard_model::name::line_name;
use laggard_model::text::{Unit, mean_time};
use laggard_model::{Nanos, UsagePattern, printable, printable_lines};

use super::Look;
use super::grid::Grid;
pub use told::{AssumedTold, EveryLevel, ForecastTold, told};

/// The report as text; with `all`, every level or the reasons against it too.
pub fn forecast(report: &ForecastReport, all: bool, look: Look) -> String {
    let mut text = String::new();
    for load in &report.loads {
        text += &of_load(load, all, look);
        text.push('\n');
    }
    text += &look.filled("", RESTS_ON);
    if all {
        text.push('\n');
        text += &look.filled("", assumed::EXPLAINED);
        text.push('\n');
        text += &levels::in_full(report, look);
    }
    printable_lines(&text).to_string()
}

/// What every chance and bound rests on.
const RESTS_ON: &str = "Chances and bounds hold if the time to come is like the time recorded. \
    They come from the ranks of what was seen, no model. On the worst of the CPUs measured.";

fn of_load(load: &LoadForecast, all: bool, look: Look) -> String {
    let mut text = look.filled("", &what(load));
    text += &look.filled("  ", &used(load));
    text += &look.warned(&load.notes);
    text.push('\n');
    text += &chances(load).written(look);
    text.push('\n');
    text += &bounds(load).written(look);
    text += &look.filled("  ", &carried(load));
    text.push('\n');
    if let Some((words, table)) = assumed::of_load(load) {
        text += &look.filled("  ", &words);
        text += &table.written(look);
    }
    text.push('\n');
    let see = if all { "see below" } else { "see --all" };
    if let Some((table, is_doubted)) = levels::told(load) {
        text += &table.written(look);
        if is_doubted {
            text += &look.filled("  ", &levels::doubted(see));
        }
    }
    text += &look.filled("  ", &fitted(load, see));
    for advice in &load.advice {
        text += &look.filled("  ", &sentence(&advice.words));
    }
    text
}

/// What was recorded, and for how long.
fn what(load: &LoadForecast) -> String {
    format!(
        "{}, {} in {}",
        printable(load.load.as_str()),
        mean_time(load.observed_ns),
        printable(&load.recordings.join(", "))
    )
}

fn used(load: &LoadForecast) -> String {
    let usage = load.usage;
    if usage == UsagePattern::ALWAYS {
        return format!("used all the time ({})", load.usage_from);
    }
    format!(
        "used {} h a day, {} days a week; a measured hour stands for {} h of it ({})",
        usage.hours_per_day, usage.days_per_week, usage.compression, load.usage_from
    )
}

/// By horizon, which is the same for all services but for what was recorded of
/// each.
fn chances(load: &LoadForecast) -> Grid {
    let head = [
        "the next",
        "a new largest",
        "half bounded",
        "9 of 10 bounded",
    ];
    let mut rows = Grid::new(head);
    let count = load.services.first().map_or(0, |one| one.cells.len());
    for at in 0..count {
        let cells: Vec<&Cell> = load.services.iter().map(|one| &one.cells[at]).collect();
        let name = cells[0].horizon.name();
        let hours = levels::round(cells[0].horizon.hours(load.usage));
        let mut row = vec![format!("{name} ({hours} h)"), chance(&cells)];
        for share in 0..cells[0].ahead.stays_below.len() {
            let asked: Vec<&StaysBelow> = cells
                .iter()
                .map(|one| &one.ahead.stays_below[share])
                .collect();
            row.push(whether(&asked));
        }
        rows.add_row(row);
    }
    rows
}

/// The chance of a new largest: of all services, or from the least to the most.
fn chance(cells: &[&Cell]) -> String {
    let ahead = || cells.iter().map(|one| &one.ahead);
    let by_chance = |a: &&Ahead, b: &&Ahead| a.new_largest.total_cmp(&b.new_largest);
    let (Some(least), Some(most)) = (ahead().min_by(by_chance), ahead().max_by(by_chance)) else {
        return "-".into();
    };
    let (low, high) = (percent(least.new_largest), percent(most.new_largest));
    let text = if low == high {
        low
    } else {
        format!("{low} to {high}")
    };
    let is_at_least = ahead().any(|one| one.is_at_least);
    match (is_at_least, ahead().any(|one| one.is_at_most)) {
        // By neither is it told which way it errs.
        (true, true) => format!("~ {text}"),
        (true, false) => at_least(!is_almost_sure(least.new_largest), &text),
        (false, true) if is_almost_sure(most.new_largest) => "<= 100 %".into(),
        (false, true) => format!("<= {text}"),
        (false, false) => text,
    }
}

/// Whether all services have a bound, or how long to record for one.
fn whether(asked: &[&StaysBelow]) -> String {
    if asked.iter().all(|one| one.bound_ns.is_some()) {
        return "yes".into();
    }
    if asked.iter().any(|one| one.is_unresolved) {
        return assumed::UNKNOWN.into();
    }
    let needed = asked.iter().map(|one| one.record_ns).fold(0.0, f64::max);
    format!("record {}", mean_time(needed))
}

/// By service: the largest seen, and what the horizons stay below that have a bound.
fn bounds(load: &LoadForecast) -> Grid {
    let asked: Vec<(usize, usize)> = load.services.first().map_or_else(Vec::new, |first| {
        let all =
            first.cells.iter().enumerate().flat_map(|(at, cell)| {
                (0..cell.ahead.stays_below.len()).map(move |share| (at, share))
            });
        all.filter(|&(at, share)| {
            let mut services = load.services.iter();
            services.any(|one| asked_of(one, at, share).bound_ns.is_some())
        })
        .collect()
    });
    let heads = asked.iter().map(|&(at, share)| {
        let first = &load.services[0];
        let name = first.cells[at].horizon.name();
        match asked_of(first, at, share).share {
            0.5 => format!("half of {name}s"),
            share => format!("{:.0} of 10 {name}s", 10.0 * share),
        }
    });
    let heads: Vec<String> = heads.collect();
    let mut header = vec!["stays within", "largest seen"];
    if heads.is_empty() {
        header[0] = "service";
    }
    header.extend(heads.iter().map(String::as_str));
    let mut rows = Grid::new(header);
    for service in &load.services {
        let largest = service.largest_ns.map(Nanos::from_ns);
        let is_least = service.largest_is_at_least || service.lost > 0;
        let mut row = vec![
            line_name(service.service, service.route),
            largest.map_or_else(
                || "-".into(),
                |ns| at_least(is_least, &Unit::Auto.write_nanos(ns)),
            ),
        ];
        row.extend(asked.iter().map(|&(at, share)| {
            let found = asked_of(service, at, share);
            found.bound_ns.map_or_else(
                || "-".into(),
                |bound| at_least(found.is_at_least, &Unit::Auto.write(bound)),
            )
        }));
        rows.add_row(row);
    }
    rows
}

fn asked_of(service: &ServiceForecast, at: usize, share: usize) -> &StaysBelow {
    &service.cells[at].ahead.stays_below[share]
}

/// The horizons that the largest seen bounds, T (1 - q) / q, and the assumption.
fn carried(load: &LoadForecast) -> String {
    // A service may be in some of the recordings only.
    let observed = load.services.iter().map(|one| one.observed_ns);
    let observed = observed.fold(f64::INFINITY, f64::min);
    let lengths = || load.services.iter().map(|one| one.blocks.least_ns);
    let longest_block = lengths().fold(0.0, f64::max);
    let (least, most) = (
        mean_time(lengths().fold(f64::INFINITY, f64::min)),
        mean_time(longest_block),
    );
    let to = if least == most {
        String::new()
    } else {
        format!(" to {most}")
    };
    let changing = load.services.iter().filter(|one| one.blocks.is_dependent);
    let changing = match changing.count() {
        0 => String::new(),
        count => format!(
            ", which {count} of {} services here do not",
            load.services.len()
        ),
    };
    let assumed = format!("Assumed: blocks of {least}{to} come in any order alike{changing}.");
    if !changing.is_empty() {
        return assumed;
    }
    let cells = load.services.iter().flat_map(|one| &one.cells);
    if cells
        .flat_map(|cell| &cell.ahead.stays_below)
        .any(|one| one.is_unresolved)
    {
        return format!("{assumed} If every latency was 0 ns, no bound is known.");
    }
    let is_seen = |one: &ServiceForecast| one.lost == 0 && !one.largest_is_at_least;
    if !load.services.iter().all(is_seen) {
        return format!("{assumed} Lost or unended activations make >= of a bound.");
    }
    // Blocks tell nothing of spans that are shorter than one.
    let parts = [("Half of all", 1.0), ("9 of 10", 9.0)];
    let told: Vec<String> = parts
        .iter()
        .filter(|(_, parts)| observed / parts >= longest_block)
        .map(|(share, parts)| format!("{share} spans of {}", mean_time(observed / parts)))
        .collect();
    if told.is_empty() {
        return assumed;
    }
    format!(
        "{} stay within the largest seen. {assumed}",
        told.join(" and ")
    )
}

/// One line on levels by a fit, and those that can be told.
fn fitted(load: &LoadForecast, see: &str) -> String {
    let cells = || load.services.iter().flat_map(|one| &one.cells);
    let is_told = |cell: &&Cell| match &cell.outcome {
        Outcome::Refused(refused) => refused.at_most_ns.is_some(),
        Outcome::OrderStatistics(_) | Outcome::PeaksOverThreshold(_) | Outcome::ByCause(_) => true,
    };
    let told = cells().filter(is_told).count();
    let reason = most_common(cells()).map_or(String::new(), |(reason, count)| {
        format!(" ({count} of them: {reason})")
    });
    let count = cells().count();
    let found = match told {
        0 => format!("all {count} refused{reason}"),
        told if told == count => format!("all {count} told"),
        told => format!("{told} of {count} told, the others refused{reason}"),
    };
    format!("Levels, exceeded once a horizon: {found}; {see}.")
}

/// The reason that refuses most cells, without its figures, and how many.
fn most_common<'a>(cells: impl Iterator<Item = &'a Cell>) -> Option<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for cell in cells {
        let Outcome::Refused(refused) = &cell.outcome else {
            continue;
        };
        for short in refused.reasons.iter().filter_map(Against::in_short) {
            match counts.iter_mut().find(|(known, _)| *known == short) {
                Some((_, count)) => *count += 1,
                None => counts.push((short, 1)),
            }
        }
    }
    // The first of equals.
    counts.into_iter().rev().max_by_key(|(_, count)| *count)
}

fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| {
        format!("{}{}.", first.to_uppercase(), letters.as_str())
    })
}
