//! Lines of `laggard attach --every`.

use laggard_answer::attach::{AttachChosen, AttachStep, AttachTaken};
use laggard_model::{Nanos, printable};

use crate::doc::Cell;
use crate::phrase::attach as phrase;

/// Causes of a late cycle in its line.
const MAX_CAUSES: usize = 3;

/// Returns the header of the lines.
pub fn header() -> String {
    line(
        "time",
        [
            "thread",
            "woken by",
            "count",
            "p50",
            "p99",
            "max",
            "max so far",
            "missed",
        ],
    )
}

/// Returns the line of a thread for the last interval, which ended `after` the start.
pub fn step(step: &AttachStep, after: Nanos) -> String {
    let time =
        |time: Option<Nanos>| time.map_or_else(|| "-".into(), |time| Cell::Time(time).to_string());
    let thread = &step.thread;
    let name = format!("{}/{}", printable(&thread.name.to_string()), thread.tid.0);
    let misses = step
        .misses
        .map_or_else(|| "-".into(), |misses| Cell::Count(misses).to_string());
    line(
        &format!("{:.1} s", after.as_secs_f64()),
        [
            &name,
            &step.way.to_string(),
            &Cell::Count(step.activations).to_string(),
            &time(step.median),
            &time(step.p99),
            &time(step.largest),
            &time(step.largest_so_far),
            &misses,
        ],
    )
}

fn line(time: &str, cells: [&str; 8]) -> String {
    let [thread, woken_by, count, p50, p99, max, max_so_far, missed] = cells;
    format!(
        "{time:>11}  {thread:<22} {woken_by:<10} {count:>9} {p50:>9} {p99:>9} {max:>9}  {max_so_far:>10} {missed:>7}\n"
    )
}

/// Returns the line of a cycle that missed its deadline, and may go on; it was due `after` the start.
pub fn late(cycle: &AttachChosen, taken: &[AttachTaken], after: Nanos) -> String {
    let causes = phrase::parts(taken, MAX_CAUSES);
    let causes = if causes.is_empty() {
        causes
    } else {
        format!(": {}", printable(&causes))
    };
    let thread = cycle.thread();
    let so_far = if cycle.is_ongoing() { " so far" } else { "" };
    format!(
        "{:>9.3} s  late: {}/{} by {}, {}{so_far}{causes}\n",
        after.as_secs_f64(),
        printable(&thread.name.to_string()),
        thread.tid.0,
        cycle.way(),
        Cell::Time(cycle.activation().response()),
    )
}

/// Returns the line about late cycles that were not analysed.
pub fn more_late(number: u64, after: Nanos) -> String {
    format!(
        "{:>9.1} s  late: {} more\n",
        after.as_secs_f64(),
        Cell::Count(number)
    )
}
