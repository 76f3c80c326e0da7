//! Documents for a terminal of a known width.

use laggard_model::printable;
use textwrap::core::Word;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};
use unicode_width::UnicodeWidthStr as _;

use super::{Block, Cell, Column, ColumnKind, Document, Table, Verdict};
use crate::text::{Look, Screen, Tone, unbroken_words};

/// Columns between two columns of a table.
const GAP: usize = 2;
/// Width below which a column is not reduced.
const MIN_COLUMN: usize = 8;
/// Width below which a column of sentences is moved to a part of its own.
const MIN_SENTENCE: usize = 24;
/// Width that the columns that identify a row may take in any case.
const MIN_KEYS: usize = 24;
const BULLET: &str = "  - ";

/// Renders a document as a screen, which can be printed with or without colours.
///
/// No line is wider than the terminal, except for a word that cannot be broken (a
/// path) in a text outside of tables.
pub fn terminal(document: &Document, look: Look) -> Screen {
    let mut writer = Writer {
        screen: Screen::default(),
        look,
    };
    let mut previous = None;
    for block in &document.blocks {
        if previous.is_some_and(|previous| is_apart(previous, block)) {
            writer.screen.gap();
        }
        writer.block(block);
        previous = Some(block);
    }
    writer.screen
}

/// Returns whether an empty line separates the two blocks.
const fn is_apart(first: &Block, second: &Block) -> bool {
    !matches!(first, Block::Heading(_)) && !matches!(second, Block::Detail(_) | Block::Figure(_))
}

struct Writer {
    screen: Screen,
    look: Look,
}

impl Writer {
    fn block(&mut self, block: &Block) {
        match block {
            Block::Heading(text) => self.text("", "", Tone::Strong, text),
            Block::Verdicts(verdicts) => self.verdicts(verdicts),
            Block::Paragraph(text) => self.text("", "", Tone::Plain, text),
            Block::Detail(text) => self.text("  ", "  ", Tone::Plain, text),
            Block::Lines(lines) => {
                for line in lines {
                    self.text("", "  ", Tone::Plain, line);
                }
            }
            Block::List(items) => self.list(items),
            Block::Preformatted(lines) => self.preformatted(lines),
            Block::Table(table) => self.table(table),
            Block::Notes(notes) => {
                self.text("", "", Tone::Open, &format!("{}:", notes.title));
                self.list(&notes.notes);
            }
            Block::Figure(_) => {}
        }
    }

    /// Writes lines as they are, or a note if the terminal is too narrow for them.
    fn preformatted(&mut self, lines: &[String]) {
        let widest = lines.iter().map(|line| width(line)).max();
        let widest = widest.unwrap_or_default();
        if widest > self.look.columns {
            let note = format!("(needs {widest} columns)");
            return self.text("", "", Tone::Faint, &note);
        }
        for line in lines {
            let line = not_a_command(printable(line).to_string());
            self.screen.push(vec![(Tone::Plain, line)]);
        }
    }

    fn list(&mut self, items: &[String]) {
        for item in items {
            self.text(BULLET, "    ", Tone::Plain, item);
        }
    }

    fn text(&mut self, first: &str, rest: &str, tone: Tone, text: &str) {
        for line in wrapped(text, self.look.columns, first, rest, false) {
            self.screen.push(vec![(tone, line)]);
        }
    }

    /// Writes the words of the verdicts in one column and the texts in the next.
    fn verdicts(&mut self, verdicts: &[Verdict]) {
        let widest = verdicts.iter().map(|verdict| width(&verdict.word)).max();
        let indent = widest.unwrap_or_default() + GAP;
        let blank = " ".repeat(indent);
        for verdict in verdicts {
            let lines = wrapped(&verdict.text, self.look.columns, &blank, &blank, false);
            for (at, line) in lines.into_iter().enumerate() {
                if at > 0 {
                    self.screen.push(vec![(Tone::Plain, line)]);
                    continue;
                }
                let word = printable(&verdict.word).to_string();
                let rest = format!("{}{}", " ".repeat(indent - word.width()), line.trim_start());
                self.screen
                    .push(vec![(verdict.tone, word), (Tone::Plain, rest)]);
            }
        }
    }

    fn table(&mut self, table: &Table) {
        if let Some(caption) = &table.caption {
            self.text("", "", Tone::Plain, caption);
        }
        let layout = Layout::new(table, self.look);
        for (at, part) in layout.parts(table).iter().enumerate() {
            if at > 0 {
                self.screen.gap();
            }
            let header = table.columns.iter();
            let header: Vec<Cell> = header.map(|column| column.name.as_str().into()).collect();
            let has_names = table.columns.iter().any(|column| !column.name.is_empty());
            for row in std::iter::once(&header)
                .filter(|_| has_names)
                .chain(&table.rows)
            {
                self.row(table, row, part, &layout.widths);
            }
        }
        for note in &table.notes {
            self.text("", "  ", Tone::Plain, note);
        }
    }

    /// Writes the cells of one part of a row, on as many lines as the longest cell takes.
    fn row(&mut self, table: &Table, row: &[Cell], part: &[usize], widths: &[usize]) {
        let cells: Vec<Vec<String>> = part
            .iter()
            .map(|&at| {
                let text = row[at].text(self.look.unit);
                wrapped(&text, widths[at], "", "", true)
            })
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or_default();
        for line in 0..height {
            let mut pieces = Vec::new();
            let mut blank = 0;
            for (cell, &at) in cells.iter().zip(part) {
                let text = cell.get(line).map_or("", String::as_str);
                let rest = widths[at].saturating_sub(text.width());
                let (before, after) = match table.columns[at].kind {
                    ColumnKind::Number => (rest, 0),
                    ColumnKind::Name | ColumnKind::Sentence => (0, rest),
                };
                if !text.is_empty() {
                    pieces.push((Tone::Plain, " ".repeat(blank + before)));
                    pieces.push((row[at].tone(), text.to_owned()));
                    blank = after + GAP;
                } else {
                    blank += rest + GAP;
                }
            }
            self.screen.push(joined(pieces));
        }
    }
}

/// Joins neighbours of the same tone.
fn joined(pieces: Vec<(Tone, String)>) -> Vec<(Tone, String)> {
    let mut line: Vec<(Tone, String)> = Vec::new();
    for (tone, text) in pieces {
        match line.last_mut() {
            Some((last, all)) if *last == tone => *all += &text,
            Some(_) | None => {
                if !text.is_empty() {
                    line.push((tone, text));
                }
            }
        }
    }
    line
}

/// Widths of the columns of a table.
struct Layout {
    widths: Vec<usize>,
    columns: usize,
}

impl Layout {
    fn new(table: &Table, look: Look) -> Self {
        let natural = |index: usize, column: &Column| {
            let cells = table
                .rows
                .iter()
                .map(|row| width(&row[index].text(look.unit)));
            cells.chain([width(&column.name)]).max().unwrap_or_default()
        };
        let mut widths: Vec<usize> = table
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| natural(at, column))
            .collect();
        if total(&widths) <= look.columns {
            return Self {
                widths,
                columns: look.columns,
            };
        }
        if let Some(widths) = with_shorter_sentences(&widths, table, look.columns) {
            return Self {
                widths,
                columns: look.columns,
            };
        }
        limit(&mut widths, table.keys, look.columns);
        Self {
            widths,
            columns: look.columns,
        }
    }

    /// Returns the columns of each part. Each part has the columns that identify a row.
    fn parts(&self, table: &Table) -> Vec<Vec<usize>> {
        let keys: Vec<usize> = (0..table.keys).collect();
        let of_keys: usize = keys.iter().map(|index| self.widths[*index] + GAP).sum();
        let room = (self.columns + GAP).saturating_sub(of_keys);
        let takes = |index: &usize| self.widths[*index] + GAP;
        let rest: Vec<usize> = (table.keys..table.columns.len()).collect();
        let mut parts = vec![keys.clone()];
        let mut free = room;
        for group in rest.chunk_by(|_, next| !table.columns[*next].starts_part) {
            let together: usize = group.iter().map(takes).sum();
            for (at, column) in group.iter().enumerate() {
                let needed = match at {
                    0 => together.min(room),
                    _ => takes(column),
                };
                let part = parts.last().map_or(0, Vec::len);
                if needed > free && part > keys.len() {
                    parts.push(keys.clone());
                    free = room;
                }
                if let Some(part) = parts.last_mut() {
                    part.push(*column);
                }
                free = free.saturating_sub(takes(column));
            }
        }
        parts
    }
}

/// Width of a line with all columns.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Reduces the widths of columns of sentences so that a line holds all columns, and the
/// longer sentences share what the others leave. `None` if sentences would be too narrow.
fn with_shorter_sentences(widths: &[usize], table: &Table, columns: usize) -> Option<Vec<usize>> {
    let is_sentence = |index: &usize| table.columns[*index].kind == ColumnKind::Sentence;
    let mut sentences: Vec<usize> = (0..widths.len()).filter(is_sentence).collect();
    sentences.sort_by_key(|index| widths[*index]);
    let others = total(widths) - sentences.iter().map(|index| widths[*index]).sum::<usize>();
    let mut rest = columns.saturating_sub(others);
    let mut widths = widths.to_vec();
    for (done, at) in sentences.iter().enumerate() {
        let share = rest / (sentences.len() - done);
        if widths[*at] > share && share < MIN_SENTENCE {
            return None;
        }
        widths[*at] = widths[*at].min(share);
        rest -= widths[*at];
    }
    (!sentences.is_empty()).then_some(widths)
}

/// Reduces the widths so that the columns that identify a row and any other column fit on
/// a line.
fn limit(widths: &mut [usize], keys: usize, columns: usize) {
    let (keys, others) = widths.split_at_mut(keys);
    let room = if others.is_empty() {
        columns
    } else {
        (columns / 2).max(MIN_KEYS)
    };
    if let Some((first, more)) = keys.split_first_mut() {
        let more: usize = more.iter().map(|width| width + GAP).sum();
        *first = (*first).min(room.saturating_sub(more).max(MIN_COLUMN));
    }
    let of_keys: usize = keys.iter().map(|width| width + GAP).sum();
    for other in others {
        *other = (*other).min(columns.saturating_sub(of_keys).max(MIN_COLUMN));
    }
}

fn width(text: &str) -> usize {
    printable(text).to_string().width()
}

const NO_BREAK: char = '\u{a0}';

/// Returns the text with commands that fit on a line in one piece, so that a user can copy
/// them.
fn unbroken_code(text: &str, columns: usize) -> String {
    let part = |(part, is_code): (&str, bool)| {
        if !is_code {
            part.to_owned()
        } else if width(part) + 2 > columns {
            format!("`{part}`")
        } else {
            format!("`{}`", part.replace(' ', &NO_BREAK.to_string()))
        }
    };
    super::parts(text).into_iter().map(part).collect()
}

/// Breaks text into lines between words, but not within a command or between a number and
/// its unit.
fn wrapped(text: &str, columns: usize, first: &str, rest: &str, breaks_words: bool) -> Vec<String> {
    let text = printable(text).to_string();
    let text = if breaks_words {
        text
    } else {
        unbroken_code(&text, columns.saturating_sub(rest.width()))
    };
    let text: Vec<String> = unbroken_words(&text)
        .into_iter()
        .map(|word| word.replace(' ', &NO_BREAK.to_string()))
        .collect();
    let options = Options::new(columns)
        .initial_indent(first)
        .subsequent_indent(rest)
        .word_separator(if breaks_words {
            WordSeparator::Custom(words_and_path_parts)
        } else {
            WordSeparator::AsciiSpace
        })
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
        .break_words(breaks_words);
    textwrap::wrap(&text.join(" "), options)
        .into_iter()
        .map(|line| not_a_command(line.replace(NO_BREAK, " ")))
        .collect()
}

/// Splits a line after spaces, and after `::` in the path of a function, so that no line starts
/// with it.
fn words_and_path_parts(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    let words = line.split_inclusive(' ');
    Box::new(
        words
            .flat_map(|word| word.split_inclusive("::"))
            .map(Word::from),
    )
}

/// Systems that run builds execute a line that starts with `::` (GitHub Actions), even
/// after spaces. A name from the measured system must not become such a line.
fn not_a_command(line: String) -> String {
    match line.trim_start().strip_prefix("::") {
        Some(rest) => {
            let spaces = &line[..line.len() - rest.len() - 2];
            format!("{spaces}\\x3a:{rest}")
        }
        None => line,
    }
}

#[cfg(test)]
mod tests;
