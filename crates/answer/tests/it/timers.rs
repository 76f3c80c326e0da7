//! `laggard bench timers` on simulated timers.

use laggard_answer::timers::{TimerClass, TimersMeasured, TimersReport, timers};
use laggard_model::{
    Absence, ClockSeen, Cpu, HeldOff, Host, Lacks, Nanos, PeriodicWait, Service, SingleWait,
    TimerApi, TimerRun,
};

/// Numbers from 0 to 1, always the same (Knuth 1997, "The Art of Computer
/// Programming" 2, 3.3.4, line 26).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns the time to wake a thread on a virtual machine that is stopped now and then, ns.
    fn waking(&mut self) -> f64 {
        let stall = match self.next() {
            ..0.1 => 12e6 * self.next(),
            _ => 0.0,
        };
        5e3 + 20e3 * self.next() + stall
    }
}

fn nanos(ns: f64) -> Nanos {
    Nanos::from_f64(ns)
}

const START: f64 = 5e12;
const PERIOD: f64 = 1.5e6;
const SLACK: f64 = 50e3;

/// Simulates a timer. `serve` returns the end of a wait from its call time and its due time,
/// without slack and without the time to wake the thread.
fn run(api: TimerApi, slack: f64, seed: u64, serve: impl Fn(f64, f64) -> f64) -> TimerRun {
    let mut chance = Chance(seed);
    let mut now = START;
    let mut due = START;
    let mut periodic = Vec::new();
    for _ in 0..700 {
        due = if api.keeps_time() { due } else { now } + PERIOD;
        now = now.max(serve(now, due) + slack) + chance.waking();
        periodic.push(PeriodicWait {
            due: nanos(due),
            woke: nanos(now),
            follows: true,
        });
    }
    let single = (0..170).map(|_| {
        let called = now + 0.2e6 + 8e6 * chance.next();
        let requested = 1e6 + 2e6 * chance.next();
        let is_tight = chance.next() < 0.5;
        let allowed = if is_tight { 0.0 } else { slack };
        now = serve(called, called + requested) + allowed + chance.waking();
        SingleWait {
            asked: nanos(requested),
            called: nanos(called),
            woke: nanos(now),
            is_tight,
            reference_late: nanos(chance.waking()),
        }
    });
    let single = single.collect();
    TimerRun {
        api,
        service: Service::Other,
        period: nanos(PERIOD),
        absence: None,
        allowed_slack: nanos(slack),
        periodic,
        held_off: Vec::new(),
        single,
        left_out: 0,
    }
}

fn report(runs: Vec<TimerRun>) -> TimersReport {
    timers(&TimersMeasured {
        host: Host::default(),
        cpu: Cpu(1),
        clocks: vec![ClockSeen {
            name: "CLOCK_MONOTONIC_COARSE".into(),
            stated_ns: Some(Nanos::from_ms(4)),
            step_ns: None,
            sleeps: false,
        }],
        planned: runs.len(),
        runs,
        caveats: Vec::new(),
    })
}

fn exact(_: f64, due: f64) -> f64 {
    due
}

fn cut(called: f64, due: f64) -> f64 {
    called + ((due - called) / 1e6).floor() * 1e6
}

const TICK: f64 = 4e6;

fn next_tick(_: f64, due: f64) -> f64 {
    (due / TICK).ceil() * TICK
}

/// As Linux serves `SO_RCVTIMEO`.
fn a_tick_more(called: f64, due: f64) -> f64 {
    ((called / TICK).floor() + ((due - called) / TICK).ceil() + 1.0) * TICK
}

#[test]
fn every_class_is_found_among_stalls() {
    for seed in 0..5 {
        for (api, slack, serve, class) in [
            (
                TimerApi::Timerfd,
                0.0,
                exact as fn(f64, f64) -> f64,
                TimerClass::Exact,
            ),
            (TimerApi::Ppoll, SLACK, exact, TimerClass::Slack),
            (TimerApi::Ppoll, 2e6, exact, TimerClass::Slack),
            (TimerApi::Poll, SLACK, cut, TimerClass::Cut),
            (TimerApi::Setitimer, 0.0, next_tick, TimerClass::Tick),
            (TimerApi::SoRcvtimeo, 0.0, a_tick_more, TimerClass::TwoTicks),
            (
                TimerApi::Futex,
                0.0,
                |_, due| due - 200e3,
                TimerClass::Early,
            ),
            (
                TimerApi::Futex,
                0.0,
                |_, due| due + 200e3,
                TimerClass::Later,
            ),
            (
                TimerApi::Timerfd,
                0.0,
                |_, due| START + (due - START) * 1.01,
                TimerClass::Drifts,
            ),
        ] {
            let report = report(vec![run(api, slack, seed, serve)]);

            let row = &report.rows[0];
            // A drift is a matter of the periodic waits alone.
            let is_drift = class == TimerClass::Drifts && row.drift.is_some();
            assert!(
                row.class == class || is_drift,
                "{seed}: {class:?}, {row:#?}"
            );
            let is_tick = matches!(class, TimerClass::Tick | TimerClass::TwoTicks);
            assert_eq!(row.tick_ns.is_some(), is_tick, "{seed}: {row:#?}");
            let tick = row.tick_ns.unwrap_or(TICK);
            assert!((tick / TICK - 1.0).abs() < 1e-3, "{seed}: {tick}");
            let lower = row.slack_ns.unwrap_or(0) as f64;
            assert!(
                class != TimerClass::Slack || lower > 0.8 * slack,
                "{seed}: {row:#?}"
            );
        }
    }
}

/// A timer with slack that is late for another reason, too.
#[test]
fn slack_does_not_hide_another_delay() {
    let row = |run: TimerRun| report(vec![run]).rows.remove(0);
    let late = |slack| row(run(TimerApi::Ppoll, slack, 3, |_, due| due + 200e3));

    let larger_delay = late(SLACK);
    assert_eq!(larger_delay.class, TimerClass::Later, "{larger_delay:#?}");
    assert!(larger_delay.slack_ns.is_some(), "{larger_delay:#?}");

    let larger_slack = late(2e6);
    assert_eq!(larger_slack.class, TimerClass::Slack, "{larger_slack:#?}");
    assert!(larger_slack.delay_ns.is_some(), "{larger_slack:#?}");

    let drifts = |_: f64, due: f64| START + (due - START) * 1.01;
    let drifting = row(TimerRun {
        periodic: run(TimerApi::Timerfd, SLACK, 3, drifts).periodic,
        ..run(TimerApi::Timerfd, SLACK, 3, exact)
    });
    assert_eq!(drifting.class, TimerClass::Drifts, "{drifting:#?}");
    assert!(drifting.slack_ns.is_some(), "{drifting:#?}");
}

/// Jones & Regehr 1999, Table 2, "P2, NT5": asked for 1 ms, a timer on a tick of
/// 976.5625 us waits two of them and fires twice, but for 240 of 10,000.
#[test]
fn a_timer_that_fires_twice_shows_its_tick() {
    let mut broken = run(TimerApi::Timerfd, 0.0, 1, exact);
    broken.period = Nanos::from_ms(1);
    let tick = 976_562.5;
    let mut now = START;
    broken.periodic.clear();
    for index in 0..10_000_u32 {
        now += match index % 1_000 {
            // 488 pairs in a thousand, and 24 single ones of two ticks.
            index if index < 976 && index % 2 == 1 => 0.0,
            _ => 2.0 * tick,
        };
        broken.periodic.push(PeriodicWait {
            due: nanos(START + 1e6 * f64::from(index + 1)),
            woke: nanos(now),
            follows: index > 0,
        });
    }

    let report = report(vec![broken]);

    let row = &report.rows[0];
    assert_eq!(row.class, TimerClass::FiresTwice);
    let tick_found = row.tick_ns.unwrap();
    assert!((tick_found / tick - 1.0).abs() < 1e-3, "{tick_found}");
}

#[test]
fn a_late_machine_is_not_attributed_to_the_timer() {
    let mut busy = run(TimerApi::Ppoll, SLACK, 3, exact);
    let mut chance = Chance(9);
    for wait in &mut busy.single {
        wait.woke += nanos(8e6 * chance.next());
        wait.reference_late = nanos(8e6 * chance.next());
    }

    let report = report(vec![busy]);

    assert_eq!(report.rows[0].class, TimerClass::Unknown);
    assert_eq!(report.summary.unknown, [TimerApi::Ppoll]);
    assert!(report.rows[0].reference_ns.is_some() && report.rows[0].resolution_ns.is_some());
}

#[test]
fn a_timer_with_too_few_waits_is_unknown() {
    let mut short = run(TimerApi::Ppoll, SLACK, 3, exact);
    short.single.truncate(20);

    let row = report(vec![short]).rows.remove(0);

    assert_eq!((row.class, row.single), (TimerClass::Unknown, 20));
    assert_eq!(row.resolution_ns, None);
}

#[test]
fn the_summary_has_each_timer_once_and_alternatives_have_no_fault() {
    let mut missing = run(TimerApi::Semtimedop, 0.0, 5, exact);
    missing.absence = Some(Absence::new(
        "function not implemented",
        "use another timer",
        Lacks::Kernel,
    ));
    let report = report(vec![
        run(TimerApi::Poll, SLACK, 1, cut),
        run(TimerApi::Ppoll, SLACK, 2, exact),
        run(TimerApi::SoRcvtimeo, 0.0, 3, a_tick_more),
        missing,
    ]);

    let summary = &report.summary;
    assert_eq!(summary.as_requested, [TimerApi::Ppoll]);
    assert_eq!(
        summary.not_as_requested,
        [TimerApi::Poll, TimerApi::SoRcvtimeo]
    );
    assert_eq!(summary.unknown, [TimerApi::Semtimedop]);
    assert!(summary.partly_unknown.is_empty());
    let classes = report.groups.iter().map(|group| group.class);
    assert_eq!(
        classes.collect::<Vec<_>>(),
        [
            TimerClass::TwoTicks,
            TimerClass::Cut,
            TimerClass::Slack,
            TimerClass::Unavailable
        ]
    );
    assert_eq!(report.groups[1].alternatives, [TimerApi::Ppoll]);
    assert!(report.groups[3].alternatives.is_empty());
    assert!(
        !report.is_within(Nanos::from_secs(1)),
        "one was not measured"
    );
}

/// The user may lack a real-time thread. The row of the normal thread still counts.
#[test]
fn a_timer_that_is_known_with_one_policy_only_is_partly_unknown() {
    let mut refused = run(TimerApi::Ppoll, 0.0, 5, exact);
    refused.service = Service::Fifo(90);
    refused.absence = Some(Absence::new(
        "operation not permitted",
        "run as root",
        Lacks::Rights,
    ));

    let report = report(vec![refused, run(TimerApi::Ppoll, SLACK, 2, exact)]);

    assert_eq!(report.summary.as_requested, [TimerApi::Ppoll]);
    assert_eq!(report.summary.partly_unknown, [TimerApi::Ppoll]);
    assert!(report.summary.unknown.is_empty());
    let services: Vec<Service> = report.groups.iter().map(|group| group.service).collect();
    assert_eq!(services, [Service::Other, Service::Fifo(90)]);
}

#[test]
fn an_interval_with_omitted_waits_is_not_counted() {
    let mut stopped = run(TimerApi::Timerfd, 0.0, 1, exact);
    for wait in &mut stopped.periodic[300..] {
        wait.due += Nanos::from_secs(5);
        wait.woke += Nanos::from_secs(5);
    }
    stopped.periodic[300].follows = false;

    let report = report(vec![stopped]);

    let row = &report.rows[0];
    let intervals = row.intervals.unwrap();
    assert_eq!(intervals.count, 698);
    assert!(intervals.max_ns < 1_000_000_000, "{intervals:?}");
    let counted: usize = row.bins.iter().map(|bin| bin.count).sum();
    assert_eq!(counted, 698);
}

#[test]
fn a_report_is_within_a_limit_that_no_latency_exceeds() {
    let report = report(vec![run(TimerApi::Timerfd, 0.0, 1, exact)]);
    let largest = report.rows[0].max_ns.unwrap();

    assert!(report.is_within(Nanos::from_ns(largest.unsigned_abs())));
    assert!(!report.is_within(Nanos::from_ns(largest.unsigned_abs() - 1)));
}

/// A timer of 1.5 ms that was not waited for, for five and a half periods, ten times;
/// `at_once` callbacks come then.
fn held_off(api: TimerApi, reported: Option<u64>, at_once: u32) -> TimerRun {
    let round = |index: u32| {
        let from = START + 100e6 * f64::from(index);
        let back = from + 5.5 * PERIOD;
        let woke = (0..at_once).map(|index| nanos(back + 3e3 * f64::from(index + 1)));
        HeldOff {
            from: nanos(from),
            back: nanos(back),
            woke: woke.chain([nanos(from + 6.0 * PERIOD)]).collect(),
            told: reported,
        }
    };
    TimerRun {
        held_off: (0..10).map(round).collect(),
        ..run(api, 0.0, 1, exact)
    }
}

#[test]
fn bursts_are_distinguished_from_single_expiries() {
    let report = report(vec![
        held_off(TimerApi::Timerfd, Some(6), 1),
        held_off(TimerApi::Setitimer, None, 1),
        held_off(TimerApi::IoUringMultishot, None, 5),
    ]);

    let classes: Vec<TimerClass> = report.rows.iter().map(|row| row.class).collect();
    assert_eq!(
        classes,
        [TimerClass::Exact, TimerClass::Exact, TimerClass::Bursts]
    );
    assert_eq!(report.groups[0].alternatives, [TimerApi::Timerfd]);
    let overruns = report.rows.iter().filter_map(|row| row.overrun);
    let overruns: Vec<_> = overruns
        .map(|overrun| (overrun.passed, overrun.at_once, overrun.is_counted))
        .collect();
    assert_eq!(
        overruns,
        [(5.0, 1.0, true), (5.0, 1.0, false), (5.0, 5.0, false)]
    );
}

/// A timer whose callbacks come with these intervals, ns, over and over.
fn called(api: TimerApi, period: f64, gaps: &[f64]) -> TimerRun {
    let mut now = START;
    let gaps = gaps.iter().cycle().take(1_400).enumerate();
    let periodic = gaps.map(|(index, gap)| {
        now += gap;
        PeriodicWait {
            due: nanos(START + period * (index + 1) as f64),
            woke: nanos(now),
            follows: true,
        }
    });
    TimerRun {
        period: nanos(period),
        periodic: periodic.collect(),
        ..run(api, 0.0, 1, |_, due| due)
    }
}

/// As under Wine: on a calm machine each is late by a part of the period, which one at
/// once makes up for; on a busy one several at once make up for a stall.
#[test]
fn callbacks_that_catch_up_are_reported() {
    let owes = [1.098e6; 10].into_iter().chain([0.02e6]);
    let owes: Vec<f64> = owes.collect();
    let stalled = [1e6, 1e6, 1e6, 5.2e6, 1e4, 1e4, 1e4, 1e4, 0.76e6];
    let merged = [1e6, 1e6, 1e6, 5.2e6, 0.8e6];
    let report = report(vec![
        called(TimerApi::TimeSetEvent, 1e6, &owes),
        called(TimerApi::TimerQueue, 1e6, &stalled),
        called(TimerApi::ThreadpoolTimer, 1e6, &merged),
    ]);

    let classes: Vec<TimerClass> = report.rows.iter().map(|row| row.class).collect();
    assert_eq!(classes[..2], [TimerClass::CatchesUp, TimerClass::Bursts]);
    assert!(!matches!(
        classes[2],
        TimerClass::CatchesUp | TimerClass::Bursts
    ));
    let caught_up = report.rows[0].caught_up.unwrap();
    assert!((caught_up - 1.0 / 11.0).abs() < 1e-3, "{caught_up}");
    let stall = report.rows[1].overrun.unwrap();
    assert_eq!(
        (stall.passed, stall.at_once, stall.is_stall),
        (5.0, 5.0, true)
    );
}

#[test]
fn no_timer_replaces_one_that_counts_cpu_time() {
    let report = report(vec![run(TimerApi::SetitimerProf, 0.0, 4, a_tick_more)]);

    assert!(report.groups[0].alternatives.is_empty());
}

/// Simulates a hypervisor that takes the CPU for `share` of every `turn`, in ns. A thread that is
/// due during that time runs when the CPU is returned.
fn given_back(time: f64, turn: f64, share: f64) -> f64 {
    let since = time % turn;
    if since < share * turn {
        time - since + share * turn
    } else {
        time
    }
}

/// A sleep that is exact but for steal in turns, in the wait and in the finest sleep
/// before it alike.
fn stolen(seed: u64, turn: f64, share: f64) -> TimerRun {
    let mut stolen = run(TimerApi::ClockNanosleep, SLACK, seed, |_, due| {
        given_back(due, turn, share)
    });
    let mut chance = Chance(seed + 1_000);
    for wait in &mut stolen.single {
        let time = wait.called.as_f64() - 300e3 * chance.next();
        wait.reference_late = nanos(given_back(time, turn, share) - time + chance.waking());
    }
    stolen
}

/// A tick that is claimed of a sleep would be believed.
#[test]
fn no_tick_is_claimed_for_a_sleep_in_20_of_20_runs_idle_and_under_steal() {
    for seed in 0..20 {
        for (turn, share) in [
            (4e6, 0.0),
            (4e6, 0.1),
            (4e6, 0.3),
            (10e6, 0.3),
            (10e6, 0.5),
            (4e6, 0.5),
            (1e6, 0.5),
            (4e6, 0.8),
        ] {
            let report = report(vec![stolen(seed, turn, share)]);

            let row = &report.rows[0];
            assert_eq!(row.tick_ns, None, "{seed}, {turn}, {share}: {row:#?}");
            assert_eq!(row.rounding, None, "{seed}, {turn}, {share}: {row:#?}");
        }
    }
}
