//! `laggard switch` for the terminal.

use laggard_answer::switch::{SwitchReport, SwitchRow};
use laggard_model::text::Unit;
use laggard_model::{Absence, HandOver, Service, printable};

use super::Look;
use super::grid::Grid;

/// The report as text: the answer, and a table for each way of handing over.
pub fn switches(report: &SwitchReport, look: Look) -> String {
    let mut text = String::new();
    for growth in &report.growth {
        text += &filled(look, &growth.sentence);
    }
    let mut ways: Vec<(Service, HandOver)> = Vec::new();
    for row in &report.rows {
        let way = (row.service, row.via);
        if ways.contains(&way) {
            continue;
        }
        ways.push(way);
        text.push('\n');
        text += &table(report, way, look);
    }
    if !report.is_whole {
        text += &filled(look, "It was ended early: not all stretches were measured.");
    }
    text.trim_start().into()
}

fn table(report: &SwitchReport, way: (Service, HandOver), look: Look) -> String {
    let (service, via) = way;
    let title = format!("{service} on CPU {}, by {via}: {}", report.cpu, via.about());
    let mut text = filled(look, &title);
    let of = |row: &&SwitchRow| (row.service, row.via) == way;
    let mut grid = Grid::new([
        "threads",
        "hand-overs",
        "least",
        "mean",
        "median",
        "1 in 1,000",
        "largest",
    ]);
    let had = |row: &&SwitchRow| row.took.is_some();
    for row in report.rows.iter().filter(of).filter(had) {
        grid.add_row(cells(row));
    }
    if report.rows.iter().filter(of).any(|row| had(&row)) {
        text += &grid.written(look);
    }
    let absent = report.rows.iter().filter(of);
    let absent: Vec<(usize, &Absence)> = absent
        .filter_map(|row| Some((row.threads, row.absence.as_ref()?)))
        .collect();
    for alike in absent.chunk_by(|one, next| one.1 == next.1) {
        let threads: Vec<String> = alike.iter().map(|one| one.0.to_string()).collect();
        let (threads, absence) = (threads.join(", "), alike[0].1);
        let line = format!(
            "With {threads} threads: {}; {}",
            absence.reason, absence.remedy
        );
        text += &filled(look, &line);
    }
    for row in report.rows.iter().filter(of) {
        if let Some(share) = row.between() {
            let line = format!(
                "With {} threads, {:.0} % of the times that one left the CPU somebody else took it: that is in the figures.",
                row.threads,
                100.0 * share
            );
            text += &filled(look, &line);
        }
        if row.left_out > 0 {
            let line = format!(
                "With {} threads, {} hand-overs had no room and are in no figure.",
                row.threads, row.left_out
            );
            text += &filled(look, &line);
        }
    }
    text
}

fn filled(look: Look, text: &str) -> String {
    look.filled("", &printable(text).to_string())
}

fn cells(row: &SwitchRow) -> [String; 7] {
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| Unit::Auto.write(ns));
    let took = row.took;
    [
        row.threads.to_string(),
        laggard_model::text::count(row.count as u64),
        time(took.map(|it| it.least_ns)),
        time(took.map(|it| it.mean_ns)),
        time(took.map(|it| it.median_ns)),
        time(took.and_then(|it| it.one_in_1000_ns)),
        time(took.map(|it| it.largest_ns)),
    ]
}

#[cfg(test)]
mod tests {
    use laggard_answer::switch::{SwitchesMeasured, switches as answered};
    use laggard_model::{Absence, Cpu, Host, Lacks, SwitchRun, SwitchStretch};

    use super::*;

    fn report() -> SwitchReport {
        let run = |threads: usize, ns: u32| SwitchRun {
            threads,
            via: HandOver::Pipe,
            service: Service::Fifo(80),
            absence: None,
            stretches: vec![
                SwitchStretch {
                    took_ns: vec![ns; 20_000],
                    counted_by_kernel: 40_000,
                    left_out: 7,
                    unkept: 0,
                };
                3
            ],
        };
        let absent = SwitchRun {
            absence: Some(Absence {
                reason: "pipe of 900 threads: refused, too many open files".into(),
                remedy: "ask for fewer threads".into(),
                lacks: Lacks::Machine,
            }),
            stretches: Vec::new(),
            ..run(900, 0)
        };
        answered(&SwitchesMeasured {
            host: Host::default(),
            cpu: Cpu(3),
            runs: vec![run(2, 1_500), run(64, 3_000), absent],
            stretches: 3,
        })
        .unwrap()
    }

    #[test]
    fn the_answer_is_first_and_what_spoils_a_row_is_below_its_table() {
        let text = switches(&report(), Look::default());

        let expected = "\
By pipe, the mean grows with the number of threads: 64 take 2.00 times [2.00,
2.00] as long as 2; what one in 1,000 exceeds grows with the number of threads:
64 take 2.00 times [2.00, 2.00] as long as 2.

fifo:80 on CPU 3, by pipe: write a byte to the next's pipe, read from one's own
threads  hand-overs    least     mean   median  1 in 1,000  largest
2            60,000  1.50 us  1.50 us  1.50 us     1.50 us  1.50 us
64           60,000  3.00 us  3.00 us  3.00 us     3.00 us  3.00 us
With 900 threads: pipe of 900 threads: refused, too many open files; ask for
fewer threads
With 2 threads, 50 % of the times that one left the CPU somebody else took it:
that is in the figures.
With 2 threads, 21 hand-overs had no room and are in no figure.
With 64 threads, 50 % of the times that one left the CPU somebody else took it:
that is in the figures.
With 64 threads, 21 hand-overs had no room and are in no figure.
";
        assert_eq!(text, expected);
    }

    #[test]
    fn it_keeps_to_forty_columns() {
        let look = Look {
            columns: 40,
            ..Look::default()
        };
        let text = switches(&report(), look);

        assert!(
            text.lines().all(|line| line.chars().count() <= 40),
            "{text}"
        );
    }
}
