//! Names of lines, parts of a latency, culprits and causes.
//!
//! External text (names of threads, devices, functions) is escaped here.

use crate::text::Unit;
use crate::{Activity, Culprit, Route, Service, Stage, Symbols, Vector, printable};

/// Softirqs by vector, with the kernel's names in the order of its enum.
const SOFTIRQS: [&str; 10] = [
    "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU",
];

/// Attribute of a thread of the laggard that recorded.
const OURS: &str = "laggard's own";

/// Function of the sampling timer without hardware counters. The owner of the sampler
/// is unknown.
const SAMPLER: &str = "perf_swevent_hrtimer";

/// Returns a service with its route as one name. A work item is always deferred.
pub fn line_name(service: Service, route: Route) -> String {
    match (service.is_thread(), route) {
        (true, Route::Deferred) => format!("{service} deferred"),
        _ => service.to_string(),
    }
}

/// Returns the term of the field for a service, such as `SCHED_FIFO 90`.
pub fn service_words(service: Service) -> String {
    match service {
        Service::Irq => "timer IRQ".into(),
        Service::Softirq => "softirq".into(),
        Service::Worker => "kworker".into(),
        Service::Fifo(priority) => format!("SCHED_FIFO {priority}"),
        Service::Other => "SCHED_OTHER".into(),
        Service::Nice(nice) => format!("SCHED_OTHER, nice {nice}"),
        Service::Slice(length) => format!("SCHED_OTHER, slice {length}"),
        Service::Lent(priority) => format!("SCHED_OTHER, boosted to FIFO {priority} by a PI futex"),
        Service::Realtime(priority) => format!("Windows RT thread ({priority})"),
        Service::Mmcss => "Windows audio thread (MMCSS)".into(),
        Service::Dpc => "DPC of a timer".into(),
        Service::SystemThread(priority) => format!("Windows kernel thread ({priority})"),
        Service::Deadline => "SCHED_DEADLINE".into(),
        Service::Kthread(priority) => format!("kthread (FIFO {priority})"),
        Service::Task(task) => format!("thread {}, by {}", task.thread(), task.way()),
        Service::Traced(trace) => trace.words(),
    }
}

/// Returns the term of the field for a service and its route. A work item always comes via
/// a softirq.
pub fn series_words(service: Service, route: Route) -> String {
    let words = service_words(service);
    if service.is_thread() && route == Route::Deferred {
        format!("{words} via softirq")
    } else {
        words
    }
}

/// Returns the term of the field for the part that ends at `stage` and starts at
/// `before` or, without it, at the expiry.
pub const fn part_words(stage: Stage, before: Option<Stage>) -> &'static str {
    match (stage, before) {
        (Stage::Signal, Some(Stage::Softirq)) => "softirq to signal",
        (Stage::Irq, _) => "interrupt latency",
        (Stage::IrqElsewhere, _) => "interrupt latency on another CPU",
        (Stage::IrqThread, _) => "interrupt thread",
        (Stage::Expire, _) => "timer handling",
        (Stage::Raise, _) => "softirq raise",
        (Stage::Softirq, _) => "softirq latency",
        (Stage::Signal, _) => "signal",
        (Stage::Waking, Some(Stage::Signal)) => "irq_work hop",
        (Stage::Waking, _) => "wakeup",
        (Stage::Running, _) => "scheduling",
        (Stage::User, _) => "context switch",
        (Stage::Worker, _) => "work queue",
        (Stage::Kthread, _) => "kernel thread",
        (Stage::Done, _) => "its work",
    }
}

/// Returns the term with the stages of the part, if the term does not imply them.
pub fn part_name(stage: Stage, before: Option<Stage>) -> String {
    let words = part_words(stage, before);
    if (stage, before) == (Stage::Signal, Some(Stage::Softirq)) {
        return words.into();
    }
    // It comes first, in place of `irq`.
    let before = before.filter(|_| stage != Stage::IrqElsewhere);
    let before = before.map_or("expiry", Stage::name);
    format!("{words} ({before} to {stage})")
}

/// Returns an activity in words.
pub fn activity_name(activity: Activity, symbols: &Symbols) -> String {
    match activity {
        Activity::Irq(number) => match symbols.interrupts.get(&number) {
            Some(devices) => format!("irq {number} ({})", printable(devices)),
            None => format!("irq {number}"),
        },
        Activity::Vector(vector) => match vector {
            Vector::LocalTimer => "local timer",
            Vector::Reschedule => "reschedule",
            Vector::CallFunction => "call_function (IPI to several CPUs)",
            Vector::CallFunctionSingle => "call_function_single (IPI)",
            Vector::IrqWork => "irq work",
            Vector::Thermal => "thermal",
        }
        .into(),
        Activity::Softirq(vector) => SOFTIRQS
            .get(vector as usize)
            .map_or_else(|| format!("softirq {vector}"), |name| (*name).to_owned()),
        Activity::Hrtimer(function) | Activity::Timer(function) => {
            let name = symbols.kernel_name(function);
            let is_sampler = name.starts_with(SAMPLER);
            let name = printable(&name);
            if is_sampler {
                format!("timer {name} (stack sampler of laggard or perf)")
            } else {
                format!("timer {name}")
            }
        }
        Activity::Isr(routine) => format!("ISR {}", printable(&symbols.kernel_name(routine))),
        // The class already names the DPC.
        Activity::Dpc(routine) => printable(&symbols.kernel_name(routine)).to_string(),
        Activity::Work(function) => format!("work {}", printable(&symbols.kernel_name(function))),
        Activity::Poll(function) => {
            format!("NET_RX: {}", printable(&symbols.kernel_name(function)))
        }
        Activity::Function(function) => {
            format!("function {}", printable(&symbols.kernel_name(function)))
        }
        Activity::PageFault => "page faults".into(),
        Activity::Idle(state) => format!("idle state {state}"),
    }
}

/// Returns the quota of the control group with this number, in words.
fn quota_words(group: u64, symbols: &Symbols) -> String {
    let Some(quota) = symbols.quotas.get(&group) else {
        return format!("CPU quota of control group {group}");
    };
    let limit = match (quota.quota_ns, quota.period_ns) {
        (Some(limit), Some(period)) => format!(
            " {} of each {}",
            Unit::Auto.write_nanos(limit),
            Unit::Auto.write_nanos(period)
        ),
        _ => String::new(),
    };
    format!(
        "CPU quota of control group {} ({}{limit})",
        printable(&quota.group),
        quota.file
    )
}

/// Returns the name of a culprit; `None` if it is not named. [`Culprit::because`] is not part of
/// the name.
pub fn who(culprit: &Culprit, symbols: &Symbols) -> Option<String> {
    let mut words = Vec::new();
    words.extend(
        culprit
            .activity
            .map(|activity| activity_name(activity, symbols)),
    );
    words.extend(
        culprit
            .function
            .map(|function| activity_name(function, symbols)),
    );
    words.extend(culprit.thread.as_ref().map(|name| {
        if culprit.is_ours {
            format!("{} ({OURS})", printable(name))
        } else {
            printable(name).to_string()
        }
    }));
    words.extend(
        culprit
            .frame
            .map(|frame| format!("in {}", printable(&symbols.kernel_name(frame)))),
    );
    words.extend(
        culprit
            .system_call
            .as_deref()
            .map(|call| format!("system call {}", printable(call))),
    );
    words.extend(culprit.group.map(|group| quota_words(group, symbols)));
    words.extend(
        culprit
            .weight
            .as_deref()
            .map(|text| printable(text).to_string()),
    );
    words.extend(
        culprit
            .recorded
            .as_deref()
            .map(|text| printable(text).to_string()),
    );
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
mod tests {
    use crate::{Address, Symbol};

    use super::*;

    #[test]
    fn sampler_of_unknown_owner_is_named_as_possibly_ours() {
        let mut symbols = Symbols::default();
        let name = Symbol::named("perf_swevent_hrtimer");
        symbols.kernel.insert(Address(7), name);

        let name = activity_name(Activity::Hrtimer(Address(7)), &symbols);

        assert!(name.contains("stack sampler of laggard or perf"), "{name}");
    }

    #[test]
    fn culprit_is_named_from_the_outside_in() {
        let mut symbols = Symbols::default();
        let name = Symbol::named("process_timeout");
        symbols.kernel.insert(Address(1), name);
        symbols.interrupts.insert(36, "virtio1-req.0".into());
        let timer = Culprit {
            activity: Some(Activity::Softirq(1)),
            function: Some(Activity::Timer(Address(1))),
            ..Culprit::default()
        };
        let device = Culprit {
            activity: Some(Activity::Irq(36)),
            ..Culprit::default()
        };

        let culprit = who(&timer, &symbols).unwrap();
        assert_eq!(culprit, "TIMER, timer process_timeout");
        assert_eq!(who(&device, &symbols).unwrap(), "irq 36 (virtio1-req.0)");
        assert_eq!(who(&Culprit::default(), &symbols), None);
    }

    #[test]
    fn names_of_vectors_are_no_sentences() {
        for vector in [
            Vector::LocalTimer,
            Vector::Reschedule,
            Vector::CallFunction,
            Vector::CallFunctionSingle,
            Vector::IrqWork,
            Vector::Thermal,
        ] {
            let name = activity_name(Activity::Vector(vector), &Symbols::default());
            let without_explanation = name.split(" (").next().unwrap();
            assert!(
                without_explanation.split_whitespace().count() <= 3,
                "{name}"
            );
        }
    }
}
