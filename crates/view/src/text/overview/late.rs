//! Who made activations late, and what to do first, on the first screen.

use laggard_answer::overview::{First, Late, LateCause, Overview};
use laggard_answer::show::at_least;
use laggard_answer::why::RhythmRow;
use laggard_model::text::{Unit, count};
use laggard_model::{CauseClass, Nanos};

use super::super::screen::{Room, Screen, Tone, cut, lines, width};
use super::parts::name;
use super::sentence::{Said, sentences};
use super::{Look, Measure, NARROW};

/// A cause with less of the time is no part of the answer.
const LEAST: f64 = 0.01;
/// The columns of a cause's share of the time, and what parts columns.
const SHARE: usize = " 100 %".len();
const GAP: &str = "  ";

/// Who made activations late, and what to do first.
pub(super) fn late(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let mut screen = heading(overview, look, measure);
    screen.append(table(&causes(overview, measure), look));
    screen.append(untraced(overview, look));
    screen.append(first(overview, look, measure));
    screen
}

/// The same one by one, where nothing is cut and no column is kept.
pub(super) fn said(overview: &Overview, look: Look, measure: Measure) -> Vec<Said> {
    let causes = causes(overview, measure);
    let heading = sentences(&heading(overview, look, measure)).into_iter();
    let rows = causes
        .iter()
        .map(|cause| Said::plain(Row::of(cause).said(&named(cause, usize::MAX))));
    let untraced = sentences(&untraced(overview, look)).into_iter();
    let first = sentences(&first(overview, look, measure));
    heading.chain(rows).chain(untraced).chain(first).collect()
}

fn heading(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let mut screen = Screen::default();
    let room = look.room(measure.line, 2);
    match (&overview.late, overview.is_explained) {
        (Some(late), _) => {
            let head = head(late, overview.threshold_ns);
            screen.fill(&head, (Tone::Strong, head.chars().count()), room);
        }
        (None, true) => {
            let above = overview.threshold_ns.map_or_else(String::new, above);
            let text = format!("No late wakeup{above} was kept with its cause.");
            screen.fill(&text, (Tone::Plain, 0), room);
        }
        (None, false) => {
            let text = "Who made it late was not recorded; laggard doctor says whether it can be.";
            screen.fill(text, (Tone::Plain, 0), room);
        }
    }
    screen
}

/// The causes that have a line.
fn causes(overview: &Overview, measure: Measure) -> Vec<&LateCause> {
    let all = overview.late.iter().flat_map(|late| &late.causes);
    let is_worth_a_line = |(at, cause): &(usize, &LateCause)| *at == 0 || cause.share >= LEAST;
    let causes = all.enumerate().filter(is_worth_a_line);
    causes
        .map(|(_, cause)| cause)
        .take(measure.causes)
        .collect()
}

/// Causes that have no line.
pub(super) fn causes_left_out(overview: &Overview, measure: Measure) -> usize {
    let late = overview.late.as_ref();
    let all = late.map_or(0, |late| late.causes.len() + late.more_causes);
    all - causes(overview, measure).len()
}

/// Late wakeups without trace data.
fn untraced(overview: &Overview, look: Look) -> Screen {
    let mut screen = Screen::default();
    let Some(late) = &overview.late else {
        return screen;
    };
    let line = |text: &str| cut(text, look.columns);
    if let Some(untraced) = &late.untraced {
        let share = format!("{:.0} %", 100.0 * untraced.share);
        let wakeups = count(untraced.wakeups);
        screen.plain_line(line(&format!(
            "{share:>SHARE$}{GAP}no trace data, {wakeups} wakeups, {}",
            Unit::Auto.write_nanos(untraced.total_ns)
        )));
    }
    screen
}

fn first(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let mut screen = Screen::default();
    if let (Some(first), Some(late)) = (&overview.first, &overview.late) {
        let head = "Do first:";
        let room = look.room(measure.first, 2);
        let text = remedied(head, first, &without(first, late), room);
        screen.fill(&text, (Tone::Strong, head.len()), room);
    }
    screen
}

/// A line for each cause, or a few where one has no room for all of it.
fn table(causes: &[&LateCause], look: Look) -> Screen {
    let mut screen = Screen::default();
    let rows: Vec<Row> = causes.iter().map(|cause| Row::of(cause)).collect();
    let times = widest(rows.iter().map(|row| &row.times));
    let largest = widest(rows.iter().map(|row| &row.largest));
    if look.columns < NARROW {
        for (cause, row) in causes.iter().zip(rows) {
            let room = look.room(2, SHARE + GAP.len());
            let share = format!("{:>SHARE$}{GAP}", row.share);
            let text = longest(room, |columns| share.clone() + &named(cause, columns));
            screen.fill(&text, (Tone::Plain, 0), room);
            let (indent, end) = (room.indent, row.how_much(times, largest));
            screen.plain_line(cut(&format!("{:indent$}{end}", ""), look.columns));
        }
        return screen;
    }
    let taken = SHARE + times + 1 + largest + 2 * GAP.len();
    let room = look.columns.saturating_sub(taken);
    let text = |cause: &&LateCause| cut(&named(cause, room), room);
    let texts: Vec<String> = causes.iter().map(text).collect();
    let wide = widest(&texts);
    for (text, row) in texts.into_iter().zip(rows) {
        let pad = " ".repeat(wide - width(&text));
        let end = row.how_much(times, largest);
        screen.plain_line(format!("{:>SHARE$}{GAP}{text}{pad}{GAP}{end}", row.share));
    }
    screen
}

/// What is told of a cause beside who it was.
struct Row {
    share: String,
    times: String,
    largest: String,
}

impl Row {
    fn of(cause: &LateCause) -> Self {
        let largest = at_least(cause.is_at_least, &Unit::Auto.write_nanos(cause.largest_ns));
        Self {
            share: format!("{:.0} %", 100.0 * cause.share),
            times: format!("{} x, up to", count(cause.times)),
            largest,
        }
    }

    /// How often it came, and how long it took at most.
    fn how_much(&self, times: usize, largest: usize) -> String {
        format!("{:>times$} {:>largest$}", self.times, self.largest)
    }

    /// As a sentence of which `words` are the cause.
    fn said(&self, words: &str) -> String {
        format!("{}, {words}, {} {}", self.share, self.times, self.largest)
    }
}

/// What to do, as much of it as leaves room for what is left then.
fn remedied(head: &str, first: &First, left: &str, room: Room) -> String {
    let what = lowered(&first.what);
    longest(room, |columns| {
        format!("{head} {} {left}", cut(&what, columns))
    })
}

/// The longest of what `said` makes of so many columns for which there is room.
fn longest(room: Room, said: impl Fn(usize) -> String) -> String {
    let fits = |text: &String| lines(text, room.columns, room.indent) <= room.lines;
    let most = (0..=room.columns * room.lines).rev();
    most.map(&said).find(fits).unwrap_or_else(|| said(0))
}

fn widest<'a>(texts: impl IntoIterator<Item = &'a String>) -> usize {
    let widths = texts.into_iter().map(|text| width(text));
    widths.max().unwrap_or(0)
}

/// Who was made late, and how often.
pub(crate) fn head(late: &Late, threshold: Option<(Nanos, Nanos)>) -> String {
    let who = late.service.zip(late.route);
    let who = who.map(|(service, route)| name(service, route));
    let wakeups = match late.wakeups {
        1 => "1 wakeup".into(),
        more => format!("{} wakeups", count(more)),
    };
    format!(
        "Who made {} late ({wakeups}{}, {})",
        who.map_or_else(|| "them".into(), |who| format!("the {who}")),
        threshold.map_or_else(String::new, above),
        Unit::Auto.write_nanos(late.total_ns)
    )
}

/// The latency threshold, or those of the lines.
fn above((least, most): (Nanos, Nanos)) -> String {
    let write = |time| Unit::Auto.write_nanos(time);
    if least == most {
        format!(" above {}", write(least))
    } else {
        format!(" above {}-{}", write(least), write(most))
    }
}

/// The largest that would be left without the cause that is spoken of.
fn without(first: &First, late: &Late) -> String {
    let write = |is_at_least, time| at_least(is_at_least, &Unit::Auto.write_nanos(time));
    let largest = write(late.largest_is_at_least, late.largest_ns);
    let left = write(first.largest_without_is_at_least, first.largest_without_ns);
    // What takes the most time need not be what made the largest.
    let is_other = left == largest;
    // And the largest need not be among those that were kept.
    let which = if late.untraced.is_some() {
        " of these"
    } else {
        ""
    };
    // To look takes no time away.
    let (without, then) = match (first.class == CauseClass::Unexplained, is_other) {
        (true, true) => ("Without that time the", " still"),
        (true, false) => ("Without that time the", ""),
        (false, true) => ("The", " still"),
        (false, false) => ("The", " then"),
    };
    format!("{without} largest{which} would{then} be {left}.")
}

/// A cause, and how it comes again and again.
fn named(cause: &LateCause, columns: usize) -> String {
    let rhythm = cause.rhythm.as_ref().map_or(String::new(), |rhythm| {
        let period = Unit::Auto.write_nanos(rhythm.period_ns);
        format!(", every {period}{}", spell(rhythm))
    });
    let columns = columns.saturating_sub(width(&rhythm));
    // What it did is told however long the name is.
    let end = format!(", {}", cause.how);
    match cause.named_first() {
        Some(who) => cut(who, columns.saturating_sub(width(&end))) + &end + &rhythm,
        None => cut(&cause.words, columns) + &rhythm,
    }
}

/// From when to when a rhythm was there, where it was not there throughout.
fn spell(rhythm: &RhythmRow) -> String {
    let tenths = |time: Nanos| time.as_secs_f64() * 10.0;
    let from = rhythm.none_before_ns.map(|at| tenths(at).floor() / 10.0);
    let to = rhythm.none_after_ns.map(|at| tenths(at).ceil() / 10.0);
    match (from, to) {
        (None, None) => String::new(),
        (Some(from), None) => format!(" from {from:.1} s on"),
        (None, Some(to)) => format!(" until {to:.1} s"),
        (Some(from), Some(to)) => format!(" from {from:.1} s to {to:.1} s"),
    }
}

/// A sentence that follows a colon.
fn lowered(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_lowercase);
    first.chain(letters).collect()
}
