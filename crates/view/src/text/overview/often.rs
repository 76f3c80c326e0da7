//! How often an application's buffers run dry, in words as sure as the figures.

use laggard_answer::overview::Fit;
use laggard_answer::qos::MissFigures;
use laggard_model::text::rough_time;

use super::figures::{estimate, interval, mttf};
use crate::doc::Cell;
use crate::phrase::qos::parted;

/// How long a recording narrows a wide interval.
pub(super) fn narrowed(ns: f64) -> String {
    format!("record {} for a narrower interval", rough_time(ns, 1))
}

/// How often one application's buffers run dry.
pub(super) fn dropouts(fit: &Fit) -> String {
    let is_waiting = fit.waited_ns.is_some();
    match &fit.apart {
        Some(apart) => parted(apart, |figures| of(figures, is_waiting)),
        None => of(&fit.figures, is_waiting),
    }
}

fn of(figures: &MissFigures, is_waiting: bool) -> String {
    match (estimate(figures), high(figures)) {
        // The stall that had not ended makes it worse.
        (Some(often), _) if is_waiting => or_more_often(&often),
        (None, Some(high)) if is_waiting => or_more_often(&high),
        (None, None) if is_waiting => {
            "it was still waiting when measuring ended; how often is not known".into()
        }
        (Some(_), Some(_)) if figures.is_wide() => {
            format!("a dropout about every {}", mttf(figures))
        }
        (Some(_), Some(_)) => format!("a dropout every {}", mttf(figures)),
        (Some(often), None) => format!(
            "a dropout about every {often}, at most one every {}",
            low(figures)
        ),
        (None, Some(high)) if figures.is_wide() => format!(
            "at least one dropout every {high}, at most one every {}",
            low(figures)
        ),
        (None, Some(_)) => format!("a dropout every {}", interval(figures)),
        (None, None) => at_most(figures),
    }
}

/// The same of several that are not served: how often that of them with the
/// fewest dropouts has one.
pub(super) fn at_best(fits: &[&Fit]) -> String {
    let most = |fit: &Fit| fit.judged().mttf_high_ns.unwrap_or(f64::INFINITY);
    let best = fits
        .iter()
        .max_by(|a, b| most(a).total_cmp(&most(b)))
        .map(|fit| (fit, high(fit.judged())));
    match best {
        // An upper limit of the best is one of all.
        Some((fit, Some(high))) if fit.judged().mttf_ns.is_none() || fit.waited_ns.is_some() => {
            or_more_often(&high)
        }
        Some((fit, _)) => format!("at best {}", dropouts(fit)),
        None => String::new(),
    }
}

/// The same of several of which it is not decided: that with the most.
pub(super) fn at_worst(fits: &[&Fit]) -> String {
    let worst = fits.iter().min_by(|a, b| {
        let least = |fit: &Fit| fit.judged().mttf_low_ns;
        least(a).total_cmp(&least(b))
    });
    worst.map_or_else(String::new, |fit| {
        let figures = fit.judged();
        let is_interval = figures.mttf_ns.is_none() && figures.mttf_high_ns.is_some();
        if is_interval && fit.waited_ns.is_none() {
            format!("at worst a dropout every {}", interval(figures))
        } else {
            format!("at worst {}", dropouts(fit))
        }
    })
}

/// Where there was not even one.
pub(super) fn at_most(figures: &MissFigures) -> String {
    let low = low(figures);
    match figures.failures {
        Some(0.0) => format!("no dropout seen, so at most one every {low}"),
        // A stall at the edge: it fails some phases of the replay only.
        Some(mean) => format!(
            "{} dropouts on average, at most one every {low}",
            Cell::MeanCount(mean)
        ),
        None => format!("at most one dropout every {low}"),
    }
}

/// Whether there is one for sure.
pub(super) fn is_any(figures: &MissFigures) -> bool {
    figures.mttf_ns.is_some() || figures.mttf_high_ns.is_some()
}

fn or_more_often(time: &str) -> String {
    format!("a dropout every {time} or more often")
}

fn low(figures: &MissFigures) -> String {
    rough_time(figures.mttf_low_ns, 2)
}

fn high(figures: &MissFigures) -> Option<String> {
    figures.mttf_high_ns.map(|high| rough_time(high, 2))
}
