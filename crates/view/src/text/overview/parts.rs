//! The parts of the first screen but for the verdict.

use laggard_answer::Trust;
use laggard_answer::forecast::{StaysBelow, percent};
use laggard_answer::overview::{First, Late, LateCause, LateService, NextHour, Overview};
use laggard_answer::show::{Share, at_least};
use laggard_model::name::service_words;
use laggard_model::text::{Unit, count, mean_time, rough_time, span};
use laggard_model::{Backend, Route, Service, State, printable};

use super::super::screen::{Screen, Tone, cut, width};
use super::{Look, Measure};

/// The widths of the table: names, and figures.
const NAME: usize = 20;
const FIGURE: usize = 12;
/// A load's name, or a command's, takes no more.
const LOAD: usize = 32;
/// A cause with less of the time is no part of the answer.
const LEAST: f64 = 0.01;
/// Reasons against a measurement that are told; others are counted.
const REASONS: usize = 2;

/// What speaks against all that follows.
pub(super) fn doubts(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let mut screen = Screen::default();
    let mut say = |head: &str, text: &str| {
        let start = (Tone::Bad, head.chars().count());
        screen.fill(&format!("{head}{text}"), start, look.room(measure.doubt, 2));
    };
    if overview.conditions.backend == Backend::Fake {
        say("NOT A MEASUREMENT:", " a script was played");
    }
    if let State::Failed { error } = &overview.conditions.state {
        say(
            "FAILED:",
            &format!(" {error}; what was recorded before is good"),
        );
    }
    if let Trust::None(reasons) = &overview.trust {
        for reason in reasons.iter().take(REASONS) {
            say("NOT TRUSTWORTHY:", &format!(" {reason}"));
        }
        if reasons.len() > REASONS {
            let more = reasons.len() - REASONS;
            let reasons = if more == 1 { "reason" } else { "reasons" };
            say(
                "",
                &format!("and {more} more {reasons}: laggard show --all"),
            );
        }
    }
    if let Some(waiting) = &overview.still_waiting {
        say(waiting, "");
    }
    screen
}

/// What the figures are of, in one line: as much of it as fits.
pub(super) fn conditions(overview: &Overview, look: Look) -> Screen {
    let of = &overview.conditions;
    let state = match &of.state {
        State::Complete | State::Failed { .. } => "",
        State::Running => " (no end: still running, or killed)",
        State::Interrupted => " (ended early, as asked)",
    };
    let load = match of.load.load() {
        Some(load) => format!(" under load {}", cut(load, LOAD)),
        None => ", no load of ours".into(),
    };
    let mut line = format!("{}{load}{state}", span(of.duration_ns));
    let cpus = match of.cpus {
        0 => String::new(),
        1 => "1 CPU".into(),
        several => format!("{several} CPUs"),
    };
    let kernel = match (of.kernel.as_str(), of.preemption.as_deref()) {
        ("", _) => String::new(),
        (kernel, None) => format!("Linux {kernel}"),
        (kernel, Some(model)) => format!("Linux {kernel} (preempt={model})"),
    };
    let guest = of.hypervisor.as_ref().map(|name| match name.as_str() {
        "kvm" => "KVM guest".to_owned(),
        name => format!("{name} guest"),
    });
    let backend = match of.backend {
        Backend::User => "without eBPF",
        Backend::Tracer => "by the timerlat tracer",
        Backend::Bpf | Backend::Fake => "",
    };
    let day = of.started.get(..16).unwrap_or_default().replace('T', " ");
    let parts = [
        cpus,
        backend.into(),
        kernel,
        guest.unwrap_or_default(),
        day,
        of.processor.clone(),
    ];
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let longer = format!("{line}, {}", printable(part));
        if width(&longer) <= look.columns {
            line = longer;
        }
    }
    let mut screen = Screen::default();
    screen.plain_line(cut(&line, look.columns));
    screen
}

/// Caveats that change how the rest is read.
pub(super) fn beware(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let mut screen = Screen::default();
    for caveat in overview.beware.iter().take(measure.beware) {
        let head = "Beware:";
        let text = format!("{head} {}; {}", caveat.what, caveat.advice);
        screen.fill(&text, (Tone::Open, head.len()), look.room(1, 0));
    }
    screen
}

/// How late each service is.
pub(super) fn services(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let mut screen = Screen::default();
    if overview.services.is_empty() {
        return screen;
    }
    let head = format!("{:NAME$}{}", "late by", heads(look));
    screen.push(vec![(Tone::Faint, head)]);
    // The one that the verdict is of is shown however little room there is.
    let mut shown: Vec<&LateService> = overview.services.iter().collect();
    let is_main = |one: &LateService| {
        let main = overview.subject;
        main.is_some_and(|main| (main.service, main.route) == (one.service, one.route))
    };
    while shown.len() > measure.services {
        let Some(last) = shown.iter().rposition(|one| !is_main(one)) else {
            break;
        };
        shown.remove(last);
    }
    for one in shown {
        let tone = match is_main(one) && overview.services.len() > 1 {
            true => Tone::Strong,
            false => Tone::Plain,
        };
        let line = format!(
            "{:NAME$}{}",
            name(one.service, one.route),
            figures(one, look)
        );
        screen.push(vec![(tone, cut(&line, look.columns))]);
    }
    screen
}

/// The figures of a service, as wide as their names.
pub(super) fn figures(one: &LateService, look: Look) -> String {
    let mut line = String::new();
    for share in [&one.median, &one.one_in_100, &one.one_in_1000] {
        line += &format!("{:>FIGURE$}", figure(share, look.unit));
    }
    let largest = one.largest_ns.map_or_else(
        || "-".into(),
        |ns| at_least(one.largest_is_at_least, &look.unit.write_nanos(ns)),
    );
    line += &format!("{largest:>FIGURE$}");
    if is_wide(look) {
        line += &format!("{:>FIGURE$}", count(one.samples));
    }
    line
}

/// The names of the figures.
pub(super) fn heads(look: Look) -> String {
    let names = ["median", "1 in 100", "1 in 1,000", "largest"];
    let mut head: String = names
        .iter()
        .map(|name| format!("{name:>FIGURE$}"))
        .collect();
    if is_wide(look) {
        head += &format!("{:>FIGURE$}", "activations");
    }
    head
}

/// Whether there is room for how many activations there were.
const fn is_wide(look: Look) -> bool {
    look.columns >= NAME + 5 * FIGURE + 20
}

pub(super) fn name(service: Service, route: Route) -> String {
    match (service.is_thread(), route) {
        (true, Route::Deferred) => format!("{}, deferred", service_words(service)),
        _ => service_words(service),
    }
}

/// A quantile; of one that is known between two times, the lower.
fn figure(share: &Share, unit: Unit) -> String {
    match share.low_ns {
        Some(low) if Some(low) != share.ns => at_least(true, &unit.write_nanos(low)),
        _ => share.write(unit),
    }
}

/// Who made activations late, and what to do first.
pub(super) fn late(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let mut screen = Screen::default();
    let Some(late) = &overview.late else {
        let text = match overview.is_explained {
            true => "Nothing was late enough to be kept with who caused it.",
            false => "Who made it late was not recorded; laggard doctor says whether it can be.",
        };
        screen.fill(text, (Tone::Plain, 0), look.room(1, 0));
        return screen;
    };
    let head = head(late);
    screen.fill(&head, (Tone::Strong, head.chars().count()), look.room(1, 0));
    let is_worth_a_line = |(at, cause): &(usize, &LateCause)| *at == 0 || cause.share >= LEAST;
    let causes = late.causes.iter().enumerate().filter(is_worth_a_line);
    let causes: Vec<&LateCause> = causes
        .map(|(_, cause)| cause)
        .take(measure.causes)
        .collect();
    let ends: Vec<String> = causes.iter().map(|cause| how_much(cause)).collect();
    let end = ends.iter().map(|end| width(end)).max().unwrap_or(0);
    let words = look.columns.saturating_sub(end + 10);
    let texts: Vec<String> = causes.iter().map(|cause| named(cause, words)).collect();
    let widest = texts.iter().map(|text| width(text)).max().unwrap_or(0);
    for ((cause, text), end_of) in causes.iter().zip(texts).zip(ends) {
        let pad = " ".repeat(widest.saturating_sub(width(&text)));
        let line = format!("{:>4.0} %  {text}{pad}  {end_of}", 100.0 * cause.share);
        screen.plain_line(cut(&line, look.columns));
    }
    if let Some(first) = &overview.first {
        let head = "Do first:";
        let text = format!("{head} {} {}", lowered(&first.what), without(first, late));
        screen.fill(
            &text,
            (Tone::Strong, head.len()),
            look.room(measure.first, 2),
        );
    }
    screen
}

fn head(late: &Late) -> String {
    let who = late.service.map(service_words);
    let activations = match late.activations {
        1 => "1 late activation".into(),
        more => format!("{} late activations", count(more as u64)),
    };
    let total = Unit::Auto.write_nanos(late.total_ns);
    format!(
        "Who made {} late ({activations}, {total} in all{})",
        who.map_or_else(|| "them".into(), |who| format!("the {who}")),
        if late.surplus > 0 {
            "; others were too many to keep"
        } else {
            ""
        }
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
        format!(", every {period}{}", rhythm.spell())
    });
    let columns = columns.saturating_sub(width(&rhythm));
    // What it did is told however long the name is.
    let end = format!(", {}", cause.how);
    match cause.words.strip_suffix(end.as_str()) {
        Some(who) => cut(who, columns.saturating_sub(width(&end))) + &end + &rhythm,
        None => cut(&cause.words, columns) + &rhythm,
    }
}

/// How often a cause came, and how long it took at most.
fn how_much(cause: &LateCause) -> String {
    let largest = at_least(cause.is_at_least, &Unit::Auto.write_nanos(cause.largest_ns));
    format!("{:>5} x, up to {largest:>7}", count(cause.times as u64))
}

/// A sentence that follows a colon.
fn lowered(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_lowercase);
    first.chain(letters).collect()
}

/// What an hour like this brings.
pub(super) fn next_hour(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let mut screen = Screen::default();
    let Some(hour) = &overview.next_hour else {
        return screen;
    };
    let ahead = &hour.ahead;
    let chance = percent(ahead.new_largest);
    let chance = match (ahead.is_at_least, ahead.is_at_most) {
        (true, false) if !chance.starts_with('>') => at_least(true, &chance),
        (false, true) => format!("at most {chance}"),
        (true, true) => format!("about {chance}"),
        _ => chance,
    };
    let (next, such) = horizon(hour);
    let head = format!("Next {next} like this:");
    let mut text = format!(
        "{head} {chance} chance of more than {}",
        Unit::Auto.write_nanos(hour.largest_ns)
    );
    let short = text.clone();
    let nine = ahead
        .stays_below
        .iter()
        .max_by(|a, b| a.share.total_cmp(&b.share));
    if let Some(nine) = nine {
        text += &format!("; {}", below(nine, such, ahead.is_at_least));
    }
    if measure.hour == 1 && width(&text) > look.columns {
        text = short;
    }
    screen.fill(
        &text,
        (Tone::Strong, head.len()),
        look.room(measure.hour, 2),
    );
    screen
}

/// What the chance is of: an hour, unless what happens lasts so long that
/// nothing is known of an hour.
fn horizon(hour: &NextHour) -> (String, &'static str) {
    let measured = 3.6e12 / hour.usage.compression.min(1.0);
    match hour.ahead.horizon_ns {
        long if long > measured * 1.001 => (mean_time(long), "times"),
        _ => ("hour".into(), "hours"),
    }
}

/// What most of such horizons stay below: as was seen, or as is assumed.
fn below(asked: &StaysBelow, such: &str, is_open: bool) -> String {
    let of_ten = (10.0 * asked.share).round();
    let write = |is_at_least, ns| at_least(is_at_least, &Unit::Auto.write(ns));
    let (seen, assumed) = (asked.record_ns, asked.assumed_record_ns);
    match (asked.bound_ns, asked.assumed_ns) {
        (Some(bound), _) => format!(
            "{of_ten} of 10 such {such} stay below {}",
            write(asked.is_at_least, bound)
        ),
        (None, Some(bound)) => format!(
            "assumed, not seen: {of_ten} of 10 such {such} stay below {}; record {} to see it",
            write(is_open, bound),
            rough_time(seen, 1)
        ),
        (None, None) => format!(
            "record {} for an assumed bound, {} for one that was seen",
            rough_time(assumed, 2),
            rough_time(seen, 1)
        ),
    }
}

/// The measurement itself, and where there is more.
pub(super) fn end(overview: &Overview, look: Look) -> Screen {
    let mut screen = Screen::default();
    let of = &overview.measurement;
    let cost = of.cost.map_or(String::new(), |cost| {
        let cpus = match overview.conditions.cpus {
            1 => "the CPU".into(),
            several => format!("the {several} CPUs"),
        };
        format!(", took {:.1} % of {cpus}", 100.0 * cost)
    });
    let caveats = match of.caveats {
        0 => String::new(),
        1 => "; 1 caveat: --all".into(),
        more => format!("; {more} caveats: --all"),
    };
    let lost = match of.activations + of.lost {
        0 => "no activation was recorded".into(),
        all => format!("{} of {} lost", count(of.lost), count(all)),
    };
    let text = format!("Measurement: {lost}{cost}{caveats}");
    screen.fill(&text, (Tone::Plain, 0), look.room(1, 0));
    let more = ": laggard why, forecast, qos, report, show --all";
    let path = cut(&overview.path, look.columns.saturating_sub(8 + width(more)));
    screen.push(vec![(Tone::Faint, format!("More of {path}{more}"))]);
    screen
}
