//! Tables of Jones and Regehr's paper of 1999.

use laggard_model::{Absence, ClockSeen, Lacks, Nanos, Route, Service, TimerApi};
use serde::Deserialize;

use super::dir::NOT_REPORTED;
use super::plan::{HIGH, RECEIVE, Step};
use super::{
    MissingReason, Piece, StudyCell, StudyDir, StudyError, StudyRow, StudyTable, SystemTable,
};
use crate::show::{By, measured, recording};
use crate::timers::{IntervalBin, IntervalFigures};
use crate::why::{CauseShare, Explained, HandlersReport, RecordedEpisodes, handlers};

/// Step of `laggard bench timers`.
const TIMERS: &str = "timers";
/// Steps without a fault, whose handlers are listed.
const WITHOUT_FAULT: [&str; 2] = ["machine", RECEIVE];
/// Timers of Table 3: one that expires on the tick, and one that does not.
const FIX: [TimerApi; 2] = [TimerApi::SoRcvtimeo, TimerApi::Ppoll];
/// Timers on an injected tick (Table 3): as the paper found them, and as it fixed them.
const INJECTED: [TimerApi; 2] = [TimerApi::TickRelative, TimerApi::TickAbsolute];
/// Handlers and causes of a recording that a table lists.
const MAX_ROWS: usize = 4;
/// Softirq that receives packets.
const NET_RX: &str = "NET_RX";
/// Start of the names of the poll functions of network drivers, which it calls.
const POLL: &str = "NET_RX: ";

/// Width of an interval of Tables 2 and 3, microseconds.
const BIN_US: u64 = 100;

/// Part of the result of `laggard bench timers` that the tables show.
#[derive(Debug, Default, Deserialize)]
struct Timers {
    coarse_ns: Option<Nanos>,
    clocks: Vec<ClockSeen>,
    rows: Vec<Timer>,
}

/// Row of that result.
#[derive(Debug, Deserialize)]
struct Timer {
    api: TimerApi,
    absence: Option<Absence>,
    intervals: Option<IntervalFigures>,
    bins: Vec<IntervalBin>,
    tick_ns: Option<f64>,
}

pub(super) fn tables(
    dir: &StudyDir,
    threads: std::num::NonZeroUsize,
) -> Result<Vec<SystemTable>, StudyError> {
    let timers = dir.result::<Timers>(TIMERS)?;
    let missing = dir.no_result(TIMERS);
    let all: Vec<&Timer> = timers.iter().flat_map(|timers| &timers.rows).collect();
    let of = |is_listed: &dyn Fn(&TimerApi) -> bool| -> Vec<&Timer> {
        let rows = all.iter().copied();
        rows.filter(|row| is_listed(&row.api)).collect()
    };
    let rows = of(&|api| !INJECTED.contains(api));
    let fix = of(&|api| FIX.contains(api) || INJECTED.contains(api));
    Ok(vec![
        statistics(&rows, &missing),
        histogram("table2", &rows, &missing),
        histogram("table3", &fix, &missing),
        clocks(timers.as_ref(), &missing),
        longest_handlers(dir),
        receive(dir, threads)?,
        causes(dir),
    ])
}

/// Columns of tables of timers.
fn columns(rows: &[&Timer]) -> Vec<String> {
    if rows.is_empty() {
        return vec![TIMERS.into()];
    }
    rows.iter().map(|row| row.api.name().into()).collect()
}

/// Returns a cell per timer, or the cell of a result that is missing.
fn cells(
    rows: &[&Timer],
    missing: &StudyCell,
    cell: impl Fn(&Timer) -> Option<StudyCell>,
) -> Vec<StudyCell> {
    if rows.is_empty() {
        return vec![missing.clone()];
    }
    let cell = |row: &&Timer| match &row.absence {
        Some(absence) => StudyCell::Missing {
            reason: match absence.lacks {
                Lacks::Rights => MissingReason::NeedsRoot,
                Lacks::Kernel | Lacks::Machine => MissingReason::NoService,
            },
        },
        None => cell(row).unwrap_or(NOT_REPORTED),
    };
    rows.iter().map(cell).collect()
}

/// Table 1: intervals between callbacks.
fn statistics(rows: &[&Timer], missing: &StudyCell) -> SystemTable {
    type Figure = fn(&IntervalFigures) -> f64;
    let figures: [(&str, Figure); 4] = [
        ("min", |intervals| intervals.min_ns as f64),
        ("max", |intervals| intervals.max_ns as f64),
        ("mean", |intervals| intervals.mean_ns),
        ("deviation", |intervals| intervals.deviation_ns),
    ];
    let mut table = SystemTable::new("table1", columns(rows));
    for (name, figure) in figures {
        let time = |row: &Timer| row.intervals.as_ref().map(figure).map(time);
        table.row(name, cells(rows, missing, time));
    }
    table
}

/// Tables 2 and 3: numbers of intervals per 100 us.
fn histogram(name: &'static str, rows: &[&Timer], missing: &StudyCell) -> SystemTable {
    let mut table = SystemTable::new(name, columns(rows));
    let mut starts: Vec<Nanos> = rows
        .iter()
        .flat_map(|row| &row.bins)
        .map(|bin| bin.from_ns)
        .collect();
    starts.sort_unstable();
    starts.dedup();
    if starts.is_empty() {
        starts.push(Nanos::ZERO);
    }
    for start in starts {
        let count = |row: &Timer| {
            let bin = row.bins.iter().find(|bin| bin.from_ns == start);
            let count = bin.map_or(0, |bin| bin.count as u64);
            Some(StudyCell::Count { count })
        };
        let key = (start.ns() / 1_000).to_string();
        table.row(key, cells(rows, missing, count));
    }
    table
}

/// An interval with less than 1 in this number of a timer's intervals is rare.
const RARE: u64 = 100;
/// An interval with at most this number is rare too: a short recording has few of each.
const MAX_RARE: u64 = 3;

/// Joins neighbouring intervals of Tables 2 and 3 that are rare for each timer and system. On a
/// busy machine, dozens of rows have one or two.
pub(super) fn join_rare(table: &mut StudyTable) {
    if !matches!(table.name.as_str(), "table2" | "table3") {
        return;
    }
    let start = |row: &StudyRow| row.row.parse::<u64>().unwrap_or_default();
    table.rows.sort_by_key(start);
    let count = |cell: &StudyCell| match cell {
        StudyCell::Count { count } => *count,
        _ => 0,
    };
    let counts = |row: &StudyRow| row.cells.iter().flatten().map(count).collect::<Vec<u64>>();
    let totals = table.rows.iter().map(counts).reduce(|mut sums, row| {
        sums.iter_mut()
            .zip(row)
            .for_each(|(sum, count)| *sum += count);
        sums
    });
    let totals = totals.unwrap_or_default();
    let mut joined: Vec<(StudyRow, bool)> = Vec::new();
    for mut row in std::mem::take(&mut table.rows) {
        // The other system has an interval that this one lacks.
        for (cell, total) in row.cells.iter_mut().flatten().zip(&totals) {
            if *total > 0 && matches!(cell, StudyCell::Missing { .. }) {
                *cell = StudyCell::Count { count: 0 };
            }
        }
        let mut shares = counts(&row).into_iter().zip(&totals);
        let is_rare = shares.all(|(count, total)| count <= MAX_RARE || count * RARE < *total);
        match joined.last_mut() {
            Some((last, true)) if is_rare => {
                let end = (start(&row) + BIN_US).to_string();
                let from = last.row.split('-').next().unwrap_or_default();
                last.row = [from, &end].join("-");
                let cells = last.cells.iter_mut().flatten();
                for (cell, other) in cells.zip(row.cells.iter().flatten()) {
                    if let StudyCell::Count { count: sum } = cell {
                        *sum += count(other);
                    }
                }
            }
            _ => joined.push((row, is_rare)),
        }
    }
    table.rows = joined.into_iter().map(|(row, _)| row).collect();
}

/// Section 3.1: stated and observed rates of the clocks.
fn clocks(timers: Option<&Timers>, missing: &StudyCell) -> SystemTable {
    let mut table = SystemTable::new("clocks", ["stated", "observed"]);
    let Some(timers) = timers else {
        table.row("tick", vec![missing.clone(); 2]);
        return table;
    };
    let cell = |ns: Option<f64>| ns.map_or(NOT_REPORTED, time);
    // A timer that expires on the tick shows its length.
    let on_tick = timers.rows.iter().filter(|row| FIX.contains(&row.api));
    let tick = on_tick.filter_map(|row| row.tick_ns).next();
    let stated = timers.coarse_ns.map(Nanos::as_f64);
    table.row("tick", vec![cell(stated), cell(tick)]);
    for clock in timers.clocks.iter().filter(|clock| clock.sleeps) {
        let times = [clock.stated_ns, clock.step_ns].map(|time| time.map(Nanos::as_f64));
        table.row(clock.name.clone(), times.map(cell).into());
    }
    table
}

/// Section 4.2 and 4.3: the handlers with the longest runs.
fn longest_handlers(dir: &StudyDir) -> SystemTable {
    let mut table = SystemTable::new("handlers", ["longest", "without_steal", "runs", "handler"]);
    for (step, pieces) in of_record(dir) {
        if !WITHOUT_FAULT.contains(&step.name) {
            continue;
        }
        let rows = handlers_of(pieces).map(|report| report.handlers);
        let cells = |handler: crate::why::HandlerRow| {
            vec![
                time(handler.longest_ns.as_f64()),
                time(handler.longest_own_ns.as_f64()),
                StudyCell::Count {
                    count: handler.count,
                },
                StudyCell::Name { text: handler.who },
            ]
        };
        let rows = rows.into_iter().flatten().take(MAX_ROWS).map(cells);
        add_numbered(&mut table, dir, step, pieces, rows.collect());
    }
    table
}

/// Section 4.3: a receiver at full rate.
fn receive(dir: &StudyDir, threads: std::num::NonZeroUsize) -> Result<SystemTable, StudyError> {
    let mut table = SystemTable::new("receive", ["value"]);
    let mut steps = of_record(dir).filter(|(step, _)| step.name == RECEIVE);
    let Some((step, pieces)) = steps.next() else {
        return Ok(table);
    };
    let Some(piece) = longest(pieces) else {
        let unrecorded = dir.unrecorded(step);
        for row in ["rate", "net_rx", "delay_high", "delay_other"] {
            table.row(row, vec![unrecorded.clone()]);
        }
        return Ok(table);
    };
    let load = piece.recording.manifest().load.as_ref();
    let work = load.and_then(|load| load.throughput.as_ref());
    let rate = work.and_then(|work| {
        Some(StudyCell::Rate {
            per_second: work.per_second()?,
            unit: work.unit.clone(),
        })
    });
    table.row("rate", vec![rate.unwrap_or(NOT_REPORTED)]);
    let report = handlers_of(pieces);
    let receiver = report.as_ref().and_then(|report| {
        let mut handlers = report.handlers.iter();
        handlers.find(|handler| handler.who == NET_RX)
    });
    let cell = receiver.map_or(
        StudyCell::Missing {
            reason: MissingReason::NoTraceData,
        },
        |receiver| time(receiver.longest_ns.as_f64()),
    );
    table.row("net_rx", vec![cell]);
    let polls = report.iter().flat_map(|report| &report.handlers);
    for poll in polls.filter(|handler| handler.who.starts_with(POLL)) {
        table.row(poll.who.clone(), vec![time(poll.longest_ns.as_f64())]);
    }
    let figures = recording(measured(&piece.recording, By::Service, threads)?, false);
    for (row, service) in [("delay_high", HIGH), ("delay_other", Service::Other)] {
        let services = figures.services.iter();
        let mut latencies = services
            .filter(|row| (row.service, row.route) == (service, Route::Direct))
            .map(|row| &row.latency);
        let max = latencies.next().and_then(|latency| {
            let ns = latency.largest_ns?.as_f64();
            Some(if latency.largest_is_at_least {
                StudyCell::AtLeast { ns }
            } else {
                time(ns)
            })
        });
        let absent = dir.absent(step, pieces, service, &[Route::Direct]);
        table.row(row, vec![max.unwrap_or(absent)]);
    }
    Ok(table)
}

/// Sections 4.4 and 4.5: causes of late wakeups of the most urgent thread.
fn causes(dir: &StudyDir) -> SystemTable {
    let mut table = SystemTable::new("causes", ["longest", "share", "period", "cause"]);
    for (step, pieces) in of_record(dir) {
        let cells = |cause: CauseShare| {
            let ns = cause.largest_ns.as_f64();
            vec![
                if cause.is_at_least {
                    StudyCell::AtLeast { ns }
                } else {
                    time(ns)
                },
                StudyCell::Share { share: cause.share },
                match &cause.rhythm {
                    Some(rhythm) => time(rhythm.period_ns.as_f64()),
                    None => StudyCell::Missing {
                        reason: MissingReason::NoPeriod,
                    },
                },
                StudyCell::Cause {
                    cause: cause.cause,
                    fix: cause.fix,
                },
            ]
        };
        let rows = causes_of(pieces).into_iter().map(cells).collect();
        add_numbered(&mut table, dir, step, pieces, rows);
    }
    table
}

/// Returns the steps that make recordings.
fn of_record(dir: &StudyDir) -> impl Iterator<Item = (&Step, &[Piece])> {
    dir.steps().filter(|(step, _)| step.bench.is_none())
}

/// Returns the longest recording of a step. Its trace data stands for the step.
fn longest(pieces: &[Piece]) -> Option<&Piece> {
    pieces.iter().max_by_key(|piece| piece.length)
}

/// A recording may lack trace data.
fn handlers_of(pieces: &[Piece]) -> Option<HandlersReport> {
    let late = RecordedEpisodes::read_with(&longest(pieces)?.recording, |_| false).ok()?;
    handlers(&late)
}

fn causes_of(pieces: &[Piece]) -> Vec<CauseShare> {
    let read = longest(pieces).map(|piece| RecordedEpisodes::read(&piece.recording));
    let Some(Ok(late)) = read else {
        return Vec::new();
    };
    let explained = Explained::new(&late, None);
    let late = explained.foremost().map(|late| late.report(MAX_ROWS));
    late.map(|late| late.causes).unwrap_or_default()
}

/// Adds numbered rows of a step, or a row with the reason if they are missing.
fn add_numbered(
    table: &mut SystemTable,
    dir: &StudyDir,
    step: &Step,
    pieces: &[Piece],
    mut rows: Vec<Vec<StudyCell>>,
) {
    if rows.is_empty() {
        let cell = if pieces.is_empty() {
            dir.unrecorded(step)
        } else {
            StudyCell::Missing {
                reason: MissingReason::NoTraceData,
            }
        };
        rows.push(vec![cell; table.columns.len()]);
    }
    for (number, cells) in (1_u32..).zip(rows) {
        table.row([step.name, &number.to_string()].join("."), cells);
    }
}

const fn time(ns: f64) -> StudyCell {
    StudyCell::Time { ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_intervals_are_joined_and_none_is_lost() {
        let row = |start: &str, counts: [Option<u64>; 2]| StudyRow {
            row: start.into(),
            cells: vec![
                counts
                    .map(|count| count.map_or(NOT_REPORTED, |count| StudyCell::Count { count }))
                    .into(),
            ],
        };
        let mut table = StudyTable {
            name: "table2".into(),
            columns: vec!["timerfd".into()],
            rows: vec![
                row("100", [Some(1), None]),
                row("500", [Some(2), Some(3)]),
                row("900", [Some(990), Some(9)]),
                row("1900", [Some(4), Some(990)]),
                row("700", [None, Some(1)]),
            ],
        };

        join_rare(&mut table);

        let expected = [
            row("100-800", [Some(3), Some(4)]),
            row("900", [Some(990), Some(9)]),
            row("1900", [Some(4), Some(990)]),
        ];
        assert_eq!(table.rows, expected);
        // A short recording has few intervals, and some of these are single ones.
        let mut short = StudyTable {
            rows: vec![
                row("100", [Some(1), None]),
                row("500", [Some(3), None]),
                row("900", [Some(9), None]),
            ],
            ..table
        };

        join_rare(&mut short);

        let names: Vec<&str> = short.rows.iter().map(|row| row.row.as_str()).collect();
        assert_eq!(names, ["100-600", "900"]);
    }
}
