//! The terminal's views.

mod bars;
mod beside;
mod check;
mod compare;
mod doctor;
mod episode;
mod forecast;
mod look;
mod overview;
mod qos;
mod rehearsal;
mod sched;
mod screen;
mod show;
mod table4;
mod why;

pub use beside::beside;
pub use check::check;
pub use compare::compare;
pub use doctor::doctor;
pub use episode::episode;
pub use forecast::forecast;
pub use look::Look;
pub(crate) use overview::said;
pub use overview::{InShort, Said, overview, overviews};
pub use qos::{choices, qos};
pub use rehearsal::{counted, rehearsal};
pub use sched::sched;
pub use screen::{Screen, Tone};
pub use show::{Options, services, show, stages};
pub(crate) use show::{least, measured_with};
pub use table4::table4;
pub use why::why;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use laggard_answer::Note;
use laggard_model::printable;

/// A table without lines, numbers to the right but for the first column.
fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { 1 }, 1));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Those of `notes` that make everything below them doubtful.
fn warnings(notes: &[Note]) -> String {
    notes
        .iter()
        .filter(|note| note.is_warning())
        .map(|note| format!("  {}\n", printable(&note.to_string())))
        .collect()
}

/// All of `notes`, below everything else; nothing where there are none.
fn to_bear_in_mind(notes: &[Note]) -> String {
    let lines: String = notes
        .iter()
        .map(|note| format!("  - {}\n", printable(&note.to_string())))
        .collect();
    match lines.is_empty() {
        true => lines,
        false => format!("\nTo bear in mind:\n{lines}"),
    }
}
