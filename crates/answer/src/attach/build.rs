//! Creates the report.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use laggard_analyze::counts::{Clusters, Event, clustered_interval};
use laggard_model::name::activity_name;
use laggard_model::{
    ActivationEnd, Activity, Address, Cpu, Evidence, Names, Nanos, Symbols, WokenWay,
};

use super::cause::AttachCause;
use super::course::signed;
use super::cycle::{UnfinishedCycle, WaitKind, wait_kind};
use super::growth::GROWTHS;
use super::largest::LargestCycle;
use super::line::LineState;
use super::row::{
    AttachDeadline, AttachFigures, AttachGrowth, AttachHeld, AttachKill, AttachLargest, AttachLate,
    AttachOthers, AttachPeriod, AttachPhase, AttachPolicy, AttachRanked, AttachRow,
    AttachUnfinished, AttachWaker, AttachWakerKind, CountsFrom, DeadlineSource,
};
use super::sums::CauseSum;
use super::waker::Waker;
use super::{
    ATTACH_SCHEMA, AttachCollector, AttachCycles, AttachMeasured, AttachReport, AttachWorst,
    ThreadState, unfinished_taken,
};

/// `SIGHUP`, `SIGINT` and `SIGTERM`.
const END_SIGNALS: [u32; 3] = [1, 2, 15];
/// Maximum time that the start of a program takes. A thread that has run for longer without sleeping
/// is one that never sleeps.
const MAX_START: Nanos = Nanos::from_secs(1);
/// Confidence level of the interval of misses.
const CONFIDENCE: f64 = 0.95;

impl AttachCollector {
    /// Returns the functions that woke threads, whose names are needed.
    pub fn functions(&self) -> Vec<Address> {
        let wakers = self.lines.values().flat_map(|line| line.wakers.keys());
        wakers
            .filter_map(|who| match who {
                Waker::Function(address) => Some(*address),
                Waker::Thread(_) | Waker::None => None,
            })
            .collect()
    }

    /// Creates the report of all records.
    pub fn report(mut self, measured: &AttachMeasured, symbols: &Symbols) -> AttachReport {
        self.settle();
        for (&number, thread_state) in &self.threads {
            // A thread that was woken and never ran has a row; a thread that ended in its first
            // cycle does not.
            if let Some((_, unfinished)) = &thread_state.unfinished
                && thread_state.is_cut()
            {
                let key = (number, self.way_of_unfinished(number, unfinished));
                let deadline = self.asked.limit();
                self.lines
                    .entry(key)
                    .or_insert_with(|| LineState::new(deadline, self.asked.period, false));
            }
        }
        let busy = self.busy(measured.to);
        let helpers = self.helpers();
        let mut rows = Vec::new();
        for (&(number, source), line) in &self.lines {
            if let Some(thread_state) = self.threads.get(&number) {
                let unfinished = self.unfinished_of(number, source);
                let mut row = row(thread_state, source, line, unfinished, measured, symbols);
                if !self.is_periodic(number, source) {
                    row.period_ns = None;
                    row.phases.clear();
                }
                row.is_busy = busy.contains(&number);
                row.is_helper = helpers.contains(&number);
                row.is_go = self.is_go(number);
                if row.is_busy || row.is_helper || (row.is_go && !self.asked.names_threads) {
                    row.drop_deadline();
                }
                rows.push(row);
            }
        }
        rows.sort_by_key(|row| (!row.is_real_time, Reverse(row.activations), row.number));
        // Before rows are left out: the verdict and the causes are of all threads.
        let held = self.held(&rows);
        let causes = ranked(&rows);
        let worst = AttachWorst::new(&rows);
        let left = rows.split_off(rows.len().min(self.asked.rows));
        let others = self.others(&rows, &left);
        AttachReport {
            schema: ATTACH_SCHEMA,
            host: measured.host.clone(),
            duration_ns: measured.to.saturating_sub(measured.from),
            threads: measured.threads,
            stopped: self.sum(|state| state.thread.stopped.into()),
            received: self.sum(|state| state.came),
            missing: self.sum(ThreadState::lost),
            merged: self.sum(|state| state.thread.merged.into()),
            unseen: self.sum(|state| state.thread.unseen.into()),
            untold: measured.threads.saturating_sub(self.threads.len() as u64),
            ended: measured.ended,
            application: measured.asked.application.clone(),
            stack_rate: measured.asked.stack_rate,
            worst,
            causes,
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

    /// Returns the cycles that threads marked, most first.
    fn cycles(&self) -> Vec<AttachCycles> {
        let rows = self.threads.values().filter_map(|state| {
            let thread = state.thread;
            let name = thread.name.to_string();
            state.cycles.row(name, thread.tid, thread.process)
        });
        let mut rows: Vec<AttachCycles> = rows.collect();
        rows.sort_by_key(|row| Reverse(row.cycles));
        rows
    }

    /// Sums the comparisons with deadlines.
    fn held(&self, rows: &[AttachRow]) -> AttachHeld {
        let mut held = AttachHeld::default();
        let mut threads = BTreeSet::new();
        for row in rows {
            if let Some(deadline) = &row.deadline {
                // Once per thread, in however many ways it is woken.
                if threads.insert(row.number) {
                    held.unseen += row.unseen();
                }
                held.activations += row.activations;
                held.misses += deadline.misses;
                held.explained += deadline.explained;
            }
            held.overdue += u64::from(
                row.unfinished
                    .as_ref()
                    .is_some_and(|activation| activation.overdue),
            );
        }
        if self.asked.limit().is_some() {
            held.unheld = self.threads.values().map(|thread| thread.uncounted).sum();
        }
        held
    }

    /// Returns the row of a cycle that did not end. If the thread has not slept since the
    /// measurement started, this is the row with the most cycles.
    fn way_of_unfinished(&self, number: u32, unfinished: &UnfinishedCycle) -> WokenWay {
        let source = unfinished.woken.way();
        if unfinished.is_start_seen() {
            return source;
        }
        let lines = self.lines.range((number, WokenWay::Timer)..);
        let lines = lines.take_while(|((owner, _), _)| *owner == number);
        let most = lines.max_by_key(|(_, line)| line.response.count());
        most.map_or(source, |((_, source), _)| *source)
    }

    /// Returns the cycle of a thread that did not end. A cycle that ends with its thread has ended,
    /// unless a signal killed the thread.
    fn unfinished_of(&self, number: u32, source: WokenWay) -> Option<AttachUnfinished> {
        let state = self.threads.get(&number)?;
        let (end, cycle) = state.unfinished.as_ref()?;
        if self.way_of_unfinished(number, cycle) != source {
            return None;
        }
        let so_far = end.saturating_sub(cycle.origin);
        let never_slept = !cycle.is_start_seen();
        let line = self.lines.get(&(number, source));
        let deadline = line.and_then(|line| line.deadline).or(self.asked.limit());
        // A busy thread next to threads with cycles may not have a deadline.
        let is_held = !never_slept || self.asked.period.is_some() || self.has_no_cycles();
        // A thread that waits for an event without a period may be idle.
        let waits_for = match (cycle.last, cycle.parts.last()) {
            (None, Some(last)) if last.end == ActivationEnd::Slept => Some(wait_kind(last)),
            _ => None,
        };
        let has_period =
            line.is_some_and(LineState::is_mostly_periodic) && self.is_paced(number, source);
        let is_idle = !has_period && waits_for.is_some_and(WaitKind::can_be_home);
        // The user ended a program that had not slept yet, and that may have been starting.
        let is_ended_by_user = END_SIGNALS.contains(&state.exit.signal);
        let is_start = never_slept && is_ended_by_user && so_far <= MAX_START;
        let is_held = is_held && !is_idle && !is_start;
        Some(AttachUnfinished {
            so_far_ns: so_far,
            ran: cycle.ran,
            never_slept,
            overdue: state.is_cut() && is_held && deadline.is_some_and(|limit| so_far > limit),
            taken: state.unfinished_taken.clone(),
        })
    }

    /// Returns whether no thread has ended a cycle.
    fn has_no_cycles(&self) -> bool {
        self.lines.values().all(|line| line.response.count() == 0)
    }

    /// Finds the causes of the longest cycles that did not end.
    pub fn explain_unfinished(
        &mut self,
        evidence: impl Fn(Cpu, Nanos, Nanos) -> Evidence,
        names: &mut dyn Names,
    ) {
        const MAX_EXPLAINED: usize = 10;
        let mut longest: Vec<(Nanos, u32)> = self
            .threads
            .iter()
            .filter_map(|(&number, state)| {
                let (end, cycle) = state.unfinished.as_ref()?;
                Some((end.saturating_sub(cycle.origin), number))
            })
            .collect();
        longest.sort_by_key(|response| Reverse(*response));
        for (_, number) in longest.into_iter().take(MAX_EXPLAINED) {
            if let Some(state) = self.threads.get_mut(&number)
                && let Some((end, cycle)) = &state.unfinished
            {
                state.unfinished_taken =
                    unfinished_taken(&state.thread, cycle, *end, &evidence, names);
            }
        }
    }

    /// Sums a figure over all threads, also threads without a row.
    fn sum(&self, figure: impl Fn(&ThreadState) -> u64) -> u64 {
        self.threads.values().map(figure).sum()
    }

    /// Returns threads without a row and rows that are left out, by name.
    fn others(&self, rows: &[AttachRow], left: &[AttachRow]) -> Vec<AttachOthers> {
        let mut names: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (number, state) in &self.threads {
            let has_row = rows.iter().any(|row| row.number == *number);
            if !has_row || state.uncounted > 0 {
                let (threads, activations) =
                    names.entry(state.thread.name.to_string()).or_default();
                *threads += u64::from(!has_row);
                *activations += state.uncounted;
            }
        }
        for row in left {
            names.entry(row.name.clone()).or_default().1 += row.activations;
        }
        let unique_names = names.into_iter();
        let mut others: Vec<AttachOthers> = unique_names
            .map(|(name, (threads, activations))| AttachOthers {
                name,
                threads,
                activations,
            })
            .collect();
        others.sort_by_key(|other| Reverse((other.activations, other.threads)));
        others
    }
}

impl ThreadState {
    /// Returns whether the last cycle counts although the thread did not wait at its home wait again:
    /// the measurement or a signal ended it, or the thread never slept.
    fn is_cut(&self) -> bool {
        let never_slept = self.unfinished.as_ref().is_some_and(|(end, cycle)| {
            !cycle.is_start_seen() && end.saturating_sub(cycle.origin) > MAX_START
        });
        self.ended.is_none() || self.exit.signal != 0 || never_slept
    }
}

fn row(
    state: &ThreadState,
    source: WokenWay,
    line: &LineState,
    unfinished: Option<AttachUnfinished>,
    measured: &AttachMeasured,
    symbols: &Symbols,
) -> AttachRow {
    let after = |time: Nanos| time.saturating_sub(measured.from);
    let home = state.home_site();
    let never_slept = unfinished
        .as_ref()
        .is_some_and(|activation| activation.never_slept);
    let mut policies: Vec<_> = line.policies.iter().collect();
    policies.sort_by_key(|(_, count)| Reverse(**count));
    let policy = policies.first().map_or(state.thread.policy, |most| *most.0);
    let others = policies.iter().skip(1).map(|(policy, count)| AttachPolicy {
        policy: policy.to_string(),
        count: **count,
    });
    AttachRow {
        name: state.thread.name.to_string(),
        tid: state.thread.tid,
        process: state.thread.process,
        number: state.thread.number,
        policy: policy.to_string(),
        other_policies: others.collect(),
        is_real_time: policy.is_real_time(),
        ended_ns: state.ended.map(after),
        woken_by: if never_slept && line.response.count() == 0 {
            "nothing".into()
        } else {
            woken_by(source, symbols)
        },
        sleeps_relative: home
            .as_ref()
            .is_some_and(|site| site.kind == WaitKind::SleepFor),
        home,
        counts_from: match source {
            WokenWay::Timer => CountsFrom::Expiry,
            WokenWay::Irq(_) | WokenWay::Vector => CountsFrom::Interrupt,
            WokenWay::Wheel | WokenWay::Softirq(_) => CountsFrom::Softirq,
            WokenWay::Interrupt | WokenWay::Thread => CountsFrom::Wakeup,
        },
        wakers: wakers(line, symbols),
        activations: line.cycles(),
        inferred: line.inferred,
        run_unseen: line.run_unseen,
        back_unseen: line.back_unseen,
        lost: state.lost(),
        merged: state.thread.merged,
        unseen: state.thread.unseen,
        stopped: state.thread.stopped,
        period_ns: line.period(),
        phases: line
            .phases
            .iter()
            .map(|phase| AttachPhase {
                period_ns: phase.period,
                cycles: phase.cycles,
                misses: phase.misses,
            })
            .collect(),
        timers: line.timer_figures(),
        stops: state.stops,
        killed: killed(state),
        asked: period(source, line, measured),
        latency: AttachFigures::new(&line.latency),
        response: AttachFigures::new(&line.responses()),
        execution: AttachFigures::new(&line.execution),
        course: line.course.course(),
        preemptions: line.preemptions,
        preempted_ns: line.preempted,
        migrations: line.migrations,
        blocks: line.blocks,
        blocked_ns: line.blocked,
        sleeps: line.sleeps,
        slept_ns: line.slept,
        largest_response: line
            .slowest
            .as_ref()
            .map(|cycle| largest(cycle, measured.from)),
        largest_latency: line
            .latest
            .as_ref()
            .map(|cycle| largest(cycle, measured.from)),
        deadline: deadline(state, line, measured),
        is_busy: false,
        is_helper: false,
        is_go: false,
        unfinished,
    }
}

/// Returns the signal that killed a thread in the middle of a cycle.
fn killed(state: &ThreadState) -> Option<AttachKill> {
    let (end, cycle) = state.unfinished.as_ref()?;
    let running = cycle.last.and_then(|last| last.running)?;
    (state.exit.signal != 0).then(|| AttachKill {
        signal: state.exit.signal,
        rt_limit_ns: state.exit.rt_limit,
        ran_ns: end.saturating_sub(running),
    })
}

fn woken_by(source: WokenWay, symbols: &Symbols) -> String {
    match source {
        WokenWay::Timer => "timer".into(),
        WokenWay::Wheel => "timer wheel".into(),
        WokenWay::Irq(number) => activity_name(Activity::Irq(number), symbols),
        WokenWay::Vector => "interrupt of the CPU".into(),
        WokenWay::Softirq(vector) => activity_name(Activity::Softirq(vector), symbols),
        WokenWay::Interrupt => "interrupt".into(),
        WokenWay::Thread => "thread".into(),
    }
}

fn wakers(line: &LineState, symbols: &Symbols) -> Vec<AttachWaker> {
    // Functions with the same name count as one waker.
    let mut counts: BTreeMap<(AttachWakerKind, Option<String>), u64> = BTreeMap::new();
    for (waker, &count) in &line.wakers {
        let key = match waker {
            // The scheduler does not have a timer function.
            Waker::Function(Address(0)) => (AttachWakerKind::NextPeriod, None),
            Waker::Function(address) => timer(&symbols.kernel_name(*address)),
            Waker::Thread(name) => (AttachWakerKind::Thread, Some(name.to_string())),
            Waker::None => continue,
        };
        *counts.entry(key).or_default() += count;
    }
    let wakers = counts.into_iter();
    let mut wakers: Vec<AttachWaker> = wakers
        .map(|((kind, who), count)| AttachWaker { kind, who, count })
        .collect();
    wakers.sort_by_key(|waker| Reverse(waker.count));
    if line.other_wakers > 0 {
        wakers.push(AttachWaker {
            kind: AttachWakerKind::Others,
            who: None,
            count: line.other_wakers,
        });
    }
    wakers
}

/// Returns the kind of a timer with this function (kernel/time, fs/timerfd.c).
fn timer(function: &str) -> (AttachWakerKind, Option<String>) {
    let kind = match function {
        // The kernel's timer does not show whether it is a sleep or a timeout.
        "hrtimer_wakeup" => AttachWakerKind::Sleep,
        "process_timeout" => AttachWakerKind::Timeout,
        "timerfd_tmrproc" => AttachWakerKind::TimerDescriptor,
        "posix_timer_fn" => AttachWakerKind::PosixTimer,
        "it_real_fn" => AttachWakerKind::IntervalTimer,
        other => return (AttachWakerKind::Function, Some(other.into())),
    };
    (kind, None)
}

/// Returns the causes of the misses of all threads, ranked by the misses that their removal
/// avoids.
fn ranked(rows: &[AttachRow]) -> Vec<AttachRanked> {
    let mut causes: BTreeMap<(Option<u32>, AttachCause), AttachRanked> = BTreeMap::new();
    for row in rows {
        let Some(deadline) = &row.deadline else {
            continue;
        };
        for late in &deadline.taken {
            let cause = &late.taken.cause;
            let mut cause = cause.overrun_of().unwrap_or_else(|| cause.clone());
            cause.take_holder_state();
            let thread = cause.is_internal().then_some(row.number);
            let sum = causes.entry((thread, cause.clone()));
            let sum = sum.or_insert_with(|| AttachRanked {
                late: AttachLate::new(cause, CauseSum::default()),
                threads: Vec::new(),
            });
            sum.late.add(late.clone());
            if !sum.threads.contains(&row.name) {
                sum.threads.push(row.name.clone());
            }
        }
    }
    let mut causes: Vec<AttachRanked> = causes.into_values().collect();
    causes.sort_by_key(|cause| cause.late.rank());
    causes
}

fn largest(cycle: &LargestCycle, from: Nanos) -> AttachLargest {
    let activation = &cycle.activation;
    AttachLargest {
        after_ns: activation.origin.saturating_sub(from),
        origin_ns: activation.origin,
        wake_seen: activation.wake_seen,
        wakeup_ns: activation.waking.saturating_sub(activation.origin),
        scheduling_ns: activation.running.saturating_sub(activation.waking),
        execution_ns: activation.execution(),
        preempted_ns: activation.preempted,
        blocked_ns: activation.blocked,
        slept_ns: activation.waits.slept,
        stopped_ns: activation.waits.stopped,
        response_ns: activation.response(),
        cpu: activation.cpu,
        taken: cycle.taken.clone(),
    }
}

fn deadline(
    state: &ThreadState,
    line: &LineState,
    measured: &AttachMeasured,
) -> Option<AttachDeadline> {
    let deadline = line.usual_deadline()?;
    let responses = line.responses();
    let most = responses.max()?;
    let p999 = AttachFigures::new(&responses)?.p999_ns;
    let margin = |response: Nanos| signed(deadline) - signed(response);
    Some(AttachDeadline {
        deadline_ns: deadline,
        different_ns: line.counted.different_deadlines(),
        source: match (measured.asked.deadline, &measured.asked.application) {
            (None, _) if measured.asked.period.is_some() => DeadlineSource::GivenPeriod,
            (None, _) => DeadlineSource::Period,
            (Some(_), Some(_)) => DeadlineSource::Application,
            (Some(_), None) => DeadlineSource::Given,
        },
        least_margin_ns: line.counted.least_margin.unwrap_or(margin(most)),
        p999_margin_ns: p999.map(margin),
        misses: line.counted.misses,
        passed: line.counted.passed,
        expected: expected(state, line, measured),
        grown: GROWTHS
            .into_iter()
            .zip(line.counted.grown)
            .map(|(by_percent, misses)| AttachGrowth { by_percent, misses })
            .collect(),
        misses_of_half: line.counted.halved,
        explained: line.explained,
        taken: taken(line),
        other_taken_ns: line.taken.others,
    })
}

/// Compares a row that a timer wakes with the given period.
fn period(source: WokenWay, line: &LineState, measured: &AttachMeasured) -> Option<AttachPeriod> {
    let period = measured
        .asked
        .period
        .filter(|_| matches!(source, WokenWay::Timer | WokenWay::Wheel))?;
    let periods = (line.course.span()?.ns() + period.ns() / 2) / period.ns().max(1);
    let wakes = line.response.count();
    Some(AttachPeriod {
        period_ns: period,
        // The first wakeup starts the first period.
        without_wake: (periods + 1).saturating_sub(wakes),
    })
}

fn taken(line: &LineState) -> Vec<AttachLate> {
    let causes = line.taken.causes.iter();
    let mut causes: Vec<AttachLate> = causes
        .map(|(cause, sum)| AttachLate::new(cause.clone(), sum.clone()))
        .collect();
    causes.sort_by_key(AttachLate::rank);
    causes
}

/// Returns the confidence interval of the misses in a measurement of the same length; misses may
/// cluster.
fn expected(
    state: &ThreadState,
    line: &LineState,
    measured: &AttachMeasured,
) -> Option<(f64, f64)> {
    let counted = &line.counted;
    if counted.misses > counted.missed_at.len() as u64 {
        return None;
    }
    let from = state.began.max(measured.from);
    let to = state.ended.unwrap_or(measured.to);
    let span = to.saturating_sub(from).as_f64();
    let mut times: Vec<f64> = counted
        .missed_at
        .iter()
        .map(|time| time.saturating_sub(from).as_f64().min(span))
        .collect();
    times.sort_by(f64::total_cmp);
    let event = |time| Event {
        at: time,
        size: 1.0,
    };
    let events: Vec<Event> = times.into_iter().map(event).collect();
    let clusters = Clusters::find(&events, span).ok()?;
    let interval = clustered_interval(events.len() as f64, clusters, CONFIDENCE).ok()?;
    // A measurement of the same length has about the same number of cycles, and at most the same
    // number of misses.
    let most = line.cycles() as f64;
    Some((interval.low.min(most), interval.high.min(most)))
}
