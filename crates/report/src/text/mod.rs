//! The terminal's views.

mod beside;
mod show;

pub use beside::beside;
pub(crate) use show::least;
pub use show::{Options, show};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// A table without lines, numbers to the right but for the first column.
pub(crate) fn table(header: &[&str]) -> Table {
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
pub(crate) fn warnings(notes: &[String]) -> String {
    notes
        .iter()
        .filter(|note| note.contains("NOT TRUSTWORTHY") || note.contains("NOT a measurement"))
        .map(|note| format!("  {note}\n"))
        .collect()
}
