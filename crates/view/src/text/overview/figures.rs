//! Failures of an application with as many digits as they carry.

use laggard_answer::qos::MissFigures;
use laggard_model::text::rough_time;

/// The estimate with its interval, with as many digits as so many clusters
/// carry: from ten the mean is known to a third.
pub(super) fn mttf(figures: &MissFigures) -> String {
    let Some(estimate) = estimate(figures) else {
        return interval(figures);
    };
    let (low, high) = limits(figures, digits(figures).max(2));
    format!("{estimate} [{low}, {}]", high.unwrap_or_else(|| "-".into()))
}

/// The estimate alone.
pub(super) fn estimate(figures: &MissFigures) -> Option<String> {
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
pub(super) fn interval(figures: &MissFigures) -> String {
    match limits(figures, 2) {
        (low, None) => format!("> {low}"),
        (low, Some(high)) => format!("{low} to {high}"),
    }
}
