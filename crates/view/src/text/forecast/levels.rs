//! Return levels for the terminal, in the layout of OSDI'99 Table 3.

use std::fmt::Write as _;

use laggard_answer::forecast::{
    Cell, ForecastReport, Horizon, Level, LoadForecast, Outcome, Periodic, ServiceForecast,
};
use laggard_answer::show::at_least;
use laggard_model::name::line_name;
use laggard_model::text::{Unit, mean_time};
use laggard_model::{Nanos, printable};

use super::super::Look;
use super::super::grid::Grid;

/// Every level or the reasons against it, and the second estimate.
pub(super) fn in_full(report: &ForecastReport, look: Look) -> String {
    let what = "Latency expected to be exceeded once per horizon of use, on the worst of the CPUs \
                measured";
    let mut text = look.filled("", what);
    for load in &report.loads {
        text += &of_load(load, look);
    }
    text.push('\n');
    for sentence in LEGEND {
        text += &look.hanging("", "  ", sentence);
    }
    text
}

/// What a level with a question mark is, and where there is more.
pub(super) fn doubted(see: &str) -> String {
    format!("?: the peaks are not those of a steady process; {see}.")
}

/// The levels that can be told, by service and horizon, and whether any of them is
/// doubted; nothing where none can.
pub(super) fn told(load: &LoadForecast) -> Option<(Grid, bool)> {
    let is_told = |one: &&ServiceForecast| {
        let mut cells = one.cells.iter();
        cells.any(|cell| cell.outcome.level().is_some())
    };
    let services: Vec<&ServiceForecast> = load.services.iter().filter(is_told).collect();
    let heads = services.first()?.cells.iter();
    let heads = heads.map(|cell| cell.horizon.name());
    let mut rows = Grid::new(["level, once per"].into_iter().chain(heads));
    let mut is_doubted = false;
    for service in services {
        let name = line_name(service.service, service.route);
        let cells = service.cells.iter().map(|cell| {
            let Some(level) = cell.outcome.level() else {
                return "-".into();
            };
            let doubt = if level.doubts.is_empty() { "" } else { "?" };
            is_doubted |= !level.doubts.is_empty();
            let time = |ns: f64| Unit::Auto.write(ns);
            format!("{} to {}{doubt}", time(level.low_ns), time(level.high_ns))
        });
        rows.add_row([name].into_iter().chain(cells).collect::<Vec<_>>());
    }
    Some((rows, is_doubted))
}

/// What stands behind a level.
pub(super) const LEGEND: [&str; 4] = [
    "r: from the ranks of the peaks, no model.",
    "m: by a model of the tail (generalised Pareto), an extrapolation.",
    "c: the same cause by cause, periodic ones as often as they come by the clock on the wall.",
    "In brackets: 95 % interval. A letter with a question mark: a doubt. Largest seen is a \
     measurement, not a forecast.",
];

fn of_load(load: &LoadForecast, look: Look) -> String {
    let line = |text: &str| look.hanging("  ", "    ", text);
    let usage = load.usage;
    let what = format!(
        "Load: {} ({} in {})",
        printable(load.load.as_str()),
        mean_time(load.observed_ns),
        printable(&load.recordings.join(", "))
    );
    let mut text = format!("\n{}", look.hanging("", "  ", &what));
    text += &line(&format!(
        "use: {} h a day, {} days a week, one measured hour stands for {} h of it ({})",
        usage.hours_per_day, usage.days_per_week, usage.compression, load.usage_from
    ));
    text += &look.warned(&load.notes);
    text += "\n";
    let mut remarks = Remarks::default();
    text += &table(load, &mut remarks).written(look);
    let all = remarks.lines().chain(how_long(load)).chain(periods(load));
    text.extend(all.chain(composed(load)).map(|one| line(&one)));
    text + &look.noted(&load.notes)
}

/// The level of each service and horizon, or the reasons against it.
pub(super) fn table(load: &LoadForecast, remarks: &mut Remarks) -> Grid {
    let horizons: Vec<Horizon> = load.services.first().map_or_else(Vec::new, |one| {
        one.cells.iter().map(|cell| cell.horizon).collect()
    });
    let heads = horizons.iter().map(|horizon| {
        let hours = round(horizon.hours(load.usage));
        format!("{} ({hours} h)", horizon.name())
    });
    let header = ["service", "largest seen"].map(String::from);
    let mut rows = Grid::new(header.into_iter().chain(heads));
    for service in &load.services {
        let largest = service.largest_ns.map(Nanos::from_ns);
        let mut cells = vec![
            line_name(service.service, service.route),
            largest.map_or_else(
                || "-".into(),
                |ns| at_least(service.largest_is_at_least, &Unit::Auto.write_nanos(ns)),
            ),
        ];
        cells.extend(service.cells.iter().map(|cell| of_cell(cell, remarks)));
        rows.add_row(cells);
    }
    rows
}

/// What comes with a period, once for the services that have it.
pub(super) fn periods(load: &LoadForecast) -> impl Iterator<Item = String> {
    shared_periods(load).into_iter().map(|(services, source)| {
        format!(
            "{}: something comes every {}, seen {} times (by chance in any service: p at most {:.3})",
            services.join(", "),
            mean_time(source.period_ns),
            source.hits,
            source.p.max(0.001)
        )
    })
}

/// Periods nearer to each other than this part of them are one finding: the
/// stalls that several services share.
const SAME_PERIOD: f64 = 0.01;

/// Each period once, told as it is clearest, with all services that have it.
fn shared_periods(load: &LoadForecast) -> Vec<(Vec<String>, &Periodic)> {
    let mut found: Vec<(Vec<String>, &Periodic)> = Vec::new();
    for service in &load.services {
        let name = line_name(service.service, service.route);
        for source in &service.periodic {
            let is_same =
                |other: &Periodic| (other.period_ns / source.period_ns - 1.0).abs() <= SAME_PERIOD;
            match found.iter_mut().find(|(_, other)| is_same(other)) {
                Some((names, clearest)) => {
                    if !names.contains(&name) {
                        names.push(name.clone());
                    }
                    if source.hits > clearest.hits {
                        *clearest = source;
                    }
                }
                None => found.push((vec![name.clone()], source)),
            }
        }
    }
    found
}

/// The second estimate, and whether the first agrees.
pub(super) fn composed(load: &LoadForecast) -> Vec<String> {
    let time = |ns| Unit::Auto.write(ns);
    let mut lines = Vec::new();
    for service in &load.services {
        let Some(found) = &service.composed else {
            continue;
        };
        if lines.is_empty() {
            let what = "Second estimate, by composition: what the pieces of late activations \
                        could make together";
            lines.push(what.into());
        }
        let name = line_name(service.service, service.route);
        let Some(latency) = found.latency_ns else {
            lines.push(format!(
                "{name}: no bound; what is above it leaves it no time"
            ));
            continue;
        };
        let blocked = found.blocked_by.as_ref();
        let above: f64 = found.above.iter().map(|one| one.time_ns).sum();
        let most = found.above.first();
        lines.push(format!(
            "{name}: {} = {} not preemptible{} + {} above it{} + {} of its own{}{}",
            time(latency),
            Unit::Auto.write_nanos(found.blocking_ns),
            blocked.map_or(String::new(), |who| format!(" (most: {who})")),
            time(above),
            most.map_or(String::new(), |one| format!(" (most: {})", one.who)),
            Unit::Auto.write_nanos(found.own_ns),
            match found.unexplained_ns {
                Nanos::ZERO => String::new(),
                time => format!(
                    ", without up to {} unexplained",
                    Unit::Auto.write_nanos(time)
                ),
            },
            disagreement(service, latency).map_or(String::new(), |words| format!("; {words}"))
        ));
    }
    lines
}

/// What speaks against one of two estimates.
fn disagreement(service: &ServiceForecast, composed: f64) -> Option<String> {
    let largest = service.largest_ns.map(|ns| ns as f64)?;
    let longest = service.cells.iter().rev().find_map(|cell| {
        let level = cell.outcome.level()?;
        Some((cell.horizon, level))
    });
    // Latencies are kept to 16 ns.
    if composed < 0.999 * largest {
        return Some("less than the largest seen, which it does not explain".into());
    }
    let (horizon, level) = longest?;
    let name = horizon.name();
    if composed < level.low_ns {
        return Some(format!(
            "DISAGREES with the {name}'s level: that takes pieces longer than any seen"
        ));
    }
    (composed > 3.0 * level.high_ns).then(|| {
        format!("DISAGREES with the {name}'s level: the pieces seen could make far more together")
    })
}

pub(super) fn round(hours: f64) -> String {
    let text = format!("{hours:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

fn of_cell(cell: &Cell, remarks: &mut Remarks) -> String {
    let level = |level: &Level, method: &str, remarks: &mut Remarks| {
        let mut text = format!(
            "{} [{}, {}] {method}",
            Unit::Auto.write(level.level_ns),
            Unit::Auto.write(level.low_ns),
            Unit::Auto.write(level.high_ns)
        );
        if !level.doubts.is_empty() {
            let letters: Vec<String> = level
                .doubts_without_figures
                .iter()
                .map(|doubt| remarks.letter(doubt.clone()))
                .collect();
            let _ = write!(text, " ({}?)", letters.join(","));
        }
        text
    };
    match &cell.outcome {
        Outcome::OrderStatistics(found) => level(found, "r", remarks),
        Outcome::PeaksOverThreshold(found) => level(found, "m", remarks),
        Outcome::ByCause(found) => level(&found.level, "c", remarks),
        Outcome::Refused(refused) => {
            let mut letters: Vec<String> = refused
                .reasons_without_figures
                .iter()
                .map(|reason| remarks.letter(reason.clone()))
                .collect();
            letters.sort();
            let letters = letters.join(",");
            match refused.at_most_ns {
                Some(most) => format!("at most {} ({letters})", Unit::Auto.write(most)),
                None => format!("refused ({letters})"),
            }
        }
    }
}

/// How long to record for each horizon, where something is refused.
pub(super) fn how_long(load: &LoadForecast) -> Vec<String> {
    let mut horizons: Vec<(Horizon, f64, Option<f64>)> = Vec::new();
    for cell in load.services.iter().flat_map(|one| &one.cells) {
        let Outcome::Refused(refused) = &cell.outcome else {
            continue;
        };
        let model = refused.record_for_model_ns;
        match horizons.iter_mut().find(|one| one.0 == cell.horizon) {
            Some(one) => one.2 = one.2.into_iter().chain(model).reduce(f64::min),
            None => horizons.push((cell.horizon, refused.record_without_model_ns, model)),
        }
    }
    let words = |(horizon, without, model): (Horizon, f64, Option<f64>)| {
        let at_best = match model {
            Some(time) => format!("for a model, at best {}", mean_time(time)),
            None => "a longer recording alone may not help a model".into(),
        };
        format!(
            "record for the {}: {} in all without a model; {at_best}",
            horizon.name(),
            mean_time(without)
        )
    };
    horizons.into_iter().map(words).collect()
}

/// Remarks on cells, each once.
#[derive(Default)]
pub(super) struct Remarks(Vec<String>);

impl Remarks {
    fn letter(&mut self, remark: String) -> String {
        let at = match self.0.iter().position(|one| *one == remark) {
            Some(at) => at,
            None => {
                self.0.push(remark);
                self.0.len() - 1
            }
        };
        label(at)
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let all = self.0.iter().enumerate();
        all.map(|(at, remark)| format!("({}) {remark}", label(at)))
    }
}

/// a to z, then a1, b1 ...
fn label(at: usize) -> String {
    let letter = char::from(b"abcdefghijklmnopqrstuvwxyz"[at % 26]);
    match at / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{round}"),
    }
}
