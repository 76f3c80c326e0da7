//! `laggard qos` for the terminal: whether an application is fit, how often it
//! is not, what buffers would do, and what that rests on.

mod curve;
pub(in crate::text) mod figures;

use laggard_answer::Note;
use laggard_answer::qos::{
    Application, Choice, Fitness, LoadChoices, LoadOutlook, MissFigures, QosError, QosReport,
    ServiceOutlook,
};
use laggard_model::name::line_name;
use laggard_model::text::{Unit, mean_time, rough_time};
use laggard_model::{LoadLabel, Nanos, printable, printable_lines};

use super::Look;
use super::grid::Grid;
use figures::{at_most, interval, most, mttf, number, on_cpus, parted};

/// So many services are named; others are counted.
const NAMED: usize = 3;

/// The report as text: a few lines for each load, or with `curve` every service
/// over the number of buffers.
pub fn qos(report: &QosReport, curve: bool, look: Look) -> String {
    let text = if curve {
        curve::in_full(report, look)
    } else {
        let loads = report.loads.iter();
        let parts: Vec<String> = loads
            .map(|one| of_load(one, &report.application, look))
            .collect();
        parts.join("\n")
    };
    printable_lines(&text).to_string()
}

fn of_load(load: &LoadOutlook, application: &Application, look: Look) -> String {
    let Some(service) = load.own() else {
        let (name, under) = (printable(&application.name), under(&load.load));
        let why = QosError::NoThread;
        return look.filled("", &format!("NOT DECIDED: {name}{under}: {why}"));
    };
    let mut text = look.filled("", &sentence(service, application, &load.load));
    text += &look.warned(&load.notes);
    text += &look.filled("  ", &demand(application));
    text += &look.filled("  ", &enough(service));
    let others: Vec<&ServiceOutlook> = load
        .services
        .iter()
        .filter(|one| !std::ptr::eq(*one, service))
        .collect();
    if !others.is_empty() {
        text += &look.filled("  ", &as_others(&others));
    }
    text += &look.filled("  ", &basis(load, service));
    text
}

/// Whether it is fit, and how often it is not.
fn sentence(service: &ServiceOutlook, application: &Application, load: &LoadLabel) -> String {
    format!(
        "{}: {} as {}{} {}",
        service.verdict.words(),
        printable(&application.name),
        line_name(service.service, service.route),
        under(load),
        runs_dry(service)
    )
}

fn under(load: &LoadLabel) -> String {
    load.load()
        .map_or_else(String::new, |load| format!(" under `{}`", printable(load)))
}

/// How often buffers run dry, in words.
fn runs_dry(service: &ServiceOutlook) -> String {
    let is_waiting = service.waited_ns.is_some();
    match &service.apart {
        Some(apart) => parted(apart, |figures| every(figures, is_waiting)),
        None => every(&service.outlook, is_waiting),
    }
}

fn every(figures: &MissFigures, is_waiting: bool) -> String {
    match (is_waiting, figures.mttf_ns) {
        (true, mean) => {
            let often = mean.map_or_else(|| most(figures), |_| Some(mttf(figures)));
            often.map_or_else(
                || "was still waiting when measuring ended: how often is not known".into(),
                |often| {
                    format!(
                        "runs dry every {often} or more often: it was still waiting when measuring \
                         ended"
                    )
                },
            )
        }
        (false, Some(_)) => format!("runs dry every {}", mttf(figures)),
        (false, None) => seldom(figures),
    }
}

/// The same where there is no estimate.
fn seldom(figures: &MissFigures) -> String {
    let least = rough_time(figures.mttf_low_ns, 2);
    match (figures.failures, figures.mttf_high_ns) {
        (Some(0.0), _) => format!("did not run dry; at most once every {least}"),
        (Some(mean), _) => format!(
            "ran dry {} times on average over when buffers begin; at most once every {least}",
            number(mean)
        ),
        (None, Some(_)) => format!("runs dry every {}", interval(figures)),
        (None, None) => format!("runs dry at most once every {least}"),
    }
}

fn demand(application: &Application) -> String {
    let time = |time: Nanos| Unit::Auto.write_nanos(time);
    let policy = application.policy.words();
    format!(
        "{} buffers of {}, {} of work each: tolerates a start {} late{}",
        application.buffers,
        time(application.buffer_ns),
        time(application.compute_ns),
        time(application.slack_ns),
        policy.map_or_else(String::new, |words| format!("; {words}"))
    )
}

/// What number of buffers would do.
fn enough(service: &ServiceOutlook) -> String {
    let of = |buffers: u32| {
        let mut points = service.curve.iter();
        let point = points.find(|point| point.buffers == buffers);
        let total = point.map_or(Nanos::ZERO, |point| point.total_ns);
        format!("{buffers} buffers ({})", Unit::Auto.write_nanos(total))
    };
    let Some(hourly) = service.hourly() else {
        return String::new();
    };
    if let Some(surely) = hourly.surely {
        let seldom = service.needed.iter().skip(1);
        let more = seldom.filter_map(|goal| {
            let surely = goal.surely?;
            Some(format!("; once a {}: {}", goal.one_miss_per, of(surely)))
        });
        return format!(
            "Enough for once an hour: {}{}",
            of(surely),
            more.collect::<String>()
        );
    }
    if let Some(estimate) = hourly.by_estimate {
        return format!(
            "Enough for once an hour: about {}, not proved",
            of(estimate)
        );
    }
    let most = service.curve.last().map_or(0, |point| point.buffers);
    let none = service.without_failure().map(|point| point.buffers);
    match (none, hourly.record_ns) {
        _ if hourly.is_coarse => {
            let advice = service
                .coarse
                .as_ref()
                .map(|one| format!(": {}", one.advice()));
            format!(
                "What buffers would do cannot be told from so coarse a recording{}",
                advice.unwrap_or_default()
            )
        }
        (Some(none), Some(record)) => format!(
            "{} did not run dry; proof takes {} without a failure",
            of(none),
            mean_time(record)
        ),
        (None, Some(record)) => format!(
            "Up to {} ran dry; proof takes {} without a failure",
            of(most),
            mean_time(record)
        ),
        (_, None) => format!("{} are not enough for once an hour", of(most)),
    }
}

/// How the other services would do.
fn as_others(others: &[&ServiceOutlook]) -> String {
    let all = [Fitness::Fit, Fitness::Undecided, Fitness::NotFit];
    let parts: Vec<String> = all
        .into_iter()
        .filter_map(|fitness| {
            let alike = others.iter().filter(|one| one.verdict == fitness);
            let names: Vec<String> = alike.map(|one| line_name(one.service, one.route)).collect();
            let words = fitness.words().to_lowercase();
            match names.len() {
                0 => None,
                1..=NAMED => Some(format!("{words} as {}", names.join(", "))),
                count if count == others.len() => {
                    Some(format!("{words} as any of the {count} others measured"))
                }
                count => Some(format!("{words} as {count} others")),
            }
        })
        .collect();
    let mut text = parts.join("; ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

/// What the answer rests on.
fn basis(load: &LoadOutlook, service: &ServiceOutlook) -> String {
    let figures = &service.outlook;
    let cpus = match service.cpus {
        1 => "1 CPU".into(),
        more => format!("{more} CPUs"),
    };
    let seen = match (figures.failures, figures.clusters) {
        (Some(failures), Some(clusters)) if failures > 0.0 => {
            let apart = number(clusters);
            format!("{} failures, {apart} apart, in ", number(failures))
        }
        _ => "Rests on ".into(),
    };
    format!(
        "{seen}{} of {cpus} in {}; [ ]: 95 %{}",
        mean_time(figures.exposure_ns),
        printable(&load.recordings.join(", ")),
        more(&load.notes)
    )
}

/// What else there is to see.
fn more(notes: &[Note]) -> String {
    match notes.iter().filter(|note| !note.is_warning()).count() {
        0 => "; all: --curve".into(),
        1 => "; 1 caveat, all: --curve".into(),
        count => format!("; {count} caveats, all: --curve"),
    }
}

/// Several applications as text, a line for each.
pub fn choices(loads: &[LoadChoices], look: Look) -> String {
    let parts: Vec<String> = loads.iter().map(|one| of_choices(one, look)).collect();
    let mut text = format!(
        "{}\n{}",
        parts.join("\n"),
        look.filled(
            "",
            "FIT: fails at most once an hour. In brackets: 95 %. Buffers: enough for that. Holds for \
             the load that was recorded only. One of them: --app NAME; more: --list"
        )
    );
    let mut policies = loads.iter().flat_map(|load| &load.applications);
    let words = policies.find_map(|(application, _)| application.policy.words());
    if let Some(words) = words {
        text += &look.filled("", &format!("After a miss: {words}."));
    }
    printable_lines(&text).to_string()
}

fn of_choices(load: &LoadChoices, look: Look) -> String {
    let mut text = look.filled(
        "",
        &format!(
            "In {}{}:",
            printable(&load.recordings.join(", ")),
            under(&load.load),
        ),
    );
    text += &look.warned(&load.notes);
    let head = [
        "application",
        "slack",
        "runs as",
        "",
        "runs dry every",
        "buffers",
    ];
    let mut rows = Grid::new(head).left([2, 3, 4]).parted_before(2);
    for choice in &load.applications {
        rows.add_row(row(choice));
    }
    text += &rows.written(look);
    text
}

fn row((application, found): &Choice) -> [String; 6] {
    let name = printable(&application.name).to_string();
    let slack = Unit::Auto.write_nanos(application.slack_ns);
    let Ok(service) = found else {
        let undecided = Fitness::Undecided.words().into();
        let dash = || "-".to_owned();
        return [name, slack, dash(), undecided, dash(), "?".into()];
    };
    let (figures, _) = service.judged();
    let mut every = match (service.waited_ns.is_some(), figures.mttf_ns) {
        (true, _) => at_most(service, figures, mttf),
        (false, Some(_)) => mttf(figures),
        (false, None) => interval(figures),
    };
    if let Some(apart) = &service.apart {
        every += &format!(" {}", on_cpus(&apart.cpus));
    }
    let hourly = service.hourly();
    let needed = match hourly.map(|goal| (goal.surely, goal.by_estimate)) {
        Some((Some(surely), _)) => surely.to_string(),
        Some((None, Some(estimate))) => format!("about {estimate}"),
        Some((None, None)) | None => "?".into(),
    };
    let verdict = service.verdict.words().into();
    let line = line_name(service.service, service.route);
    [name, slack, line, verdict, every, needed]
}
