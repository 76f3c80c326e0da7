use laggard_answer::rtos::{RtosInput, rtos};
use laggard_model::{
    Absence, Caveat, CaveatKind, Cpu, Host, InterruptSource, InversionRound, InversionRounds,
    Lacks, LockedPages, Nanos, QueueWake, QueueWakes, RtosCriterion, RtosInterrupt, RtosInterrupts,
    RtosLoadRun, RtosWakeup, RtosWakeups, WaitQueue,
};

use super::*;
use crate::doc;
use crate::text::Look;

fn absence(reason: &str, remedy: &str) -> Absence {
    Absence::new(reason, remedy, Lacks::Machine)
}

fn input(requested: &[RtosCriterion]) -> RtosInput {
    let host = Host {
        kernel: "6.12.9|rt".into(),
        preemption: Some("none".into()),
        hypervisor: Some("KVM".into()),
        ..Host::default()
    };
    RtosInput::new(host, Cpu(1), Nanos::from_ms(1), requested.to_vec())
}

fn wakeups(latencies: impl IntoIterator<Item = u64>) -> RtosWakeups {
    let samples = latencies.into_iter().map(|us| RtosWakeup {
        running: 50,
        woken: 90,
        latency: Nanos::from_us(us),
        preempted: true,
        steal: Some(Nanos::ZERO),
    });
    RtosWakeups {
        samples: samples.collect(),
        ..RtosWakeups::default()
    }
}

/// A report with each verdict.
fn report() -> RtosReport {
    let mut input = input(&[
        RtosCriterion::Preemption,
        RtosCriterion::Order,
        RtosCriterion::Inversion,
        RtosCriterion::Bounded,
        RtosCriterion::Interrupts,
    ]);
    input.preemption = Some(Ok(wakeups((0..2_000).map(|_| 6).chain([70]))));
    let wakes = |queue| QueueWakes {
        queue,
        absence: None,
        rounds: 1_000,
        wakes: (0..8_000)
            .map(|number| QueueWake {
                woken: if queue == WaitQueue::Condition && number < 2_713 {
                    47
                } else {
                    48
                },
                highest: 48,
            })
            .collect(),
    };
    input.order = Some(WaitQueue::ALL.map(wakes).to_vec());
    let round = |us, is_inverted| InversionRound {
        waited: Nanos::from_us(us),
        middle_ran: Nanos::ZERO,
        is_inverted,
    };
    input.inversion = Some(Ok(InversionRounds {
        inherit: vec![round(522, false); 20],
        plain: vec![round(5_530, true); 20],
        hold: Nanos::from_us(500),
        middle: Nanos::from_ms(5),
    }));
    let load = |load: &str, max: u64| RtosLoadRun {
        load: load.into(),
        wakeups: Ok(wakeups((0..1_000).map(|number| match number % 100 {
            50 => max + number / 100,
            _ => 5,
        }))),
    };
    input.bounded = Some(vec![
        load("idle", 50),
        load("fp", 51),
        RtosLoadRun {
            load: "<b>".into(),
            wakeups: Err(absence("iperf3 not installed", "apt-get install iperf3")),
        },
    ]);
    let interrupt = RtosInterrupt {
        latency: Nanos::from_us(2),
        is_of_thread: true,
        handler: Nanos::from_us(1),
        dispatch: Some(Nanos::from_us(3)),
        thread: None,
        steal: None,
    };
    input.interrupts = Some(Ok(RtosInterrupts {
        source: InterruptSource::Cpu,
        samples: vec![interrupt; 1_500],
        reading: Nanos::from_ns(40),
        ..RtosInterrupts::default()
    }));
    rtos(&input)
}

fn screen(report: &RtosReport, columns: usize) -> String {
    let look = Look {
        columns,
        ..Look::default()
    };
    doc::terminal(&document(report, Detail::Short), look).plain()
}

#[test]
fn the_answer_is_first_and_each_verdict_has_its_figures() {
    assert_eq!(
        screen(&report(), 80),
        "\
FAIL  3 of 5 criteria are met, 1 failed (order), 1 unknown (bounded)
  Linux 6.12.9|rt, preempt=none, KVM guest, CPU 1; latency limit 1.00 ms

criterion   verdict  result
preemption  PASS     SCHED_FIFO 90 preempts SCHED_FIFO 50: median 6.00 us, max
                     70.0 us, 2,001 wakeups
order       FAIL     condition variable: 2,713 of 8,000 wakeups out of order
                     (such as SCHED_FIFO 47 before 48); woken by priority:
                     futex, PI futex, semaphore, message queue
inversion   PASS     max wait for a lock that is held for 500 us: 522 us with
                     PTHREAD_PRIO_INHERIT, 5.53 ms without
bounded     UNKNOWN  max latency under idle 59.0 us, fp 60.0 us, <b> not tested
                     (iperf3 not installed); growth unknown, because a load did
                     not run
interrupts  PASS     ISR latency median 2.00 us, max 2.00 us; dispatch latency
                     median 3.00 us, max 3.00 us; 1,500 interrupts by another
                     CPU (no external clock); a device may interrupt at up to
                     330,000 Hz (from p99.9)

The criteria are necessary, not sufficient (Timmerman 1998).
To test bounded: apt-get install iperf3
"
    );
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for columns in 40..120 {
        let text = screen(&report(), columns);

        assert!(
            text.lines().all(|line| line.chars().count() <= columns),
            "{text}"
        );
    }
}

#[test]
fn an_early_end_and_warnings_are_shown() {
    let mut input = input(&[RtosCriterion::Order, RtosCriterion::Locked]);
    input.locked = Some(Ok(LockedPages::default()));
    input.warnings = vec![Caveat::new(CaveatKind::NotRoot, "a quota", "raise it")];

    let text = screen(&rtos(&input), 80);

    assert!(
        text.starts_with("UNKNOWN  0 of 2 criteria are met"),
        "{text}"
    );
    assert!(
        text.contains("\nEnded early, before these tests: order\n"),
        "{text}"
    );
    assert!(
        text.ends_with("\nWarnings:\n  - a quota; raise it\n"),
        "{text}"
    );
}

#[test]
fn the_page_has_all_figures_and_no_markup_from_the_machine() {
    let page = doc::html(
        &document(&report(), Detail::Full),
        "laggard bench rtos",
        &|_| None,
    );

    for part in [
        "<strong class=\"worse\">FAIL</strong> 3 of 5 criteria",
        "<td>interrupts</td><td class=\"better\">PASS</td><td>interrupt handlers start",
        "<tr><td>ISR latency</td><td class=\"number\">2.00 us</td><td class=\"number\">2.00 us</td><td class=\"number\">2.00 us</td><td class=\"number\" title=\"the steal clock cannot be read\">-</td></tr>",
        "no external clock",
        "necessary, not sufficient (Timmerman 1998)",
        "&lt;b&gt;",
        "</body>\n</html>\n",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(!page.contains("<b>"), "{page}");
}

#[test]
fn markdown_has_the_same_and_no_markup_from_the_machine() {
    let text = doc::markdown(&document(&report(), Detail::Full));

    for part in [
        "## Criteria of a real-time operating system\n",
        "- **FAIL**: 3 of 5 criteria",
        "Linux 6.12.9&#124;rt, preempt=none",
        "| interrupts | PASS | interrupt handlers start and return in time | ISR latency",
        "| ISR dispatch latency | 3.00 us | 3.00 us | 3.00 us | - |",
        "| fp | 1,000 | 0 | 60.0 us | 60.0 us | 1.0 x (",
        "| &#60;b> | - | - | - | - | - |",
        "To test bounded: apt-get install iperf3",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("<b>"), "{text}");
}
