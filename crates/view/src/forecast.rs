//! `laggard forecast`: chance of a new maximum, bounds and return levels.

use laggard_answer::forecast::{
    Cell as ForecastCell, ForecastReport, LoadForecast, Objection, Outcome, ServiceForecast,
    StaysBelow,
};
use laggard_model::text::mean_time;

use crate::doc::{
    Block, Cell, Column, Detail, Document, Reason, SCREEN_LINES, Table, first_that_fits,
};
use crate::notes;
use crate::phrase::{capital, forecast as phrase};

/// Conditions under which a forecast holds.
const VALID: &str = "Valid for the worst CPU and for the same load.";
/// Number of services that the short form shows, as far as one screen has room. Of more, it
/// shows those with the largest maximum.
const SERVICES: std::ops::RangeInclusive<usize> = 3..=9;

/// Describes the report. `Full` adds each horizon, each return level with the reasons
/// against it, and the second estimate.
pub fn document(report: &ForecastReport, detail: Detail) -> Document {
    match detail {
        Detail::Short => {
            let counts = SERVICES.rev();
            first_that_fits(
                SCREEN_LINES,
                counts.map(|services| limited(report, detail, services)),
            )
        }
        Detail::Full => limited(report, detail, usize::MAX),
    }
}

/// Describes the report with this number of services.
fn limited(report: &ForecastReport, detail: Detail, services: usize) -> Document {
    let mut document = Document::new("Forecast of latencies");
    for load in &report.loads {
        match detail {
            Detail::Short => {
                short(&mut document, load, services);
                document.lines(next(load));
            }
            Detail::Full => full(&mut document, load),
        }
    }
    if detail == Detail::Full {
        document.paragraph(
            "Chances and bounds are rank-based, without a model. They hold for the worst of the measured CPUs, if the future is like the recorded time.",
        );
        document.paragraph(phrase::ASSUMED_TAIL);
        document.lines(phrase::LEVELS.map(String::from).into());
    }
    document
}

/// Describes the report in short for a reader who need not have the program.
pub(crate) fn summary(report: &ForecastReport) -> Document {
    let mut document = Document::new("Forecast of latencies");
    for load in &report.loads {
        short(&mut document, load, usize::MAX);
        document.lines(limits(load));
    }
    document
}

fn head(document: &mut Document, load: &LoadForecast) {
    document.lines(vec![phrase::recording(load), phrase::usage(load)]);
    let warnings = load.notes.iter().filter(|note| note.is_warning());
    document.lines(notes::shared(warnings, load.recordings.len()));
}

fn short(document: &mut Document, load: &LoadForecast, services: usize) {
    head(document, load);
    document.paragraph(format!(
        "Chance of a latency above the max: {}",
        chances(load).join(", ")
    ));
    document.push(Block::Detail(format!(
        "The length of the recording alone gives this chance.{}",
        needed(load)
    )));
    document.push(Block::Table(latencies(load, Detail::Short, services)));
    if load.services.iter().any(has_level) {
        document.push(Block::Table(known_levels(load)));
    }
    document.lines(phrase::courses(load));
}

/// States the number of return levels, the validity, and the limits of the forecast.
fn limits(load: &LoadForecast) -> Vec<String> {
    let limits = load.limits.iter().map(phrase::limit);
    let mut lines = vec![format!("{}.", phrase::level_count(load)), VALID.to_owned()];
    lines.extend(limits.map(|limit| format!("{}.", capital(&limit))));
    lines
}

/// States the same with the next step for the user of a terminal.
fn next(load: &LoadForecast) -> Vec<String> {
    let mut limits = load.limits.iter().map(phrase::limit);
    let next = limits.next();
    let mut lines = vec![
        format!("{} (`--all`).", phrase::level_count(load)),
        VALID.to_owned(),
    ];
    lines.extend(limits.map(|limit| format!("Also {limit}.")));
    lines.push(next.map_or_else(
        || "Next: `--all` shows every horizon and the second estimate".into(),
        |limit| format!("Next: {limit}"),
    ));
    lines
}

/// Writes the chance of a new maximum for each horizon.
fn chances(load: &LoadForecast) -> Vec<String> {
    horizons(load)
        .map(|cells| {
            let chance = phrase::chance_in_words(&cells);
            format!("{} {chance}", cells[0].horizon.name())
        })
        .collect()
}

/// States the recording times that give a bound for the first horizon without one.
fn needed(load: &LoadForecast) -> String {
    let mut open = horizons(load).filter_map(|cells| {
        let bounds: Vec<&StaysBelow> = cells.iter().map(|cell| most(cell)).collect();
        let is_open = bounds.iter().any(|bound| bound.bound_ns.is_none());
        is_open.then(|| (cells[0].horizon.name(), bounds))
    });
    let Some((horizon, bounds)) = open.next() else {
        return String::new();
    };
    if bounds.iter().any(|bound| bound.is_unresolved) {
        return " Latencies of 0 ns are not bounded.".into();
    }
    let record = |ns: fn(&StaysBelow) -> f64| {
        let times = bounds.iter().map(|bound| ns(bound));
        mean_time(times.fold(0.0, f64::max))
    };
    let assumed = if bounds.iter().all(|bound| bound.assumed_ns.is_some()) {
        String::new()
    } else {
        let (time, shape) = (
            record(|bound| bound.assumed_record_ns),
            bounds[0].assumed_shape,
        );
        format!("; with an assumed tail (t^{shape}): record {time}")
    };
    let time = record(|bound| bound.record_ns);
    format!(" To bound 9 of 10 {horizon}s: record {time}{assumed}.")
}

/// Returns the cells of all services for each horizon.
fn horizons(load: &LoadForecast) -> impl Iterator<Item = Vec<&ForecastCell>> {
    let count = load
        .services
        .first()
        .map_or(0, |service| service.cells.len());
    (0..count).map(|index| {
        load.services
            .iter()
            .map(|service| &service.cells[index])
            .collect()
    })
}

/// Returns the bound of the largest share: nine of ten.
fn most(cell: &ForecastCell) -> &StaysBelow {
    let bounds = cell.ahead.stays_below.iter();
    bounds
        .max_by(|a, b| a.share.total_cmp(&b.share))
        .expect("a cell has a bound of each share")
}

fn has_level(service: &ServiceForecast) -> bool {
    let mut cells = service.cells.iter();
    cells.any(|cell| cell.outcome.is_known())
}

fn max(service: &ServiceForecast) -> Cell {
    let is_at_least = service.largest_is_at_least || service.lost > 0;
    #[expect(clippy::cast_precision_loss, reason = "shorter than months")]
    service
        .largest_ns
        .map_or(Cell::Unknown(Reason::NotMeasured), |ns| {
            phrase::limited(is_at_least, ns as f64)
        })
}

/// Columns of a table of bounds: a horizon, a share, and whether the tail is assumed.
#[derive(Clone, Copy)]
struct BoundColumn {
    horizon: usize,
    share: usize,
    is_assumed: bool,
}

impl BoundColumn {
    fn bound<'a>(&self, service: &'a ServiceForecast) -> &'a StaysBelow {
        &service.cells[self.horizon].ahead.stays_below[self.share]
    }

    fn name(&self, load: &LoadForecast) -> String {
        let service = &load.services[0];
        let horizon = service.cells[self.horizon].horizon.name();
        let star = if self.is_assumed { "*" } else { "" };
        match self.bound(service).share {
            0.5 => format!("half of {horizon}s{star}"),
            share => format!("{:.0} of 10 {horizon}s{star}", 10.0 * share),
        }
    }

    fn is_known(&self, service: &ServiceForecast) -> bool {
        let bound = self.bound(service);
        if self.is_assumed {
            bound.assumed_ns.is_some()
        } else {
            bound.bound_ns.is_some()
        }
    }

    fn cell(&self, service: &ServiceForecast) -> Cell {
        let bound = self.bound(service);
        if bound.is_unresolved {
            return "unknown".into();
        }
        if let Some(ns) = bound.bound_ns {
            return phrase::limited(bound.is_at_least, ns);
        }
        match bound.assumed_ns {
            Some(ns) if self.is_assumed => {
                phrase::limited(service.cells[self.horizon].ahead.is_at_least, ns)
            }
            Some(_) | None => Cell::Unknown(Reason::TooShort),
        }
    }
}

/// Returns all columns with a rank-based or an assumed bound of any service.
fn bound_columns(load: &LoadForecast, is_assumed: bool) -> Vec<BoundColumn> {
    let cells = load
        .services
        .first()
        .map_or(&[][..], |service| &service.cells);
    let columns = cells.iter().enumerate().flat_map(|(horizon, cell)| {
        (0..cell.ahead.stays_below.len()).map(move |share| BoundColumn {
            horizon,
            share,
            is_assumed,
        })
    });
    columns
        .filter(|column| load.services.iter().any(|service| column.is_known(service)))
        .collect()
}

/// Returns for each horizon the rank-based bound of nine of ten if there is one, otherwise
/// the assumed one. `Full` has the bound of half too, `Short` only in place of a rank-based
/// one of nine of ten.
fn columns(load: &LoadForecast, detail: Detail) -> Vec<BoundColumn> {
    let ranked = bound_columns(load, false);
    let is_most = |column: &BoundColumn| {
        let shares = &load.services[0].cells[column.horizon].ahead.stays_below;
        column.share + 1 == shares.len()
    };
    let has_most = |column: &BoundColumn| {
        let mut ranked = ranked.iter();
        ranked.any(|other| other.horizon == column.horizon && is_most(other))
    };
    let is_shown =
        |column: &&BoundColumn| detail == Detail::Full || is_most(column) || !has_most(column);
    let assumed = bound_columns(load, true).into_iter();
    let assumed = assumed.filter(|column| is_most(column) && !has_most(column));
    let mut columns: Vec<BoundColumn> = ranked
        .iter()
        .filter(is_shown)
        .copied()
        .chain(assumed)
        .collect();
    columns.sort_by_key(|column| column.horizon);
    columns
}

fn latencies(load: &LoadForecast, detail: Detail, shown: usize) -> Table {
    let columns = columns(load, detail);
    let mut by_max: Vec<&ServiceForecast> = load.services.iter().collect();
    by_max.sort_by_key(|service| std::cmp::Reverse(service.largest_ns));
    let hidden = by_max.split_off(by_max.len().min(shown));
    let names = columns
        .iter()
        .map(|column| Column::number(column.name(load)));
    let fixed = [Column::name("Latency"), Column::number("max")];
    let mut table = Table::new(fixed.into_iter().chain(names));
    for service in &load.services {
        if hidden.iter().any(|hidden| std::ptr::eq(*hidden, service)) {
            continue;
        }
        let cells = columns.iter().map(|column| column.cell(service));
        table.row(
            [phrase::name(service).into(), max(service)]
                .into_iter()
                .chain(cells),
        );
    }
    if !hidden.is_empty() {
        table.note(format!("{} more with a smaller max: `--all`", hidden.len()));
    }
    let service = load.services.first();
    let has_assumed = detail == Detail::Full || columns.iter().any(|column| column.is_assumed);
    if let Some(cell) = service
        .and_then(|service| service.cells.first())
        .filter(|_| has_assumed)
    {
        table.note(format!("*: {}", phrase::assumption(most(cell))));
    }
    table.note(phrase::spans(load));
    table
}

/// Table of the services with a return level, with their intervals.
fn known_levels(load: &LoadForecast) -> Table {
    let services: Vec<&ServiceForecast> = load
        .services
        .iter()
        .filter(|service| has_level(service))
        .collect();
    let cells = services.first().map_or(&[][..], |service| &service.cells);
    let horizons = cells
        .iter()
        .map(|cell| Column::number(format!("per {}", cell.horizon.name())));
    let columns = std::iter::once(Column::name("Return level")).chain(horizons);
    let mut table = Table::new(columns);
    let mut has_doubt = false;
    for service in services {
        let cells = service.cells.iter().map(|cell| {
            let Some(level) = cell.outcome.level() else {
                let most = cell
                    .outcome
                    .refused()
                    .and_then(|refused| refused.at_most_ns);
                return most.map_or(Cell::Unknown(Reason::TooShort), |ns| {
                    Cell::AtMost(Box::new(phrase::time(ns)))
                });
            };
            let (low, high) = (phrase::time(level.low_ns), phrase::time(level.high_ns));
            if level.doubts.is_empty() {
                return Cell::Interval(Box::new(low), Box::new(high));
            }
            has_doubt = true;
            format!("{low} to {high}?").into()
        });
        let cells: Vec<Cell> = cells.collect();
        table.row(std::iter::once(phrase::name(service).into()).chain(cells));
    }
    table.note("95 % interval of the latency that is exceeded once per horizon on average");
    if has_doubt {
        table.note("?: the peaks do not come from a steady process (`--all`)");
    }
    table
}

fn full(document: &mut Document, load: &LoadForecast) {
    head(document, load);
    document.push(Block::Table(recording_times(load)));
    document.push(Block::Table(latencies(load, Detail::Full, usize::MAX)));
    document.lines(phrase::courses(load));
    document.heading("Return levels");
    let mut remarks = Remarks::default();
    let table = levels(load, &mut remarks);
    document.push(Block::Table(table));
    let mut lines = remarks.lines();
    lines.extend(phrase::recording_times(load));
    lines.extend(phrase::periods(load));
    document.lines(lines);
    let composed = load.services.iter().filter_map(|service| {
        let composed = service.composed.as_ref()?;
        Some(phrase::composed(service, composed))
    });
    let composed: Vec<String> = composed.collect();
    if !composed.is_empty() {
        document.heading("Second estimate: sum of the longest measured parts of late wakeups");
        document.lines(composed);
    }
    let limits = load.limits.iter().map(phrase::limit);
    document.notes("Limits", limits.collect());
    let others = load.notes.iter().filter(|note| !note.is_warning());
    document.notes("Warnings", notes::shared(others, load.recordings.len()));
}

/// Table of the chance of a new maximum, and of the recording time that each bound needs.
fn recording_times(load: &LoadForecast) -> Table {
    let mut table = Table::new([
        Column::name("next"),
        Column::number("chance of a new max"),
        Column::number("record for half"),
        Column::number("for 9 of 10"),
        Column::number("for 9 of 10*"),
    ])
    .caption("Chance of a latency above the max, and recording time for a bound of half and of 9 of 10 horizons");
    for cells in horizons(load) {
        let horizon = cells[0].horizon;
        let mut row: Vec<Cell> = vec![
            format!(
                "{} ({})",
                horizon.name(),
                phrase::hours(horizon, load.usage)
            )
            .into(),
            phrase::chance(&cells).into(),
        ];
        let shares = 0..cells[0].ahead.stays_below.len();
        row.extend(shares.map(|share| {
            let bounds = cells.iter().map(|cell| &cell.ahead.stays_below[share]);
            recording_time(bounds, |bound| bound.bound_ns, |bound| bound.record_ns)
        }));
        let bounds = cells.iter().map(|cell| most(cell));
        row.push(recording_time(
            bounds,
            |bound| bound.assumed_ns,
            |bound| bound.assumed_record_ns,
        ));
        table.row(row);
    }
    table
}

/// Returns the recording time for the bounds of all services, if any is unknown.
fn recording_time<'a>(
    bounds: impl Iterator<Item = &'a StaysBelow> + Clone,
    bound: fn(&StaysBelow) -> Option<f64>,
    record: fn(&StaysBelow) -> f64,
) -> Cell {
    if bounds.clone().all(|bounded| bound(bounded).is_some()) {
        return "bounded".into();
    }
    if bounds.clone().any(|bounded| bounded.is_unresolved) {
        return "unknown".into();
    }
    mean_time(bounds.map(record).fold(0.0, f64::max)).into()
}

/// Table of each return level, or of the reasons against it.
fn levels(load: &LoadForecast, remarks: &mut Remarks) -> Table {
    let cells = load
        .services
        .first()
        .map_or(&[][..], |service| &service.cells);
    let horizons = cells.iter().map(|cell| {
        let hours = phrase::hours(cell.horizon, load.usage);
        Column::name(format!("per {} ({hours})", cell.horizon.name()))
    });
    let columns = std::iter::once(Column::name("Latency")).chain(horizons);
    let mut table = Table::new(columns);
    for service in &load.services {
        let cells = service.cells.iter().map(|cell| level(cell, remarks).into());
        table.row(std::iter::once(phrase::name(service).into()).chain(cells));
    }
    table
}

fn level(cell: &ForecastCell, remarks: &mut Remarks) -> String {
    let method = match &cell.outcome {
        Outcome::Refused(refused) => {
            let mut letters = remarks.letters(&refused.reasons);
            letters.sort();
            let letters = letters.join(",");
            return match refused.at_most_ns {
                Some(ns) => format!("{} ({letters})", Cell::AtMost(Box::new(phrase::time(ns)))),
                None => format!("refused ({letters})"),
            };
        }
        Outcome::OrderStatistics(_) => "r",
        Outcome::PeaksOverThreshold(_) => "m",
        Outcome::ByCause(_) => "c",
    };
    let Some(level) = cell.outcome.level() else {
        return String::new();
    };
    let [value, low, high] =
        [level.level_ns, level.low_ns, level.high_ns].map(|ns| phrase::time(ns).to_string());
    let doubts = remarks.letters(&level.doubts).join(",");
    let doubts = if doubts.is_empty() {
        doubts
    } else {
        format!(" ({doubts}?)")
    };
    format!("{value} [{low}, {high}] {method}{doubts}")
}

/// Remarks on cells, each once, with the letter that refers to it.
#[derive(Default)]
struct Remarks(Vec<String>);

impl Remarks {
    fn letters(&mut self, objections: &[Objection]) -> Vec<String> {
        let texts = objections
            .iter()
            .map(|objection| phrase::objection(objection, false));
        texts.map(|text| self.letter(text)).collect()
    }

    fn letter(&mut self, remark: String) -> String {
        let position = self.0.iter().position(|listed| *listed == remark);
        letter(position.unwrap_or_else(|| {
            self.0.push(remark);
            self.0.len() - 1
        }))
    }

    fn lines(&self) -> Vec<String> {
        let remarks = self.0.iter().enumerate();
        remarks
            .map(|(index, remark)| format!("({}) {remark}", letter(index)))
            .collect()
    }
}

/// Returns a to z, then a1, b1, ...
fn letter(at: usize) -> String {
    let letter = char::from(b"abcdefghijklmnopqrstuvwxyz"[at % 26]);
    match at / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{round}"),
    }
}
