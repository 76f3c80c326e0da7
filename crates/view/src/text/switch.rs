//! `laggard bench switch` for the terminal.

use laggard_answer::switch::{SwitchReport, SwitchRow, SwitchTimes};
use laggard_model::text::Unit;
use laggard_model::{Absence, SwitchWay, printable};

use super::Look;
use super::caveats::caveats;
use super::grid::Grid;

/// The report as text: the answer, and a table for each way of handing over.
pub fn switches(report: &SwitchReport, look: Look) -> String {
    let mut text = String::new();
    for growth in &report.growth {
        text += &filled(look, &growth.sentence);
    }
    if let Some(surety) = report.surety() {
        text += &filled(look, &surety);
    }
    let mut ways: Vec<SwitchWay> = Vec::new();
    for row in &report.rows {
        if ways.contains(&row.way) {
            continue;
        }
        ways.push(row.way);
        text.push('\n');
        text += &table(report, row.way, look);
    }
    text += &about_net(report, look);
    if !report.is_whole {
        text += &filled(look, "It was ended early: not all stretches were measured.");
    }
    text += &caveats("Caveats", &report.caveats, look);
    text.trim_start().into()
}

fn table(report: &SwitchReport, way: SwitchWay, look: Look) -> String {
    let of = |row: &&SwitchRow| row.way == way;
    let mut text = filled(look, &title(report, way));
    if way.working_set_bytes > 0 {
        let alone = report.rows.iter().filter(of).filter_map(|row| row.alone_ns);
        let size = laggard_model::text::bytes(way.working_set_bytes);
        let mut line = format!("Who has the CPU goes through {size} first");
        if let Some(alone) = alone.max() {
            let alone = Unit::Auto.write(alone as f64);
            line += &format!("; what that takes alone, {alone}, is taken off");
        }
        text += &filled(look, &(line + "."));
    }
    text += &figures(report.rows.iter().filter(of), look);
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
            let whose = match row.net {
                Some(_) => "the gross figures",
                None => "the figures",
            };
            let line = format!(
                "With {} threads, {:.0} % of the times that one left the CPU somebody else took it: that is in {whose}.",
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

fn title(report: &SwitchReport, way: SwitchWay) -> String {
    let (service, via) = (way.service, way.via);
    let who = if way.are_processes { ", processes" } else { "" };
    let load = match &report.load {
        Some(load) => format!(", under load {load}"),
        None => String::new(),
    };
    let whereabouts = match report.other_cpu {
        Some(other) => format!("from CPU {} to CPU {other} and back", report.cpu),
        None => format!("on CPU {}", report.cpu),
    };
    format!(
        "{service}{who} {whereabouts}, by {via}{load}: {}",
        via.about()
    )
}

/// The rows that could be had, each in two lines where it has net figures; nothing
/// where there are none.
fn figures<'a>(rows: impl Iterator<Item = &'a SwitchRow>, look: Look) -> String {
    let rows: Vec<(&SwitchRow, SwitchTimes)> =
        rows.filter_map(|row| Some((row, row.took?))).collect();
    if rows.is_empty() {
        return String::new();
    }
    let times = ["least", "mean", "median", "1 in 1,000", "largest"].map(String::from);
    let has_net = rows.iter().any(|(row, _)| row.net.is_some());
    if !has_net {
        let mut grid = Grid::new(headed(["threads", "hand-overs"], times));
        for (row, took) in rows {
            grid.add_row(headed([row.threads, row.count].map(counted), cells(took)));
        }
        return grid.written(look);
    }
    let mut grid = Grid::new(headed(["threads", "hand-overs", ""], times));
    for (row, took) in rows {
        let [threads, count] = [row.threads, row.count].map(counted);
        grid.add_row(headed([threads, count, "gross".to_owned()], cells(took)));
        if let Some(net) = row.net {
            grid.add_row(headed(["", "", "net"], cells(net)));
        }
    }
    grid.written(look)
}

fn counted(count: usize) -> String {
    laggard_model::text::count(count as u64)
}

/// A line of a table: what heads it, then times.
fn headed<const HEADS: usize>(
    heads: [impl Into<String>; HEADS],
    times: [String; 5],
) -> Vec<String> {
    heads.into_iter().map(Into::into).chain(times).collect()
}

fn cells(took: SwitchTimes) -> [String; 5] {
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| Unit::Auto.write(ns));
    [
        time(Some(took.least_ns)),
        time(Some(took.mean_ns)),
        time(Some(took.median_ns)),
        time(took.one_in_1000_ns),
        time(Some(took.largest_ns)),
    ]
}

/// What net figures are, and what it costs to have them; or why there are none.
fn about_net(report: &SwitchReport, look: Look) -> String {
    if let Some(absence) = &report.net_absence {
        let line = format!(
            "What interrupted hand-overs is in the figures; to tell it apart: {}; {}",
            absence.reason, absence.remedy
        );
        return filled(look, &line);
    }
    // Where caches are filled anew each time, that differs by more from time to time.
    let plain = |row: &&SwitchRow| row.way.working_set_bytes == 0;
    let longer = report.rows.iter().filter(plain).filter_map(|row| {
        let unwatched = row.unwatched_median_ns?;
        Some(row.took?.median_ns - unwatched)
    });
    let longer = longer.reduce(f64::max);
    if report.rows.iter().all(|row| row.net.is_none()) {
        return String::new();
    }
    let mut line =
        "Net is without interrupts, softirqs, threads that take no part, and what the hypervisor took as far as it tells."
            .to_owned();
    if let Some(longer) = longer.filter(|&longer| longer > 0.0) {
        let longer = Unit::Auto.write(longer);
        line += &format!(
            " The programs that tell make a hand-over up to {longer} longer, in the median."
        );
    }
    filled(look, &line)
}

#[cfg(test)]
mod tests {
    use laggard_answer::switch::{StretchFigures, SwitchesMeasured, switches as answered};
    use laggard_model::{
        Absence, Caveat, CaveatKind, Cpu, HandOver, Host, Interruption, Lacks, SwitchPolicy,
        SwitchRun, SwitchStretch, SwitchSums, SwitchWatched,
    };

    use super::*;

    fn way(via: HandOver) -> SwitchWay {
        SwitchWay {
            via,
            service: SwitchPolicy::Fifo(80),
            are_processes: false,
            working_set_bytes: 0,
            is_cross: false,
        }
    }

    fn figures(run: SwitchRun) -> SwitchRun<StretchFigures> {
        run.try_map(|one| StretchFigures::of(&one)).unwrap()
    }

    #[test]
    fn the_title_says_who_hands_what_over_and_under_which_load() {
        let of_all = SwitchWay {
            are_processes: true,
            working_set_bytes: 65_536,
            is_cross: true,
            ..way(HandOver::Futex)
        };
        let measured = SwitchesMeasured {
            host: Host::default(),
            cpu: Cpu(3),
            other_cpu: Some(Cpu(0)),
            load: Some("fileio".into()),
            runs: vec![figures(SwitchRun {
                threads: 2,
                way: of_all,
                absence: None,
                stretches: vec![SwitchStretch {
                    took_ns: vec![9_000; 10],
                    alone_ns: 3_200,
                    ..SwitchStretch::default()
                }],
                unwatched: None,
            })],
            stretches: 1,
            unwatched_because: None,
            caveats: Vec::new(),
        };

        let text = switches(&answered(&measured).unwrap(), Look::default());

        let expected = "\
fifo:80, processes from CPU 3 to CPU 0 and back, by futex, under load fileio:
wake the next by its futex, wait for one's own
Who has the CPU goes through 64 KiB first; what that takes alone, 3.20 us, is
taken off.
threads";
        assert!(text.starts_with(expected), "{text}");
    }

    fn report() -> SwitchReport {
        let run = |threads: usize, ns: u32| SwitchRun {
            threads,
            way: way(HandOver::Pipe),
            absence: None,
            stretches: vec![
                SwitchStretch {
                    took_ns: vec![ns; 20_000],
                    watched: None,
                    counted_by_kernel: 40_000,
                    left_out: 7,
                    unkept: 0,
                    alone_ns: 0,
                    ..SwitchStretch::default()
                };
                3
            ],
            unwatched: None,
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
            other_cpu: None,
            load: None,
            runs: [run(2, 1_500), run(64, 3_000), absent].map(figures).into(),
            stretches: 3,
            unwatched_because: None,
            caveats: Vec::new(),
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
Intervals are of 97.5 %, so that both hold together with 95 %.

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
    fn what_came_between_is_in_the_gross_line_and_not_in_the_net_one() {
        let stretch = SwitchStretch {
            took_ns: [vec![600; 19_999], vec![2_000_600]].concat(),
            watched: Some(SwitchWatched {
                between: [
                    vec![Interruption::default(); 19_999],
                    vec![Interruption {
                        taken_ns: 2_000_000,
                        ..Interruption::default()
                    }],
                ]
                .concat(),
                sums: SwitchSums::default(),
            }),
            counted_by_kernel: 20_000,
            ..SwitchStretch::default()
        };
        let measured = SwitchesMeasured {
            host: Host::default(),
            cpu: Cpu(1),
            other_cpu: None,
            load: None,
            runs: vec![figures(SwitchRun {
                threads: 2,
                way: way(HandOver::Yield),
                absence: None,
                stretches: vec![stretch],
                unwatched: Some(SwitchStretch {
                    took_ns: vec![540; 100],
                    ..SwitchStretch::default()
                }),
            })],
            stretches: 1,
            unwatched_because: None,
            caveats: Vec::new(),
        };

        let text = switches(&answered(&measured).unwrap(), Look::default());

        let expected = "\
fifo:80 on CPU 1, by yield: sched_yield, all threads ready to run
threads  hand-overs          least    mean  median  1 in 1,000  largest
2            20,000  gross  600 ns  700 ns  600 ns      600 ns  2.00 ms
                       net  600 ns  600 ns  600 ns      600 ns   600 ns
Net is without interrupts, softirqs, threads that take no part, and what the
hypervisor took as far as it tells. The programs that tell make a hand-over up
to 60 ns longer, in the median.
";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_casts_doubt_on_all_figures_is_below_them_with_what_helps() {
        let mut report = report();
        report.caveats = vec![Caveat::new(
            CaveatKind::CpuQuota,
            "a control group gives this program 80ms in each 100ms",
            "run outside of it",
        )];

        let text = switches(&report, Look::default());

        let expected = "
Caveats:
  - a control group gives this program 80ms in each 100ms; run outside of it
";
        assert!(text.ends_with(expected), "{text}");
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
