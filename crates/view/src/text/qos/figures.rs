//! How often buffers run dry, in words that are as sure as the figures.

use laggard_answer::qos::{Apart, MissFigures, ServiceOutlook};
use laggard_answer::show::at_least;
use laggard_model::text::{count as grouped, rough_time};
use laggard_model::{CpuList, whole};

/// The same of the CPUs that stand out, and of the others.
pub(in crate::text) fn parted(apart: &Apart, write: impl Fn(&MissFigures) -> String) -> String {
    format!(
        "{} {}; on the {} {}",
        on_cpus(&apart.cpus),
        write(&apart.on),
        match apart.others {
            1 => "other".into(),
            many => format!("{} others", grouped(many as u64)),
        },
        write(&apart.elsewhere)
    )
}

/// `on CPU 17`.
pub(in crate::text) fn on_cpus(cpus: &CpuList) -> String {
    let s = if cpus.len() == 1 { "" } else { "s" };
    format!("on CPU{s} {cpus}")
}

/// A mean time, as an upper limit where the service was still waiting.
pub(super) fn at_most(
    service: &ServiceOutlook,
    figures: &MissFigures,
    write: impl Fn(&MissFigures) -> String,
) -> String {
    match (service.waited_ns, figures.mttf_ns) {
        (None, _) => write(figures),
        (Some(_), Some(_)) => format!("<= {}", write(figures)),
        // The stall that had not ended may be one more failure.
        (Some(_), None) => {
            most(figures).map_or_else(|| "not known".into(), |most| format!("<= {most}"))
        }
    }
}

/// A count that may be a mean; one below 1 is neither told as 0 nor as 1.
pub(in crate::text) fn number(count: f64) -> String {
    match count {
        count if count.fract() == 0.0 => grouped(whole(count)),
        ..1.0 => ((100.0 * count).floor().max(1.0) / 100.0).to_string(),
        ..10.0 => format!("{count:.1}"),
        _ => grouped(whole(count.round())),
    }
}

/// The longest that the mean time can be, where that is known.
pub(super) fn most(figures: &MissFigures) -> Option<String> {
    limits(figures, 2).1
}

/// Failures in what was observed, or between which numbers they lie.
pub(super) fn failures(service: &ServiceOutlook, figures: &MissFigures) -> String {
    let waited = service.waited_ns.is_some();
    match (figures.failures, figures.interval()) {
        (Some(failures), _) => at_least(waited, &number(failures)),
        (None, (low, _)) if waited => at_least(true, &grouped(whole(low))),
        (None, (low, high)) => {
            format!("{} to {}", grouped(whole(low)), grouped(whole(high.ceil())))
        }
    }
}

/// The estimate with its interval, with as many digits as so many clusters
/// carry: from ten the mean is known to a third.
pub(in crate::text) fn mttf(figures: &MissFigures) -> String {
    let Some(estimate) = estimate(figures) else {
        return interval(figures);
    };
    let (low, high) = limits(figures, digits(figures).max(2));
    format!("{estimate} [{low}, {}]", high.unwrap_or_else(|| "-".into()))
}

/// The estimate alone.
pub(in crate::text) fn estimate(figures: &MissFigures) -> Option<String> {
    figures
        .mttf_ns
        .map(|mttf| rough_time(mttf, digits(figures)))
}

fn digits(figures: &MissFigures) -> i32 {
    match figures.clusters.unwrap_or_default() {
        ..10.0 => 1,
        ..1_000.0 => 2,
        _ => 3,
    }
}

/// Where the mean time begins, and where it ends if it does.
fn limits(figures: &MissFigures, digits: i32) -> (String, Option<String>) {
    let write = |ns| rough_time(ns, digits);
    (write(figures.mttf_low_ns), figures.mttf_high_ns.map(write))
}

/// The interval alone, or its lower end where there is no upper.
pub(in crate::text) fn interval(figures: &MissFigures) -> String {
    match limits(figures, 2) {
        (low, None) => format!("> {low}"),
        (low, Some(high)) => format!("{low} to {high}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_in_part_is_neither_nothing_nor_all() {
        for (count, expected) in [
            (0.0, "0"),
            (0.001, "0.01"),
            (0.0625, "0.06"),
            (0.4, "0.4"),
            (0.999, "0.99"),
            (1.0, "1"),
            (1.25, "1.2"),
            (16.6, "17"),
            (1_116.9, "1,117"),
            (13_491.0, "13,491"),
        ] {
            assert_eq!(number(count), expected);
        }
    }
}
