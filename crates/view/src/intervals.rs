//! `laggard show --intervals`: times between the runs of each service.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use laggard_answer::show::{CountedInterval, IntervalRow, IntervalsReport, RecordingIntervals};
use laggard_answer::trust::Trust;
use laggard_model::name::series_words;
use laggard_model::text::Unit;
use laggard_model::{Nanos, printable};

use crate::doc::{Block, Cell, Column, Document, Reason, Table, code};
use crate::phrase::{plural, trust};

/// Number of bins that are listed, the fullest ones. JSON has all.
const MAX_BINS: usize = 60;

/// Describes the intervals, with times in `unit`. `trusts` are the trusts in the recordings, in
/// the same order.
pub fn document(report: &IntervalsReport, trusts: &[&Trust], unit: Unit) -> Document {
    let mut document = Document::new("Times between the runs of each service");
    for (index, recording) in report.recordings.iter().enumerate() {
        let doubts = trusts.get(index).and_then(|trust| trust::reasons(trust));
        document.lines(head(recording, doubts.as_deref()));
        document.push(Block::Table(statistics(&recording.lines, unit)));
        match bins(recording) {
            Some(table) => document.push(Block::Table(table)),
            None => document.lines(vec!["No interval is known.".into()]),
        }
    }
    document
}

fn head(recording: &RecordingIntervals, doubts: Option<&str>) -> Vec<String> {
    let counted = match recording.counted {
        CountedInterval::Interval => "times between the runs of each service",
        CountedInterval::BeyondPlan => {
            "times between the runs of each service, minus the planned times"
        }
    };
    let mut lines = vec![format!("{}: {counted}", code(&recording.path))];
    lines.extend(doubts.map(|doubts| format!("NOT TRUSTWORTHY: {}", printable(doubts))));
    if recording.counted == CountedInterval::BeyondPlan {
        lines.push(
            "The expiries are dithered, so the plan has irregular intervals. `record --no-dither` has the periodic timers of HotOS'99.".into(),
        );
    }
    let sum = |count: fn(&IntervalRow) -> u64| recording.lines.iter().map(count).sum::<u64>();
    let (missed, unknown) = (sum(|row| row.missed), sum(|row| row.unknown));
    if missed > 0 {
        let wakeups = plural(missed, "wakeup");
        lines.push(format!(
            "{wakeups} missed: the service ran once for several, and the interval to that run includes them."
        ));
    }
    if unknown > 0 {
        let intervals = plural(unknown, "interval");
        lines.push(format!(
            "{intervals} unknown, because a wakeup in between was lost."
        ));
    }
    if let Some(period) = recording.planned_ns {
        lines.push(format!(
            "Planned period: {}; longer for services that take turns or have a multiple of it.",
            Cell::Time(period)
        ));
    }
    let shortfalls = recording.shortfalls.iter();
    lines.extend(shortfalls.map(|shortfall| format!("Missing: {}", trust::missing(shortfall))));
    lines
}

/// Returns a row per series and CPU: the figures of Table 1 of `HotOS`'99.
fn statistics(lines: &[IntervalRow], unit: Unit) -> Table {
    let has_missed = lines.iter().any(|row| row.missed > 0);
    let has_unknown = lines.iter().any(|row| row.unknown > 0);
    let mut columns = vec![
        Column::name("series"),
        Column::number("CPU"),
        Column::number("intervals"),
    ];
    columns.extend(has_missed.then(|| Column::number("missed")));
    columns.extend(has_unknown.then(|| Column::number("unknown")));
    columns.extend(["min", "mean", "max", "std dev"].map(Column::number));
    let mut table = Table::new(columns).keys(2);
    for row in lines {
        let mut cells = vec![
            name(row).into(),
            row.line.cpu.to_string().into(),
            Cell::Count(row.intervals),
        ];
        cells.extend(has_missed.then_some(Cell::Count(row.missed)));
        cells.extend(has_unknown.then_some(Cell::Count(row.unknown)));
        let figures = [
            row.min_ns.map(|ns| ns as f64),
            row.mean_ns,
            row.max_ns.map(|ns| ns as f64),
            row.deviation_ns,
        ];
        cells.extend(figures.map(|ns| {
            ns.map_or(Cell::Unknown(Reason::TooFewSamples), |ns| {
                signed(ns, unit).into()
            })
        }));
        table.row(cells);
    }
    table
}

fn name(row: &IntervalRow) -> String {
    series_words(row.line.service, row.line.route)
}

fn signed(ns: f64, unit: Unit) -> String {
    let time = unit.write_nanos(Nanos::from_f64(ns.abs()));
    // A time that is written as 0 has no sign.
    if ns < 0.0 && time.contains(|digit: char| ('1'..='9').contains(&digit)) {
        format!("-{time}")
    } else {
        time
    }
}

/// Returns a row per bin that is not empty and a column per series and CPU: Table 2 of
/// `HotOS`'99. `None` without intervals.
fn bins(recording: &RecordingIntervals) -> Option<Table> {
    let lines = recording.lines.iter();
    let lines: Vec<&IntervalRow> = lines.filter(|row| row.intervals > 0).collect();
    if lines.is_empty() {
        return None;
    }
    let heading = match recording.counted {
        CountedInterval::Interval => "interval",
        CountedInterval::BeyondPlan => "minus plan",
    };
    let names = lines
        .iter()
        .map(|row| Column::number(format!("{} CPU {}", name(row), row.line.cpu)));
    let mut table = Table::new(std::iter::once(Column::name(heading)).chain(names));
    let mut row = |name: String, count: &dyn Fn(&IntervalRow) -> u64| {
        let cells = lines.iter().map(|line| match count(line) {
            0 => Cell::Empty,
            count => Cell::Count(count),
        });
        table.row(std::iter::once(name.into()).chain(cells));
    };
    if lines.iter().any(|line| line.shorter > 0) {
        row("shorter".into(), &|line| line.shorter);
    }
    let mut sums: BTreeMap<i64, u64> = BTreeMap::new();
    for bin in lines.iter().flat_map(|line| &line.bins) {
        *sums.entry(bin.from_ns).or_default() += bin.count;
    }
    let mut fullest: Vec<(i64, u64)> = sums.into_iter().collect();
    fullest.sort_by_key(|&(from, count)| (Reverse(count), from));
    let left_out = fullest.split_off(fullest.len().min(MAX_BINS));
    fullest.sort_unstable();
    for (from, _) in fullest {
        row(between(from, recording.bin_ns), &|line| {
            let position = line.bins.binary_search_by_key(&from, |bin| bin.from_ns);
            position.map_or(0, |index| line.bins[index].count)
        });
    }
    if lines.iter().any(|line| line.longer > 0) {
        row("longer".into(), &|line| line.longer);
    }
    if !left_out.is_empty() {
        let inside = left_out.iter().map(|(_, count)| count).sum();
        table.note(format!(
            "{} more with {} in total: use wider `--bins`, or `--json`",
            plural(left_out.len() as u64, "bin"),
            plural(inside, "interval")
        ));
    }
    Some(table)
}

/// Names a bin as the paper does: `900 to 1000 us`.
fn between(from: i64, width: Nanos) -> String {
    let to = from.saturating_add(i64::try_from(width.ns()).unwrap_or(i64::MAX));
    if width.ns().is_multiple_of(1_000) {
        format!("{} to {} us", from / 1_000, to / 1_000)
    } else {
        format!("{from} to {to} ns")
    }
}

#[cfg(test)]
mod tests {
    use laggard_answer::show::GapBin;
    use laggard_model::{Cpu, Line, Route, Service};

    use super::*;
    use crate::doc::terminal;
    use crate::text::Look;

    fn row(cpu: u32, bins: &[(i64, u64)]) -> IntervalRow {
        let intervals = bins.iter().map(|(_, count)| count).sum();
        IntervalRow {
            line: Line::new(Cpu(cpu), Service::Fifo(90), Route::Direct),
            intervals,
            unknown: 0,
            missed: 2,
            min_ns: (intervals > 0).then_some(-31_000),
            max_ns: (intervals > 0).then_some(2_384_000),
            mean_ns: (intervals > 0).then_some(999_000.4),
            deviation_ns: None,
            bins: bins
                .iter()
                .map(|&(from_ns, count)| GapBin { from_ns, count })
                .collect(),
            shorter: 0,
            longer: 0,
        }
    }

    fn screen(lines: Vec<IntervalRow>, columns: usize) -> String {
        let report = IntervalsReport {
            schema: 2,
            recordings: vec![RecordingIntervals {
                path: "r\u{1b}[2J".into(),
                counted: CountedInterval::BeyondPlan,
                bin_ns: Nanos::from_us(100),
                lines,
                planned_ns: None,
                shortfalls: Vec::new(),
            }],
        };
        let look = Look {
            columns,
            unit: Unit::Auto,
        };
        terminal(&document(&report, &[&Trust::Good], Unit::Auto), look).plain()
    }

    #[test]
    fn tables_have_the_figures_of_the_papers() {
        let text = screen(
            vec![row(0, &[(-100_000, 3), (900_000, 9_014)]), row(1, &[])],
            80,
        );

        for part in [
            "series         CPU  intervals  missed       min    mean      max  std dev\n",
            "SCHED_FIFO 90    0      9,017       2  -31.0 us  999 us  2.38 ms        -\n",
            "SCHED_FIFO 90    1          0       2         -       -        -        -\n",
            "-100 to 0 us",
            "900 to 1000 us",
            "9,014",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn zero_has_no_sign() {
        let text = |ns| signed(ns, Unit::Auto);
        assert_eq!(text(-0.7), text(0.0));
        assert_eq!(text(-0.2), text(0.0));
        assert_eq!(text(-7.0), "-7 ns");
    }

    #[test]
    fn many_bins_are_cut_with_a_note_and_no_line_is_too_wide() {
        // Rare bins come first, like the ends of a distribution.
        let bins = (0..100).map(|bin| (bin * 100_000, 1 + u64::from(bin >= 40)));
        let bins: Vec<(i64, u64)> = bins.collect();

        let text = screen((0..8).map(|cpu| row(cpu, &bins)).collect(), 60);

        assert!(
            text.contains("40 bins more with 320 intervals in total"),
            "{text}"
        );
        assert!(text.contains("\n9900 to 10000 us"), "{text}");
        assert!(!text.contains("\n3900 to 4000 us"), "{text}");
        let wide = text.lines().find(|line| line.chars().count() > 60);
        assert_eq!(wide, None, "{text}");
    }
}
