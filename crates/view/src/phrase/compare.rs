//! Sentences of `laggard compare`.

use laggard_answer::compare::{
    CauseChange, CauseComparison, CausesUnknown, Change, CompareReport, Difference, EarlierVerdict,
    LEAST_RECORDINGS, LateCount, LevelComparison, OrderView, RowsCompared, SideView, TailDoubt,
    TailUnknown, TrialEnd, TrialLooks, Unclear, WorkComparison,
};
use laggard_model::name::series_words;
use laggard_model::text::{listed, mean_time, percent, rate, rough_time, span};
use laggard_model::{LoadLabel, RowsOf, printable, whole};

use super::forecast::level_reason;
use super::{capital, cause, code, plural};
use crate::doc::Cell;
use crate::text::Tone;

/// Digits of an estimate.
const DIGITS: i32 = 2;
/// Share of the time that a comparison of one series alone needs, above which it is not
/// stated.
const MAX_SHARE_ALONE: f64 = 0.95;
/// Number of recordings of a side that are listed by name.
const MAX_NAMED: usize = 4;
/// Number of conditions in a short answer.
const MAX_CONDITIONS: usize = 4;
/// Number of causes in a short answer.
const MAX_CAUSES: usize = 3;
/// Number of characters of a condition in a short answer.
const MAX_CHARACTERS: usize = 28;

/// Describes the recordings of a side.
pub(crate) fn side(side: &SideView) -> String {
    let load = if side.load == LoadLabel::none() {
        String::new()
    } else {
        super::qos::under(&side.load)
    };
    format!(
        "{}{load}: {}",
        span(side.duration_ns),
        recordings(&side.recordings)
    )
}

/// Names recordings: all, or the first and the last with their number.
fn recordings(paths: &[String]) -> String {
    match paths {
        [first, .., last] if paths.len() > MAX_NAMED => format!(
            "{} recordings, {} to {}",
            paths.len(),
            code(first),
            code(last)
        ),
        _ => {
            let names: Vec<String> = paths.iter().map(|path| code(path)).collect();
            names.join(" ")
        }
    }
}

/// States the change under test.
pub(crate) fn changed(difference: &Difference) -> String {
    let values = |values: &[String]| code(&values.join(" / "));
    format!(
        "Changed: {}: {} in A, {} in B",
        difference.what,
        values(&difference.first),
        values(&difference.second)
    )
}

/// Returns the word for a verdict.
pub(crate) const fn verdict(change: Change) -> &'static str {
    match change {
        Change::Worse => "worse",
        Change::Better => "better",
        Change::Equivalent => "same",
        Change::Unclear(_) => "unclear",
    }
}

/// Returns whether a verdict is good news.
pub(crate) const fn tone(change: Change) -> Tone {
    match change {
        Change::Worse => Tone::Bad,
        Change::Better => Tone::Good,
        Change::Equivalent => Tone::Plain,
        Change::Unclear(_) => Tone::Open,
    }
}

/// Returns the mean time between runs of late wakeups on a CPU.
pub(crate) fn every(side: &LateCount) -> String {
    side.every_ns().map_or_else(|| "never".into(), estimate)
}

/// Returns the ratio of the rates with its interval, without the unit: the heading of the column
/// names the ratio. If a side was never late, there is one limit or none.
pub(crate) fn ratio(level: &LevelComparison) -> Cell {
    ratio_of(level.ratio, level.ratio_low, level.ratio_high)
        .filter(|_| level.first.clusters + level.second.clusters > 0.0)
        .map_or_else(
            || "-".into(),
            |cell| cell.to_string().replace(" x", "").into(),
        )
}

/// Returns a ratio of rates with its interval.
pub(crate) fn ratio_of(ratio: Option<f64>, low: f64, high: Option<f64>) -> Option<Cell> {
    let cell = Cell::Ratio;
    match (ratio, high) {
        (Some(ratio), Some(high)) if ratio > 0.0 => {
            Some(Cell::estimate(cell(ratio), cell(low), cell(high)))
        }
        (_, Some(high)) => Some(Cell::AtMost(Box::new(cell(high)))),
        (Some(ratio), None) if ratio > 0.0 => Some(format!("{} (no bounds)", cell(ratio)).into()),
        _ if low > 0.0 => Some(Cell::AtLeast(Box::new(cell(low)))),
        _ => None,
    }
}

/// Returns the confidence of intervals in per cent, rounded down.
pub(crate) fn confidence(report: &CompareReport) -> String {
    percent_down(report.confidence)
}

/// Rounds down to tenths of a per cent, so that the text does not promise too much.
fn percent_down(share: f64) -> String {
    // 95 % has a rounding error in its last bit.
    let tenths = (share * 1_000.0 + 1e-9).floor();
    let text = format!("{:.1}", tenths / 10.0);
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// States why a verdict is unclear.
pub(crate) const fn reason(why: Unclear) -> &'static str {
    match why {
        Unclear::Never => "neither side reached this level",
        Unclear::TooFew => "too few late wakeups",
        Unclear::FewRecordings => "too few recordings",
        Unclear::Varies => "recordings of one side differ from each other as much as the sides do",
        Unclear::PairsDisagree => "pairs of consecutive recordings contradict each other",
        Unclear::FixedOrder => {
            "the order of the recordings repeats, so a periodic job could be the difference"
        }
        Unclear::Chance => "with this number of comparisons, such a ratio occurs by chance",
        Unclear::Lost => "lost or unfinished wakeups could change the verdict",
        Unclear::NotKept => "a recording did not keep the times of latencies of this level",
        Unclear::TooOften => {
            "a side was late for a tenth of the time or more, and its share of late wakeups contradicts the rate; set a larger level (`--at`)"
        }
    }
}

/// Returns the time to record for an unclear verdict.
pub(crate) fn needed(level: &LevelComparison) -> Option<String> {
    Some(rough_time(level.needed_ns?, 1))
}

/// Explains the times to record; `None` without any.
pub(crate) fn needed_legend<'a>(
    report: &CompareReport,
    mut levels: impl Iterator<Item = &'a LevelComparison>,
) -> Option<String> {
    let level = levels.find_map(needed)?;
    let alone = if report.needed_alone < MAX_SHARE_ALONE {
        let share = Cell::Share(report.needed_alone);
        format!("; one series alone needs {share} (`--service`)")
    } else {
        String::new()
    };
    Some(format!(
        "({level}): length to record per side to find twice the rate in 80 of 100 cases{alone}"
    ))
}

/// Lists conditions that differ.
pub(crate) fn conditions(report: &CompareReport) -> String {
    let other = if report.changed.is_some() {
        "other "
    } else {
        ""
    };
    if report.differing.is_empty() {
        return format!("No {other}recorded condition of machine or setup differs.");
    }
    let conditions = report.differing.iter().take(MAX_CONDITIONS);
    let mut conditions: Vec<String> = conditions
        .map(|difference| {
            let [first, second] = [&difference.first, &difference.second].map(|value| short(value));
            format!("{} ({first} in A, {second} in B)", difference.what)
        })
        .collect();
    let hidden = report.differing.len().saturating_sub(MAX_CONDITIONS);
    if hidden > 0 {
        conditions.push(format!("{hidden} more: `--all`"));
    }
    format!("Differs: {}", conditions.join(", "))
}

fn short(values: &[String]) -> String {
    let text = values.join(" / ");
    if text.chars().count() <= MAX_CHARACTERS {
        return text;
    }
    let kept: String = text.chars().take(MAX_CHARACTERS - 3).collect();
    format!("{kept}...")
}

/// States that there are too few recordings for a verdict.
pub(crate) fn too_few_recordings(report: &CompareReport) -> Option<String> {
    let sides = [&report.first, &report.second];
    let [first, second] = sides.map(|side| side.recordings.len());
    (!report.is_enough).then(|| {
        format!(
            "Too few recordings for a verdict: {first} of A, {second} of B. Record {LEAST_RECORDINGS} of each, in turn (A B A B B A B A)."
        )
    })
}

/// Warns of an order that repeats.
pub(crate) fn fixed_order(order: &OrderView) -> Option<String> {
    let after = order.repeats_after?;
    let every = match after {
        2 => "2nd".into(),
        3 => "3rd".into(),
        after => format!("{after}th"),
    };
    Some(format!(
        "The order of the recordings repeats after {after}, so a job that runs in every {every} of them is on one side only. Intervals cover such a job and are wide. Use `laggard compare --run`, or record in the order A B A B B A B A."
    ))
}

/// States the seed of the order.
pub(crate) fn seed(order: &OrderView) -> Option<String> {
    let seed = order.seed?;
    Some(format!(
        "Order {}, from seed {seed} (`--seed {seed}` repeats it).",
        order.sides
    ))
}

/// States the throughput of the load.
pub(crate) fn work(work: &WorkComparison) -> String {
    let interval = match (work.ratio_low, work.ratio_high) {
        (Some(low), Some(high)) => format!(" ({low:.2} to {high:.2})"),
        _ => String::new(),
    };
    format!(
        "Load throughput: {} in A, {} in B; B / A {:.2}{interval}.",
        rate(work.first_per_second, &work.unit),
        rate(work.second_per_second, &work.unit),
        work.ratio,
    )
}

/// States the first changes of causes, and the number of others.
pub(crate) fn causes(report: &CompareReport) -> Vec<String> {
    let causes = report.causes.iter().take(MAX_CAUSES);
    let mut lines: Vec<String> = causes
        .map(|comparison| capital(&cause_change(comparison)))
        .collect();
    let hidden = report.causes.len().saturating_sub(MAX_CAUSES);
    if hidden > 0 {
        lines.push(format!("{}: `--all`", plural(hidden as u64, "more cause")));
    }
    lines
}

/// States the change of a cause.
pub(crate) fn cause_change(comparison: &CauseComparison) -> String {
    let name = cause::name(&comparison.cause, &[]);
    let name = printable(&name).to_string();
    let times = |count: f64| plural(whole(count), "time");
    let time = |ns: Option<f64>| ns.map_or_else(|| "-".into(), mean_time);
    let counts = format!(
        "{} in A, {} in B",
        times(comparison.first),
        times(comparison.second)
    );
    let medians = format!(
        "median {} in A, {} in B",
        time(comparison.first_ns),
        time(comparison.second_ns)
    );
    match comparison.change {
        CauseChange::New => format!(
            "new cause: {name}, {}, median {}",
            times(comparison.second),
            time(comparison.second_ns)
        ),
        CauseChange::Gone => format!("cause gone: {name}, {} in A", times(comparison.first)),
        CauseChange::MoreOften => format!("cause more often: {name}, {counts}"),
        CauseChange::LessOften => format!("cause less often: {name}, {counts}"),
        CauseChange::Longer => format!("cause longer: {name}, {medians}"),
        CauseChange::Shorter => format!("cause shorter: {name}, {medians}"),
    }
}

/// States why causes are not compared.
pub(crate) fn causes_unknown(why: &CausesUnknown) -> String {
    match why {
        CausesUnknown::NoTraceData {
            recording,
            is_windows,
        } => {
            let remedy = if *is_windows {
                "record as an administrator (needed to trace the Windows kernel), without `--episodes off`"
            } else {
                "record as root on a kernel with BTF, without `--episodes off`"
            };
            format!(
                "Causes are not compared, because {} lacks trace data; {remedy}.",
                code(recording)
            )
        }
        CausesUnknown::NoThreshold { is_watched: true } => {
            "Causes are not compared, because a recording lacks a deadline; record with `laggard attach --deadline`.".into()
        }
        CausesUnknown::NoThreshold { is_watched: false } => {
            "Causes are not compared, because a recording is too short for a latency threshold; record with `--threshold`, or for longer.".into()
        }
        CausesUnknown::NotKept { is_watched: true } => {
            "Causes are not compared, because not all late wakeups of the watched threads were kept.".into()
        }
        CausesUnknown::NotKept { is_watched: false } => {
            "Causes are not compared, because not all late wakeups were kept; record with a larger `--max-episodes-per-minute`.".into()
        }
    }
}

/// States why tails are not compared.
pub(crate) fn tail_unknown(why: &TailUnknown) -> String {
    let sides = [why.first, why.second].map(|doubt| doubt.map(tail_doubt));
    match sides {
        [Some(first), Some(second)] if first == second => format!("on both sides {first}"),
        [Some(first), Some(second)] => format!("in A {first}; in B {second}"),
        [Some(first), None] => format!("in A {first}"),
        [None, Some(second)] => format!("in B {second}"),
        [None, None] => "they have no model".into(),
    }
}

fn tail_doubt(doubt: TailDoubt) -> String {
    match doubt {
        TailDoubt::Lost { wakeups: 1 } => "1 wakeup was lost".into(),
        TailDoubt::Lost { wakeups } => format!("{} were lost", plural(wakeups, "wakeup")),
        TailDoubt::Peaks(reason) => level_reason(&reason).text(true),
    }
}

/// States what is compared, of rows without a rate.
pub(crate) fn rows(rows: &RowsCompared, is_enough: bool) -> Vec<String> {
    let words = rows.kind.words(rows.period_ns).unwrap_or_default();
    let compared = if matches!(rows.kind, RowsOf::Waits { .. }) {
        format!("latency of {words}")
    } else {
        format!("duration of {words}")
    };
    let mut lines = vec![format!(
        "Compared: {compared}. Rates are not: {}.",
        rows.kind.no_rates().unwrap_or_default()
    )];
    if rows.early != [0, 0] {
        let [first, second] = rows.early.map(Cell::Count);
        lines.push(format!(
            "Early: {first} in A, {second} in B. They count as latency 0, and quantiles among them are not compared."
        ));
    }
    lines.push(if is_enough {
        "All intervals together hold with 95 %, from the differences between recordings.".into()
    } else {
        "Each interval holds with 95 % for these recordings alone.".into()
    });
    lines
}

pub(crate) fn quantile(share: f64) -> String {
    if share < 0.6 {
        "median".into()
    } else {
        format!("p{}", percent(share))
    }
}

/// Writes a ratio of two times with three digits, and at most hundredths.
pub(crate) fn time_ratio(ratio: f64) -> String {
    match ratio {
        100.0.. => format!("{ratio:.0}"),
        10.0..100.0 => format!("{ratio:.1}"),
        _ => format!("{ratio:.2}"),
    }
}

/// Writes a p-value.
pub(crate) fn probability(p: f64) -> String {
    if p < 0.001 {
        "< 0.001".into()
    } else {
        format!("{p:.3}")
    }
}

/// States an even change of the rates of both sides during the recordings.
pub(crate) fn trends(report: &CompareReport) -> Vec<String> {
    let mut lines = Vec::new();
    for service in &report.services {
        let name = series_words(service.service, service.route);
        for level in &service.levels {
            let Some(trend) = level.trend else {
                continue;
            };
            let change = if trend >= 1.0 {
                format!("grew {trend:.1}-fold")
            } else {
                format!("fell to 1/{:.1}", trend.recip())
            };
            lines.push(format!(
                "{name} > {}: the rate of A and B {change} from the first recording to the last; the ratio is for equal times.",
                Cell::Time(level.level_ns)
            ));
        }
    }
    lines
}

/// States the end of a trial, and earlier verdicts that it does not confirm.
pub(crate) fn looks(report: &CompareReport, looks: &TrialLooks) -> Vec<String> {
    if looks.after.len() < 2 {
        return Vec::new();
    }
    let rounds = looks.rounds;
    let now = looks.after.get(looks.look.saturating_sub(1));
    let now = now.copied().unwrap_or(rounds);
    let end = match looks.ended {
        Some(TrialEnd::Decided) => {
            format!("Ended after {now} of {rounds} rounds, because every series is decided.")
        }
        Some(TrialEnd::AllRounds) => format!(
            "All {rounds} rounds were made, because not every series was decided after {}.",
            listed(&looks.after[..looks.after.len() - 1])
        ),
        None => format!("After {now} of {rounds} rounds not every series is decided."),
    };
    let mut lines = vec![format!(
        "{end} Intervals hold with {} %, so that all {} evaluations together err in at most 5 of 100 comparisons.",
        confidence(report),
        looks.after.len()
    )];
    let unconfirmed = looks.not_borne_out.iter();
    lines.extend(unconfirmed.map(|earlier| {
        format!(
            "After {} rounds the verdict was: {}. {now} rounds do not confirm it: it was chance, or other conditions changed.",
            earlier.after,
            earlier_verdict(earlier)
        )
    }));
    lines
}

/// States an earlier verdict: `SCHED_FIFO 90 worse (later than 1.00 ms)`.
pub(crate) fn earlier_verdict(earlier: &EarlierVerdict) -> String {
    format!(
        "{} {} (later than {})",
        series_words(earlier.service, earlier.route),
        verdict(earlier.change),
        Cell::Time(earlier.level_ns)
    )
}

pub(crate) fn estimate(ns: f64) -> String {
    rough_time(ns, DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_is_not_rounded_up() {
        let texts = [0.95, 0.996_949, 0.999_985, 0.969_299].map(percent_down);

        assert_eq!(texts, ["95", "99.6", "99.9", "96.9"]);
    }

    #[test]
    fn ratio_has_one_limit_if_a_side_was_never_late() {
        let text = |ratio, low, high| ratio_of(ratio, low, high).map(|cell| cell.to_string());

        assert_eq!(
            text(Some(4.0), 3.2, Some(5.8)).unwrap(),
            "4.0 x (3.2 to 5.8)"
        );
        assert_eq!(text(Some(0.0), 0.0, Some(0.44)).unwrap(), "<= 0.44 x");
        assert_eq!(text(None, 3.0, None).unwrap(), ">= 3.0 x");
        assert_eq!(text(None, 0.0, None), None);
    }
}
