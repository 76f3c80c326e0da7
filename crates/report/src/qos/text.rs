//! `laggard qos` for the terminal.

use std::fmt::Write as _;

use laggard_model::Nanos;

use super::{Application, Figures, LoadOutlook, Needed, QosReport, ServiceOutlook};
use crate::duration::{Unit, count, mean_time};
use crate::figures::{at_least, line_name};
use crate::text::{table, warnings};

/// The report as text.
pub fn text(report: &QosReport) -> String {
    let mut text = head(&report.application);
    for load in &report.loads {
        text += &of_load(load);
    }
    text += "\nMTTF: mean time to failure, a run of late buffers (100 at most), by replaying the blackouts\n\
             that were seen through the buffers, over 16 phases; in brackets its 95 % interval. The paper's\n\
             rule, (n - 1) t / P(latency > slack), is mostly optimistic. Valid for the recorded load only.\n";
    text
}

fn head(application: &Application) -> String {
    let time = |time: Nanos| Unit::Auto.write_nanos(time);
    let mut text = format!(
        "{}: {} buffers of {}, {} of work each\n",
        application.name,
        application.buffers,
        time(application.buffer_ns),
        time(application.compute_ns),
    );
    let _ = writeln!(
        text,
        "  latency tolerance {}, slack {}",
        time(application.tolerance_ns),
        time(application.slack_ns)
    );
    let _ = writeln!(text, "  source: {}", application.source);
    text
}

fn of_load(load: &LoadOutlook) -> String {
    let mut text = format!("\nLoad: {} ({})\n", load.load, load.recordings.join(", "));
    text += &warnings(&load.notes);
    text += "\n";
    let mut rows = table(&[
        "service",
        "observed",
        "failures",
        "MTTF",
        "late buffers/h",
        "paper's rule",
    ]);
    for service in &load.services {
        let figures = &service.outlook;
        rows.add_row([
            line_name(service.service, service.route),
            format!("{} ({} CPUs)", mean_time(figures.exposure_ns), service.cpus),
            at_least(
                service.waited_ns.is_some(),
                &format!("{:.1}", figures.failures),
            ),
            at_most(service, mttf(figures)),
            at_least(service.waited_ns.is_some(), &rate(figures.late_per_hour)),
            figures
                .paper_mttf_ns
                .map_or_else(|| "no failure".into(), mean_time),
        ]);
    }
    let _ = writeln!(text, "{}", rows.trim_fmt());
    text += "\nOver total buffering (MTTF; buffers of the same length)\n\n";
    text += &curve(&load.services);
    text += "\nBuffers needed for one failure per\n\n";
    text += &goals(&load.services);
    text += &remarks(load);
    if !load.notes.is_empty() {
        text += "\nTo bear in mind:\n";
        for note in &load.notes {
            let _ = writeln!(text, "  - {note}");
        }
    }
    text
}

fn curve(services: &[ServiceOutlook]) -> String {
    let names: Vec<String> = services
        .iter()
        .map(|one| line_name(one.service, one.route))
        .collect();
    let mut header = vec!["buffers", "total"];
    header.extend(names.iter().map(String::as_str));
    let mut rows = table(&header);
    for (index, point) in services
        .first()
        .map_or(&[][..], |one| &one.curve)
        .iter()
        .enumerate()
    {
        let mut cells = vec![
            count(point.buffers.into()),
            Unit::Auto.write_nanos(point.total_ns),
        ];
        cells.extend(services.iter().map(|one| short(&one.curve[index].figures)));
        rows.add_row(cells);
    }
    format!("{}\n", rows.trim_fmt())
}

/// A mean time, as an upper limit where the service was still waiting.
fn at_most(service: &ServiceOutlook, mean_time: String) -> String {
    match (service.waited_ns, service.outlook.mttf_ns) {
        (None, _) => mean_time,
        (Some(_), Some(_)) => format!("<= {mean_time}"),
        // The stall that had not ended may be a failure.
        (Some(_), None) => "not known".into(),
    }
}

/// The estimate with its interval.
fn mttf(figures: &Figures) -> String {
    let low = mean_time(figures.mttf_low_ns);
    match (figures.mttf_ns, figures.mttf_high_ns) {
        (None, _) => format!("> {low}"),
        (Some(mttf), Some(high)) => format!("{} [{low}, {}]", mean_time(mttf), mean_time(high)),
        (Some(mttf), None) => format!("{} [{low}, -]", mean_time(mttf)),
    }
}

/// The estimate alone.
fn short(figures: &Figures) -> String {
    match figures.mttf_ns {
        Some(mttf) => mean_time(mttf),
        None => format!("> {}", mean_time(figures.mttf_low_ns)),
    }
}

fn goals(services: &[ServiceOutlook]) -> String {
    let names = services.first().map_or(&[][..], |one| &one.needed);
    let mut header = vec!["service"];
    header.extend(names.iter().map(|goal| goal.one_miss_per.as_str()));
    let mut rows = table(&header);
    for service in services {
        let mut cells = vec![line_name(service.service, service.route)];
        let most = service.curve.last().map_or(0, |point| point.buffers);
        cells.extend(service.needed.iter().map(|goal| goal_cell(goal, most)));
        rows.add_row(cells);
    }
    let mut text = format!("{}\n", rows.trim_fmt());
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
        let _ = writeln!(
            text,
            "  ? : too short a recording to tell; it takes, without a failure, {}",
            short.join(", ")
        );
    }
    text
}

fn goal_cell(goal: &Needed, most: u32) -> String {
    match (goal.surely, goal.by_estimate, goal.record_ns) {
        (Some(surely), ..) => surely.to_string(),
        (None, Some(estimate), _) => format!("about {estimate}, not proved"),
        (None, None, Some(_)) => "?".into(),
        (None, None, None) => format!("more than {most}"),
    }
}

/// What bears on the figures of a load: bursts, and why they are coarse.
fn remarks(load: &LoadOutlook) -> String {
    let mut text = String::new();
    let bursts: Vec<String> = load
        .services
        .iter()
        .filter_map(|one| Some((one, one.outlook.dispersion?)))
        .map(|(one, index)| format!("{} ({index:.1})", line_name(one.service, one.route)))
        .collect();
    if !bursts.is_empty() {
        let _ = writeln!(
            text,
            "\nFailures come in bursts, so intervals are widened (variance over a Poisson process's): {}",
            bursts.join(", ")
        );
    }
    for one in &load.services {
        let Some(waited) = one.waited_ns else {
            continue;
        };
        let _ = writeln!(
            text,
            "\n{} was still waiting when measuring ended, for {} by then: failures and late buffers are at least these (>=), mean times at most these (<=)",
            line_name(one.service, one.route),
            Unit::Auto.write_nanos(waited)
        );
    }
    let mut coarse: Vec<&String> = load
        .services
        .iter()
        .filter_map(|one| one.coarse.as_ref())
        .collect();
    coarse.dedup();
    for why in coarse {
        let _ = writeln!(text, "\nNote: {why}");
    }
    text
}

fn rate(per_hour: f64) -> String {
    match per_hour {
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate if rate > 0.0 => format!("{rate:.2}"),
        _ => "0 seen".into(),
    }
}
