//! The parts of the first screen but for the verdict, the causes and the next
//! hour.

use laggard_answer::Trust;
use laggard_answer::overview::{LateService, Overview};
use laggard_answer::show::{Share, at_least};
use laggard_model::name::series_words;
use laggard_model::text::{Unit, count, span};
use laggard_model::{Backend, Host, Route, Service, State, printable};

use super::super::screen::{Screen, Tone, cut, width};
use super::{Look, Measure, NARROW};

/// The widths of the table: names, where there is room, and figures.
const NAME: usize = 20;
const FIGURE: usize = 12;
/// A load's name, or a command's, takes no more.
const LOAD: usize = 32;
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
        (kernel, None) => Host::system_of(kernel),
        (kernel, Some(model)) => format!("{} (preempt={model})", Host::system_of(kernel)),
    };
    let guest = of.hypervisor.as_ref().map(|name| match name.as_str() {
        "kvm" => "KVM guest".to_owned(),
        name => format!("{name} guest"),
    });
    let backend = match of.backend {
        Backend::User if of.is_windows() => "",
        Backend::User => "without eBPF",
        Backend::Tracer => "by the timerlat tracer",
        Backend::Driver => "by the driver wdmlat.sys",
        Backend::Imported => "imported",
        Backend::Bpf | Backend::Etw | Backend::Fake => "",
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
        let room = look.room(measure.line, 2);
        screen.fill(&text, (Tone::Open, head.len()), room);
    }
    screen
}

/// How late each service is.
pub(super) fn services(overview: &Overview, look: Look, measure: Measure) -> Screen {
    let mut screen = Screen::default();
    if overview.services.is_empty() {
        return screen;
    }
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
    let names = shown.iter().map(|one| name(one.service, one.route));
    let widest = names.map(|name| width(&name) + 1).max().unwrap_or(0);
    let name_wide = if look.columns < NARROW {
        widest
    } else {
        widest.max(NAME)
    };
    let head = format!("{:name_wide$}{}", "late by", heads(look, name_wide));
    screen.push(vec![(Tone::Faint, head)]);
    for one in shown {
        let tone = if is_main(one) && overview.services.len() > 1 {
            Tone::Strong
        } else {
            Tone::Plain
        };
        let line = format!(
            "{:name_wide$}{}",
            name(one.service, one.route),
            figures(one, look, name_wide)
        );
        screen.push(vec![(tone, cut(&line, look.columns))]);
    }
    screen
}

/// What the screen leaves out, `causes` among it, and how to see it.
fn not_shown(overview: &Overview, measure: Measure, causes: usize) -> Option<String> {
    let services = overview.services.len().saturating_sub(measure.services);
    let parts = [
        (
            overview.beware.len().saturating_sub(measure.beware),
            "warning",
        ),
        (overview.more_services + services, "service"),
        (causes, "cause"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, what)| match count {
            1 => format!("1 {what}"),
            more => format!("{more} {what}s"),
        })
        .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "Not shown: {} (laggard show --all, why --all)",
            parts.join(", ")
        )
    })
}

/// A figure of the table.
#[derive(Clone, Copy, Debug)]
enum Column {
    Median,
    OneIn100,
    OneIn1000,
    Largest,
    Activations,
}

impl Column {
    const ALL: [Self; 5] = [
        Self::Median,
        Self::OneIn100,
        Self::OneIn1000,
        Self::Largest,
        Self::Activations,
    ];

    /// Those for which there is room beside names of this width: what is told
    /// last by the others gives way first.
    fn beside(names: usize, look: Look) -> impl Iterator<Item = Self> {
        let room = look.columns.saturating_sub(names) / FIGURE;
        Self::ALL.into_iter().filter(move |column| match column {
            Self::Largest => true,
            Self::Median => room >= 2,
            Self::OneIn1000 => room >= 3,
            Self::OneIn100 => room >= 4,
            Self::Activations => is_wide(look),
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Median => "median",
            Self::OneIn100 => "1 in 100",
            Self::OneIn1000 => "1 in 1,000",
            Self::Largest => "largest",
            Self::Activations => "activations",
        }
    }

    fn of(self, one: &LateService, unit: Unit) -> String {
        match self {
            Self::Median => figure(&one.median, unit),
            Self::OneIn100 => figure(&one.one_in_100, unit),
            Self::OneIn1000 => figure(&one.one_in_1000, unit),
            Self::Largest => one.largest_ns.map_or_else(
                || "-".into(),
                |ns| at_least(one.largest_is_at_least, &unit.write_nanos(ns)),
            ),
            Self::Activations => count(one.samples),
        }
    }
}

/// The figures of a service, as wide as their names, beside a name.
pub(super) fn figures(one: &LateService, look: Look, names: usize) -> String {
    let columns = Column::beside(names, look);
    columns
        .map(|column| format!("{:>FIGURE$}", column.of(one, look.unit)))
        .collect()
}

/// The names of the figures.
pub(super) fn heads(look: Look, names: usize) -> String {
    let columns = Column::beside(names, look);
    columns
        .map(|column| format!("{:>FIGURE$}", column.name()))
        .collect()
}

/// Whether there is room for how many activations there were.
const fn is_wide(look: Look) -> bool {
    look.columns >= NAME + 5 * FIGURE + 20
}

pub(super) fn name(service: Service, route: Route) -> String {
    series_words(service, route)
}

/// A quantile; of one that is known between two times, the lower.
fn figure(share: &Share, unit: Unit) -> String {
    match share.low_ns {
        Some(low) if Some(low) != share.ns => at_least(true, &unit.write_nanos(low)),
        _ => share.write(unit),
    }
}

/// The measurement itself, and where there is more; `causes` is the number of causes that
/// have no line.
pub(super) fn end(overview: &Overview, look: Look, measure: Measure, causes: usize) -> Screen {
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
    screen.fill(&text, (Tone::Plain, 0), look.room(measure.line, 2));
    if let Some(text) = not_shown(overview, measure, causes) {
        screen.fill(&text, (Tone::Plain, 0), look.room(measure.line, 2));
    }
    let more = ": laggard why, forecast, qos, report, show --all";
    let room = look.room(measure.line, 2);
    let path = (room.columns * room.lines).saturating_sub(8 + width(more));
    let path = cut(&overview.path, path.min(look.columns.saturating_sub(10)));
    let text = format!("More of {path}{more}");
    screen.fill(&text, (Tone::Faint, width(&text)), room);
    screen
}
