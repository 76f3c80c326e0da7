//! Who made activations late, and what to do first, on the first screen.

use laggard_answer::overview::{First, Late, LateCause, Overview};
use laggard_answer::show::at_least;
use laggard_answer::why::RhythmRow;
use laggard_model::Nanos;
use laggard_model::name::service_words;
use laggard_model::text::{Unit, count};

use super::super::screen::{Room, Screen, Tone, cut, lines, width};
use super::{Look, Measure, NARROW};

/// A cause with less of the time is no part of the answer.
const LEAST: f64 = 0.01;

/// Who made activations late, and what to do first.
pub(super) fn late(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let mut screen = Screen::default();
    let Some(late) = &overview.late else {
        let text = match overview.is_explained {
            true => "Nothing was late enough to be kept with who caused it.",
            false => "Who made it late was not recorded; laggard doctor says whether it can be.",
        };
        screen.fill(text, (Tone::Plain, 0), look.room(measure.line, 2));
        return screen;
    };
    let head = head(late);
    let start = (Tone::Strong, head.chars().count());
    screen.fill(&head, start, look.room(measure.line, 2));
    let is_worth_a_line = |(at, cause): &(usize, &LateCause)| *at == 0 || cause.share >= LEAST;
    let causes = late.causes.iter().enumerate().filter(is_worth_a_line);
    let causes: Vec<&LateCause> = causes
        .map(|(_, cause)| cause)
        .take(measure.causes)
        .collect();
    screen.append(table(&causes, look));
    if let Some(first) = &overview.first {
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
    let times = causes
        .iter()
        .map(|cause| count(cause.times as u64).len())
        .max();
    let times = times.unwrap_or(0);
    let ends: Vec<String> = causes.iter().map(|cause| how_much(cause, times)).collect();
    let end = ends.iter().map(|end| width(end)).max().unwrap_or(0);
    let share = |cause: &LateCause| format!("{:>4.0} %  ", 100.0 * cause.share);
    if look.columns < NARROW {
        let indent = "   0 %  ".len();
        for (cause, end) in causes.iter().zip(ends) {
            let room = look.room(2, indent);
            let words = named(cause, 2 * look.columns.saturating_sub(indent));
            screen.fill(&(share(cause) + &words), (Tone::Plain, 0), room);
            screen.plain_line(cut(&format!("{:indent$}{end}", ""), look.columns));
        }
        return screen;
    }
    let words = look.columns.saturating_sub(end + 10);
    let texts: Vec<String> = causes.iter().map(|cause| named(cause, words)).collect();
    let widest = texts.iter().map(|text| width(text)).max().unwrap_or(0);
    for ((cause, text), end) in causes.iter().zip(texts).zip(ends) {
        let pad = " ".repeat(widest.saturating_sub(width(&text)));
        let line = format!("{}{text}{pad}  {end}", share(cause));
        screen.plain_line(cut(&line, look.columns));
    }
    screen
}

/// What to do, as much of it as leaves room for what is left then.
fn remedied(head: &str, first: &First, left: &str, room: Room) -> String {
    let what = lowered(&first.what);
    let said = |columns: usize| format!("{head} {} {left}", cut(&what, columns));
    let fits = |text: &String| lines(text, room.columns, room.indent) <= room.lines;
    // Words that are not parted leave some of it empty.
    let most = room.columns * room.lines - room.indent * (room.lines - 1);
    let most = most.saturating_sub(width(head) + width(left) + 2);
    let columns = (0..=width(&what).min(most)).rev();
    columns.map(said).find(fits).unwrap_or_else(|| said(0))
}

/// Who was made late, and how often.
pub(crate) fn head(late: &Late) -> String {
    let who = late.service.map(service_words);
    let activations = match (late.activations, late.surplus > 0) {
        (1, false) => "1 late activation".into(),
        (some, false) => format!("{} late activations", count(some as u64)),
        // There were too many to keep.
        (some, true) => format!("{} of the late activations", count(some as u64)),
    };
    format!(
        "Who made {} late ({activations}, {} in all)",
        who.map_or_else(|| "them".into(), |who| format!("the {who}")),
        Unit::Auto.write_nanos(late.total_ns)
    )
}

/// The largest that would be left without the cause that is spoken of.
fn without(first: &First, late: &Late) -> String {
    let write = |is_at_least, time| at_least(is_at_least, &Unit::Auto.write_nanos(time));
    let largest = write(late.largest_is_at_least, late.largest_ns);
    let left = write(first.largest_without_is_at_least, first.largest_without_ns);
    // What takes the most time need not be what made the largest.
    let then = if left == largest { "still" } else { "then" };
    // And the largest need not be among those that were kept.
    let which = if late.surplus > 0 { " of these" } else { "" };
    format!("The largest{which} would {then} be {left}.")
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

/// How often a cause came, and how long it took at most.
fn how_much(cause: &LateCause, times: usize) -> String {
    let largest = at_least(cause.is_at_least, &Unit::Auto.write_nanos(cause.largest_ns));
    format!(
        "{:>times$} x, up to {largest:>7}",
        count(cause.times as u64)
    )
}

/// A sentence that follows a colon.
fn lowered(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_lowercase);
    first.chain(letters).collect()
}
