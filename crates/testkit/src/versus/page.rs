//! The comparison as Markdown.

use std::fmt::Write as _;

use laggard_analyze::compare::holm;
use laggard_model::text::Unit;
use laggard_model::{Nanos, Route};

use super::cell::{SlackComparison, VersusCell};
use super::{LOADS, VersusError};

/// Tables of the second kernel against the first, one per load.
///
/// # Errors
/// When a p-value is not a number.
pub fn page(
    names: [&str; 2],
    loads: &[Vec<VersusCell>],
    lost: [u64; 2],
) -> Result<String, VersusError> {
    let all: Vec<&SlackComparison> = loads.iter().flatten().flat_map(|cell| &cell.late).collect();
    let p: Vec<f64> = all.iter().map(|late| late.comparison.ratio.p).collect();
    let mut adjusted = holm(&p)?.into_iter();
    let mut text = format!("### {} against {}\n", names[1], names[0]);
    for (load, cells) in LOADS.iter().zip(loads) {
        let _ = write!(text, "\nLoad `{load}`:\n\n{}", header(names, cells));
        for cell in cells {
            let _ = write!(text, "| {} |", name(cell));
            for side in &cell.sides {
                let _ = write!(text, " {} | {} |", time(side.largest), time(side.p999));
            }
            let _ = write!(text, " {} |", ratio(cell));
            for late in &cell.late {
                let is_significant = adjusted.next().is_some_and(|p| p <= 0.05);
                let _ = write!(text, " {} |", late_text(late, is_significant));
            }
            text.push('\n');
        }
    }
    let _ = writeln!(
        text,
        "\nActivations lost, of all: {} on {}, {} on {}.\n\n{}",
        lost[0],
        names[0],
        lost[1],
        names[1],
        summary(names, &all)
    );
    Ok(text)
}

fn header(names: [&str; 2], cells: &[VersusCell]) -> String {
    let mut columns = vec!["service".to_owned()];
    for name in names {
        columns.push(format!("{name}: largest"));
        columns.push("p99.9".into());
    }
    columns.push("ratio of p99.9".into());
    let slacks = cells.iter().find(|cell| !cell.late.is_empty());
    for late in slacks.into_iter().flat_map(|cell| &cell.late) {
        columns.push(format!("later than {}", late.slack));
    }
    format!(
        "| {} |\n|{}\n",
        columns.join(" | "),
        "---|".repeat(columns.len())
    )
}

fn name(cell: &VersusCell) -> String {
    match (cell.service.is_thread(), cell.route) {
        (true, Route::Deferred) => format!("{} deferred", cell.service),
        _ => cell.service.to_string(),
    }
}

fn time(time: Option<Nanos>) -> String {
    time.map_or_else(|| "-".into(), |time| Unit::Auto.write_nanos(time))
}

/// Two digits, which is more than the intervals bear out; a limit that only
/// says that nothing is known is not written out.
fn number(value: f64) -> String {
    match value {
        _ if value.is_infinite() => "inf".into(),
        _ if value > 1_000.0 => "above 1000".into(),
        _ if value >= 10.0 => format!("{value:.0}"),
        _ if value >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn ratio(cell: &VersusCell) -> String {
    cell.ratio.map_or_else(
        || "-".into(),
        |ratio| {
            format!(
                "{} ({} to {})",
                number(ratio.ratio),
                number(ratio.interval.low),
                number(ratio.interval.high)
            )
        },
    )
}

fn late_text(late: &SlackComparison, is_significant: bool) -> String {
    let [first, second] = late.clusters;
    if first + second == 0 {
        return "never on either".into();
    }
    let interval = late.comparison.ratio.interval;
    let star = if is_significant { "*" } else { "" };
    format!(
        "{first} : {second}, ratio {} to {}: {}{star}",
        number(interval.low),
        number(interval.high),
        late.words()
    )
}

/// In how many comparisons an order of magnitude was seen.
fn summary(names: [&str; 2], all: &[&SlackComparison]) -> String {
    let count = |words: &str| all.iter().filter(|late| late.words() == words).count();
    let silent = all.iter().filter(|late| late.clusters == [0, 0]).count();
    format!(
        "Of {} comparisons, {} is late at least 10 times less often in {}, and at least 10 times more often in {}; \
         in {silent} neither was ever late.",
        all.len(),
        names[1],
        count("10 times better"),
        count("10 times worse"),
    )
}
