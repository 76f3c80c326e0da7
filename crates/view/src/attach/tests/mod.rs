mod causes;
mod screen;
mod threads;

use super::*;
use crate::doc::terminal;
use crate::text::Look;
use laggard_answer::attach::{
    AttachCause, AttachCauseKind, AttachDeadline, AttachGrowth, AttachHeld, AttachHolder,
    AttachKill, AttachLargest, AttachLate, AttachLost, AttachPeriod, AttachPhase, AttachRanked,
    AttachSite, AttachStops, AttachTaken, AttachUnfinished, AttachWaker, AttachWakerKind,
    CountsFrom, DeadlineSource, HolderState, WaitEnd, WaitKind,
};
use laggard_model::{Because, CauseClass, Cpu, Host, Tid};

fn us(us: u64) -> Nanos {
    Nanos::from_us(us)
}

fn figures(median: u64, max: u64) -> Option<AttachFigures> {
    Some(AttachFigures {
        median_ns: us(median),
        p99_ns: None,
        p999_ns: None,
        largest_ns: us(max),
    })
}

/// Returns a periodic thread without a missed deadline.
fn row(name: &str, tid: u32) -> AttachRow {
    AttachRow {
        name: name.into(),
        tid: Tid(tid),
        process: 4_000,
        number: tid,
        policy: "fifo:80".into(),
        other_policies: Vec::new(),
        is_real_time: true,
        ended_ns: None,
        woken_by: "timer".into(),
        counts_from: CountsFrom::Expiry,
        wakers: vec![AttachWaker {
            kind: AttachWakerKind::Sleep,
            who: None,
            count: 1_000,
        }],
        activations: 1_000,
        inferred: 0,
        run_unseen: 0,
        back_unseen: 0,
        lost: 0,
        merged: 0,
        unseen: 0,
        stopped: 0,
        home: Some(AttachSite {
            kind: WaitKind::SleepUntil,
            call: Some("clock_nanosleep".into()),
            clock: Some("CLOCK_MONOTONIC".into()),
            descriptor: None,
            file: None,
        }),
        sleeps_relative: false,
        period_ns: Some(us(5_000)),
        phases: Vec::new(),
        timers: Vec::new(),
        stops: AttachStops::default(),
        killed: None,
        asked: None,
        latency: figures(9, 30),
        response: figures(500, 1_200),
        execution: figures(400, 900),
        course: None,
        preemptions: 0,
        preempted_ns: Nanos::ZERO,
        migrations: 0,
        blocks: 0,
        blocked_ns: Nanos::ZERO,
        sleeps: 0,
        slept_ns: Nanos::ZERO,
        largest_response: None,
        largest_latency: None,
        deadline: Some(deadline(0)),
        is_busy: false,
        is_helper: false,
        is_go: false,
        unfinished: None,
    }
}

fn deadline(misses: u64) -> AttachDeadline {
    AttachDeadline {
        deadline_ns: us(2_000),
        different_ns: None,
        source: DeadlineSource::Given,
        least_margin_ns: 800_000,
        p999_margin_ns: None,
        misses,
        passed: 0,
        expected: Some((0.0, 3.0)),
        grown: vec![AttachGrowth {
            by_percent: 10,
            misses,
        }],
        misses_of_half: 250,
        explained: misses,
        taken: Vec::new(),
        other_taken_ns: Nanos::ZERO,
    }
}

fn cause(class: CauseClass, kind: AttachCauseKind) -> AttachCause {
    AttachCause { class, kind }
}

fn lock() -> AttachCause {
    let kind = AttachCauseKind::Lock {
        is_mutex: true,
        site: None,
        holder: Some("logger".into()),
        state: Some(HolderState::Preempted("vision".into())),
    };
    cause(CauseClass::Lock, kind)
}

fn late(cause: AttachCause, avoided: u64, time: u64) -> AttachLate {
    AttachLate {
        taken: AttachTaken {
            cause,
            time_ns: us(time),
        },
        overrun_ns: Nanos::ZERO,
        holder_states: Vec::new(),
        activations: avoided,
        mainly: avoided,
        avoided,
        jointly: 0,
        largest_ns: us(time / 10),
    }
}

/// `control` waits for a lock in 250 of its cycles; `logger` is in time.
fn inversion() -> AttachReport {
    let work = cause(CauseClass::OwnWork, AttachCauseKind::Execution);
    let causes = vec![late(lock(), 240, 1_500_000), late(work, 0, 90_000)];
    let taken: Vec<AttachTaken> = causes.iter().map(|late| late.taken.clone()).collect();
    let control = AttachRow {
        response: figures(500, 8_310),
        largest_response: Some(AttachLargest {
            after_ns: us(721_000),
            origin_ns: us(10_000_000),
            wake_seen: true,
            wakeup_ns: us(5),
            scheduling_ns: us(15),
            execution_ns: us(500),
            preempted_ns: Nanos::ZERO,
            blocked_ns: Nanos::ZERO,
            slept_ns: us(7_790),
            stopped_ns: Nanos::ZERO,
            response_ns: us(8_310),
            cpu: Cpu(1),
            taken: taken.clone(),
        }),
        deadline: Some(AttachDeadline {
            least_margin_ns: -6_310_000,
            expected: Some((220.0, 283.5)),
            taken: causes.clone(),
            ..deadline(250)
        }),
        ..row("control", 4_242)
    };
    AttachReport {
        schema: 3,
        host: Host::default(),
        duration_ns: Nanos::from_secs(5),
        threads: 3,
        stopped: 0,
        received: 2_010,
        missing: 0,
        merged: 0,
        unseen: 0,
        untold: 0,
        ended: 0,
        application: None,
        stack_rate: 0,
        held: AttachHeld {
            activations: 2_000,
            misses: 250,
            explained: 250,
            ..AttachHeld::default()
        },
        worst: Some(AttachWorst {
            name: "control".into(),
            tid: Tid(4_242),
            number: 4_242,
            response_ns: us(8_310),
            has_ended: true,
            deadline_ns: Some(us(2_000)),
            killed: None,
            taken,
        }),
        causes: causes
            .into_iter()
            .map(|late| AttachRanked {
                late,
                threads: vec!["control".into()],
            })
            .collect(),
        rows: vec![control, row("logger", 4_243), row("sh", 4_241)],
        cycles: Vec::new(),
        foreign_marks: 0,
        beside: Vec::new(),
        others: Vec::new(),
        lost: AttachLost::default(),
        caveats: Vec::new(),
    }
}

fn text(report: &AttachReport, detail: Detail) -> String {
    let look = Look {
        columns: 80,
        ..Look::default()
    };
    terminal(&document(report, detail), look).plain()
}

/// Returns a report without a deadline or causes.
fn without_deadline() -> AttachReport {
    let mut report = inversion();
    report.held = AttachHeld::default();
    report.worst = None;
    report.causes.clear();
    report
}
