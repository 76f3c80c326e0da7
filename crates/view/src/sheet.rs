//! A page for a browser that is written here whole: one file that asks the network for
//! nothing and runs no script.

use std::fmt::Write as _;

use laggard_model::printable;

/// As of the page of `laggard report`, in light colours alone, for that is how
/// figures are drawn.
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

/// A page of this title; `body` is markup.
pub(crate) fn sheet(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n\
         <title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

/// A cell, and whether it is a number.
pub(crate) type PageCell = (String, bool);

/// A table; text of recordings in it is escaped here.
pub(crate) fn table(
    caption: &str,
    header: &[(&str, bool)],
    rows: &[Vec<(PageCell, &str)>],
) -> String {
    let class = |is_number: bool| if is_number { " class=\"number\"" } else { "" };
    let mut text =
        format!("<p class=\"faint\">{caption}</p>\n<div class=\"scroll\"><table>\n<thead><tr>");
    for (name, is_number) in header {
        let _ = write!(text, "<th scope=\"col\"{}>{name}</th>", class(*is_number));
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in rows {
        text += "<tr>";
        for ((words, is_number), more) in row {
            let words = escaped(words);
            let _ = if more.is_empty() {
                write!(text, "<td{}>{words}</td>", class(*is_number))
            } else {
                write!(text, "<td class=\"{more}\">{words}</td>")
            };
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table></div>\n"
}

pub(crate) fn word(text: impl Into<String>) -> (PageCell, &'static str) {
    ((text.into(), false), "")
}

pub(crate) fn number(text: impl Into<String>) -> (PageCell, &'static str) {
    ((text.into(), true), "")
}

/// Text that stays text.
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
    use super::*;

    #[test]
    fn text_of_a_recording_is_no_markup() {
        let safe = escaped("<img src=x onerror=\"alert(1)\">&\u{1b}[0m");

        assert!(!safe.contains(['<', '>', '"', '\u{1b}']), "{safe}");
        assert!(safe.starts_with("&lt;img src=x"), "{safe}");
    }
}
