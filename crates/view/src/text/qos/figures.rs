//! How often buffers run dry, in words that are as sure as the figures.

use laggard_answer::qos::{MissFigures, ServiceOutlook};
use laggard_answer::show::at_least;
use laggard_model::text::rough_time;

/// A mean time, as an upper limit where the service was still waiting.
pub(super) fn at_most(
    service: &ServiceOutlook,
    figures: &MissFigures,
    write: impl Fn(&MissFigures) -> String,
) -> String {
    match (service.waited_ns, figures.mttf_ns) {
        (None, _) => write(figures),
        (Some(_), Some(_)) => format!("<= {}", write(figures)),
        // The stall that had not ended may be a failure.
        (Some(_), None) => "not known".into(),
    }
}

/// A count that may be a mean.
pub(super) fn number(count: f64) -> String {
    match count {
        count if count.fract() == 0.0 => format!("{count:.0}"),
        ..10.0 => format!("{count:.1}"),
        _ => format!("{count:.0}"),
    }
}

/// Failures in what was observed, or between which numbers they lie.
pub(super) fn failures(service: &ServiceOutlook, figures: &MissFigures) -> String {
    let waited = service.waited_ns.is_some();
    match (figures.failures, figures.interval()) {
        (Some(failures), _) => at_least(waited, &number(failures)),
        (None, (low, _)) if waited => at_least(true, &format!("{:.0}", low.floor())),
        (None, (low, high)) => format!("{:.0} to {:.0}", low.floor(), high.ceil()),
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
