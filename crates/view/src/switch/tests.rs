use laggard_answer::switch::{StretchFigures, SwitchesMeasured, switches};
use laggard_model::{
    Absence, Caveat, CaveatKind, Cpu, HandOver, Host, Interruption, Lacks, SwitchPolicy, SwitchRun,
    SwitchStretch, SwitchSums, SwitchWatched, SwitchWay,
};

use super::*;
use crate::doc;
use crate::text::Look;

fn way(via: HandOver) -> SwitchWay {
    SwitchWay::new(via, SwitchPolicy::Fifo(80))
}

/// A report on runs of some stretches each.
fn report(stretches: usize, runs: Vec<SwitchRun>) -> SwitchReport {
    let figures = |run: SwitchRun| {
        run.try_map(|stretch| StretchFigures::new(&stretch))
            .unwrap()
    };
    switches(&SwitchesMeasured {
        host: Host::default(),
        cpu: Cpu(3),
        other_cpu: None,
        load: None,
        runs: runs.into_iter().map(figures).collect(),
        stretches,
        unwatched_because: None,
        caveats: Vec::new(),
    })
    .unwrap()
}

/// A report in which each row has a fault.
fn disturbed() -> SwitchReport {
    let run = |threads: usize, ns: u32| SwitchRun {
        threads,
        way: way(HandOver::Pipe),
        absence: None,
        stretches: vec![
            SwitchStretch {
                took_ns: vec![ns; 20_000],
                counted_by_kernel: 40_000,
                left_out: 7,
                ..SwitchStretch::default()
            };
            3
        ],
        unwatched: None,
    };
    let absent = SwitchRun {
        absence: Some(Absence::new(
            "pipe of 900 threads: refused, too many open files",
            "use fewer threads",
            Lacks::Machine,
        )),
        stretches: Vec::new(),
        ..run(900, 0)
    };
    report(3, vec![run(2, 1_500), run(64, 3_000), absent])
}

fn printed(report: &SwitchReport, columns: usize) -> String {
    let look = Look {
        columns,
        ..Look::default()
    };
    doc::terminal(&document(report), look).plain()
}

#[test]
fn growth_is_first_and_faults_of_rows_are_below_their_table() {
    let expected = "\
pipe  mean grows: 64 threads take 2.00 x (2.00 to 2.00) the time of 2; p99.9
      grows: 64 threads take 2.00 x (2.00 to 2.00) the time of 2
  97.5 % confidence intervals; both hold together with 95 %

SCHED_FIFO 80 on CPU 3; pipe: write a byte to the next thread's pipe, then read
one's own
threads  switches      min     mean   median    p99.9      max
2          60,000  1.50 us  1.50 us  1.50 us  1.50 us  1.50 us
64         60,000  3.00 us  3.00 us  3.00 us  3.00 us  3.00 us
900 threads: pipe of 900 threads: refused, too many open files; use fewer
  threads
2 threads: in 50 % of the cases, a thread of another program took the CPU when
  one left it; its time is in the figures.
2 threads: 21 context switches did not fit into the buffer and are not in the
  figures.
64 threads: in 50 % of the cases, a thread of another program took the CPU when
  one left it; its time is in the figures.
64 threads: 21 context switches did not fit into the buffer and are not in the
  figures.

Next: `laggard bench switch --load fileio` for the durations under a load
";
    assert_eq!(printed(&disturbed(), 80), expected);
}

#[test]
fn interruptions_are_in_the_gross_line_only() {
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
    let run = SwitchRun {
        threads: 2,
        way: way(HandOver::Yield),
        absence: None,
        stretches: vec![stretch],
        unwatched: Some(SwitchStretch {
            took_ns: vec![540; 100],
            ..SwitchStretch::default()
        }),
    };

    let expected = "\
SCHED_FIFO 80 on CPU 3; yield: sched_yield, all threads ready to run
threads  switches            min    mean  median   p99.9      max
2          20,000  gross  600 ns  700 ns  600 ns  600 ns  2.00 ms
                   net    600 ns  600 ns  600 ns  600 ns   600 ns

Net: without interrupts, softirqs, other threads and known steal time. Tracing
  adds up to 60 ns to the median.
Next: `laggard bench switch --load fileio` for the durations under a load
";
    assert_eq!(printed(&report(1, vec![run]), 80), expected);
}

#[test]
fn the_caption_has_the_working_set_the_cpus_and_the_load() {
    let run = SwitchRun {
        threads: 2,
        way: SwitchWay {
            are_processes: true,
            working_set_bytes: 65_536,
            is_cross: true,
            ..way(HandOver::Futex)
        },
        absence: None,
        stretches: vec![SwitchStretch {
            took_ns: vec![9_000; 10],
            alone_ns: 3_200,
            ..SwitchStretch::default()
        }],
        unwatched: None,
    };
    let mut report = report(2, vec![run]);
    report.other_cpu = Some(Cpu(0));
    report.load = Some("fileio".into());

    let text = printed(&report, 120);

    let caption = "SCHED_FIFO 80 from CPU 3 to CPU 0 and back, load fileio; futex, processes, 64 KiB each: wake the next thread by its";
    assert!(text.starts_with(caption), "{text}");
    let note = "Each thread accesses 64 KiB after it gets the CPU; its duration without a switch, 3.20 us, is subtracted.";
    assert!(text.contains(note), "{text}");
    assert!(text.contains("Ended early: not all stretches"), "{text}");
    assert!(!text.contains("Next:"), "{text}");
}

#[test]
fn missing_trace_data_and_warnings_have_a_remedy() {
    let mut report = disturbed();
    report.net_absence = Some(Absence::new("no BPF", "run as root", Lacks::Rights));
    report.warnings = vec![Caveat::new(
        CaveatKind::CpuQuota,
        "a control group gives this program 80ms in each 100ms",
        "run outside of it",
    )];

    let text = printed(&report, 80);

    let net = "The figures contain interruptions. To separate them: no BPF; run as root\n";
    assert!(text.contains(net), "{text}");
    let warnings = "
Warnings:
  - a control group gives this program 80ms in each 100ms; run outside of it
";
    assert!(text.ends_with(warnings), "{text}");
}

#[test]
fn the_sentence_about_confidence_counts_the_intervals() {
    assert_eq!(phrase::confidence(0.95, 1), "95 % confidence interval");
    assert_eq!(
        phrase::confidence(0.9875, 4),
        "98.8 % confidence intervals; all 4 hold together with 95 %"
    );
}

#[test]
fn no_line_is_wider_than_forty_columns() {
    let text = printed(&disturbed(), 40);

    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(40), "{text}");
}
