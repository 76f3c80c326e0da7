//! `laggard sched --all`: every response, and what holds of the set.

use laggard_answer::sched::{Pseudo, SchedReport, SetVerdict, TaskVerdict, Verdict};
use laggard_model::printable;
use laggard_model::text::{Unit, mean_time};

use super::super::Look;
use super::super::grid::Grid;
use super::{blackouts, ns, signed, time, words};

/// The report in full, as text.
pub(super) fn in_full(report: &SchedReport, look: Look) -> String {
    let line = |text: &str| look.hanging("", "  ", text);
    let mut text = line(&format!(
        "Load: {}, {} observed",
        printable(report.load.as_str()),
        mean_time(report.observed_ns)
    ));
    text.push('\n');
    text += &table(report, look);
    text.push('\n');
    for one in &report.tasks {
        let name = printable(&one.task.name);
        let most = &one.limit;
        text += &line(&format!(
            "{name}: the largest part of the response is {most}"
        ));
        for remark in remarks(report, one) {
            text += &look.hanging("  ", "    ", &remark);
        }
    }
    for remark in &report.remarks {
        text += &line(&remark.to_string());
    }
    text.push('\n');
    for sentence in of_set(&report.set) {
        text += &line(&sentence);
    }
    text.push('\n');
    for sentence in LEGEND {
        text += &line(sentence);
    }
    text + &look.noted(&report.notes)
}

/// What the figures are.
const LEGEND: [&str; 3] = [
    "Worst response: ideal, without latency; with the largest interrupt latency as release jitter \
     and the largest of each later stage as blocking; with the blackouts seen in any window, at \
     least and at most.",
    "unclear: not shown to be met, which is no better than missed (exit code 1).",
    "Latency is what was seen under this load: largest seen, not a bound. One CPU, no migration.",
];

fn table(report: &SchedReport, look: Look) -> String {
    let mut rows = Grid::new([
        "task",
        "service",
        "work",
        "period",
        "deadline",
        "ideal",
        "jitter+blocking",
        "blackouts",
        "slack",
        "verdict",
    ])
    .parted_before(5);
    for one in &report.tasks {
        let task = &one.task;
        rows.add_row([
            task.name.clone(),
            task.service.to_string(),
            Unit::Auto.write_nanos(task.compute_ns),
            Unit::Auto.write_nanos(task.period_ns),
            Unit::Auto.write_nanos(task.deadline_ns),
            time(one.ideal_ns),
            time(one.jitter_ns),
            blackouts(one),
            one.slack_ns.map_or_else(|| "-".into(), signed),
            words(one.verdict).into(),
        ]);
    }
    rows.written(look)
}

/// What else there is to say of a task.
fn remarks(report: &SchedReport, one: &TaskVerdict) -> Vec<String> {
    let mut all = Vec::new();
    if report.set.all_kept {
        all.push(format!(
            "with blackouts exceeded once in {}: {}{}",
            mean_time(ns(report.permitted_ns)),
            time(one.rated_ns),
            as_seen(one.rated_as_seen)
        ));
    }
    let doubts = one.doubts.iter();
    all.extend(doubts.map(|doubt| format!("cannot be told: {doubt}")));
    all.extend(of_parts(one));
    if let Some(pseudo) = &one.pseudo {
        all.extend(of_pseudo(pseudo, one.task.buffers.unwrap_or_default()));
    }
    all
}

/// What the largest parts, if they met, would do to a task that meets.
fn of_parts(one: &TaskVerdict) -> Option<String> {
    let deadline = ns(one.task.deadline_ns);
    let is_late = one.jitter_ns.is_none_or(|response| response > deadline);
    (one.verdict == Verdict::Meets && is_late).then(|| {
        format!(
            "had the largest of each stage met, it would take {}, beyond its deadline; in this recording they did not",
            time(one.jitter_ns)
        )
    })
}

/// Where the recording does not tell how often blackouts come.
fn as_seen(share: f64) -> String {
    if share == 0.0 {
        return String::new();
    }
    format!(
        " ({:.0} % of the windows as the largest seen: too short a recording to tell)",
        (100.0 * share).max(1.0)
    )
}

fn of_pseudo(pseudo: &Pseudo, buffers: u32) -> [String; 2] {
    let passes = |passes: bool| if passes { "passes" } else { "fails" };
    [
        format!(
            "with {buffers} buffers, rare latency {} ({}), ordinary {}:",
            Unit::Auto.write(pseudo.rare_ns),
            pseudo.rare_from,
            Unit::Auto.write(pseudo.ordinary_ns),
        ),
        format!(
            "exact test {}; pseudo worst case {} a cycle, amortised test {}",
            passes(pseudo.exact_passes),
            Unit::Auto.write(pseudo.pseudo_worst_case_ns),
            passes(pseudo.amortised_passes),
        ),
    ]
}

/// So many digits that a value is not told as the limit that it is beyond: 3 to 9.
fn digits(value: f64, limit: f64) -> usize {
    let differs = |digits: &usize| format!("{value:.digits$}") != format!("{limit:.digits$}");
    (3..=9).find(differs).unwrap_or(3)
}

/// On which side of a limit a value is.
fn side(value: f64, limit: f64) -> &'static str {
    let digits = digits(value, limit);
    match value <= limit {
        true => "within",
        false if format!("{value:.digits$}") == format!("{limit:.digits$}") => "just above",
        false => "above",
    }
}

fn of_set(set: &SetVerdict) -> [String; 3] {
    let edf = |found: Option<bool>| match found {
        Some(true) => "no deadline is missed",
        Some(false) => "some are missed",
        None => "it cannot be decided",
    };
    let (used, bound) = (set.utilization, set.utilization_bound);
    let (of_used, bounds) = if set.bounds_apply {
        let (of_used, product) = (digits(used, bound), set.hyperbolic_product);
        let bounds = format!(
            "{} Liu & Layland's bound {bound:.of_used$}; hyperbolic product {product:.*}, {} 2",
            side(used, bound),
            digits(product, 2.0),
            side(product, 2.0)
        );
        (of_used, bounds)
    } else {
        (
            3,
            "bounds on it do not apply (deadlines, blocking or priorities)".into(),
        )
    };
    [
        format!("Utilisation {used:.of_used$}: {bounds}"),
        format!(
            "Breakdown utilisation: {:.3} without latency, {}{:.3} with the blackouts {}",
            set.breakdown_ideal,
            if set.all_kept { "" } else { "at most " },
            set.breakdown,
            if set.all_kept { "seen" } else { "kept" },
        ),
        format!(
            "Earliest deadline first: {} without latency, {} with the longest blackout as blocking",
            edf(set.edf_ideal),
            if set.all_kept {
                edf(set.edf)
            } else {
                "cannot be told"
            }
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(utilization: f64, hyperbolic_product: f64) -> String {
        let [said, ..] = of_set(&SetVerdict {
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
        said
    }

    #[test]
    fn what_is_beyond_a_limit_is_not_told_as_that_limit() {
        let usual = said(0.62, 1.7);
        assert!(
            usual.starts_with(
                "Utilisation 0.620: within Liu & Layland's bound 0.780; hyperbolic product 1.700, within 2"
            ),
            "{usual}"
        );
        let near = said(0.780_1, 2.000_02);
        assert!(
            near.starts_with(
                "Utilisation 0.7801: above Liu & Layland's bound 0.7798; hyperbolic product 2.00002, above 2"
            ),
            "{near}"
        );
        let nearest = said(0.779_763_000_000_1, 2.0);
        assert!(
            nearest.starts_with(
                "Utilisation 0.780: just above Liu & Layland's bound 0.780; hyperbolic product 2.000, within 2"
            ),
            "{nearest}"
        );
    }
}
