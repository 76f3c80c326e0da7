//! Whether the machine serves an application, in a sentence or a few.

use laggard_answer::overview::{Enough, Fit, Overview};
use laggard_answer::qos::{Fitness, MissFigures};
use laggard_model::Service;
use laggard_model::text::{Unit, mean_time, rough_time};

use super::super::screen::{Room, Screen, Tone, width};
use super::parts::name;
use super::{Look, Measure};

/// A family of applications with fewer members in a group is named one by one.
const FAMILY: usize = 3;

/// The verdict on the application that was asked about, or those on the
/// applications of the catalogue.
pub(super) fn verdicts(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let mut screen = Screen::default();
    if let Some(why) = &overview.unanswered {
        let head = "NO ANSWER:";
        let room = look.room(measure.verdict, 2);
        screen.fill(&format!("{head} {why}"), (Tone::Bad, head.len()), room);
    }
    match overview.fits.as_slice() {
        [only] => one(only, &mut screen, look.room(measure.verdict, 2)),
        several => {
            for group in groups(several).iter().take(measure.verdicts) {
                of_group(group, several, &mut screen, look.room(measure.verdict, 2));
            }
        }
    }
    screen
}

const fn tone(verdict: Fitness) -> Tone {
    match verdict {
        Fitness::Fit => Tone::Good,
        Fitness::NotFit => Tone::Bad,
        Fitness::Undecided => Tone::Open,
    }
}

fn one(fit: &Fit, screen: &mut Screen, room: Room) {
    let (verdict, tone) = (fit.verdict.words(), tone(fit.verdict));
    let head = format!("{verdict} for {}", fit.application.name);
    let text = format!(
        "{head}: {} ({}, slack {})",
        dropouts(fit),
        name(fit.service, fit.route),
        Unit::Auto.write_nanos(fit.application.slack_ns),
    );
    screen.fill(&text, (tone, width(&head)), room);
    if let Some(next) = what_then(fit) {
        screen.fill(&format!("  {next}"), (Tone::Plain, 0), room);
    }
}

/// What would decide, or what would do.
fn what_then(fit: &Fit) -> Option<String> {
    match fit.verdict {
        Fitness::Fit => None,
        Fitness::NotFit => Some(enough(fit)),
        Fitness::Undecided => fit
            .decided_by_ns
            .map(decided)
            .or_else(|| fit.coarse.as_ref().map(ToString::to_string)),
    }
}

fn enough(fit: &Fit) -> String {
    let length = Unit::Auto.write_nanos(fit.application.buffer_ns);
    match fit.enough {
        Some(Enough {
            buffers,
            is_sure: true,
        }) => format!("{buffers} buffers of {length} are enough for one dropout an hour at most"),
        Some(Enough { buffers, .. }) => format!(
            "by the estimate {buffers} buffers of {length} are enough for one dropout an hour; \
             not proved"
        ),
        None => "how many buffers of that length are enough is not known: laggard qos".into(),
    }
}

fn decided(ns: f64) -> String {
    format!(
        "{} without one shows that there is one an hour at most",
        mean_time(ns)
    )
}

/// How often buffers run dry.
fn dropouts(fit: &Fit) -> String {
    let figures = &fit.figures;
    let time = |ns: f64| rough_time(ns, 2);
    let least = time(figures.mttf_low_ns);
    let high = figures.mttf_high_ns.map(time);
    match (figures.mttf_ns, fit.waited_ns, high) {
        (Some(mttf), None, high) => format!(
            "a dropout every {} [{least}, {}]",
            time(mttf),
            high.unwrap_or_else(|| "-".into())
        ),
        (Some(mttf), Some(_), _) => format!("a dropout every {} or more often", time(mttf)),
        (None, _, Some(high)) => format!("a dropout every {least} to {high}"),
        (None, Some(_), None) => "it was still waiting when measuring ended".into(),
        (None, None, None) if is_none(figures) => {
            format!("no dropout seen, so at most one every {least}")
        }
        (None, None, None) => format!("at most a dropout every {least}"),
    }
}

/// Whether there is one for sure.
fn is_any(figures: &MissFigures) -> bool {
    figures.mttf_ns.is_some() || figures.mttf_high_ns.is_some()
}

fn is_none(figures: &MissFigures) -> bool {
    figures.failures == Some(0.0)
}

/// Applications of which the same is said.
struct Group<'a> {
    kind: Kind,
    /// Whether normal threads run them.
    are_normal: bool,
    fits: Vec<&'a Fit>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    NotFit,
    /// Something was seen, or too little could be.
    Open,
    /// Nothing was seen, for too short a time.
    NoneSeen,
    Fit,
}

fn groups(all: &[Fit]) -> Vec<Group<'_>> {
    let kinds = [Kind::NotFit, Kind::Open, Kind::NoneSeen, Kind::Fit];
    let of = |kind: Kind, are_normal: bool| {
        let is_normal = |fit: &Fit| fit.service == Service::Other;
        let fits = all.iter();
        let fits = fits.filter(|fit| Kind::of(fit) == kind && is_normal(fit) == are_normal);
        let mut fits: Vec<&Fit> = fits.collect();
        // Of those that are not served, the one that comes nearest to it.
        if kind == Kind::NotFit {
            fits.reverse();
        }
        Group {
            kind,
            are_normal,
            fits,
        }
    };
    let each = [false, true].into_iter();
    each.flat_map(|are_normal| kinds.map(|kind| of(kind, are_normal)))
        .filter(|one| !one.fits.is_empty())
        .collect()
}

impl Kind {
    fn of(fit: &Fit) -> Self {
        match fit.verdict {
            Fitness::NotFit => Self::NotFit,
            Fitness::Fit => Self::Fit,
            Fitness::Undecided if fit.decided_by_ns.is_some() && is_none(&fit.figures) => {
                Self::NoneSeen
            }
            Fitness::Undecided => Self::Open,
        }
    }
}

fn of_group(group: &Group<'_>, all: &[Fit], screen: &mut Screen, room: Room) {
    // What is said is true of the first that is named.
    let Some(first) = group.fits.first() else {
        return;
    };
    let (verdict, tone) = (first.verdict.words(), tone(first.verdict));
    let why = match group.kind {
        Kind::Open if first.coarse.is_some() && !is_any(&first.figures) => {
            format!(
                "too coarse; laggard record --for {}",
                first.application.name
            )
        }
        Kind::NotFit | Kind::Open => dropouts(first),
        Kind::NoneSeen => {
            let longest = group.fits.iter().filter_map(|fit| fit.decided_by_ns);
            let longest = mean_time(longest.fold(0.0, f64::max));
            format!("none seen; {longest} would decide")
        }
        Kind::Fit => "one dropout an hour at most".into(),
    };
    let head = format!("{verdict} for ");
    let as_what = if group.are_normal {
        ", normal threads"
    } else {
        ""
    };
    let space = width(&head) + width(as_what) + width(&why) + 2;
    let names = listed(&names(&group.fits, all), room.columns.saturating_sub(space));
    let head = format!("{head}{names}{as_what}");
    screen.fill(&format!("{head}: {why}"), (tone, width(&head)), room);
}

/// The names of these applications, a family's neighbours as one.
fn names(group: &[&Fit], all: &[Fit]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(first) = group.get(at) {
        let first = first.application.name.as_str();
        let relatives: Vec<&str> = all
            .iter()
            .map(|fit| fit.application.name.as_str())
            .filter(|name| family(name).is_some() && family(name) == family(first))
            .collect();
        let here: Vec<&str> = group
            .iter()
            .map(|fit| fit.application.name.as_str())
            .filter(|name| relatives.contains(name))
            .collect();
        // The group is of neighbours in slack, so its relatives are too.
        match here.as_slice() {
            [begin, .., end] if here.len() >= FAMILY => {
                if *begin == first {
                    names.push(format!("{begin} to {end}"));
                }
            }
            _ => names.push(first.to_owned()),
        }
        at += 1;
    }
    names
}

/// `jack` of `jack-128`.
fn family(name: &str) -> Option<&str> {
    let (family, number) = name.rsplit_once('-')?;
    number
        .chars()
        .all(|one| one.is_ascii_digit())
        .then_some(family)
}

/// As many names as fit, and how many more there are.
fn listed(names: &[String], columns: usize) -> String {
    let mut text = String::new();
    for (at, name) in names.iter().enumerate() {
        let longer = match at {
            0 => name.clone(),
            _ => format!("{text}, {name}"),
        };
        let left = names.len() - at - 1;
        let ended = match left {
            0 => longer.clone(),
            more => format!("{longer} and {more} more"),
        };
        if width(&ended) > columns && at > 0 {
            return format!("{text} and {} more", left + 1);
        }
        text = longer;
    }
    text
}
