//! Documents as a page for a browser: one file that asks the network for nothing and
//! runs no script.

use laggard_model::text::Unit;

use super::{Block, Cell, ColumnKind, Document, Figure, Table, Verdict, parts};
use crate::sheet::{escaped, sheet};
use crate::text::Tone;

/// Renders a document as a page. `name` is the title of the window, and `draw` returns
/// the SVG of a figure, or `None` if there is nothing to draw.
pub fn html(document: &Document, name: &str, draw: &dyn Fn(&Figure) -> Option<String>) -> String {
    let mut body = format!("<h1>{}</h1>\n", text(&document.title));
    // Figures that follow one another share a grid.
    let is_figure = |block: &Block| matches!(block, Block::Figure(_));
    for blocks in document
        .blocks
        .chunk_by(|first, second| is_figure(first) && is_figure(second))
    {
        let content: String = blocks
            .iter()
            .map(|block| self::block(block, draw))
            .collect();
        body += &if blocks.len() > 1 && !content.is_empty() {
            format!("<div class=\"figures\">\n{content}</div>\n")
        } else {
            content
        };
    }
    sheet(&escaped(name), &body)
}

fn block(block: &Block, draw: &dyn Fn(&Figure) -> Option<String>) -> String {
    match block {
        Block::Heading(heading) => format!("<h2>{}</h2>\n", text(heading)),
        Block::Verdicts(verdicts) => verdicts.iter().map(verdict).collect(),
        Block::Paragraph(paragraph) => format!("<p class=\"said\">{}</p>\n", text(paragraph)),
        Block::Detail(detail) => format!("<p class=\"faint\">{}</p>\n", text(detail)),
        Block::Lines(lines) => {
            let lines = lines.iter();
            lines
                .map(|line| format!("<p class=\"faint\">{}</p>\n", text(line)))
                .collect()
        }
        Block::List(items) => list(items),
        Block::Preformatted(lines) => format!("<pre>{}</pre>\n", escaped(&lines.join("\n"))),
        Block::Table(table) => self::table(table),
        Block::Notes(notes) => format!("<h2>{}</h2>\n{}", text(&notes.title), list(&notes.notes)),
        Block::Figure(figure) => draw(figure).map_or_else(String::new, |svg| {
            let caption = text(&figure.caption);
            format!("<figure>{svg}<figcaption class=\"faint\">{caption}</figcaption></figure>\n")
        }),
    }
}

fn verdict(verdict: &Verdict) -> String {
    let word = escaped(&verdict.word);
    let word = match class(verdict.tone) {
        "" => format!("<strong>{word}</strong>"),
        class => format!("<strong class=\"{class}\">{word}</strong>"),
    };
    format!("<p class=\"said\">{word} {}</p>\n", text(&verdict.text))
}

fn list(items: &[String]) -> String {
    let items: String = items
        .iter()
        .map(|item| format!("<li>{}</li>\n", text(item)))
        .collect();
    format!("<ul class=\"faint\">\n{items}</ul>\n")
}

fn table(table: &Table) -> String {
    let mut all = String::new();
    if let Some(caption) = &table.caption {
        all += &format!("<p class=\"faint\">{}</p>\n", text(caption));
    }
    all += "<div class=\"scroll\"><table>\n<thead><tr>";
    for column in &table.columns {
        let class = match column.kind {
            ColumnKind::Number => " class=\"number\"",
            ColumnKind::Name | ColumnKind::Sentence => "",
        };
        all += &format!("<th scope=\"col\"{class}>{}</th>", escaped(&column.name));
    }
    all += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        let cells = row.iter().zip(&table.columns);
        let cells: String = cells.map(|(it, column)| cell(it, column.kind)).collect();
        all += &format!("<tr>{cells}</tr>\n");
    }
    all += "</tbody>\n</table></div>\n";
    for note in &table.notes {
        all += &format!("<p class=\"faint\">{}</p>\n", text(note));
    }
    all
}

/// A cell. The reason for an unknown value appears below the pointer.
fn cell(cell: &Cell, kind: ColumnKind) -> String {
    let class = match (kind, class(cell.tone())) {
        (ColumnKind::Number, "") => "number".to_owned(),
        (ColumnKind::Number, class) => format!("number {class}"),
        (_, class) => class.to_owned(),
    };
    let class = match class.as_str() {
        "" => String::new(),
        class => format!(" class=\"{class}\""),
    };
    let title = cell.reason().map_or_else(String::new, |reason| {
        format!(" title=\"{}\"", reason.phrase())
    });
    format!("<td{class}{title}>{}</td>", text(&cell.text(Unit::Auto)))
}

const fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "better",
        Tone::Bad => "worse",
        Tone::Open => "open",
        Tone::Plain | Tone::Strong | Tone::Faint => "",
    }
}

/// Text that stays text; a part between two backticks is code.
fn text(text: &str) -> String {
    parts(text)
        .into_iter()
        .map(|(part, is_code)| {
            if is_code {
                format!("<code>{}</code>", escaped(part))
            } else {
                escaped(part)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use laggard_model::Nanos;

    use super::super::Column;
    use super::*;
    use crate::doc::Reason;

    fn page(blocks: Vec<Block>) -> String {
        let document = Document {
            title: "Title".into(),
            blocks,
        };
        html(&document, "laggard", &|figure| {
            (figure.id == "known").then(|| "<svg></svg>".into())
        })
    }

    #[test]
    fn numbers_verdicts_and_unknown_values_are_marked() {
        let columns = [
            Column::name("load"),
            Column::name("verdict"),
            Column::number("max"),
        ];
        let mut table = Table::new(columns);
        table.row([
            "fp".into(),
            Cell::Status(Tone::Bad, "FAIL".into()),
            Cell::Time(Nanos::from_us(12)),
        ]);
        table.row([
            "net".into(),
            Cell::Status(Tone::Open, "UNKNOWN".into()),
            Cell::Unknown(Reason::NotMeasured),
        ]);

        let page = page(vec![Block::Table(table)]);

        for row in [
            "<tr><td>fp</td><td class=\"worse\">FAIL</td><td class=\"number\">12.0 us</td></tr>",
            "<tr><td>net</td><td class=\"open\">UNKNOWN</td><td class=\"number\" title=\"not measured\">-</td></tr>",
        ] {
            assert!(page.contains(row), "{page}");
        }
    }

    #[test]
    fn a_figure_is_shown_if_it_can_be_drawn() {
        let figure = |id: &str| {
            Block::Figure(Figure {
                id: id.into(),
                caption: "CCDF".into(),
            })
        };

        let page = page(vec![figure("known"), figure("other")]);

        assert_eq!(page.matches("<figcaption").count(), 1, "{page}");
        assert!(page.contains("<svg></svg><figcaption class=\"faint\">CCDF"));
    }

    #[test]
    fn text_is_not_markup() {
        let page = page(vec![
            Block::Paragraph("stop `<b>` and <i>".into()),
            Block::List(vec!["\"&\u{1b}".into()]),
        ]);

        assert!(
            page.contains("stop <code>&lt;b&gt;</code> and &lt;i&gt;"),
            "{page}"
        );
        assert!(page.contains("<li>&quot;&amp;\\x1b</li>"), "{page}");
    }
}
