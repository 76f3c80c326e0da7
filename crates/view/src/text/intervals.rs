//! `laggard show --intervals` for the terminal, in the form of Jones & Regehr
//! 1999, Tables 1 and 2.

use std::collections::BTreeMap;

use laggard_answer::Trust;
use laggard_answer::show::{CountedInterval, IntervalRow, IntervalsReport, RecordingIntervals};
use laggard_model::text::{self, Unit, count};
use laggard_model::{Nanos, printable, printable_lines};

use super::Look;
use super::grid::Grid;

/// Bins that are listed, the fullest: the table of a screen or two. JSON has all.
const MOST: usize = 60;

/// The times between the runs of each service; `trusts` says of each recording
/// whether its figures can be believed.
pub fn intervals(report: &IntervalsReport, trusts: &[&Trust], look: Look) -> String {
    let parts = report.recordings.iter().enumerate().map(|(index, one)| {
        let reasons = trusts.get(index).and_then(|trust| trust.reasons());
        of_recording(one, reasons.as_deref(), look)
    });
    let parts: Vec<String> = parts.collect();
    printable_lines(&parts.join("\n")).to_string()
}

fn of_recording(one: &RecordingIntervals, doubts: Option<&str>, look: Look) -> String {
    let what = match one.counted {
        CountedInterval::Interval => "times between the runs of each service",
        CountedInterval::BeyondPlan => {
            "times between the runs of each service, beyond those planned"
        }
    };
    let mut text = look.hanging("", "  ", &format!("{}: {what}", printable(&one.path)));
    if let Some(doubts) = doubts {
        text += &look.filled("  ", &format!("NOT TRUSTWORTHY: {}", printable(doubts)));
    }
    for sentence in &one.sentences {
        text += &look.filled("  ", sentence);
    }
    for caveat in &one.shortfalls {
        let missing = format!(
            "Missing: {}; {}",
            printable(&caveat.what),
            printable(&caveat.advice)
        );
        text += &look.filled("  ", &missing);
    }
    text.push('\n');
    text += &statistics(&one.lines, look);
    text.push('\n');
    text += &bins(one, look);
    text
}

/// A row for each line: Table 1's figures.
fn statistics(lines: &[IntervalRow], look: Look) -> String {
    let has_missed = lines.iter().any(|row| row.missed > 0);
    let has_unknown = lines.iter().any(|row| row.unknown > 0);
    let mut head = vec!["service", "CPU", "intervals"];
    head.extend(has_missed.then_some("missed"));
    head.extend(has_unknown.then_some("not known"));
    head.extend(["min", "mean", "max", "std dev"]);
    let mut grid = Grid::new(head).keys(2);
    for row in lines {
        let mut cells = vec![
            row.name.clone(),
            row.line.cpu.to_string(),
            count(row.intervals),
        ];
        cells.extend(has_missed.then(|| count(row.missed)));
        cells.extend(has_unknown.then(|| count(row.unknown)));
        let figures = [
            row.min_ns.map(|ns| ns as f64),
            row.mean_ns,
            row.max_ns.map(|ns| ns as f64),
            row.deviation_ns,
        ];
        cells.extend(figures.map(|ns| ns.map_or_else(|| "-".into(), |ns| signed(ns, look.unit))));
        grid.add_row(cells);
    }
    grid.written(look)
}

fn signed(ns: f64, unit: Unit) -> String {
    let time = unit.write_nanos(Nanos::from_f64(ns.abs()));
    // What is written as 0 has no sign.
    if ns < 0.0 && time.contains(|digit: char| ('1'..='9').contains(&digit)) {
        format!("-{time}")
    } else {
        time
    }
}

/// A row for each bin that is not empty, a column for each line: Table 2.
fn bins(one: &RecordingIntervals, look: Look) -> String {
    let lines: Vec<&IntervalRow> = one.lines.iter().filter(|row| row.intervals > 0).collect();
    if lines.is_empty() {
        return look.filled("", "No interval is known.");
    }
    let names = lines
        .iter()
        .map(|row| format!("{} CPU {}", row.name, row.line.cpu));
    let heading = match one.counted {
        CountedInterval::Interval => "interval",
        CountedInterval::BeyondPlan => "beyond plan",
    };
    let mut grid = Grid::new(std::iter::once(heading.to_owned()).chain(names));
    let written = |count: u64| match count {
        0 => String::new(),
        some => text::count(some),
    };
    let mut row = |name: String, of: &dyn Fn(&IntervalRow) -> u64| {
        let cells = lines.iter().map(|line| written(of(line)));
        grid.add_row(std::iter::once(name).chain(cells));
    };
    if lines.iter().any(|line| line.shorter > 0) {
        row("shorter".into(), &|line| line.shorter);
    }
    let mut all: BTreeMap<i64, u64> = BTreeMap::new();
    for bin in lines.iter().flat_map(|line| &line.bins) {
        *all.entry(bin.from_ns).or_default() += bin.count;
    }
    let mut fullest: Vec<(i64, u64)> = all.into_iter().collect();
    fullest.sort_by_key(|&(from, count)| (std::cmp::Reverse(count), from));
    let left_out = fullest.split_off(fullest.len().min(MOST));
    fullest.sort_unstable();
    for (from, _) in fullest {
        row(between(from, one.bin_ns), &|line| {
            let found = line.bins.binary_search_by_key(&from, |bin| bin.from_ns);
            found.map_or(0, |at| line.bins[at].count)
        });
    }
    if lines.iter().any(|line| line.longer > 0) {
        row("longer".into(), &|line| line.longer);
    }
    let mut told = grid.written(look);
    if !left_out.is_empty() {
        let inside: u64 = left_out.iter().map(|(_, count)| count).sum();
        told += &look.hanging(
            "",
            "  ",
            &format!(
                "and {} more bins, which have {} intervals together: a wider `--bins`, or --json",
                count(left_out.len() as u64),
                count(inside)
            ),
        );
    }
    told
}

/// `900 to 1000 us`, as the paper has it.
fn between(from: i64, width: Nanos) -> String {
    let to = from.saturating_add(i64::try_from(width.ns()).unwrap_or(i64::MAX));
    match width.ns() % 1_000 {
        0 => format!("{} to {} us", from / 1_000, to / 1_000),
        _ => format!("{from} to {to} ns"),
    }
}

#[cfg(test)]
mod tests {
    use laggard_answer::show::GapBin;
    use laggard_model::{Cpu, Line, Route, Service};

    use super::*;

    fn row(cpu: u32, bins: &[(i64, u64)]) -> IntervalRow {
        let intervals = bins.iter().map(|(_, count)| count).sum();
        IntervalRow {
            line: Line {
                cpu: Cpu(cpu),
                service: Service::Fifo(90),
                route: Route::Direct,
            },
            name: "fifo:90".into(),
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

    fn told(lines: Vec<IntervalRow>, columns: usize) -> String {
        let report = IntervalsReport {
            schema: 1,
            recordings: vec![RecordingIntervals {
                path: "r\u{1b}[2J".into(),
                counted: CountedInterval::BeyondPlan,
                bin_ns: Nanos::from_us(100),
                lines,
                sentences: vec!["Said.".into()],
                shortfalls: Vec::new(),
            }],
        };
        let look = Look {
            columns,
            unit: Unit::Auto,
        };
        intervals(&report, &[&Trust::Good], look)
    }

    #[test]
    fn intervals_are_told_as_the_papers_tables_tell_them() {
        let text = told(
            vec![row(0, &[(-100_000, 3), (900_000, 9_014)]), row(1, &[])],
            80,
        );

        for part in [
            "service  CPU  intervals  missed       min    mean      max  std dev\n",
            "fifo:90    0      9,017       2  -31.0 us  999 us  2.38 ms        -\n",
            "fifo:90    1          0       2         -       -        -        -\n",
            "-100 to 0 us",
            "900 to 1000 us",
            "9,014",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn what_is_written_as_nothing_has_no_sign() {
        assert_eq!(signed(-0.7, Unit::Auto), signed(0.0, Unit::Auto));
        assert_eq!(signed(-0.2, Unit::Auto), signed(0.0, Unit::Auto));
        assert_eq!(signed(-7.0, Unit::Auto), "-7 ns");
    }

    #[test]
    fn many_bins_are_cut_with_a_word_and_no_line_is_too_wide() {
        // What is rare comes first, as the far ends of a distribution do.
        let bins = (0..100).map(|bin| (bin * 100_000, 1 + u64::from(bin >= 40)));
        let bins: Vec<(i64, u64)> = bins.collect();

        let text = told((0..8).map(|cpu| row(cpu, &bins)).collect(), 60);

        assert!(
            text.contains("and 40 more bins, which have 320 intervals together"),
            "{text}"
        );
        assert!(text.contains("\n9900 to 10000 us"), "{text}");
        assert!(!text.contains("\n3900 to 4000 us"), "{text}");
        let wide = text.lines().find(|line| line.chars().count() > 60);
        assert_eq!(wide, None, "{text}");
    }
}
