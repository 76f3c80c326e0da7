//! Documents as JSON, for the page of `laggard report`, which draws them itself.

use laggard_model::text::Unit;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Cell, Document, Reason};
use crate::text::Tone;

/// A cell for a reader that formats nothing.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct CellJson {
    /// The text.
    pub text: String,
    /// The number behind the text, in ns, counts or shares, to sort by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Whether the value is good or bad news.
    pub tone: Tone,
    /// Reason for an unknown value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

impl From<Cell> for CellJson {
    fn from(cell: Cell) -> Self {
        Self {
            text: cell.text(Unit::Auto),
            value: cell.value(),
            tone: cell.tone(),
            reason: cell.reason(),
        }
    }
}

/// Writes a document as JSON. Text is not escaped: the page shows it as text.
///
/// # Errors
/// When a value of the document has no JSON, such as an infinite number.
pub fn json(document: &Document) -> Result<String, serde_json::Error> {
    serde_json::to_string(document)
}

#[cfg(test)]
mod tests {
    use laggard_model::Nanos;

    use super::super::{Column, Table};
    use super::*;
    use crate::doc::Block;

    #[test]
    fn cells_have_their_text_and_the_number_behind_it() {
        let mut table = Table::new([Column::name("load"), Column::number("max")]);
        table.row(["fp".into(), Cell::Time(Nanos::from_us(12))]);
        table.row(["net".into(), Cell::Unknown(Reason::NotMeasured)]);
        let mut document = Document::new("Loads");
        document.push(Block::Table(table));

        let json: serde_json::Value = serde_json::from_str(&json(&document).unwrap()).unwrap();

        let block = &json["blocks"][0];
        assert_eq!(block["kind"], "table");
        let rows = &block["content"]["rows"];
        assert_eq!(rows[0][1]["text"], "12.0 us");
        assert_eq!(rows[0][1]["value"], 12_000.0);
        assert_eq!(rows[1][1]["text"], "-");
        assert_eq!(rows[1][1]["reason"], "not_measured");
        assert!(rows[1][1].get("value").is_none());
    }
}
