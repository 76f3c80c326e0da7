//! Documents as Markdown with tables, for issue trackers.

use laggard_model::text::Unit;
use laggard_model::{printable, printable_lines};

use super::{Block, ColumnKind, Document, Table};
use crate::markdown::escaped;

/// Renders a document as Markdown.
pub fn markdown(document: &Document) -> String {
    let mut parts = vec![format!("## {}\n", text(&document.title))];
    parts.extend(document.blocks.iter().filter_map(block));
    printable_lines(&parts.join("\n")).to_string()
}

fn block(block: &Block) -> Option<String> {
    Some(match block {
        Block::Heading(heading) => format!("### {}\n", text(heading)),
        Block::Verdicts(verdicts) => {
            let items = verdicts
                .iter()
                .map(|verdict| format!("**{}**: {}", escaped(&verdict.word), text(&verdict.text)));
            list(items)
        }
        Block::Paragraph(paragraph) | Block::Detail(paragraph) => {
            format!("{}\n", text(paragraph))
        }
        Block::Lines(items) | Block::List(items) => list(items.iter().map(|item| text(item))),
        Block::Preformatted(lines) => fenced(lines),
        Block::Table(table) => self::table(table),
        Block::Notes(notes) => {
            let items = list(notes.notes.iter().map(|note| text(note)));
            format!("**{}**\n\n{items}", text(&notes.title))
        }
        Block::Figure(_) => return None,
    })
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.map(|item| format!("- {item}\n")).collect()
}

/// Writes lines as a code block that no line can end.
fn fenced(lines: &[String]) -> String {
    let lines: Vec<String> = lines
        .iter()
        .map(|line| printable(line).to_string())
        .collect();
    let mut longest = 0;
    for line in &lines {
        let runs = line.split(|letter| letter != '`').map(str::len);
        longest = longest.max(runs.max().unwrap_or_default());
    }
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}text\n{}\n{fence}\n", lines.join("\n"))
}

fn table(table: &Table) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text_of_table = String::new();
    if let Some(caption) = &table.caption {
        text_of_table += &format!("{}\n\n", text(caption));
    }
    let columns = table.columns.iter();
    text_of_table += &row(columns
        .clone()
        .map(|column| escaped(&column.name))
        .collect());
    let rule = columns.map(|column| match column.kind {
        ColumnKind::Number => "--:".to_owned(),
        ColumnKind::Name | ColumnKind::Sentence => "---".to_owned(),
    });
    text_of_table += &row(rule.collect());
    for cells in &table.rows {
        let cells = cells.iter().map(|cell| escaped(&cell.text(Unit::Auto)));
        text_of_table += &row(cells.collect());
    }
    for note in &table.notes {
        text_of_table += &format!("\n{}\n", text(note));
    }
    text_of_table
}

/// Escapes text that starts a line, where a mark or a number would start a list.
fn text(text: &str) -> String {
    let safe = escaped(text);
    let digits = safe.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &safe[digits..];
    let is_item = rest.starts_with(['.', ')']) && rest[1..].starts_with(' ');
    match safe.chars().next() {
        // GitHub Actions executes a line that starts with `::`.
        Some('-' | '+' | '=' | ':' | '>') => format!("&#{};{}", safe.as_bytes()[0], &safe[1..]),
        Some(digit) if digit.is_ascii_digit() && is_item => {
            format!("{}&#{};{}", &safe[..digits], rest.as_bytes()[0], &rest[1..])
        }
        Some(_) | None => safe,
    }
}

#[cfg(test)]
mod tests {
    use laggard_model::Nanos;

    use super::super::{Cell, Column, Notes, Verdict};
    use super::*;
    use crate::text::Tone;

    #[test]
    fn every_block_has_its_form() {
        let mut table = Table::new([Column::name("load"), Column::number("max")]).caption("Loads.");
        table.row(["a|b".into(), Cell::Time(Nanos::from_us(12))]);
        table.note("One run.");
        let document = Document {
            title: "Title".into(),
            blocks: vec![
                Block::Verdicts(vec![Verdict {
                    tone: Tone::Bad,
                    word: "FAIL".into(),
                    text: "order".into(),
                }]),
                Block::Heading("Loads".into()),
                Block::Table(table),
                Block::Notes(Notes {
                    title: "Warnings".into(),
                    notes: vec!["run `apt-get install x`".into()],
                }),
            ],
        };

        assert_eq!(
            markdown(&document),
            "\
## Title

- **FAIL**: order

### Loads

Loads.

| load | max |
| --- | --: |
| a&#124;b | 12.0 us |

One run.

**Warnings**

- run <code>apt-get install x</code>
"
        );
    }

    #[test]
    fn text_starts_no_list_and_no_markup() {
        for (plain, safe) in [
            ("- a", "&#45; a"),
            ("+ a", "&#43; a"),
            ("::error::a", "&#58;:error::a"),
            ("12. a", "12&#46; a"),
            ("1) a", "1&#41; a"),
            ("6.00 us", "6.00 us"),
            ("<b>@all\n# x", "&#60;b>&#64;all&#92;n&#35; x"),
        ] {
            assert_eq!(text(plain), safe);
        }
    }
}
