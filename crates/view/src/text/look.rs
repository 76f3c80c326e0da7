//! Format of text: width and unit.

use laggard_model::text::Unit;

/// Format of text.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Width of the terminal.
    pub columns: usize,
    /// Unit of times in tables.
    pub unit: Unit,
}

impl Default for Look {
    fn default() -> Self {
        Self {
            columns: 80,
            unit: Unit::Auto,
        }
    }
}
