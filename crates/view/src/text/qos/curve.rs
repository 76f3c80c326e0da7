//! `laggard qos --curve`: every service, over the number of buffers.

use laggard_answer::qos::{
    Application, LoadOutlook, MissFigures, Needed, QosReport, ServiceOutlook,
};
use laggard_answer::show::at_least;
use laggard_model::name::line_name;
use laggard_model::text::{Unit, count, mean_time};
use laggard_model::{Nanos, printable};

use super::super::Look;
use super::super::grid::Grid;
use super::figures::{at_most, failures, interval, mttf, number, parted};

/// The report in full, as text.
pub(super) fn in_full(report: &QosReport, look: Look) -> String {
    let mut text = head(&report.application, look);
    for load in &report.loads {
        text += &of_load(load, look);
    }
    text.push('\n');
    text + &look.filled("", LEGEND)
}

/// What the figures are.
const LEGEND: &str = "MTTF: mean time to failure, a run of late buffers (100 at most), by replaying \
    the blackouts that were seen through the buffers, over 16 phases; in brackets its 95 % \
    interval. In clusters: failures close together, or of several CPUs at once, are one, and of \
    that many the interval is. The paper's rule, (n - 1) t / P(latency > slack), is mostly \
    optimistic. Valid for the recorded load only.";

fn head(application: &Application, look: Look) -> String {
    let time = |time: Nanos| Unit::Auto.write_nanos(time);
    let what = format!(
        "{}: {} buffers of {}, {} of work each",
        printable(&application.name),
        application.buffers,
        time(application.buffer_ns),
        time(application.compute_ns),
    );
    let limits = format!(
        "latency tolerance {}, slack {}",
        time(application.tolerance_ns),
        time(application.slack_ns)
    );
    let source = format!("source: {}", printable(&application.source));
    let policy = application.policy.words();
    let policy = policy.map_or_else(String::new, |words| {
        look.hanging("  ", "    ", &format!("after a miss: {words}"))
    });
    look.hanging("", "  ", &what)
        + &look.hanging("  ", "    ", &limits)
        + &policy
        + &look.hanging("  ", "    ", &source)
}

fn of_load(load: &LoadOutlook, look: Look) -> String {
    let what = format!(
        "Load: {} ({})",
        printable(load.load.as_str()),
        printable(&load.recordings.join(", "))
    );
    let mut text = format!("\n{}", look.hanging("", "  ", &what));
    text += &look.warned(&load.notes);
    text += "\n";
    let mut rows = Grid::new([
        "service",
        "observed",
        "failures",
        "in clusters",
        "MTTF",
        "late buffers/h",
        "paper's rule",
    ]);
    for service in &load.services {
        let figures = &service.outlook;
        rows.add_row([
            line_name(service.service, service.route),
            format!("{} ({} CPUs)", mean_time(figures.exposure_ns), service.cpus),
            failures(service, figures),
            clusters(service, figures),
            at_most(service, figures, mttf),
            late(service, figures),
            figures
                .paper_mttf_ns
                .map_or_else(|| "no failure".into(), mean_time),
        ]);
    }
    text += &rows.written(look);
    text.push('\n');
    text += &look.filled(
        "",
        "Over total buffering, (n - 1) x buffer length (95 % interval of the MTTF, failures seen)",
    );
    text.push('\n');
    text += &curve(&load.services, look);
    text += "\nBuffers needed for one failure per\n\n";
    text += &goals(&load.services, look);
    text += &remarks(load, look);
    text + &look.to_bear_in_mind(&load.notes)
}

fn curve(services: &[ServiceOutlook], look: Look) -> String {
    let names: Vec<String> = services
        .iter()
        .map(|one| line_name(one.service, one.route))
        .collect();
    let header = ["buffers", "buffering"].map(String::from);
    let mut rows = Grid::new(header.into_iter().chain(names)).keys(2);
    for (index, point) in services
        .first()
        .map_or(&[][..], |one| &one.curve)
        .iter()
        .enumerate()
    {
        let mut cells = vec![
            count(point.buffers.into()),
            Unit::Auto.write_nanos(point.buffering_ns),
        ];
        cells.extend(
            services
                .iter()
                .map(|one| short(one, &one.curve[index].figures)),
        );
        rows.add_row(cells);
    }
    rows.written(look)
}

fn clusters(service: &ServiceOutlook, figures: &MissFigures) -> String {
    let clusters = figures.clusters.map(number);
    clusters.map_or_else(
        || "-".into(),
        |clusters| at_least(service.waited_ns.is_some(), &clusters),
    )
}

/// Late buffers in an hour; by the share of samples only where no replay is.
fn late(service: &ServiceOutlook, figures: &MissFigures) -> String {
    let late = rate(figures.late_per_hour);
    if figures.failures.is_none() && figures.late_per_hour > 0.0 {
        return format!("about {late}");
    }
    at_least(service.waited_ns.is_some(), &late)
}

/// A point of the curve.
fn short(service: &ServiceOutlook, figures: &MissFigures) -> String {
    format!(
        "{}, {}",
        at_most(service, figures, interval),
        failures(service, figures)
    )
}

fn goals(services: &[ServiceOutlook], look: Look) -> String {
    let names = services.first().map_or(&[][..], |one| &one.needed);
    let mut header = vec!["service"];
    header.extend(names.iter().map(|goal| goal.one_miss_per.as_str()));
    let mut rows = Grid::new(header);
    for service in services {
        let mut cells = vec![line_name(service.service, service.route)];
        let most = service.curve.last().map_or(0, |point| point.buffers);
        cells.extend(service.needed.iter().map(|goal| goal_cell(goal, most)));
        rows.add_row(cells);
    }
    let mut text = rows.written(look);
    let short: Vec<String> = names
        .iter()
        .filter_map(|goal| {
            Some(format!(
                "{} for one per {}",
                mean_time(goal.record_ns?),
                goal.one_miss_per
            ))
        })
        .collect();
    if !short.is_empty() {
        let short = format!(
            "? : too short a recording to tell; it takes, without a failure, {}",
            short.join(", ")
        );
        text += &look.hanging("  ", "    ", &short);
    }
    text
}

fn goal_cell(goal: &Needed, most: u32) -> String {
    match (goal.surely, goal.by_estimate, goal.record_ns) {
        (Some(surely), ..) => surely.to_string(),
        (None, Some(estimate), _) => format!("about {estimate}, not proved"),
        (None, None, Some(_)) => "?".into(),
        (None, None, None) if goal.is_coarse => "?".into(),
        (None, None, None) => format!("more than {most}"),
    }
}

/// What bears on the figures of a load: stalls that had not ended, and why
/// they are coarse.
fn remarks(load: &LoadOutlook, look: Look) -> String {
    let mut text = String::new();
    for one in &load.services {
        let Some(apart) = &one.apart else {
            continue;
        };
        let stands_out = format!(
            "{} fails more often on some CPUs than chance explains: MTTF {}. The verdict and the buffers needed are for there.",
            line_name(one.service, one.route),
            parted(apart, mttf)
        );
        text.push('\n');
        text += &look.filled("", &stands_out);
    }
    for one in &load.services {
        let Some(waited) = one.waited_ns else {
            continue;
        };
        let waiting = format!(
            "{} was still waiting when measuring ended, for {} by then: failures and late buffers are at least these (>=), mean times at most these (<=)",
            line_name(one.service, one.route),
            Unit::Auto.write_nanos(waited)
        );
        text.push('\n');
        text += &look.filled("", &waiting);
    }
    let coarse = coarse(load);
    for (why, services) in &coarse {
        let of = match coarse.len() {
            1 => String::new(),
            _ => format!(" on {}", services.join(", ")),
        };
        text.push('\n');
        text += &look.filled("", &format!("Note{of}: {why}"));
    }
    text
}

/// Why figures are coarse, each reason once, with the services that it is of:
/// those with another one can stand between two.
fn coarse(load: &LoadOutlook) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for one in &load.services {
        let Some(coarse) = one.coarse else {
            continue;
        };
        let why = coarse.to_string();
        let name = line_name(one.service, one.route);
        match all.iter_mut().find(|(known, _)| *known == why) {
            Some((_, services)) => services.push(name),
            None => all.push((why, vec![name])),
        }
    }
    all
}

fn rate(per_hour: f64) -> String {
    match per_hour {
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate if rate > 0.0 => format!("{rate:.2}"),
        _ => "0 seen".into(),
    }
}

#[cfg(test)]
mod tests {
    use laggard_answer::qos::{Coarse, CoarseReason, Fitness, MissPolicy};
    use laggard_model::{LoadLabel, Nanos, Route, Service};

    use super::*;

    fn outlook(service: Service, period: Nanos) -> ServiceOutlook {
        ServiceOutlook {
            service,
            route: Route::Direct,
            is_own: false,
            verdict: Fitness::Undecided,
            cpus: 1,
            samples: 1_000,
            waited_ns: None,
            outlook: MissFigures {
                exposure_ns: 6e10,
                failures: None,
                clusters: None,
                mttf_ns: None,
                mttf_low_ns: 1e9,
                mttf_high_ns: None,
                late_per_hour: 0.0,
                dispersion: None,
                paper_mttf_ns: None,
            },
            apart: None,
            curve: Vec::new(),
            needed: Vec::new(),
            coarse: Some(Coarse {
                slack: Nanos::from_ms(3),
                reason: CoarseReason::Before {
                    apart_ns: period.as_f64(),
                },
                policy: MissPolicy::Late,
            }),
        }
    }

    fn said(services: Vec<ServiceOutlook>) -> String {
        let load = LoadOutlook {
            load: LoadLabel::none(),
            recordings: vec!["r.laggard".into()],
            services,
            notes: Vec::new(),
        };
        let look = Look {
            columns: usize::MAX,
            ..Look::default()
        };
        remarks(&load, look)
    }

    #[test]
    fn why_it_is_coarse_is_said_once_with_the_services_that_it_is_of() {
        let every_1_ms = |service| outlook(service, Nanos::from_ms(1));
        let (irq, fifo) = (Service::Irq, Service::Fifo(90));

        let same = said(vec![every_1_ms(irq), every_1_ms(fifo)]);
        let softirq = outlook(Service::Softirq, Nanos::from_ms(4));
        let two = said(vec![every_1_ms(irq), softirq, every_1_ms(fifo)]);

        assert_eq!(
            same.matches("\nNote: what came before").count(),
            1,
            "{same}"
        );
        let notes: Vec<&str> = two.matches("\nNote").collect();
        assert_eq!(notes.len(), 2, "{two}");
        for said in [
            "\nNote on irq, fifo:90: what came before a late activation was not kept (`--keep tail`), and activations 1.00 ms apart",
            "\nNote on softirq: what came before a late activation was not kept (`--keep tail`), and activations 4.00 ms apart",
        ] {
            assert!(two.contains(said), "{two}");
        }
    }
}
