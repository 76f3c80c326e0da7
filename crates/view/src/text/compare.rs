//! `laggard compare` for the terminal.

use std::fmt::Write as _;

use laggard_answer::compare::{
    CauseChange, CauseComparison, Change, CompareReport, Difference, LateCount, LatencyCounts,
    LevelComparison, SideView, TailView, Unclear, quantile_name, written_ratio,
};
use laggard_answer::qos::MissFigures;
use laggard_model::name::line_name;
use laggard_model::text::{Unit, brief, listed, mean_time, percent, rough_time, span};
use laggard_model::{Histogram, LoadLabel, Nanos, printable, printable_lines};

use super::Look;
use super::grid::Grid;

/// Rows of conditions that are shown unasked.
const FIRST_CONDITIONS: usize = 8;
/// Letters of a condition that are shown unasked.
const MOST_LETTERS: usize = 28;
/// Causes that are shown unasked.
const FIRST_CAUSES: usize = 5;
/// To ask for one service alone is worth it where it takes less than this share.
const WORTH_SAYING: f64 = 0.95;
/// Digits of figures that are known to some per cent at best.
const DIGITS: i32 = 2;

/// The report as text; with `all`, whatever else it holds.
pub fn compare(report: &CompareReport, all: bool, look: Look) -> String {
    let mut text = side("A", &report.first, look) + &side("B", &report.second, look);
    if let Some(difference) = &report.changed {
        text += &changed(difference, look);
    }
    text += &look.warned_of(&report.notes, recordings(report));
    text.push('\n');
    for sentence in &report.sentences {
        text += &look.hanging("", "  ", &printable(sentence).to_string());
    }
    if report.rows.is_none() {
        text += &levels(report, all, look);
        text += &misses(report, look);
    }
    if all || report.rows.is_some() {
        text += &quantiles(report, look);
    }
    if all {
        text += &tails(report, look);
    }
    text += &causes(report, all, look);
    text += &conditions(report, all, look);
    text += &remarks(report, all, look);
    printable_lines(&text).to_string()
}

fn side(letter: &str, side: &SideView, look: Look) -> String {
    let load = if side.load == LoadLabel::none() {
        "no load of ours".into()
    } else {
        format!("load {}", printable(side.load.as_str()))
    };
    let names = side.recordings.join(" ");
    let what = format!("{}, {load}: {}", span(side.duration_ns), printable(&names));
    look.hanging(&format!("{letter}  "), "   ", &what)
}

fn changed(difference: &Difference, look: Look) -> String {
    let Difference {
        what,
        first,
        second,
    } = difference;
    let words = format!("Changed: {what}: {first} in A, {second} in B");
    look.hanging("", "  ", &printable(&words).to_string())
}

fn levels(report: &CompareReport, all: bool, look: Look) -> String {
    let interval = format!("B / A [{} %]", report.percent_sure());
    let mut rows = Grid::new([
        "service",
        "later than",
        "A every",
        "B every",
        interval.as_str(),
        "verdict",
    ])
    .keys(2);
    let mut some = false;
    for one in &report.services {
        for level in &one.levels {
            some = true;
            rows.add_row([
                line_name(one.service, one.route),
                brief(level.level_ns),
                every(&level.first),
                every(&level.second),
                ratio(level),
                verdict(level),
            ]);
        }
    }
    if !some {
        let too_few = "Too few activations to choose how late is too late: give --at, or record \
                       for longer.";
        return format!("\n{}", look.filled("", too_few));
    }
    let mut text = format!("\n{}", rows.written(look));
    let levels = || report.services.iter().flat_map(|one| &one.levels);
    if levels().any(|level| matches!(level.change, Change::Unclear(_))) {
        let unclear = format!("~ cannot be told{}", needed(report));
        text += &look.hanging("", "  ", &unclear);
    }
    for (word, meaning) in reasons(report) {
        text += &look.hanging("", "  ", &format!("{word}: {meaning}"));
    }
    let every = "every: the mean time between runs of late activations, on a CPU";
    text += &look.hanging("", "  ", every);
    if all {
        text += &counts(report, look);
    }
    text
}

pub(crate) fn every(side: &LateCount) -> String {
    side.every_ns()
        .map_or_else(|| "never".into(), |every| rough_time(every, DIGITS))
}

pub(crate) fn ratio(level: &LevelComparison) -> String {
    let low = factor(level.ratio_low);
    match (level.ratio, level.ratio_high) {
        (Some(ratio), Some(high)) => format!("{} [{low}, {}]", factor(ratio), factor(high)),
        _ if level.second.clusters > 0.0 => format!("> {low}"),
        _ => "-".into(),
    }
}

/// A ratio with two digits.
fn factor(value: f64) -> String {
    match value {
        1e4.. => ">10000".into(),
        10.0..1e4 => format!("{value:.0}"),
        1.0..10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

pub(crate) fn verdict(level: &LevelComparison) -> String {
    let words = match (level.change, level.is_ten_times) {
        (Change::Worse, true) => "worse, 10 times".into(),
        (Change::Worse, false) => "worse".into(),
        (Change::Better, true) => "better, 10 times".into(),
        (Change::Better, false) => "better".into(),
        (Change::Equivalent, _) => "equal".into(),
        (Change::Unclear(why), _) => format!("~{}", unclear(why)),
    };
    match level.needed_ns {
        Some(needed) => format!("{words} {}", rough_time(needed, 1)),
        None => words,
    }
}

/// What the times behind verdicts that cannot be told mean, where there are any.
pub(crate) fn needed(report: &CompareReport) -> String {
    let mut levels = report.services.iter().flat_map(|one| &one.levels);
    if !levels.any(|level| level.needed_ns.is_some()) {
        return String::new();
    }
    let alone = match report.needed_alone {
        share if share < WORTH_SAYING => format!(
            ", or {} times as long were one service alone asked for (--service)",
            factor(share)
        ),
        _ => String::new(),
    };
    format!(
        "; with a time: so long each side must be recorded for twice the rate to be found in 80 of \
         100 such comparisons{alone}"
    )
}

/// What each reason in the table means, of those that are in it.
pub(crate) fn reasons(report: &CompareReport) -> Vec<(&'static str, &'static str)> {
    let levels = || report.services.iter().flat_map(|one| &one.levels);
    let is_there = |why: &Unclear| levels().any(|level| level.change == Change::Unclear(*why));
    let all = [
        Unclear::Varies,
        Unclear::PairsDisagree,
        Unclear::FixedOrder,
        Unclear::Chance,
        Unclear::Lost,
        Unclear::NotKept,
        Unclear::TooOften,
    ];
    let there = all.into_iter().filter(is_there);
    there
        .map(|why| (unclear(why).trim_start(), meaning(why)))
        .collect()
}

const fn meaning(why: Unclear) -> &'static str {
    match why {
        Unclear::Never | Unclear::TooFew | Unclear::FewRecordings => "",
        Unclear::Varies => "recordings of one side differ as much as the sides do",
        Unclear::PairsDisagree => {
            "too many pairs of recordings, made one after the other, contradict the rest"
        }
        Unclear::FixedOrder => {
            "the order of the recordings repeats itself, so that a regular job could be the difference"
        }
        Unclear::Chance => "among so many comparisons, one such ratio comes by chance",
        Unclear::Lost => "what was lost, or had not ended, could have turned it",
        Unclear::NotKept => "a recording did not keep when it was so little late",
        Unclear::TooOften => {
            "a side was late for a tenth of the time or more, and the share of its late activations \
             says something else; ask for a larger level (--at)"
        }
    }
}

/// Why there is no verdict, as far as more time is not all it takes.
pub(crate) const fn unclear(why: Unclear) -> &'static str {
    match why {
        Unclear::Never | Unclear::TooFew | Unclear::FewRecordings => "",
        Unclear::Varies => " varies",
        Unclear::PairsDisagree => " pairs disagree",
        Unclear::FixedOrder => " fixed order",
        Unclear::Chance => " by chance",
        Unclear::Lost => " lost",
        Unclear::NotKept => " not kept",
        Unclear::TooOften => " too often",
    }
}

/// How each verdict came about.
fn counts(report: &CompareReport, look: Look) -> String {
    let mut rows = Grid::new([
        "service", "level by", "A late", "one is", "B late", "one is", "p", "for all", "between",
    ])
    .keys(2);
    for one in &report.services {
        for level in &one.levels {
            let by = level.share.map(|share| format!("p{}", percent(share)));
            rows.add_row([
                line_name(one.service, one.route),
                by.unwrap_or_else(|| "given".into()),
                number(level.first.clusters),
                factor(level.first.dispersion),
                number(level.second.clusters),
                factor(level.second.dispersion),
                probability(level.p),
                probability(level.p_adjusted),
                factor(level.between),
            ]);
        }
    }
    let mut text = format!("\n{}", rows.written(look));
    for sentence in [
        "one is: so many of them count as one independent; for all: p, were they tested together",
        "between: recordings of one side vary so many times more than that",
    ] {
        text += &look.hanging("", "  ", sentence);
    }
    text
}

fn number(count: f64) -> String {
    format!("{count:.0}")
}

fn probability(p: f64) -> String {
    match p {
        0.001.. => format!("{p:.3}"),
        _ => "<0.001".into(),
    }
}

fn misses(report: &CompareReport, look: Look) -> String {
    let Some(application) = &report.application else {
        return String::new();
    };
    let mut rows = Grid::new(["service", "A: MTTF [95 %]", "B: MTTF [95 %]"]);
    for one in &report.services {
        let Some(misses) = &one.misses else {
            continue;
        };
        rows.add_row([
            line_name(one.service, one.route),
            mttf(&misses.first),
            mttf(&misses.second),
        ]);
    }
    let what = format!(
        "{}: {} buffers of {}, slack {}; mean time to failure, as `laggard qos` tells it",
        printable(&application.name),
        application.buffers,
        Unit::Auto.write_nanos(application.buffer_ns),
        Unit::Auto.write_nanos(application.slack_ns),
    );
    let what = look.hanging("", "  ", &what);
    format!("\n{what}{}", rows.written(look))
}

/// A mean time to failure with its interval.
pub(crate) fn mttf(figures: &MissFigures) -> String {
    let low = rough_time(figures.mttf_low_ns, DIGITS);
    match (figures.mttf_ns, figures.mttf_high_ns) {
        (Some(mttf), Some(high)) => format!(
            "{} [{low}, {}]",
            rough_time(mttf, DIGITS),
            rough_time(high, DIGITS)
        ),
        (None, Some(high)) => format!("{low} to {}", rough_time(high, DIGITS)),
        _ => format!("> {low}"),
    }
}

fn quantiles(report: &CompareReport, look: Look) -> String {
    let mut rows = Grid::new(["service", "quantile", "A", "B", "B / A [95 %]"]).keys(2);
    for row in quantile_rows(report) {
        rows.add_row(row);
    }
    if rows.is_empty() {
        String::new()
    } else {
        format!("\n{}", rows.written(look))
    }
}

/// Quantiles of each service and the largest that was seen: service, which it is,
/// that of A, that of B, and the ratio with its interval.
pub(crate) fn quantile_rows(report: &CompareReport) -> Vec<[String; 5]> {
    let mut rows = Vec::new();
    for one in &report.services {
        let name = || line_name(one.service, one.route);
        for quantile in &one.quantiles {
            rows.push([
                name(),
                quantile_name(quantile.share),
                Unit::Auto.write(quantile.first_ns),
                Unit::Auto.write(quantile.second_ns),
                format!(
                    "{} [{}, {}]",
                    written_ratio(quantile.ratio),
                    written_ratio(quantile.ratio_low),
                    written_ratio(quantile.ratio_high)
                ),
            ]);
        }
        let [first, second] = [&one.first, &one.second].map(largest);
        if let (Some(first), Some(second)) = (first, second) {
            rows.push([name(), "largest seen".into(), first, second, "-".into()]);
        }
    }
    rows
}

/// The largest latency of one side, at most 1.09 % high; `None` without any.
fn largest(counts: &LatencyCounts) -> Option<String> {
    let (bucket, _) = counts.buckets.last()?;
    let edge = |bucket: usize| match bucket {
        // Such as of what came early.
        0 => Unit::Auto.write_nanos(Nanos::ZERO),
        _ => Unit::Auto.write_nanos(Histogram::upper_edge(bucket)),
    };
    Some(if counts.is_at_least {
        // The latency was in this bucket when the recording ended.
        format!("> {}", edge(bucket.saturating_sub(1)))
    } else {
        edge(*bucket)
    })
}

/// How late what is late is, and of what that cannot be told.
fn tails(report: &CompareReport, look: Look) -> String {
    let mut rows = Grid::new([
        "service",
        "later than",
        "A: peaks",
        "shape",
        "scale",
        "B: peaks",
        "shape",
        "scale",
        "p",
        "for all",
    ])
    .keys(2);
    let mut unknown: Vec<(&str, Vec<String>)> = Vec::new();
    for one in &report.services {
        let name = line_name(one.service, one.route);
        if let Some(tail) = &one.tail {
            let scale = |side: &TailView| Unit::Auto.write(side.scale_ns);
            let shape = |side: &TailView| format!("{:.2}", side.shape);
            rows.add_row([
                name,
                brief(tail.threshold_ns),
                tail.first.peaks.to_string(),
                shape(&tail.first),
                scale(&tail.first),
                tail.second.peaks.to_string(),
                shape(&tail.second),
                scale(&tail.second),
                probability(tail.p),
                probability(tail.p_adjusted),
            ]);
        } else if let Some(why) = &one.tail_unknown {
            match unknown.iter_mut().find(|(it, _)| it == why) {
                Some((_, names)) => names.push(name),
                None => unknown.push((why, vec![name])),
            }
        }
    }
    let mut text = String::new();
    if !rows.is_empty() {
        text += &format!(
            "\nHow late what is late is, however often:\n{}",
            rows.written(look)
        );
        let what = "peaks: the largest of each run of late activations; p: how often tails of one \
                    shape and scale look as different; for all: were they tested together";
        text += &look.hanging("", "  ", what);
    }
    if !unknown.is_empty() {
        text.push('\n');
    }
    for (why, names) in unknown {
        let words = format!("Tails of {} are not compared: {why}.", listed(&names));
        text += &look.hanging("", "  ", &printable(&words).to_string());
    }
    text
}

fn causes(report: &CompareReport, all: bool, look: Look) -> String {
    let most = if all { usize::MAX } else { FIRST_CAUSES };
    let mut text = String::new();
    for one in report.causes.iter().take(most) {
        text += &look.hanging("  ", "    ", &cause(one));
    }
    let rest = report.causes.len().saturating_sub(most);
    if rest > 0 {
        let _ = writeln!(text, "  and {rest} more (--all)");
    }
    if text.is_empty() {
        String::new()
    } else {
        format!("\nCauses of late activations, in B:\n{text}")
    }
}

pub(crate) fn cause(one: &CauseComparison) -> String {
    let name = printable(&one.name);
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".into(), mean_time);
    let often = format!("{} times, {} in A", number(one.second), number(one.first));
    match one.change {
        CauseChange::New => format!(
            "new: {name}, {} times, half of them longer than {}",
            number(one.second),
            time(one.second_ns)
        ),
        CauseChange::Gone => format!("gone: {name}, {} times in A", number(one.first)),
        CauseChange::MoreOften => format!("more often: {name}, {often}"),
        CauseChange::LessOften => format!("less often: {name}, {often}"),
        CauseChange::Longer => format!(
            "longer: {name}, {} at the median, {} in A",
            time(one.second_ns),
            time(one.first_ns)
        ),
        CauseChange::Shorter => format!(
            "shorter: {name}, {} at the median, {} in A",
            time(one.second_ns),
            time(one.first_ns)
        ),
    }
}

fn conditions(report: &CompareReport, all: bool, look: Look) -> String {
    if report.differing.is_empty() {
        let nothing = match report.changed {
            Some(_) => "Nothing else that is recorded of machine and set-up differs.",
            None => "Nothing that is recorded of machine and set-up differs.",
        };
        return format!("\n{}", look.hanging("", "  ", nothing));
    }
    let most = if all { usize::MAX } else { FIRST_CONDITIONS };
    let mut rows = Grid::new(["differs", "A", "B"]).left([1, 2]);
    for one in report.differing.iter().take(most) {
        let value = |text: &str| short(text, all);
        rows.add_row([one.what.clone(), value(&one.first), value(&one.second)]);
    }
    let mut text = format!("\n{}", rows.written(look));
    let rest = report.differing.len().saturating_sub(most);
    if rest > 0 {
        let _ = writeln!(text, "and {rest} more (--all)");
    }
    text
}

fn short(text: &str, all: bool) -> String {
    if all || text.chars().count() <= MOST_LETTERS {
        return text.into();
    }
    let kept: String = text.chars().take(MOST_LETTERS - 3).collect();
    format!("{kept}...")
}

fn remarks(report: &CompareReport, all: bool, look: Look) -> String {
    let mut text = String::new();
    if let Some(why) = &report.causes_unknown {
        text.push('\n');
        text += &look.hanging("", "  ", &printable(why).to_string());
    }
    if report.notes.is_empty() {
        return text;
    }
    if !all {
        let _ = writeln!(
            text,
            "\n{} notes on the recordings (--all)",
            report.notes.len()
        );
        return text;
    }
    text + &look.to_bear_in_mind_of(&report.notes, recordings(report))
}

fn recordings(report: &CompareReport) -> usize {
    report.first.recordings.len() + report.second.recordings.len()
}
