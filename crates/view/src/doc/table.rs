//! Tables.

use schemars::JsonSchema;
use serde::Serialize;

use super::Cell;

/// Rows and columns.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct Table {
    /// Text above the table.
    pub caption: Option<String>,
    /// The columns.
    pub columns: Vec<Column>,
    /// Number of columns, from the left, that identify a row. A table that is wider
    /// than the terminal is split, and each part has these columns.
    pub keys: usize,
    /// The rows, with one cell per column.
    pub rows: Vec<Vec<Cell>>,
    /// Notes below the table.
    pub notes: Vec<String>,
}

/// A column of a table.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Column {
    /// The name.
    pub name: String,
    /// Kind of its cells.
    pub kind: ColumnKind,
    /// Whether a table that is too wide is best split before this column.
    pub starts_part: bool,
}

/// Kind of the cells of a column.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// Names, aligned to the left.
    Name,
    /// Numbers, aligned to the right.
    Number,
    /// Sentences, which wrap and take the width that the other columns leave.
    Sentence,
}

impl Column {
    pub fn name(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Name)
    }

    pub fn number(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Number)
    }

    pub fn sentence(name: impl Into<String>) -> Self {
        Self::new(name, ColumnKind::Sentence)
    }

    fn new(name: impl Into<String>, kind: ColumnKind) -> Self {
        Self {
            name: name.into(),
            kind,
            starts_part: false,
        }
    }

    /// Marks the column as the best one to start the next part of a table that is too
    /// wide.
    #[must_use]
    pub fn starting_part(mut self) -> Self {
        self.starts_part = true;
        self
    }
}

impl Table {
    /// Creates a table without rows. Its first column identifies a row.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self {
            caption: None,
            columns: columns.into_iter().collect(),
            keys: 1,
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Sets the text above the table.
    #[must_use]
    pub fn caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = Some(caption.into());
        self
    }

    /// Sets the number of columns that identify a row.
    #[must_use]
    pub fn keys(mut self, keys: usize) -> Self {
        self.keys = keys.min(self.columns.len());
        self
    }

    /// Adds a row. Cells that are missing at its end are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells: Vec<Cell> = cells.into_iter().collect();
        cells.resize(self.columns.len(), Cell::Empty);
        self.rows.push(cells);
    }

    /// Adds a note below the table.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}
