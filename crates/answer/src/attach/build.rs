//! From what was seen to the report.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use laggard_analyze::counts::{Clusters, Event, clustered_interval};
use laggard_model::name::activity_name;
use laggard_model::{Activity, Address, Nanos, Symbols, WokenWay};

use super::course::signed;
use super::growth::GROWTHS;
use super::line::{LargestSeen, LineSeen, Waker};
use super::row::{
    AttachDeadline, AttachFigures, AttachGrowth, AttachHeld, AttachLargest, AttachLate,
    AttachOthers, AttachPeriod, AttachPolicy, AttachRow, AttachUnfinished, AttachWaker, CountsFrom,
    DeadlineOf,
};
use super::said::sentences;
use super::{
    ATTACH_SCHEMA, AttachBeside, AttachCycles, AttachMeasured, AttachReport, Attended, ThreadSeen,
};

/// What is told of how often deadlines are missed holds with this.
const CONFIDENCE: f64 = 0.95;

impl Attended {
    /// The functions that woke threads: what is to be named.
    pub fn functions(&self) -> Vec<Address> {
        let all = self.lines.values().flat_map(|line| line.wakers.keys());
        all.filter_map(|who| match who {
            Waker::Function(address) => Some(*address),
            Waker::Thread(_) | Waker::None => None,
        })
        .collect()
    }

    /// What was told, as an answer; all of it, whenever it happened.
    pub fn report(mut self, measured: &AttachMeasured, symbols: &Symbols) -> AttachReport {
        self.settle();
        for (&number, seen) in &self.threads {
            // Who was woken and never came to run has a row, too.
            if let Some((_, unfinished)) = seen.unfinished {
                let key = (number, unfinished.woken.way());
                let deadline = self.asked.limit();
                self.lines
                    .entry(key)
                    .or_insert_with(|| LineSeen::new(deadline, false));
            }
        }
        let mut rows = Vec::new();
        for (&(number, way), line) in &mut self.lines {
            line.end();
            if let Some(seen) = self.threads.get(&number) {
                rows.push(row(seen, way, line, measured, symbols));
            }
        }
        rows.sort_by_key(|row| (!row.is_real_time, Reverse(row.activations), row.number));
        // Before some are left out: the verdict is on all.
        let held = self.held_against(&rows);
        let left = rows.split_off(rows.len().min(self.asked.rows));
        let others = self.others(&rows, &left);
        AttachReport {
            schema: ATTACH_SCHEMA,
            host: measured.host.clone(),
            duration_ns: measured.to.saturating_sub(measured.from),
            threads: measured.threads,
            stopped: self.sum(|one| one.thread.stopped.into()),
            missing: self.sum(ThreadSeen::lost),
            merged: self.sum(|one| one.thread.merged.into()),
            unseen: self.sum(|one| one.thread.unseen.into()),
            untold: measured.threads.saturating_sub(self.threads.len() as u64),
            ended: measured.ended,
            application: measured.asked.application.clone(),
            sentences: rows
                .iter()
                .flat_map(sentences)
                .chain(measured.beside.iter().map(AttachBeside::sentence))
                .collect(),
            beside: measured.beside.clone(),
            held,
            cycles: self.cycles(),
            foreign_marks: self.foreign_marks,
            rows,
            others,
            lost: measured.lost,
            caveats: measured.caveats.clone(),
        }
    }

    /// Cycles that threads marked, those with most first.
    fn cycles(&self) -> Vec<AttachCycles> {
        let rows = self.threads.values().filter_map(|seen| {
            let thread = seen.thread;
            let name = thread.name.to_string();
            seen.cycles.row(name, thread.tid, thread.process)
        });
        let mut rows: Vec<AttachCycles> = rows.collect();
        rows.sort_by_key(|row| Reverse(row.cycles));
        rows
    }

    /// What was held against deadlines.
    fn held_against(&self, rows: &[AttachRow]) -> AttachHeld {
        let mut held = AttachHeld::default();
        let mut threads = BTreeSet::new();
        for row in rows {
            if let Some(deadline) = &row.deadline {
                // Each thread once, however many ways it is woken in.
                if threads.insert(row.number) {
                    held.unseen += row.unseen();
                }
                held.activations += row.activations;
                held.misses += deadline.misses;
            }
            let deadline = row.deadline.as_ref().map(|one| one.deadline_ns);
            let deadline = deadline.or(self.asked.limit());
            if let (Some(one), Some(deadline)) = (row.unfinished, deadline)
                && row.ended_ns.is_none()
            {
                held.overdue += u64::from(one.so_far_ns > deadline);
            }
        }
        if self.asked.limit().is_some() {
            held.unheld = self.threads.values().map(|one| one.uncounted).sum();
        }
        held
    }

    /// Over all threads, also those without a row.
    fn sum(&self, of: impl Fn(&ThreadSeen) -> u64) -> u64 {
        self.threads.values().map(of).sum()
    }

    /// Threads without a row, and rows that are left out, by name.
    fn others(&self, rows: &[AttachRow], left: &[AttachRow]) -> Vec<AttachOthers> {
        let mut names: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (number, seen) in &self.threads {
            let has_row = rows.iter().any(|row| row.number == *number);
            if !has_row || seen.uncounted > 0 {
                let (threads, activations) = names.entry(seen.thread.name.to_string()).or_default();
                *threads += u64::from(!has_row);
                *activations += seen.uncounted;
            }
        }
        for row in left {
            names.entry(row.name.clone()).or_default().1 += row.activations;
        }
        let all = names.into_iter();
        let mut others: Vec<AttachOthers> = all
            .map(|(name, (threads, activations))| AttachOthers {
                name,
                threads,
                activations,
            })
            .collect();
        others.sort_by_key(|one| Reverse((one.activations, one.threads)));
        others
    }
}

fn row(
    seen: &ThreadSeen,
    way: WokenWay,
    line: &LineSeen,
    measured: &AttachMeasured,
    symbols: &Symbols,
) -> AttachRow {
    let after = |at: Nanos| at.saturating_sub(measured.from);
    let unfinished = seen.unfinished.and_then(|(at, one)| {
        (one.woken.way() == way).then(|| AttachUnfinished {
            so_far_ns: at.saturating_sub(one.origin),
            ran: one.running.is_some(),
        })
    });
    let mut policies: Vec<_> = line.policies.iter().collect();
    policies.sort_by_key(|(_, count)| Reverse(**count));
    let policy = policies.first().map_or(seen.thread.policy, |most| *most.0);
    let others = policies.iter().skip(1).map(|(policy, count)| AttachPolicy {
        policy: policy.to_string(),
        count: **count,
    });
    AttachRow {
        name: seen.thread.name.to_string(),
        tid: seen.thread.tid,
        process: seen.thread.process,
        number: seen.thread.number,
        policy: policy.to_string(),
        other_policies: others.collect(),
        is_real_time: policy.is_real_time(),
        ended_ns: seen.ended.map(after),
        woken_by: woken_by(way, symbols),
        counts_from: match way {
            WokenWay::Timer => CountsFrom::Expiry,
            WokenWay::Irq(_) | WokenWay::Vector => CountsFrom::Interrupt,
            WokenWay::Wheel | WokenWay::Softirq(_) => CountsFrom::Softirq,
            WokenWay::Interrupt | WokenWay::Thread => CountsFrom::Wakeup,
        },
        wakers: wakers(line, symbols),
        activations: line.response.count(),
        inferred: line.inferred,
        back_unseen: line.back_unseen,
        lost: seen.lost(),
        merged: seen.thread.merged,
        unseen: seen.thread.unseen,
        stopped: seen.thread.stopped,
        period_ns: line.period,
        later_period_ns: line.later_period,
        asked: period(way, line, measured),
        latency: AttachFigures::of(&line.latency),
        response: AttachFigures::of(&line.response),
        execution: AttachFigures::of(&line.execution),
        course: line.course.told(),
        preemptions: line.preemptions,
        preempted_ns: line.preempted,
        migrations: line.migrations,
        blocks: line.blocks,
        blocked_ns: line.blocked,
        largest_response: line.slowest.as_ref().map(|one| largest(one, measured.from)),
        largest_latency: line.latest.as_ref().map(|one| largest(one, measured.from)),
        deadline: deadline(seen, line, measured),
        unfinished,
    }
}

fn woken_by(way: WokenWay, symbols: &Symbols) -> String {
    match way {
        WokenWay::Timer => "timer".into(),
        WokenWay::Wheel => "timer wheel".into(),
        WokenWay::Irq(number) => activity_name(Activity::Irq(number), symbols),
        WokenWay::Vector => "interrupt of the CPU".into(),
        WokenWay::Softirq(vector) => activity_name(Activity::Softirq(vector), symbols),
        WokenWay::Interrupt => "interrupt".into(),
        WokenWay::Thread => "thread".into(),
    }
}

fn wakers(line: &LineSeen, symbols: &Symbols) -> Vec<AttachWaker> {
    let named = line.wakers.iter().filter_map(|(who, &count)| {
        let who = match who {
            // No timer's: the scheduler's own.
            Waker::Function(Address(0)) => "its next period".into(),
            Waker::Function(address) => timer_name(&symbols.kernel_name(*address)),
            Waker::Thread(name) => name.to_string(),
            Waker::None => return None,
        };
        Some((who, count))
    });
    // Two functions of one name are one.
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    for (who, count) in named {
        *by_name.entry(who).or_default() += count;
    }
    let mut all: Vec<AttachWaker> = by_name
        .into_iter()
        .map(|(who, count)| AttachWaker {
            who: Some(who),
            count,
        })
        .collect();
    all.sort_by_key(|one| Reverse(one.count));
    if line.other_wakers > 0 {
        all.push(AttachWaker {
            who: None,
            count: line.other_wakers,
        });
    }
    all
}

/// What user space calls a timer with this function: kernel/time, fs/timerfd.c.
fn timer_name(function: &str) -> String {
    let words = match function {
        // Of which of them it is the kernel's timers tell nothing.
        "hrtimer_wakeup" => "its own sleep or timeout",
        "process_timeout" => "its own timeout",
        "timerfd_tmrproc" => "a timer descriptor",
        "posix_timer_fn" => "a POSIX timer",
        "it_real_fn" => "an interval timer",
        other => return other.into(),
    };
    words.into()
}

fn largest(seen: &LargestSeen, from: Nanos) -> AttachLargest {
    let one = &seen.activation;
    AttachLargest {
        after_ns: one.origin.saturating_sub(from),
        origin_ns: one.origin,
        wake_seen: one.wake_seen,
        wakeup_ns: one.waking.saturating_sub(one.origin),
        scheduling_ns: one.running.saturating_sub(one.waking),
        execution_ns: one.execution(),
        preempted_ns: one.preempted,
        blocked_ns: one.blocked,
        response_ns: one.response(),
        cpu: one.cpu,
        taken: seen.taken.clone(),
    }
}

fn deadline(
    seen: &ThreadSeen,
    line: &LineSeen,
    measured: &AttachMeasured,
) -> Option<AttachDeadline> {
    let deadline = line.deadline?;
    let most = line.response.max()?;
    let p999 = AttachFigures::of(&line.response)?.p999_ns;
    let margin = |response: Nanos| signed(deadline) - signed(response);
    Some(AttachDeadline {
        deadline_ns: deadline,
        of: match (measured.asked.deadline, &measured.asked.application) {
            (None, _) if measured.asked.period.is_some() => DeadlineOf::GivenPeriod,
            (None, _) => DeadlineOf::Period,
            (Some(_), Some(_)) => DeadlineOf::Application,
            (Some(_), None) => DeadlineOf::Given,
        },
        least_margin_ns: margin(most),
        p999_margin_ns: p999.map(margin),
        misses: line.counted.misses,
        expected: expected(seen, line, measured),
        grown: GROWTHS
            .into_iter()
            .zip(line.counted.grown)
            .map(|(by_percent, misses)| AttachGrowth { by_percent, misses })
            .collect(),
        misses_of_half: line.counted.halved,
        explained: line.explained,
        taken: taken(line),
        other_taken_ns: line.other_taken,
    })
}

/// A row by timer against the period that was given.
fn period(way: WokenWay, line: &LineSeen, measured: &AttachMeasured) -> Option<AttachPeriod> {
    let period = measured.asked.period.filter(|_| way == WokenWay::Timer)?;
    let periods = (line.course.span()?.ns() + period.ns() / 2) / period.ns().max(1);
    let wakes = line.response.count();
    Some(AttachPeriod {
        period_ns: period,
        // As many wakes as periods, and the first.
        without_wake: (periods + 1).saturating_sub(wakes),
    })
}

fn taken(line: &LineSeen) -> Vec<AttachLate> {
    let all = line.taken.values().cloned();
    let mut all: Vec<AttachLate> = all
        .map(|one| AttachLate {
            taken: one.part,
            activations: one.activations,
            mainly: one.mainly,
            largest_ns: one.largest,
        })
        .collect();
    all.sort_by_key(|one| Reverse((one.taken.time_ns, one.mainly)));
    all
}

/// Where the number of misses lies that as long a life of the thread has, whatever way
/// they come together.
fn expected(seen: &ThreadSeen, line: &LineSeen, measured: &AttachMeasured) -> Option<(f64, f64)> {
    let counted = &line.counted;
    if counted.misses > counted.missed_at.len() as u64 {
        return None;
    }
    let from = seen.began.max(measured.from);
    let to = seen.ended.unwrap_or(measured.to);
    let span = to.saturating_sub(from).as_f64();
    let mut at: Vec<f64> = counted
        .missed_at
        .iter()
        .map(|at| at.saturating_sub(from).as_f64().min(span))
        .collect();
    at.sort_by(f64::total_cmp);
    let events: Vec<Event> = at.into_iter().map(|at| Event { at, size: 1.0 }).collect();
    let clusters = Clusters::of(&events, span).ok()?;
    let found = clustered_interval(events.len() as f64, clusters, CONFIDENCE).ok()?;
    Some((found.low, found.high))
}
