//! Tables that keep to the terminal: one that is wider is parted into several
//! below each other, each with the columns that say what a row is. Names that
//! are wider than a column can be go on in the next line of their row.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use laggard_model::printable;

use super::Look;
use super::screen::width;

/// Between two columns.
const GAP: usize = 2;
/// No column is made narrower than this, however narrow the terminal is.
const LEAST: usize = 8;
/// So much of a line what a row is may take: a service, its route and a CPU.
const LEAST_KEYS: usize = 24;

/// Rows of cells, without lines between them; numbers to the right, what a row
/// is to the left.
#[derive(Debug)]
pub(super) struct Grid {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// So many columns say what a row is, and are in each part.
    keys: usize,
    /// Columns before which a table is best parted.
    best: Vec<usize>,
    /// Columns of words.
    left: Vec<usize>,
    /// The first is as wide as this where there is room.
    least: usize,
}

impl Grid {
    /// A table whose first column says what a row is.
    pub(super) fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        Self {
            header: shown(header),
            rows: Vec::new(),
            keys: 1,
            best: Vec::new(),
            left: vec![0],
            least: 0,
        }
    }

    /// The first columns say what a row is.
    pub(super) const fn keys(mut self, keys: usize) -> Self {
        self.keys = keys;
        self
    }

    /// Where it is wider than the terminal, a part begins with this column.
    pub(super) fn parted_before(mut self, column: usize) -> Self {
        self.best.push(column);
        self
    }

    /// These columns are words, not numbers.
    pub(super) fn left(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        self.left.extend(columns);
        self
    }

    pub(super) fn add_row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(shown(cells));
    }

    /// The table, in as many parts as it takes; an empty line is between two.
    pub(super) fn written(&self, look: Look) -> String {
        let widths = self.widths(look.columns);
        let parts = self.parts(&widths, look.columns);
        let parts = parts.iter().map(|part| self.part(part, &widths));
        parts.collect::<Vec<_>>().join("\n")
    }

    /// How wide the columns are: as their widest cell, or as a part can be.
    fn widths(&self, columns: usize) -> Vec<usize> {
        let cells = |at: usize| self.rows.iter().filter_map(move |row| row.get(at));
        let widest = |at: usize| {
            cells(at)
                .chain([&self.header[at]])
                .map(|cell| width(cell))
                .max()
        };
        let mut widths: Vec<usize> = (0..self.header.len())
            .map(|at| widest(at).unwrap_or_default())
            .collect();
        widths[0] = widths[0].max(self.least);
        if widths.iter().sum::<usize>() + GAP * (widths.len() - 1) <= columns {
            return widths;
        }
        // What a row is takes half of a line at most where there are figures.
        let (keys, others) = widths.split_at_mut(self.keys.min(self.header.len()));
        let room = if others.is_empty() {
            columns
        } else {
            (columns / 2).max(LEAST_KEYS)
        };
        let (first, more) = keys.split_at_mut(1);
        let more: usize = more.iter().map(|width| width + GAP).sum();
        first[0] = first[0].min(room.saturating_sub(more).max(LEAST));
        let keys = first[0] + more;
        for other in others {
            *other = (*other).min(columns.saturating_sub(keys + GAP).max(LEAST));
        }
        widths
    }

    /// Which columns each part has, without those that all have.
    fn parts(&self, widths: &[usize], columns: usize) -> Vec<Vec<usize>> {
        let keys: usize = widths[..self.keys].iter().sum::<usize>() + GAP * (self.keys - 1);
        let room = columns.saturating_sub(keys);
        let takes = |column: &usize| widths[*column] + GAP;
        let rest: Vec<usize> = (self.keys..self.header.len()).collect();
        let mut parts = vec![Vec::new()];
        let mut free = room;
        for group in rest.chunk_by(|_, next| !self.best.contains(next)) {
            let together: usize = group.iter().map(takes).sum();
            for (at, column) in group.iter().enumerate() {
                let needed = if at == 0 {
                    together.min(room)
                } else {
                    takes(column)
                };
                let part = parts.last_mut().expect("there is a first part");
                if needed > free && !part.is_empty() {
                    parts.push(vec![*column]);
                    free = room.saturating_sub(takes(column));
                } else {
                    part.push(*column);
                    free = free.saturating_sub(takes(column));
                }
            }
        }
        parts
    }

    fn part(&self, columns: &[usize], widths: &[usize]) -> String {
        let columns: Vec<usize> = (0..self.keys).chain(columns.iter().copied()).collect();
        let of = |cells: &[String]| -> Vec<String> {
            let cell = |&at: &usize| cells.get(at).cloned().unwrap_or_default();
            columns.iter().map(cell).collect()
        };
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(of(&self.header));
        for row in &self.rows {
            table.add_row(of(row));
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            let padding: (u16, u16) = if index == 0 { (0, 1) } else { (1, 1) };
            column.set_padding(padding);
            if !self.left.contains(&columns[index]) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            let width = widths[columns[index]] + usize::from(padding.0 + padding.1);
            let width = Width::Fixed(u16::try_from(width).unwrap_or(u16::MAX));
            column.set_constraint(ColumnConstraint::Absolute(width));
        }
        format!("{}\n", table.trim_fmt())
    }
}

/// Cells as they are seen: a name's control characters have no effect.
fn shown<S: Into<String>>(cells: impl IntoIterator<Item = S>) -> Vec<String> {
    let cells = cells.into_iter().map(Into::into);
    cells.map(|cell| printable(&cell).to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(columns: usize) -> Look {
        Look {
            columns,
            ..Look::default()
        }
    }

    fn figures() -> Grid {
        let mut grid = Grid::new(["service", "samples", "min", "p99", "largest"]).parted_before(3);
        grid.add_row(["irq", "60,000", "1.00 us", "9.00 us", "20.0 ms"]);
        grid.add_row(["fifo:90 deferred", "100", "7.00 us", "-", "8.00 us"]);
        grid
    }

    #[test]
    fn a_table_that_fits_is_one() {
        assert_eq!(
            figures().written(look(80)),
            "service           samples      min      p99  largest\n\
             irq                60,000  1.00 us  9.00 us  20.0 ms\n\
             fifo:90 deferred      100  7.00 us        -  8.00 us\n"
        );
    }

    #[test]
    fn a_wider_one_is_parted_where_it_is_best_and_each_part_says_what_its_rows_are() {
        assert_eq!(
            figures().written(look(44)),
            "service           samples      min\n\
             irq                60,000  1.00 us\n\
             fifo:90 deferred      100  7.00 us\n\
             \n\
             service               p99  largest\n\
             irq               9.00 us  20.0 ms\n\
             fifo:90 deferred        -  8.00 us\n"
        );
    }

    #[test]
    fn no_part_is_wider_than_the_terminal_and_no_cell_is_lost() {
        let mut grid = Grid::new(["task", "period", "why", "verdict"]).left([2]);
        let (name, why) = ("a-name-without-end".repeat(5), "many words ".repeat(20));
        grid.add_row([name.as_str(), "1.00 ms", why.trim_end(), "meets"]);

        for columns in 40..130 {
            let text = grid.written(look(columns));

            for line in text.lines() {
                assert!(width(line) <= columns, "{columns}: {line}");
            }
            let letters = |text: &str| text.matches(|one: char| one.is_alphanumeric()).count();
            assert!(letters(&text) >= letters(&name) + letters(&why), "{text}");
            assert!(text.contains("1.00 ms") && text.contains("meets"), "{text}");
        }
    }
}
