//! Verdicts on the applications of the catalogue: those of which the same is
//! said have a line together.

use laggard_answer::overview::Fit;
use laggard_answer::qos::Fitness;
use laggard_model::text::mean_time;

use super::super::screen::{Room, Screen, Tone, width};
use super::often::{at_best, at_most, at_worst, dropouts, is_any, narrowed};
use super::{Look, Measure};
use crate::phrase::qos::{tone, verdict as verdict_word};

/// A family of applications with fewer members in a group is named one by one.
const FAMILY: usize = 3;

/// The verdicts on these applications, those with least slack first. `on_windows`:
/// whether that is where they were recorded.
pub(super) fn verdicts(all: &[Fit], on_windows: bool, look: Look, measure: Measure) -> Screen {
    let mut groups = groups(all, on_windows);
    let mut more = 0;
    if groups.len() > measure.verdicts {
        // What is not served is shown however little room there is.
        while groups.len() >= measure.verdicts.max(1) {
            let is_less = |one: &Group<'_>| one.kind != Kind::NotFit;
            let Some(last) = groups.iter().rposition(is_less) else {
                break;
            };
            more += groups.remove(last).fits.len();
        }
    }
    let mut screen = Screen::default();
    for group in &groups {
        of_group(group, all, &mut screen, look.room(measure.verdict, 2));
    }
    if more > 0 {
        let are = match more {
            1 => "one more application is".to_owned(),
            _ => format!("{more} more applications are"),
        };
        let text = format!("{are} judged in --json, and by laggard qos");
        screen.fill(&text, (Tone::Plain, 0), look.room(measure.line, 2));
    }
    screen
}

/// Applications of which the same is said.
struct Group<'a> {
    kind: Kind,
    /// Whether normal threads run them.
    are_normal: bool,
    on_windows: bool,
    fits: Vec<&'a Fit>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    NotFit,
    /// There is a dropout; how often is not known closely enough.
    Seen,
    /// A service was still waiting when measuring ended.
    Unended,
    /// Dropouts could come unseen.
    Coarse,
    /// Nothing was seen, for too short a time.
    NoneSeen,
    /// Less than one was.
    Few,
    Fit,
}

const KINDS: [Kind; 7] = [
    Kind::NotFit,
    Kind::Seen,
    Kind::Unended,
    Kind::Coarse,
    Kind::NoneSeen,
    Kind::Few,
    Kind::Fit,
];

fn groups(all: &[Fit], on_windows: bool) -> Vec<Group<'_>> {
    let of = |kind: Kind, are_normal: bool| {
        let is_normal = |fit: &Fit| fit.service.is_normal_thread();
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
            on_windows,
            fits,
        }
    };
    let each = [false, true].into_iter();
    each.flat_map(|are_normal| KINDS.map(|kind| of(kind, are_normal)))
        .filter(|one| !one.fits.is_empty())
        .collect()
}

impl Kind {
    fn of(fit: &Fit) -> Self {
        let figures = fit.judged();
        match (fit.verdict, figures.failures) {
            (Fitness::NotFit, _) => Self::NotFit,
            (Fitness::Fit, _) => Self::Fit,
            (Fitness::Unknown, _) if fit.waited_ns.is_some() => Self::Unended,
            (Fitness::Unknown, _) if is_any(figures) => Self::Seen,
            (Fitness::Unknown, None) => Self::Coarse,
            (Fitness::Unknown, Some(0.0)) if fit.decided_by_ns.is_some() => Self::NoneSeen,
            (Fitness::Unknown, Some(_)) => Self::Few,
        }
    }
}

fn of_group(group: &Group<'_>, all: &[Fit], screen: &mut Screen, room: Room) {
    let Some(first) = group.fits.first() else {
        return;
    };
    let (verdict, tone) = (verdict_word(first.verdict), tone(first.verdict));
    let why = why(group, first);
    let head = format!("{verdict} for ");
    let as_what = if group.are_normal {
        ", normal threads"
    } else {
        ""
    };
    let space = width(&head) + width(as_what) + width(&why) + 2;
    let names = named(&group.fits, all, room.columns.saturating_sub(space));
    let head = format!("{head}{names}{as_what}");
    screen.fill(&format!("{head}: {why}"), (tone, width(&head)), room);
}

/// What is said of all of a group.
fn why(group: &Group<'_>, first: &Fit) -> String {
    let name = &first.application.name;
    let often = match (group.kind, group.fits.as_slice()) {
        (Kind::NotFit | Kind::Seen, [only]) => dropouts(only),
        (Kind::NotFit, several) => at_best(several),
        (Kind::Seen, several) => at_worst(several),
        (Kind::Unended, _) => return "still waiting when measuring ended".into(),
        (Kind::Coarse, _) => {
            return if group.on_windows {
                "cannot tell; record with a shorter --period".into()
            } else {
                format!("cannot tell; laggard record --for {name}")
            };
        }
        (Kind::NoneSeen, several) => {
            let longest = several.iter().filter_map(|fit| fit.decided_by_ns);
            let longest = mean_time(longest.fold(0.0, f64::max));
            return format!("none seen; {longest} would decide");
        }
        (Kind::Few, several) => {
            let least = |fit: &Fit| fit.judged().mttf_low_ns;
            let worst = several
                .iter()
                .min_by(|a, b| least(a).total_cmp(&least(b)))
                .map(|fit| at_most(fit.judged()));
            return worst.unwrap_or_default();
        }
        (Kind::Fit, _) => return "one dropout an hour at most".into(),
    };
    if group.kind == Kind::NotFit && group.fits.len() > 1 {
        return often;
    }
    match (first.judged().mttf_ns, first.narrowed_by_ns) {
        (_, Some(ns)) => format!("{often}; {}", narrowed(ns)),
        // What `--for` chooses is chosen by hand there.
        (None, None) if first.judged().is_wide() => {
            if group.on_windows {
                format!("{often}; a shorter --period tells more")
            } else {
                format!("{often}; laggard record --for {name} tells more")
            }
        }
        _ => often,
    }
}

/// The names of these applications in a line of so many columns: families by
/// their first and last, if there is room for that.
fn named(group: &[&Fit], all: &[Fit], columns: usize) -> String {
    let families = listed(&names(group, all), columns);
    if width(&families) <= columns {
        return families;
    }
    let each = group.iter().map(|fit| fit.application.name.clone());
    let each: Vec<String> = each.collect();
    listed(&each, columns)
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
