use laggard_model::Nanos;

use super::super::Notes;
use super::*;
use crate::doc::Reason;

fn look(columns: usize) -> Look {
    Look {
        columns,
        ..Look::default()
    }
}

fn plain(blocks: Vec<Block>, columns: usize) -> String {
    let document = Document {
        title: "Title".into(),
        blocks,
    };
    terminal(&document, look(columns)).plain()
}

fn latencies() -> Table {
    let columns = [
        Column::name("Latency"),
        Column::number("samples"),
        Column::number("median"),
        Column::number("p99").starting_part(),
        Column::number("max"),
    ];
    let mut table = Table::new(columns);
    let time = |us| Cell::Time(Nanos::from_us(us));
    table.row([
        "timer IRQ".into(),
        Cell::Count(60_000),
        time(1),
        time(9),
        time(20_000),
    ]);
    table.row([
        "SCHED_FIFO 90".into(),
        Cell::Count(100),
        time(7),
        Cell::Unknown(Reason::TooFewSamples),
        time(8),
    ]);
    table.note("p99 needs 1,000 samples.");
    table
}

fn tests() -> Table {
    let columns = [
        Column::name("test"),
        Column::name("verdict"),
        Column::sentence("result"),
        Column::number("runs"),
    ];
    let mut table = Table::new(columns).keys(2);
    table.row([
        "order".into(),
        Cell::Status(Tone::Bad, "FAIL".into()),
        "a condition variable woke `fifo:47` before `fifo:48` in 2,713 of 8,000 wakeups".into(),
        Cell::Count(1_000),
    ]);
    table
}

#[test]
fn columns_of_sentences_share_the_width() {
    let columns = [
        Column::name("verdict"),
        Column::sentence("requirement"),
        Column::sentence("observed"),
    ];
    let mut table = Table::new(columns);
    table.row([
        "FAIL".into(),
        "at most 1 run per 7 days later than 2ms".into(),
        "1 run per 3.0 s (2.1 s to 4.5 s) on CPU 3, the worst".into(),
    ]);

    assert_eq!(
        plain(vec![Block::Table(table)], 70),
        "\
verdict  requirement                    observed
FAIL     at most 1 run per 7 days       1 run per 3.0 s (2.1 s to
         later than 2ms                 4.5 s) on CPU 3, the worst
"
    );
}

#[test]
fn blocks_are_apart_and_what_belongs_together_is_not() {
    let verdict = |tone, word: &str, text: &str| Verdict {
        tone,
        word: word.into(),
        text: text.into(),
    };
    let text = plain(
        vec![
            Block::Heading("Application fit".into()),
            Block::Verdicts(vec![
                verdict(
                    Tone::Bad,
                    "NOT FIT",
                    "JACK 256 x 2: 1 xrun per 1.4 s to 10 min",
                ),
                verdict(Tone::Good, "FIT", "sdr"),
            ]),
            Block::Detail("Holds for this load only.".into()),
            Block::Paragraph("One fact per line.".into()),
            Block::Lines(vec![
                "Data: 165,069 samples".into(),
                "Next: `laggard why`".into(),
            ]),
            Block::Notes(Notes {
                title: "Warnings".into(),
                notes: vec!["the machine is a virtual machine".into()],
            }),
        ],
        40,
    );

    assert_eq!(
        text,
        "\
Application fit
NOT FIT  JACK 256 x 2: 1 xrun per 1.4 s
         to 10 min
FIT      sdr
  Holds for this load only.

One fact per line.

Data: 165,069 samples
Next: `laggard why`

Warnings:
  - the machine is a virtual machine
"
    );
}

#[test]
fn numbers_are_aligned_to_the_right_and_notes_follow_their_table() {
    assert_eq!(
        plain(vec![Block::Table(latencies())], 80),
        "\
Latency        samples   median      p99      max
timer IRQ       60,000  1.00 us  9.00 us  20.0 ms
SCHED_FIFO 90      100  7.00 us        -  8.00 us
p99 needs 1,000 samples.
"
    );
}

#[test]
fn a_wide_table_is_split_at_the_best_column_and_each_part_names_its_rows() {
    assert_eq!(
        plain(vec![Block::Table(latencies())], 40),
        "\
Latency        samples   median
timer IRQ       60,000  1.00 us
SCHED_FIFO 90      100  7.00 us

Latency            p99      max
timer IRQ      9.00 us  20.0 ms
SCHED_FIFO 90        -  8.00 us
p99 needs 1,000 samples.
"
    );
}

#[test]
fn a_sentence_wraps_in_its_column() {
    assert_eq!(
        plain(vec![Block::Table(tests())], 55),
        "\
test   verdict  result                             runs
order  FAIL     a condition variable woke         1,000
                `fifo:47` before `fifo:48` in
                2,713 of 8,000 wakeups
"
    );
}

#[test]
fn only_the_verdict_of_a_row_has_its_colour() {
    let document = Document {
        title: String::new(),
        blocks: vec![Block::Table(tests())],
    };

    let text = terminal(&document, look(80)).coloured();

    assert!(
        text.contains("order  \u{1b}[1;31mFAIL\u{1b}[0m     a condition"),
        "{text}"
    );
    assert_eq!(text.matches('\u{1b}').count(), 2, "{text}");
}

#[test]
fn no_line_is_wider_than_the_terminal_and_nothing_is_cut() {
    let name = "a-name-without-an-end".repeat(5);
    let mut table = tests();
    table.row([
        name.as_str().into(),
        Cell::Status(Tone::Open, "UNKNOWN".into()),
        "many words ".repeat(20).into(),
    ]);
    let blocks = vec![Block::Table(table), Block::Table(latencies())];
    let letters = |text: &str| {
        text.matches(|letter: char| letter.is_alphanumeric())
            .count()
    };

    for columns in 40..130 {
        let text = plain(blocks.clone(), columns);

        for line in text.lines() {
            assert!(line.width() <= columns, "{columns}: {line}");
        }
        assert!(letters(&text) >= letters(&name) + 180, "{text}");
    }
}

#[test]
fn names_stay_names() {
    let text = plain(
        vec![
            Block::Lines(vec!["::error::a".into(), "b\u{1b}[2J\n::error::c".into()]),
            Block::List(vec!["words ::error::d".into()]),
        ],
        14,
    );

    assert!(!text.contains('\u{1b}'), "{text}");
    let starts = |line: &str| line.trim_start().starts_with("::");
    assert!(!text.lines().any(starts), "{text}");
    assert!(text.starts_with("\\x3a:error::a\nb\\x1b[2J"), "{text}");
}

#[test]
fn path_of_a_function_breaks_after_its_colons() {
    for columns in 12..40 {
        let lines = wrapped(
            "core::ops::function::FnOnce::call_once",
            columns,
            "",
            "",
            true,
        );

        assert_eq!(lines.concat(), "core::ops::function::FnOnce::call_once");
    }
}
