//! Documents as a page for a browser: one file that asks the network for nothing and
//! runs no script.

use laggard_model::printable;
use laggard_model::text::Unit;

use super::{Block, Cell, ColumnKind, Document, Figure, Table, Verdict, parts};
use crate::text::Tone;

/// Style of the page of `laggard report`. Figures are drawn in light colours, so it has no dark
/// ones.
const STYLE: &str = "\
:root{color-scheme:light}*{box-sizing:border-box}\
body{margin:0 auto;max-width:1240px;padding:0 20px 40px;font:16px/1.5 system-ui,sans-serif;color:#1b1f24;background:#fff}\
h1{font-size:1.4rem;margin:16px 0 4px}h2{font-size:1.2rem;margin:32px 0 8px;border-bottom:1px solid #d8dee4}\
p,li{overflow-wrap:anywhere}td:first-child{white-space:nowrap}.said{font-size:1.1rem;max-width:80ch;margin:6px 0}\
.faint{color:#57606a;font-size:.92rem;max-width:100ch;margin:4px 0}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}\
th,td{text-align:left;padding:4px 16px 4px 0;border-bottom:1px solid #d8dee4;vertical-align:top}\
td.number,th.number{text-align:right;white-space:nowrap}.worse{color:#a12a00;font-weight:600}.better{color:#00664a;font-weight:600}.open{color:#7a5200;font-weight:600}\
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,560px),1fr));gap:20px}\
figure{margin:0}figure svg{width:100%;height:auto}";

/// Returns a page. `title` and `body` are markup.
fn sheet(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

/// Renders a document as a page. `name` is the title of the window, and `draw` returns
/// the SVG of a figure, or `None` if there is nothing to draw.
pub fn html(document: &Document, name: &str, draw: &dyn Fn(&Figure) -> Option<String>) -> String {
    html_with_footer(document, name, draw, "")
}

/// Renders a document as a page that ends with `footer`, which is markup and can have links.
pub(crate) fn html_with_footer(
    document: &Document,
    name: &str,
    draw: &dyn Fn(&Figure) -> Option<String>,
    footer: &str,
) -> String {
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
    sheet(&escaped(name), &(body + footer))
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
    let mut html = String::new();
    if let Some(caption) = &table.caption {
        html += &format!("<p class=\"faint\">{}</p>\n", text(caption));
    }
    html += "<div class=\"scroll\"><table>\n<thead><tr>";
    for column in &table.columns {
        let class = match column.kind {
            ColumnKind::Number => " class=\"number\"",
            ColumnKind::Name | ColumnKind::Sentence => "",
        };
        html += &format!("<th scope=\"col\"{class}>{}</th>", escaped(&column.name));
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        let cells = row.iter().zip(&table.columns);
        let cells: String = cells.map(|(it, column)| cell(it, column.kind)).collect();
        html += &format!("<tr>{cells}</tr>\n");
    }
    html += "</tbody>\n</table></div>\n";
    for note in &table.notes {
        html += &format!("<p class=\"faint\">{}</p>\n", text(note));
    }
    html
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

pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in printable(text).to_string().chars() {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            letter => safe.push(letter),
        }
    }
    safe
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

    #[test]
    fn text_of_a_recording_is_no_markup() {
        let safe = escaped("<img src=x onerror=\"alert(1)\">&\u{1b}[0m");

        assert!(!safe.contains(['<', '>', '"', '\u{1b}']), "{safe}");
        assert!(safe.starts_with("&lt;img src=x"), "{safe}");
    }
}
