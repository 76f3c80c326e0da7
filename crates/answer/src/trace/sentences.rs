//! The report in words.

use laggard_model::Nanos;
use laggard_model::text::{Unit, count, span};

use super::{HandlerKind, TraceHandlerRow, TraceReport, TraceThreadRow, TraceTimes};

/// The session's end is noted after its last event, and by another clock.
const MOST_BEYOND: Nanos = Nanos::from_secs(60);
/// What the reader calls a driver that is not known.
const UNKNOWN: &str = "unknown";

fn time(time: Nanos) -> String {
    Unit::Auto.write_nanos(time)
}

/// `1 thing`, `2 things`.
fn counted(number: u64, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {what}{s}", count(number))
}

/// What can be said of latency, the most direct first.
pub(super) fn sentences(report: &TraceReport, is_coarse: bool) -> Vec<String> {
    let handlers = [(HandlerKind::Isr, "ISR"), (HandlerKind::Dpc, "DPC")];
    let handlers = handlers
        .into_iter()
        .filter_map(|(handler, name)| of_handlers(report, handler, name, is_coarse));
    handlers
        .chain(of_threads(report))
        .chain(of_faults(report))
        .collect()
}

/// `is_coarse`: the clock's steps are longer than any limit.
fn of_handlers(
    report: &TraceReport,
    handler: HandlerKind,
    name: &str,
    is_coarse: bool,
) -> Option<String> {
    let of = |row: &&TraceHandlerRow| row.handler == handler;
    let longest = report.drivers.iter().find(of)?;
    let all: u64 = report
        .drivers
        .iter()
        .filter(of)
        .map(|row| row.times.count)
        .sum();
    let over: u64 = report
        .drivers
        .iter()
        .filter(of)
        .map(|row| row.over_limit)
        .sum();
    let limit = longest.limit_ns;
    let took = longest_of(longest.times);
    let whose = whose(&longest.who);
    if is_coarse {
        return Some(format!(
            "The longest {name} of {} took {took}, of {whose}, by a clock that moves in steps: whether one ran longer than {limit}, the most that Microsoft recommends, is not told.",
            count(all)
        ));
    }
    let beyond = match over {
        0 => format!("none of {} ran longer than {limit}", counted(all, name)),
        over => format!(
            "{} of {} ran longer than {limit}",
            count(over),
            counted(all, name)
        ),
    };
    Some(format!(
        "The longest {name} took {took}, of {whose}; {beyond}, the most that Microsoft recommends."
    ))
}

/// The longest time; less than a step of the clock is not known.
fn longest_of(times: TraceTimes) -> String {
    if times.is_below_step {
        format!("less than {}", time(times.longest_ns))
    } else {
        time(times.longest_ns)
    }
}

fn whose(driver: &str) -> &str {
    match driver {
        UNKNOWN => "a driver that the trace does not name",
        name => name,
    }
}

/// Whose thread it is, with its number.
fn who(row: &TraceThreadRow) -> String {
    match (&row.name, row.process) {
        (Some(name), _) => format!("thread {} of {name}", row.thread),
        (None, Some(process)) => format!("thread {} of process {process}", row.thread),
        (None, None) => format!("thread {}", row.thread),
    }
}

fn of_threads(report: &TraceReport) -> Option<String> {
    let longest = report.threads.first()?;
    let priority = match longest.priorities {
        Some((low, high)) if low == high => format!(", priority {low}"),
        Some((low, high)) => format!(", priority {low} to {high}"),
        None => String::new(),
    };
    let preempted = match report.ready.preempted {
        0 => String::new(),
        preempted => format!(", {} of them after another took it", count(preempted)),
    };
    Some(format!(
        "Threads that were ready waited for a CPU {}{preempted}; the longest wait was {}, of {}{priority}.",
        counted(report.ready.told, "time"),
        longest_of(longest.times),
        who(longest),
    ))
}

fn of_faults(report: &TraceReport) -> Option<String> {
    let longest = report.hard_faults.first()?;
    let (mut all, mut total) = (0, 0_u64);
    for row in &report.hard_faults {
        all += row.times.count;
        total = total.saturating_add(row.times.total_ns);
    }
    Some(format!(
        "Threads waited for a page from a disk {}, {} in all; the longest wait was {}, of {}.",
        counted(all, "time"),
        time(Nanos::from_ns(total)),
        longest_of(longest.times),
        who(longest),
    ))
}

/// What the trace does not tell, and what to record for it.
pub(super) fn absent(report: &TraceReport) -> Vec<String> {
    let mut absent = Vec::new();
    // Of what was left out the sort is not kept.
    let unless = match report.losses.unreadable + report.losses.implausible {
        0 => "",
        _ => " but for what was left out (below)",
    };
    let has = |handler| report.drivers.iter().any(|row| row.handler == handler);
    for (handler, name, flag) in [
        (HandlerKind::Isr, "ISRs", "INTERRUPT"),
        (HandlerKind::Dpc, "DPCs", "DPC"),
    ] {
        if !has(handler) {
            absent.push(format!(
                "It has no {name}{unless}; record them with `xperf -on PROC_THREAD+LOADER+{flag}`"
            ));
        }
    }
    if !report.drivers.is_empty() && report.drivers.iter().all(|row| row.who == UNKNOWN) {
        absent.push(
            "It has no images of drivers where handlers ran, so that these have no names; record them with `xperf -on PROC_THREAD+LOADER`, and merge (`xperf -d`)".into(),
        );
    }
    let ready = &report.ready;
    if ready.switches == 0 || ready.readied == 0 {
        let what = match (ready.switches, ready.readied) {
            (0, 0) => "neither switches nor ready threads",
            (0, _) => "no switches",
            _ => "no ready threads",
        };
        absent.push(format!(
            "It has {what}{unless}, so that no thread's wait for a CPU is known; record them with `xperf -on PROC_THREAD+LOADER+CSWITCH+DISPATCHER`"
        ));
    }
    if report.hard_faults.is_empty() {
        absent.push(format!(
            "It has no hard faults{unless}: there were none, or they were not asked for (`xperf -on PROC_THREAD+LOADER+HARD_FAULTS`)"
        ));
    }
    absent
}

/// What makes figures less, or other, than they seem.
/// How long the trace's header says that it took, where it does: `length`.
pub(super) fn doubts(report: &TraceReport, is_coarse: bool, length: Option<Nanos>) -> Vec<String> {
    let (lost, ready) = (&report.losses, &report.ready);
    let mut doubts = Vec::new();
    if is_coarse {
        doubts.push(
            format!(
                "its clock is the system's time, which moves in steps of {}: every time can be that much longer or shorter; record with the performance counter (`xperf -ClockType PerfCounter`)",
                time(report.clock_step_ns)
            ),
        );
    }
    let is_lost = lost.events > 0 || lost.buffers > 0;
    let is_damaged = lost.damaged_buffers > 0 || lost.unread_bytes > 0;
    if (is_lost || is_damaged) && !report.threads.is_empty() {
        let remedy = if is_lost {
            "; record with more buffers"
        } else {
            ""
        };
        doubts.push(format!(
            "where a switch was lost, a thread's wait for a CPU seems longer than it was{remedy}"
        ));
    }
    if let (Some(told), Some(length)) = (report.duration_ns, length)
        && Nanos::between(length, told).is_some_and(|beyond| beyond > MOST_BEYOND)
    {
        doubts.push(format!(
            "its events are {} apart, but its header says that it took {}: the time of one at least is damaged",
            span(told),
            span(length)
        ));
    }
    if let Some(damage) = &lost.first_damage {
        doubts.push(format!(
            "the file is damaged ({damage}): {} and {} at its end are not read; copy it again",
            counted(lost.damaged_buffers, "buffer"),
            counted(lost.unread_bytes, "byte"),
        ));
    }
    for (number, what) in [
        (
            lost.unreadable,
            "too short to be read, or of a version before Windows 7",
        ),
        (
            lost.implausible,
            "of more than 60 s, or with an end before its start",
        ),
        (
            lost.switch_batches,
            "with a batch of switches each, which laggard does not read",
        ),
        (
            lost.crowded,
            "of a routine or thread beyond the 16,384 that are told apart",
        ),
    ] {
        if number > 0 {
            doubts.push(format!("left out: {} {what}", counted(number, "event")));
        }
    }
    if lost.early > 0 {
        doubts.push(format!(
            "{} began before the first event of the trace, and is counted",
            match lost.early {
                1 => "1 handler or fault".to_owned(),
                many => format!("each of {} handlers and faults", count(many)),
            }
        ));
    }
    if ready.told > 0 && ready.unclear > 0 {
        doubts.push(format!(
            "{} a thread was made ready while it ran, or twice: nothing is known of those waits",
            counted(ready.unclear, "time")
        ));
    }
    if ready.told > 0 && ready.waiting > 0 {
        doubts.push(format!(
            "{} still waiting when the trace ended: those waits are in no figure",
            match ready.waiting {
                1 => "1 thread was".to_owned(),
                many => format!("{} threads were", count(many)),
            }
        ));
    }
    if !report.drivers.is_empty() {
        doubts.push(
            "a handler's time has in it what interrupted the handler, also time that a hypervisor took".into(),
        );
    }
    doubts
}
