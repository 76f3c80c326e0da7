//! Sentences of `laggard sched`.

use laggard_answer::sched::{
    LargestPart, Pseudo, RareFrom, ResponseLimit, SchedReport, SetVerdict, TaskDoubt, TaskRemark,
    TaskVerdict, UnseenTime, Verdict,
};
use laggard_model::Nanos;
use laggard_model::text::mean_time;

use super::forecast::time;
use super::{code, number, qos, trust};
use crate::doc::Cell;
use crate::text::Tone;

/// Explains the columns of the responses.
pub(crate) const RESPONSES: [&str; 2] = [
    "Worst response: ideal, without latency; jitter + blocking, with the max interrupt latency as release jitter and the max of each later stage as blocking; worst response, lower to upper limit with the measured stalls.",
    "UNKNOWN: the deadline may be met or missed (exit code 1, as for MISSES).",
];

/// Returns the word for a verdict on a task.
pub(crate) const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Meets => "meets",
        Verdict::Misses => "MISSES",
        Verdict::Unknown => "UNKNOWN",
    }
}

/// Returns whether a verdict is good news.
pub(crate) const fn tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Meets => Tone::Good,
        Verdict::Misses => Tone::Bad,
        Verdict::Unknown => Tone::Open,
    }
}

/// Returns the word for the verdict on the set.
pub(crate) const fn set_verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Meets => "SCHEDULABLE",
        Verdict::Misses => "NOT SCHEDULABLE",
        Verdict::Unknown => "UNKNOWN",
    }
}

/// States the tasks with a verdict on the set.
pub(crate) fn tasks(verdict: Verdict, tasks: &[&TaskVerdict], total: usize) -> String {
    let text = match (verdict, tasks.len()) {
        (Verdict::Meets, 1) => return format!("{} meets its deadline", name(tasks[0])),
        (Verdict::Meets, count) => return format!("all {count} tasks meet their deadlines"),
        (Verdict::Misses, 1) => "misses its deadline",
        (Verdict::Misses, _) => "miss their deadlines",
        (Verdict::Unknown, 1) => "may miss its deadline",
        (Verdict::Unknown, _) => "may miss their deadlines",
    };
    let names: Vec<String> = tasks.iter().map(|task| name(task)).collect();
    let of_all = if total > tasks.len() {
        format!(" ({} of {total} tasks)", tasks.len())
    } else {
        String::new()
    };
    format!("{} {text}{of_all}", names.join(", "))
}

/// Names a task in a sentence.
pub(crate) fn name(task: &TaskVerdict) -> String {
    code(&task.task.name)
}

/// States the recording and the permitted rate.
pub(crate) fn data(report: &SchedReport) -> String {
    format!(
        "Data: {} recorded{}; permitted: one miss per {}. Measured stalls of this load are not a bound. One CPU, no migration.",
        mean_time(report.observed_ns),
        qos::under(&report.load),
        mean_time(report.permitted_ns.as_f64())
    )
}

/// Writes a time, or that it has no bound.
pub(crate) fn bound(ns: Option<f64>) -> Cell {
    ns.filter(|ns| ns.is_finite())
        .map_or_else(|| "no bound".into(), time)
}

/// Writes the limits of the worst response with the measured stalls.
pub(crate) fn response(task: &TaskVerdict) -> Cell {
    let low = bound(task.least_ns);
    match task.most_ns {
        None if task.least_ns.is_none() => low,
        None if task.verdict == Verdict::Unknown => format!("{low} or more").into(),
        high => Cell::Interval(Box::new(low), Box::new(bound(high))),
    }
}

/// Writes a time with its sign.
pub(crate) fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "" };
    format!("{sign}{}", time(ns.abs()))
}

/// States the largest part of a response.
pub(crate) fn limit(limit: &ResponseLimit) -> String {
    let (part, ns) = match limit.largest {
        LargestPart::Overload => ("an overload of the CPU".to_owned(), None),
        LargestPart::Stalls { longest_ns } => (
            format!(
                "stalls, which leave too little CPU time (longest measured: {})",
                time(longest_ns)
            ),
            None,
        ),
        LargestPart::UnfinishedStall { waited_ns } => (
            format!(
                "a stall that had lasted {} and had not ended when measuring ended",
                Cell::Time(waited_ns)
            ),
            None,
        ),
        LargestPart::Work { time_ns } => ("its execution time".into(), Some(time_ns)),
        LargestPart::Blocking { time_ns } => ("blocking".into(), Some(time_ns)),
        LargestPart::Above { time_ns } => ("tasks that run before it".into(), Some(time_ns)),
        LargestPart::Latency { time_ns } => ("latency".into(), Some(time_ns)),
    };
    let ns = ns.map_or_else(String::new, |ns| format!(", {}", time(ns)));
    let unseen = match limit.unseen {
        None => String::new(),
        Some(UnseenTime::Unbounded) => "; the recording does not bound the additional time".into(),
        Some(UnseenTime::UpTo { time_ns }) => format!(
            "; the recording cannot rule out up to {} more (a bound, not a measurement)",
            time(time_ns)
        ),
    };
    format!("the largest part of the response is {part}{ns}{unseen}")
}

/// States why a recording does not show whether a task meets its deadline, and the remedy.
pub(crate) fn doubt(doubt: &TaskDoubt) -> (String, Option<String>) {
    match doubt {
        TaskDoubt::Waiting { waited_ns } => (
            format!(
                "it was still waiting when measuring ended, for {} by then",
                Cell::Time(*waited_ns)
            ),
            Some("record until it has run".into()),
        ),
        TaskDoubt::AllZero => (
            "every latency was 0 ns, so no latency has a bound".into(),
            Some("record with a finer clock".into()),
        ),
        TaskDoubt::NotKept {
            floor_ns,
            late,
            is_tail,
        } => not_kept(*floor_ns, *late, *is_tail),
        TaskDoubt::Shared { least_ns, most_ns } => (
            format!(
                "it shares its CPU with tasks of its priority, or with tasks that may do less than the analysed work: its response is {} before their work, {} after it",
                bound(Some(*least_ns)),
                bound(Some(*most_ns))
            ),
            None,
        ),
        TaskDoubt::SeveralCpus { least_ns, most_ns } => (
            format!(
                "it or tasks before it may run on several CPUs, and laggard analyses one: its response is {} if they leave it a CPU, {} if all share one",
                bound(Some(*least_ns)),
                bound(Some(*most_ns))
            ),
            Some("give every task the same single CPU in `cpus`".into()),
        ),
        TaskDoubt::NotMeasured { wanted } => (
            "its service was not measured, and the latency of the measured service can be longer or shorter".into(),
            Some(format!("record with `--services {wanted}`")),
        ),
        TaskDoubt::Coarse {
            apart_ns,
            least_ns,
            most_ns,
            finer,
        } => (
            format!(
                "samples are up to {} apart, and a stall between two is not recorded: its response is at least {}, at most {}",
                time(*apart_ns),
                bound(Some(*least_ns)),
                bound(Some(*most_ns))
            ),
            Some(trust::finer(finer)),
        ),
        TaskDoubt::Short {
            permitted_ns,
            needed_ns,
            shown_ns,
        } => {
            let shown = shown_ns.map_or_else(String::new, |shown| {
                format!(", or set `permitted = \"{shown}\"` in the task set")
            });
            (
                format!(
                    "the recording is too short for one miss per {}",
                    mean_time(permitted_ns.as_f64())
                ),
                Some(format!("record {}{shown}", mean_time(*needed_ns))),
            )
        }
        TaskDoubt::Rare {
            permitted_ns,
            most_ns,
        } => (
            format!(
                "its response may be {} once per {} (upper limit of the return level)",
                bound(Some(*most_ns)),
                mean_time(permitted_ns.as_f64())
            ),
            None,
        ),
    }
}

fn not_kept(floor: Nanos, late: f64, is_tail: bool) -> (String, Option<String>) {
    let above = if late > 0.0 {
        format!("{:.2} % of all samples are", 100.0 * late)
    } else {
        "no sample is".into()
    };
    let (reason, remedy) = if is_tail {
        ("`--keep tail`", "record with `--keep all`")
    } else {
        (
            "too many samples",
            "record only the services and CPUs that matter (`--services`, `--cpus`), or a shorter time",
        )
    };
    (
        format!(
            "the times of latencies up to {} were not recorded ({reason}), so it is unknown which come together; in the histogram {above} above its slack",
            Cell::Time(floor)
        ),
        Some(remedy.into()),
    )
}

/// States a difference between the task set in the file and the analysed one.
pub(crate) fn remark(remark: &TaskRemark) -> String {
    match remark {
        TaskRemark::Repeated { task, key, line } => format!(
            "{}: {} occurs again in line {line}; laggard reads it as workgen does, and rt-app alone keeps only the last",
            code(task),
            code(key)
        ),
        TaskRemark::SharedTimer { timer, threads } => format!(
            "{} threads wait for the timer {}; laggard analyses each with a separate timer, which is at most that work",
            number(*threads),
            code(timer)
        ),
        TaskRemark::LargestJob { task, phase } => {
            let phase = phase.as_ref();
            let phase = phase.map_or_else(String::new, |phase| format!(" (phase {})", code(phase)));
            format!(
                "{}: its jobs differ; laggard analyses each as the largest{phase}",
                code(task)
            )
        }
        TaskRemark::Taskgroup { task, group } => format!(
            "{} runs in the taskgroup {}, whose share of the CPU is not analysed",
            code(task),
            code(group)
        ),
        TaskRemark::StandIn {
            task,
            wanted,
            measured,
        } => format!(
            "{} runs as `{wanted}`, which was not measured; laggard used the latency of `{measured}`: record with `--services {wanted}`",
            code(task)
        ),
    }
}

/// States the response at the permitted rate.
pub(crate) fn rated(task: &TaskVerdict, permitted: Nanos) -> String {
    let as_measured = if task.rated_as_seen > 0.0 {
        format!(
            " (the recording is too short for {:.0} % of the windows, which use the longest measured stall)",
            (100.0 * task.rated_as_seen).max(1.0)
        )
    } else {
        String::new()
    };
    format!(
        "with stalls that are exceeded once per {}: {}{as_measured}",
        mean_time(permitted.as_f64()),
        bound(task.rated_ns)
    )
}

/// States for a task that meets its deadline that the sum of the maxima would miss it.
pub(crate) fn maxima(task: &TaskVerdict) -> Option<String> {
    let deadline = task.task.deadline_ns.as_f64();
    let is_late = task.jitter_ns.is_none_or(|response| response > deadline);
    (task.verdict == Verdict::Meets && is_late).then(|| {
        format!(
            "if the max of each stage came together, its response would be {}, after its deadline; in this recording they did not",
            bound(task.jitter_ns)
        )
    })
}

/// States the tests with a rare latency.
pub(crate) fn pseudo(pseudo: &Pseudo, buffers: u32) -> String {
    let result = |passes: bool| if passes { "passes" } else { "fails" };
    let source = match pseudo.rare_from {
        RareFrom::Level { per_ns } => format!(
            "upper limit of the level exceeded once per {}",
            mean_time(per_ns.as_f64())
        ),
        RareFrom::LargestSeen { per_ns } => format!(
            "the max: the recording supports no level of {}, so the failure rate is unknown",
            mean_time(per_ns.as_f64())
        ),
        RareFrom::Waiting => {
            "a lower limit: a stall had not ended when measuring ended, so no test passes".into()
        }
        RareFrom::AllZero => {
            "every latency was 0 ns, so no latency has a bound and no test passes".into()
        }
    };
    format!(
        "with {buffers} buffers, rare latency {} ({source}), ordinary latency {}: exact test {}; pseudo worst case {} per cycle, amortised test {}",
        time(pseudo.rare_ns),
        time(pseudo.ordinary_ns),
        result(pseudo.exact_passes),
        time(pseudo.pseudo_worst_case_ns),
        result(pseudo.amortised_passes)
    )
}

/// Returns the digits, 3 to 9, that show a value and a limit as different numbers.
fn digits(value: f64, limit: f64) -> usize {
    let differs = |digits: &usize| format!("{value:.digits$}") != format!("{limit:.digits$}");
    (3..=9).find(differs).unwrap_or(3)
}

/// States on which side of a limit a value is.
fn side(value: f64, limit: f64) -> &'static str {
    let digits = digits(value, limit);
    if value <= limit {
        "within"
    } else if format!("{value:.digits$}") == format!("{limit:.digits$}") {
        "just above"
    } else {
        "above"
    }
}

/// States the tests of the whole set.
pub(crate) fn set(set: &SetVerdict) -> [String; 3] {
    let edf = |meets: Option<bool>| match meets {
        Some(true) => "meets all deadlines",
        Some(false) => "misses some deadlines",
        None => "unknown",
    };
    let (used, bound) = (set.utilization, set.utilization_bound);
    let (of_used, bounds) = if set.bounds_apply {
        let (of_used, product) = (digits(used, bound), set.hyperbolic_product);
        let bounds = format!(
            "{} the bound of Liu and Layland, {bound:.of_used$}; hyperbolic product {product:.*}, {} 2",
            side(used, bound),
            digits(product, 2.0),
            side(product, 2.0)
        );
        (of_used, bounds)
    } else {
        let reason = "its bounds do not apply (deadlines, blocking or priorities)";
        (3, reason.to_owned())
    };
    let (limit, stalls) = if set.all_kept {
        ("", "measured stalls")
    } else {
        ("at most ", "recorded stalls")
    };
    [
        format!("Utilisation {used:.of_used$}: {bounds}"),
        format!(
            "Breakdown utilisation: {:.3} without latency, {limit}{:.3} with the {stalls}",
            set.breakdown_ideal, set.breakdown
        ),
        format!(
            "Earliest deadline first: {} without latency, {} with the longest stall as blocking",
            edf(set.edf_ideal),
            edf(set.edf.filter(|_| set.all_kept))
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utilization(utilization: f64, hyperbolic_product: f64) -> String {
        let [text, ..] = set(&SetVerdict {
            utilization,
            utilization_bound: 0.779_763,
            hyperbolic_product,
            bounds_apply: true,
            edf_ideal: Some(true),
            edf: None,
            breakdown_ideal: 0.9,
            breakdown: 0.8,
            all_kept: true,
        });
        text
    }

    #[test]
    fn value_above_a_limit_is_not_shown_as_the_limit() {
        let bound = "the bound of Liu and Layland,";
        for ((used, product), expected) in [
            (
                (0.62, 1.7),
                format!("0.620: within {bound} 0.780; hyperbolic product 1.700, within 2"),
            ),
            (
                (0.780_1, 2.000_02),
                format!("0.7801: above {bound} 0.7798; hyperbolic product 2.00002, above 2"),
            ),
            (
                (0.779_763_000_000_1, 2.0),
                format!("0.780: just above {bound} 0.780; hyperbolic product 2.000, within 2"),
            ),
        ] {
            assert_eq!(
                utilization(used, product),
                format!("Utilisation {expected}")
            );
        }
    }

    #[test]
    fn gap_between_two_samples_is_called_a_bound() {
        let text = limit(&ResponseLimit {
            largest: LargestPart::Work { time_ns: 6e4 },
            unseen: Some(UnseenTime::UpTo { time_ns: 2e6 }),
        });

        assert_eq!(
            text,
            "the largest part of the response is its execution time, 60.0 us; the recording cannot rule out up to 2.00 ms more (a bound, not a measurement)"
        );
    }

    #[test]
    fn permitted_rate_below_a_period_is_not_advised() {
        let remedy = |shown_ns| {
            let (_, remedy) = doubt(&TaskDoubt::Short {
                permitted_ns: Nanos::from_secs(3_600),
                needed_ns: 1.3e13,
                shown_ns,
            });
            remedy.unwrap()
        };

        assert_eq!(remedy(None), "record 3.6 h");
        assert!(remedy(Some(Nanos::from_ms(5_400))).contains("`permitted = \"5400ms\"`"));
    }
}
