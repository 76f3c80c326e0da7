//! `laggard qos`: how often an application has an xrun, and what would prevent it.

use laggard_answer::Note;
use laggard_answer::qos::{
    Fitness, LoadOutlook, LoadProfiles, ProfileOutlook, QosError, QosReport, ServiceOutlook,
};
use laggard_model::name::series_words;

use crate::doc::{Block, Cell, Column, Detail, Document, Reason, Table, Verdict, code, quoted};
use crate::phrase::{qos as phrase, trust};

/// Describes the report. `Short` states the verdict as the service that would run the
/// application; `Full` shows all services over the number of buffers.
pub fn document(report: &QosReport, detail: Detail) -> Document {
    let application = &report.application;
    let mut document = Document::new(format!("Xruns of {}", code(&application.name)));
    if detail == Detail::Full {
        document.lines(vec![
            format!(
                "{}: {}",
                code(&application.name),
                phrase::demand(application)
            ),
            format!("Source: {}", application.source),
        ]);
    }
    for load in &report.loads {
        match detail {
            Detail::Short => short(&mut document, report, load),
            Detail::Full => full(&mut document, report, load),
        }
    }
    if detail == Detail::Full {
        document.paragraph(
            "MTTF is the mean time to failure. A failure is a run of late buffers (100 at most). laggard replays the recorded stalls through the buffers, over 16 phases. Clusters: failures close together, or of several CPUs at once, are one; the interval rests on their number. The rule of the papers, (n - 1) t / P(latency > slack), is mostly optimistic. The figures hold for the recorded load only.",
        );
    }
    document
}

/// Adds the verdict on the application, and on the goal if there is one.
fn verdicts(document: &mut Document, report: &QosReport, load: &LoadOutlook) {
    let application = &report.application;
    let name = code(&application.name);
    let under = phrase::under(&load.load);
    let Some(service) = load.own() else {
        let text = format!("{name}{under}: {}", QosError::NoThread);
        document.push(verdict(Fitness::Unknown, text));
        return;
    };
    let series = series_words(service.service, service.route);
    let text = format!("{name} as {series}{under}: {}", phrase::xruns(service));
    document.push(verdict(service.verdict, text));
    document.push(Block::Detail(phrase::demand(application)));
    if let Some(goal) = &load.goal {
        document.push(verdict(goal.verdict, phrase::stated_goal(goal)));
    }
}

fn short(document: &mut Document, report: &QosReport, load: &LoadOutlook) {
    let Some(service) = load.own() else {
        verdicts(document, report, load);
        return;
    };
    verdicts(document, report, load);
    warnings(document, &load.notes);
    let others: Vec<&ServiceOutlook> = load.services.iter().filter(|other| !other.is_own).collect();
    let mut lines: Vec<String> = phrase::enough(service).into_iter().collect();
    if !others.is_empty() {
        lines.push(format!("Other services: {}", phrase::others(&others)));
    }
    lines.push(format!("Data: {}", phrase::data(service, &load.recordings)));
    let more = match load.notes.iter().filter(|note| !note.is_warning()).count() {
        0 => "all services and buffers: `--curve`".to_owned(),
        1 => "all services, buffers and 1 warning: `--curve`".to_owned(),
        count => format!("all services, buffers and {count} warnings: `--curve`"),
    };
    let next = phrase::next_step(service, &load.recordings);
    lines.push(next.map_or_else(
        || format!("Next: {more}"),
        |next| format!("Next: {next}; {more}"),
    ));
    document.lines(lines);
}

fn verdict(fitness: Fitness, text: String) -> Block {
    Block::Verdicts(vec![Verdict {
        tone: phrase::tone(fitness),
        word: phrase::verdict(fitness).into(),
        text,
    }])
}

/// Adds the doubts that make the whole answer doubtful.
fn warnings(document: &mut Document, notes: &[Note]) {
    let doubtful = notes.iter().filter(|note| note.is_warning());
    document.lines(doubtful.map(trust::note).collect());
}

fn full(document: &mut Document, report: &QosReport, load: &LoadOutlook) {
    let recordings: Vec<String> = load.recordings.iter().map(|path| code(path)).collect();
    document.heading(format!("Load: {} ({})", load.load, recordings.join(", ")));
    verdicts(document, report, load);
    warnings(document, &load.notes);
    document.push(Block::Table(failures(load)));
    document.push(Block::Table(curve(load)));
    let needed = needed(load);
    if needed.rows.is_empty() {
        document.paragraph(
            "No number of buffers is shown to suffice for one failure per hour, day or week.",
        );
        document.lines(needed.notes);
    } else {
        document.push(Block::Table(needed));
    }
    document.lines(remarks(report, load));
    document.notes("Warnings", load.notes.iter().map(trust::note).collect());
}

fn failures(load: &LoadOutlook) -> Table {
    let mut table = Table::new([
        Column::name("service"),
        Column::number("observed"),
        Column::number("failures"),
        Column::number("clusters"),
        Column::number("MTTF (95 % CI)"),
        Column::number("late buffers/h"),
        Column::number("rule of the papers"),
    ]);
    for service in &load.services {
        let figures = &service.outlook;
        let at_least = |cell| {
            if service.waited_ns.is_some() {
                Cell::AtLeast(Box::new(cell))
            } else {
                cell
            }
        };
        let clusters = figures.clusters.map(Cell::MeanCount).map(at_least);
        let late = Cell::MeanCount(figures.late_per_hour);
        table.row([
            name(service).into(),
            format!(
                "{} ({})",
                Cell::MeanTime(figures.exposure_ns),
                phrase::cpus(service.cpus)
            )
            .into(),
            failure_count(service, figures),
            clusters.unwrap_or(Cell::Unknown(Reason::TooCoarse)),
            phrase::mean_time(service, figures),
            if figures.failures.is_none() && figures.late_per_hour > 0.0 {
                format!("about {late}").into()
            } else {
                at_least(late)
            },
            figures
                .paper_mttf_ns
                .map_or_else(|| "no failure".into(), Cell::MeanTime),
        ]);
    }
    table
}

/// Returns the number of failures, or its interval.
fn failure_count(service: &ServiceOutlook, figures: &laggard_answer::qos::MissFigures) -> Cell {
    let is_waiting = service.waited_ns.is_some();
    let (low, high) = figures.interval();
    let low = Cell::MeanCount(low.floor());
    match figures.failures.map(Cell::MeanCount) {
        Some(failures) if is_waiting => Cell::AtLeast(Box::new(failures)),
        Some(failures) => failures,
        None if is_waiting => Cell::AtLeast(Box::new(low)),
        None => Cell::Interval(Box::new(low), Box::new(Cell::MeanCount(high.ceil()))),
    }
}

fn curve(load: &LoadOutlook) -> Table {
    let columns = load
        .services
        .iter()
        .map(|service| Column::number(name(service)));
    let fixed = [Column::number("buffers"), Column::number("buffering")];
    let mut table = Table::new(fixed.into_iter().chain(columns)).keys(2).caption(
        "95 % CI of the MTTF, and failures in the recording, over total buffering (n - 1) x buffer length",
    );
    let points = load
        .services
        .first()
        .map_or(&[][..], |service| &service.curve);
    for (at, point) in points.iter().enumerate() {
        let fixed = [
            Cell::Count(point.buffers.into()),
            Cell::Time(point.buffering_ns),
        ];
        let cells = load.services.iter().map(|service| {
            let figures = &service.curve[at].figures;
            let interval = phrase::interval(service, figures);
            format!("{interval}, {}", failure_count(service, figures)).into()
        });
        table.row(fixed.into_iter().chain(cells));
    }
    table
}

fn needed(load: &LoadOutlook) -> Table {
    let goals = load
        .services
        .first()
        .map_or(&[][..], |service| &service.needed);
    let columns = goals
        .iter()
        .map(|needed| Column::number(phrase::goal(needed.one_miss_per)));
    let mut table = Table::new(std::iter::once(Column::name("service")).chain(columns))
        .caption("Buffers needed for at most one failure per hour, day or week");
    for service in &load.services {
        let max = service.curve.last().map_or(0, |point| point.buffers);
        let cells = service
            .needed
            .iter()
            .map(|needed| phrase::needed(needed, max));
        table.row(std::iter::once(name(service).into()).chain(cells));
    }
    let lengths: Vec<String> = goals
        .iter()
        .filter_map(|needed| {
            let record = Cell::MeanTime(needed.record_ns?);
            Some(format!(
                "{record} for one per {}",
                phrase::goal(needed.one_miss_per)
            ))
        })
        .collect();
    if !lengths.is_empty() {
        table.note(format!(
            "-: the recording is too short or too coarse. A proof takes, without a failure, {}.",
            lengths.join(", ")
        ));
    }
    // Rows of unknowns only would hide the note.
    table
        .rows
        .retain(|row| row[1..].iter().any(|cell| cell.reason().is_none()));
    table
}

/// States facts that limit the figures: CPUs that stand out, stalls that had not ended, and
/// the resolution. A resolution of several services is stated once.
fn remarks(report: &QosReport, load: &LoadOutlook) -> Vec<String> {
    let apart = load.services.iter().filter_map(|service| {
        let apart = service.apart.as_ref()?;
        let mttf = phrase::parted(apart, |figures| phrase::mean_time(service, figures).to_string());
        Some(format!(
            "{} fails more often on some CPUs than chance explains: MTTF {mttf}. The verdict and the buffers are for these CPUs.",
            name(service)
        ))
    });
    let waiting = load.services.iter().filter_map(phrase::waiting);
    let mut limits: Vec<(String, Vec<String>)> = Vec::new();
    for service in &load.services {
        let slack = report.application.slack_ns;
        let Some(limit) = phrase::resolution(&service.resolution, slack) else {
            continue;
        };
        match limits.iter_mut().find(|(known, _)| *known == limit) {
            Some((_, services)) => services.push(name(service)),
            None => limits.push((limit, vec![name(service)])),
        }
    }
    let limits = limits
        .into_iter()
        .map(|(limit, services)| format!("{}: {limit}", services.join(", ")));
    apart.chain(waiting).chain(limits).collect()
}

fn name(service: &ServiceOutlook) -> String {
    series_words(service.service, service.route)
}

/// Describes a few profiles of the catalogue, one per row.
pub fn profiles(loads: &[LoadProfiles]) -> Document {
    let mut document = Document::new("Xruns of typical applications");
    for load in loads {
        document.push(Block::Table(profile_table(load)));
        warnings(&mut document, &load.notes);
    }
    let mut applications = loads.iter().flat_map(|load| &load.profiles);
    let policy = applications.find_map(|profile| phrase::policy(profile.application.policy));
    let mut lines = vec![
        "Slack = how late the thread may start without an xrun. Holds for this load only."
            .to_owned(),
    ];
    lines.extend(policy.map(|policy| format!("Policy: {policy}.")));
    let recording = loads.iter().flat_map(|load| &load.recordings).next();
    let command = code(&format!(
        "laggard qos {} --app NAME",
        recording.map_or_else(|| "DIR".into(), |path| quoted(path))
    ));
    lines.push(format!(
        "Next: {command} (names: `--list`), or `--buffers`, `--buffer` and `--compute`"
    ));
    document.lines(lines);
    document
}

fn profile_table(load: &LoadProfiles) -> Table {
    let outlooks = load
        .profiles
        .iter()
        .filter_map(|profile| profile.outlook.as_ref());
    let longest = outlooks.max_by(|a, b| a.outlook.exposure_ns.total_cmp(&b.outlook.exposure_ns));
    let observed = longest.map_or_else(String::new, |service| {
        let length = service.outlook.exposure_ns / service.cpus.max(1) as f64;
        format!(
            ", {} on {}",
            Cell::MeanTime(length),
            phrase::cpus(service.cpus)
        )
    });
    let recordings: Vec<String> = load.recordings.iter().map(|path| code(path)).collect();
    let mut table = Table::new([
        Column::name("profile"),
        Column::number("slack"),
        Column::name("runs as"),
        Column::name("verdict"),
        Column::name("time between xruns (95 % CI)"),
    ])
    .caption(format!(
        "{}{}{observed}. FIT = at most one burst of xruns per hour (95 %).",
        recordings.join(", "),
        phrase::under(&load.load)
    ));
    for profile in &load.profiles {
        table.row(profile_row(profile));
    }
    let others = phrase::other_profiles(&load.others);
    if !others.is_empty() {
        table.note(others);
    }
    table
}

fn profile_row(profile: &ProfileOutlook) -> [Cell; 5] {
    let application = &profile.application;
    let (runs_as, fitness, mean_time) = match &profile.outlook {
        Some(service) => (
            name(service).into(),
            service.verdict,
            phrase::profile(service),
        ),
        None => {
            let unknown = || Cell::Unknown(Reason::NotMeasured);
            (unknown(), Fitness::Unknown, unknown())
        }
    };
    let word = phrase::verdict(fitness).to_owned();
    [
        application.name.as_str().into(),
        Cell::Time(application.slack_ns),
        runs_as,
        Cell::Status(phrase::tone(fitness), word),
        mean_time,
    ]
}
