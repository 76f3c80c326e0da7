//! Sentences about the values of an answer.
//!
//! `laggard-answer` returns kinds and numbers. The functions here turn them into text, in
//! one place for all output formats.

pub(crate) mod attach;
pub(crate) mod cause;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod forecast;
pub(crate) mod live;
pub(crate) mod overview;
pub(crate) mod qos;
pub(crate) mod rehearsal;
pub(crate) mod rtos;
pub(crate) mod sched;
pub(crate) mod show;
pub(crate) mod study;
pub(crate) mod switch;
pub(crate) mod timers;
pub(crate) mod trace;
pub mod trust;
pub(crate) mod why;

use laggard_model::{Caveat, CompetingThread, Host, Nanos, Service};

use crate::doc::{Cell, code};

/// Writes a number with its noun.
pub(crate) fn plural(number: u64, singular: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {singular}{s}", Cell::Count(number))
}

/// Returns the unit of the samples of a service: threads of programs have cycles.
pub(crate) const fn sample_unit(service: Option<Service>) -> &'static str {
    if matches!(service, Some(Service::Task(_))) {
        "cycle"
    } else {
        "wakeup"
    }
}

/// Describes a warning about the machine.
pub(crate) fn warning(warning: &Caveat) -> String {
    format!("{}; {}", warning.what, warning.advice)
}

/// Describes a machine: its system, preemption model and hypervisor.
pub(crate) fn machine(host: &Host) -> String {
    let preemption = host.preemption.as_ref();
    let parts = [
        Some(host.system()).filter(|_| !host.kernel.is_empty()),
        preemption.map(|model| format!("preempt={model}")),
        host.hypervisor.as_ref().map(|name| match name.as_str() {
            "kvm" => "KVM guest".to_owned(),
            name => format!("{name} guest"),
        }),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Names threads of other programs with their policy and total run time.
fn competitors(threads: &[CompetingThread]) -> String {
    let Some(first) = threads.first() else {
        return "another program".into();
    };
    let policy = first.priority.map_or_else(
        || "SCHED_DEADLINE".to_owned(),
        |priority| format!("SCHED_FIFO {priority}"),
    );
    let others = match threads.len() - 1 {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    let ran = threads
        .iter()
        .fold(Nanos::ZERO, |sum, thread| sum + thread.ran_ns);
    format!(
        "{} ({policy}){others}, which ran for {}",
        code(&first.name),
        Cell::Time(ran)
    )
}

/// Starts a sentence with a capital letter.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// Writes a time, or `-` if it is not known.
fn time(time: Option<Nanos>) -> String {
    time.map_or_else(|| "-".into(), |time| Cell::Time(time).to_string())
}

/// Returns a cell with a computed time, rounded to whole ns.
pub(crate) fn computed_time(ns: f64) -> Cell {
    Cell::Time(Nanos::from_f64(ns.round()))
}

/// Writes a number of things.
fn number(count: usize) -> Cell {
    Cell::Count(count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn competitors_are_named_once_with_their_total_run_time() {
        let thread = |name: &str, priority| CompetingThread {
            name: name.into(),
            priority,
            ran_ns: Nanos::from_us(1_250),
        };
        let audio = thread("au`dio", Some(97));

        assert_eq!(
            competitors(&[audio.clone(), thread("b", Some(95))]),
            "`au\\x60dio` (SCHED_FIFO 97) and 1 more, which ran for 2.50 ms"
        );
        assert_eq!(
            competitors(&[thread("c", None)]),
            "`c` (SCHED_DEADLINE), which ran for 1.25 ms"
        );
    }
}
