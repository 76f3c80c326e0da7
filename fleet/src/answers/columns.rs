//! Tables of plain text.

use laggard_model::printable;
use unicode_width::UnicodeWidthStr as _;

/// Formats rows below their heads. The first `left` columns are left-aligned, the others
/// right-aligned. Unprintable characters are escaped.
pub fn table(heads: &[&str], left: usize, rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        std::iter::once(heads.iter().map(|head| (*head).to_owned()).collect())
            .chain(
                rows.iter()
                    .map(|row| row.iter().map(|cell| printable(cell).to_string()).collect()),
            )
            .collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].width())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| {
                let blank = " ".repeat(width - cell.width());
                if column < left {
                    format!("{cell}{blank}")
                } else {
                    format!("{blank}{cell}")
                }
            });
        let line = cells.collect::<Vec<_>>().join("  ");
        text += line.trim_end();
        text.push('\n');
    }
    text
}
