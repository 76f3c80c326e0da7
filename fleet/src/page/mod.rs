//! Self-contained page of `worst`: machines hour by hour, and a section for each.
//!
//! The page works without a script. The section of a machine appears when the user follows the link
//! of its name (`:target`), and all sections are printed.

mod machine;

use std::fmt::{self, Write as _};

use laggard_model::text::{Unit, count};

use crate::answers::{MachineMap, MapCell, WorstReport};

const STYLE: &str = include_str!("page.css");

/// Text from outside, for HTML. Control characters are escaped.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in laggard_model::printable(self.0).to_string().chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// Adds a table. The first head belongs to the column of names.
fn table(html: &mut String, heads: &[&str], rows: &[Vec<String>]) {
    *html += "<div class=wide tabindex=0><table><thead><tr>";
    for head in heads {
        *html += &format!("<th scope=col>{}</th>", Escaped(head));
    }
    *html += "</tr></thead><tbody>\n";
    for row in rows {
        *html += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            *html += &match column {
                0 => format!("<th scope=row>{}</th>", Escaped(cell)),
                _ => format!("<td>{}</td>", Escaped(cell)),
            };
        }
        *html += "</tr>\n";
    }
    *html += "</tbody></table></div>\n";
}

/// Returns the level of a cell: 0 without a late minute, otherwise according to the share of late
/// minutes.
fn level(cell: &MapCell) -> u8 {
    match (cell.late, cell.late as f64 / cell.minutes.max(1) as f64) {
        (0, _) => 0,
        (_, ..=0.05) => 1,
        (_, ..=0.2) => 2,
        (_, ..=0.5) => 3,
        (late, _) if late < cell.minutes => 4,
        _ => 5,
    }
}

const LEVELS: [&str; 6] = ["none", "to 5 %", "to 20 %", "to 50 %", "more", "all"];

/// Formats the start of an hour since 1970, UTC.
fn when(hour: i64) -> String {
    let start = jiff::Timestamp::from_second(hour * 3_600).unwrap_or_default();
    start.strftime("%Y-%m-%d %H:%M").to_string()
}

/// Describes a cell in words.
fn describe(map: &MachineMap, column: usize, cell: &MapCell) -> String {
    format!(
        "{}: {} of {} late, largest {}",
        when(map.first_h + map.step_h * column as i64),
        count(cell.late),
        minutes(cell.minutes),
        Unit::Auto.write_nanos(cell.largest_ns)
    )
}

fn minutes(number: u64) -> String {
    match number {
        1 => "1 minute".into(),
        more => format!("{} minutes", count(more)),
    }
}

/// Formats lines of an answer as on a terminal. Their names are already printable, and line breaks
/// are kept.
fn lines(text: &str) -> String {
    text.lines()
        .map(|line| format!("{}\n", Escaped(line)))
        .collect()
}

/// Builds the page.
pub fn page(worst: &WorstReport, map: &MachineMap) -> String {
    let title = format!("{} of {} machines", worst.service, count(worst.measured));
    let text = worst.text();
    // The recordings behind the answer, and the table.
    let (scope, figures) = text.split_once("\n\n").unwrap_or((&text, ""));
    let mut html = format!(
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n\
         <meta name=viewport content=\"width=device-width\">\n\
         <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>laggard-fleet: {0}</title>\n<style>\n{STYLE}</style>\n<main>\n<h1>{0}</h1>\n<pre>{1}</pre>\n",
        Escaped(&title),
        lines(scope),
    );
    if !map.machines.is_empty() {
        draw(&mut html, worst, map);
        html += "<div class=machines>\n";
        for (place, machine) in map.machines.iter().enumerate() {
            machine::part(&mut html, worst, map, place, machine);
        }
        html += &format!(
            "</div>\n<h2>In figures</h2>\n<pre>{}</pre>\n",
            lines(figures)
        );
    }
    html + "</main>\n</html>\n"
}

/// Draws the machines hour by hour.
fn draw(html: &mut String, worst: &WorstReport, map: &MachineMap) {
    let column = match map.step_h {
        1 => "an hour".into(),
        hours => format!("{hours} hours"),
    };
    *html += &format!(
        "<h2 id=map>Hour by hour</h2>\n<p>One row per machine, the worst first; a column is {column}, UTC. \
         Colour: share of the measured minutes with a wakeup later than {}. \
         Click a machine for its services, its worst hours and the causes.</p>\n<p class=legend>",
        Unit::Auto.write_nanos(worst.limit_ns)
    );
    for (level, words) in LEVELS.into_iter().enumerate() {
        *html += &format!("<span><i class=l{level}></i>{words}</span> ");
    }
    *html += "<span><i></i>not measured</span></p>\n\
              <div class=wide tabindex=0 role=region aria-labelledby=map><table class=map>\n<thead><tr><th></th>";
    let mut days: Vec<(String, usize)> = Vec::new();
    for column in 0..map.columns {
        let begin = when(map.first_h + map.step_h * column as i64);
        let day = begin[..begin.len().min(10)].to_owned();
        match days.last_mut() {
            Some((last, columns)) if *last == day => *columns += 1,
            _ => days.push((day, 1)),
        }
    }
    for (day, columns) in days {
        // If this day's label does not fit, the next day is labelled.
        let day = if columns < 6 { "" } else { &day };
        *html += &format!("<th colspan={columns} scope=colgroup>{day}</th>");
    }
    *html += "</tr></thead>\n<tbody>\n";
    for (place, (host, machine)) in worst.hosts.iter().zip(&map.machines).enumerate() {
        *html += &format!(
            "<tr><th scope=row><a href=\"#m{place}\">{}</a></th>",
            Escaped(&host.host)
        );
        for (column, cell) in machine.cells.iter().enumerate() {
            *html += &match cell {
                Some(cell) => format!(
                    "<td class=l{} title=\"{}\">",
                    level(cell),
                    describe(map, column, cell)
                ),
                None => "<td>".into(),
            };
        }
        *html += "</tr>\n";
    }
    *html += "</tbody></table></div>\n";
}

#[cfg(test)]
mod tests;
