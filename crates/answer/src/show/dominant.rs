//! Which part of the way to a service takes longest: in a typical activation,
//! of the time of all, and at its largest.
//!
//! Medians of parts tell of a typical activation only if there is one: of two
//! kinds of activations, about as frequent, each part's median is of another
//! kind. So the medians must add up to about the median of the whole, and where
//! the time of all activations went elsewhere, both are said.

use laggard_model::Nanos;
use laggard_model::text::Unit;

use super::figures::WAKEUP_TO_USER;
use super::{RecordingReport, ServiceRow, Share, StageRow};
use crate::waiting::Waiting;

/// From this part of the largest on, another is about as much.
const ABOUT: f64 = 0.9;
/// Medians of the parts that add up to the median of the whole, but for this
/// share of it, are of one typical activation.
const ADDS_UP: f64 = 0.25;
/// Shares that differ by less, in per cent, are not both said.
const SAME_SHARE: f64 = 10.0;

/// A part with a time of it, ns: its median, or all of its time together.
type Timed<'a> = (&'a StageRow, f64);

/// Which part of the way takes longest, in plain words; `None` where the
/// figures do not carry a word.
pub(super) fn what_dominates(report: &RecordingReport, row: &ServiceRow) -> Option<String> {
    let is_of = |of: (laggard_model::Service, laggard_model::Route)| of == (row.service, row.route);
    let parts: Vec<&StageRow> = report
        .stages
        .iter()
        .filter(|part| is_of((part.service, part.route)) && part.name != WAKEUP_TO_USER)
        .collect();
    let rows: Vec<&ServiceRow> = report
        .services
        .iter()
        .filter(|other| is_of((other.service, other.route)))
        .collect();
    // The last stage is in all. What was missed has no parts: where that is the
    // rule, or a line was never served, no part is typical.
    let all = parts.iter().map(|part| part.time.samples).max()?;
    let is_never = |one: &Waiting| one.served == 0 && is_of((one.service, one.route));
    if all * 2 <= rows.iter().map(|other| other.latency.samples).sum()
        || report.waiting.iter().any(is_never)
    {
        return None;
    }
    // A part of a few is not typical.
    let usual = parts.iter().filter(|part| part.time.samples * 2 > all);
    let medians = ranked(usual.filter_map(|&part| Some((part, ns(part.time.quantile(0.5)?)))));
    let sums = ranked(
        parts
            .iter()
            .filter_map(|&part| Some((part, together(part)?))),
    );
    medians.first().filter(|(_, median)| *median > 0.0)?;
    let said = if is_typical(&medians, &rows) {
        typical(&medians, &sums)
    } else {
        format!(
            "No delay is typical, for the parts' medians do not add up to one: {}",
            of_all(&sums)
        )
    };
    Some(format!("{said}{}.", longest(&parts)))
}

/// The largest first.
fn ranked<'a>(parts: impl Iterator<Item = Timed<'a>>) -> Vec<Timed<'a>> {
    let mut all: Vec<Timed<'a>> = parts.collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// Those that are about as much as the largest, that one included.
fn close<'a, 'b>(ranked: &'b [Timed<'a>]) -> &'b [Timed<'a>] {
    let most = ranked.first().map_or(0.0, |(_, time)| *time);
    let end = ranked.partition_point(|(_, time)| *time >= ABOUT * most);
    &ranked[..end]
}

fn sum(all: &[Timed<'_>]) -> f64 {
    all.iter().map(|(_, time)| time).sum()
}

/// A part's time in all activations, ns.
fn together(part: &StageRow) -> Option<f64> {
    Some(part.time.mean_ns? * part.time.samples as f64)
}

/// Whether the medians can be those of one activation: of each CPU or minute
/// that is kept apart, if they are.
fn is_typical(medians: &[Timed<'_>], rows: &[&ServiceRow]) -> bool {
    let known = || rows.iter().filter_map(|row| row.latency.share(0.5));
    let low = |share: &Share| Some(ns(share.low_ns.or(share.ns)?));
    let high = |share: &Share| {
        if share.is_at_least {
            Some(f64::INFINITY)
        } else {
            share.ns.map(ns)
        }
    };
    let least = known().filter_map(low).fold(f64::INFINITY, f64::min);
    let most = known().filter_map(high).fold(0.0, f64::max);
    let sum = sum(medians);
    (least * (1.0 - ADDS_UP)..=most * (1.0 + ADDS_UP)).contains(&sum)
}

/// What takes most of a typical activation, and where the time of all tells
/// something else, that too.
fn typical(medians: &[Timed<'_>], sums: &[Timed<'_>]) -> String {
    let percent = |(_, median): &Timed<'_>| 100.0 * median / sum(medians);
    let time = |(_, median): &Timed<'_>| Unit::Auto.write(*median);
    let same = |a: &Timed<'_>, b: &Timed<'_>| std::ptr::eq(a.0, b.0);
    // Whose time of all stands out, with its share.
    let leader = match close(sums) {
        [one] => Some((one, 100.0 * one.1 / sum(sums))),
        _ => None,
    };
    match close(medians) {
        [] => of_all(sums),
        [first] => {
            let share = leader
                .filter(|(one, _)| same(one, first))
                .map(|(_, share)| share);
            let is_most = percent(first) > 50.0 && share.is_some_and(|share| share > 50.0);
            let beside = match share {
                Some(share) if (share - percent(first)).abs() > SAME_SHARE => {
                    format!(", {share:.0} % of the time of all that were served)")
                }
                Some(_) => ")".into(),
                None => format!("); {}", of_all(sums)),
            };
            format!(
                "{} of a typical delay is {}, {} in the median ({:.0} % of the parts' medians{beside}",
                if is_most { "Most" } else { "The largest part" },
                first.0.name,
                time(first),
                percent(first),
            )
        }
        [first, second] => format!(
            "The largest part of a typical delay is {}, {} in the median ({:.0} % of the parts' medians); {} is about as much, {}{}",
            first.0.name,
            time(first),
            percent(first),
            second.0.name,
            time(second),
            besides(leader.is_some(), sums)
        ),
        [first, .., last] => format!(
            "No part of a typical delay stands out: {} of them take {} to {} in the median each{}",
            close(medians).len(),
            time(last),
            time(first),
            besides(leader.is_some(), sums)
        ),
    }
}

/// What is said of the time of all, if something stands out there.
fn besides(stands_out: bool, sums: &[Timed<'_>]) -> String {
    if stands_out {
        format!("; {}", of_all(sums))
    } else {
        String::new()
    }
}

/// To which parts the time of all activations went.
fn of_all(sums: &[Timed<'_>]) -> String {
    let percent = |(_, time): &Timed<'_>| 100.0 * time / sum(sums);
    match close(sums) {
        [first] => format!(
            "of the time of all that were served, {} went to {} ({:.0} %)",
            if percent(first) > 50.0 {
                "most"
            } else {
                "the largest part"
            },
            first.0.name,
            percent(first)
        ),
        [first, second] => format!(
            "of the time of all that were served, about as much went to {} ({:.0} %) as to {} ({:.0} %)",
            first.0.name,
            percent(first),
            second.0.name,
            percent(second)
        ),
        several => format!(
            "of the time of all that were served, about as much went to each of {} parts",
            several.len()
        ),
    }
}

/// The longest that any part took, and which.
fn longest(parts: &[&StageRow]) -> String {
    let largest = |part: &StageRow| part.time.largest_ns;
    let Some(most) = parts.iter().filter_map(|part| largest(part)).max() else {
        return String::new();
    };
    if most == Nanos::ZERO {
        return String::new();
    }
    let names: Vec<&str> = parts
        .iter()
        .filter(|part| largest(part) == Some(most))
        .map(|part| part.name.as_str())
        .collect();
    format!(
        "; the longest that any part took was {}, {}",
        Unit::Auto.write_nanos(most),
        names.join(" and ")
    )
}

const fn ns(time: Nanos) -> f64 {
    time.as_f64()
}
