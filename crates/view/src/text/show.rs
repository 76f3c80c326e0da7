//! `laggard show`: one recording as text, in the layout of OSDI'99 Table 3
//! turned to services x figures.

use std::fmt::Write as _;

use laggard_answer::show::{Figures, RecordingReport, ServiceRow, Share, named_losses};
use laggard_model::name::line_name;
use laggard_model::text::{Unit, count, percent, rate, span};
use laggard_model::{Backend, Caveat, LoadLabel, Nanos, Stage, State, printable, printable_lines};

use super::bars::BarAxis;
use super::table;

/// How `show` writes its tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The unit of times in tables.
    pub unit: Unit,
}

/// Every figure of each service, and of what they are.
pub fn services(report: &RecordingReport, options: Options) -> String {
    printable_lines(&(head(report) + &latency(report, options.unit))).to_string()
}

/// Where the time goes on the way to each service.
pub fn stages(report: &RecordingReport, options: Options) -> String {
    let text = match ways(report, options.unit) {
        none if none.is_empty() => "\nNo stage on the way was recorded.\n".into(),
        ways => ways,
    };
    printable_lines(&(head(report) + &text)).to_string()
}

/// The recording as text, with all that it shows.
pub fn show(report: &RecordingReport, options: Options) -> String {
    let mut text = head(report);
    text += &latency(report, options.unit);
    text += &ways(report, options.unit);
    text += &plots(report);
    text += &losses(report);
    text += &cost(report);
    text += &caveats("Missing", &report.shortfalls);
    text += &caveats("Caveats", &report.caveats);
    if let Some(reasons) = report.trust.reasons() {
        let _ = writeln!(text, "\nNOT TRUSTWORTHY: {}", printable(&reasons));
    }
    let _ = writeln!(text, "\n{}", report.sentences.join("\n"));
    printable_lines(&text).to_string()
}

fn latency(report: &RecordingReport, unit: Unit) -> String {
    let beginning = report.beginning();
    let mut text = format!("\nLatency: from {beginning} to the service's first instruction\n\n");
    text += &service_table(report, unit);
    text + &how_exact(report)
}

fn ways(report: &RecordingReport, unit: Unit) -> String {
    match report.stages.is_empty() {
        true => String::new(),
        false => format!(
            "\nStages: where the time goes\n\n{}",
            stage_table(report, unit)
        ),
    }
}

/// With what it was measured, and what that sees.
pub(crate) fn measured_with(report: &RecordingReport) -> String {
    match report.backend {
        Backend::Bpf => format!("eBPF: {}", stamped(report.plan.stages.as_deref())),
        Backend::User => "no BPF: expiry and user stage only".into(),
        Backend::Tracer => "the timerlat tracer: expire and kthread stage".into(),
        Backend::Fake => "a script, NOT a measurement".into(),
    }
}

fn head(report: &RecordingReport) -> String {
    let host = &report.host;
    let state = match &report.state {
        State::Complete => String::new(),
        State::Running => " (no end: still running, or killed)".into(),
        State::Interrupted => " (ended early, as asked)".into(),
        State::Failed { error } => format!(" (FAILED: {})", printable(error)),
    };
    let load = match LoadLabel::of(report.load.as_ref()).load() {
        Some(load) => format!("load `{}`", printable(load)),
        None => "no load of ours".into(),
    };
    let backend = measured_with(report);
    let dither = if report.plan.dither {
        "dithered"
    } else {
        "not dithered"
    };
    let awake = if report.plan.held_awake {
        ", CPUs held awake"
    } else {
        ""
    };
    let mut text = String::new();
    let _ = writeln!(text, "{}{state}", printable(&report.path));
    let _ = writeln!(
        text,
        "  {} from {}, {load}, period {} ({dither}){awake}, {backend}",
        span(report.duration_ns),
        printable(&report.started),
        report.plan.periods(),
    );
    let _ = writeln!(
        text,
        "  Linux {} {}, {}{}",
        printable(&host.kernel),
        host.preemption
            .as_deref()
            .map_or_else(String::new, |model| format!(
                "(preemption: {})",
                printable(model)
            )),
        printable(&host.processor.model),
        host.hypervisor
            .as_deref()
            .map_or_else(String::new, |name| format!(
                ", virtual ({})",
                printable(name)
            )),
    );
    if let Some(work) = report
        .load
        .as_ref()
        .and_then(|load| load.throughput.as_ref())
        && let Some(per_second) = work.per_second()
    {
        let rate = rate(per_second, &work.unit);
        let _ = writeln!(text, "  throughput of the load: {}", printable(&rate));
    }
    text
}

/// The stages on the way that were asked for; `None`: all.
fn stamped(asked: Option<&[Stage]>) -> String {
    match asked {
        None => "all stages asked for".into(),
        Some([]) => "no stage on the way".into(),
        Some(some) => {
            let names: Vec<&str> = some.iter().map(|stage| stage.name()).collect();
            format!("stages {} on the way", names.join(", "))
        }
    }
}

fn service_table(report: &RecordingReport, unit: Unit) -> String {
    let by_cpu = report.services.iter().any(|row| row.cpu.is_some());
    let by_minute = report.services.iter().any(|row| row.minute.is_some());
    let mut header = vec!["service"];
    header.extend(by_minute.then_some("minute"));
    header.extend(by_cpu.then_some("CPU"));
    header.extend(["samples", "missed", least(&report.services)]);
    header.extend([
        "mean", "std dev", "median", "p99", "p99.9", "p99.99", "largest", "at",
    ]);
    let mut table = table(&header);
    for row in &report.services {
        let mut cells = vec![row.name()];
        if by_minute {
            cells.push(
                row.minute
                    .map_or_else(String::new, |minute| minute.to_string()),
            );
        }
        if by_cpu {
            cells.push(row.cpu.map_or_else(String::new, |cpu| cpu.to_string()));
        }
        cells.push(count(row.latency.samples));
        cells.push(count(row.missed));
        cells.extend(figure_cells(&row.latency, unit));
        cells.push(at(row.latency.largest_at_ns));
        table.add_row(cells);
    }
    format!("{}\n", table.trim_fmt())
}

/// What the smallest is called: where some were missed it is of others than the
/// figures beside it.
pub(crate) fn least<'a>(rows: impl IntoIterator<Item = &'a ServiceRow>) -> &'static str {
    match rows.into_iter().any(|row| row.missed > 0) {
        true => "min (served)",
        false => "min",
    }
}

fn stage_table(report: &RecordingReport, unit: Unit) -> String {
    let mut table = table(&[
        "service", "stage", "samples", "min", "mean", "std dev", "median", "p99", "p99.9",
        "p99.99", "largest",
    ]);
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    let mut before = String::new();
    for row in &report.stages {
        let name = line_name(row.service, row.route);
        let shown = if name == before {
            String::new()
        } else {
            name.clone()
        };
        before = name;
        let mut cells = vec![shown, row.name.clone(), count(row.time.samples)];
        cells.extend(figure_cells(&row.time, unit));
        table.add_row(cells);
    }
    format!("{}\n", table.trim_fmt())
}

/// min, mean, standard deviation, quantiles, largest.
fn figure_cells(figures: &Figures, unit: Unit) -> Vec<String> {
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let mut cells = vec![
        dash(figures.min_ns.map(|time| unit.write_nanos(time))),
        dash(figures.mean(unit)),
        dash(figures.deviation_ns.map(|time| unit.write(time))),
    ];
    cells.extend(figures.quantiles.iter().map(|share| share.write(unit)));
    cells.push(dash(figures.largest(unit)));
    cells
}

/// How exact the figures are, and why some are limits or missing.
fn how_exact(report: &RecordingReport) -> String {
    let rows = &report.services;
    let shares = || rows.iter().flat_map(|row| &row.latency.quantiles);
    let mut text = String::new();
    if shares().any(|share| share.ns.is_some()) {
        text += "  Quantiles round up to the edge of a bucket: they are at most 1.09 % high.\n";
    }
    if rows.iter().any(|row| row.missed > 0) {
        text += "  min (served): of those that were served; all other figures count the missed too, with the time until the service next ran.\n";
    }
    if !report.waiting.is_empty() {
        let waiting: u64 = report.waiting.iter().map(|one| one.still_waiting).sum();
        let _ = writeln!(
            text,
            "  >= : at least; {} activations were still waiting when measuring ended, and count with how long they had waited",
            count(waiting)
        );
    }
    text += &lossy(rows);
    text + &unsupported(report)
}

/// Whose quantiles are limits because something was lost, those that lost most
/// first.
fn lossy(rows: &[ServiceRow]) -> String {
    let is_limit = |share: &Share| share.low_ns.is_some() || share.is_at_least;
    let is_lossy = |row: &&ServiceRow| row.lost > 0 && row.latency.quantiles.iter().any(is_limit);
    let mut lost: Vec<(String, u64)> = Vec::new();
    for row in rows.iter().filter(is_lossy) {
        let name = row.name();
        // Each CPU or minute can have a row of its own.
        match lost.iter_mut().find(|(known, _)| *known == name) {
            Some((_, most)) => *most = row.lost.max(*most),
            None => lost.push((name, row.lost)),
        }
    }
    if lost.is_empty() {
        return String::new();
    }
    lost.sort_by_key(|(_, most)| std::cmp::Reverse(*most));
    let each = lost
        .iter()
        .map(|(name, most)| format!("{name} up to {}", count(*most)));
    let each: Vec<String> = each.collect();
    format!(
        "  to, >= : activations that were lost can have been of any latency: {}\n",
        each.join(", ")
    )
}

/// Which quantiles are not shown, and how many samples they take.
fn unsupported(report: &RecordingReport) -> String {
    let mut needs: Vec<&Share> = report
        .services
        .iter()
        .flat_map(|row| &row.latency.quantiles)
        .filter(|share| share.needs_samples.is_some())
        .collect();
    needs.sort_by(|a, b| a.q.total_cmp(&b.q));
    needs.dedup_by(|a, b| a.q.total_cmp(&b.q).is_eq());
    needs
        .iter()
        .filter_map(|share| {
            let samples = count(share.needs_samples?);
            Some(format!(
                "  - : p{} needs >= {samples} samples\n",
                percent(share.q)
            ))
        })
        .collect()
}

fn at(time: Option<Nanos>) -> String {
    time.map_or_else(|| "-".into(), |time| format!("{:.3} s", time.as_secs_f64()))
}

fn plots(report: &RecordingReport) -> String {
    if report.services.iter().any(|row| row.minute.is_some()) {
        return String::new();
    }
    let all = || report.histograms.iter().map(|view| view.buckets.as_slice());
    let Some(axis) = BarAxis::over(all()) else {
        return String::new();
    };
    let mut text = "\nHow often each latency was seen (both scales logarithmic; a level is half a power of ten)\n\n".to_owned();
    let width = 22;
    for view in &report.histograms {
        let mut name = line_name(view.service, view.route);
        if let Some(cpu) = view.cpu {
            let _ = write!(name, ", CPU {cpu}");
        }
        for (index, line) in axis
            .draw(&view.buckets)
            .iter()
            .rev()
            .enumerate()
            .collect::<Vec<_>>()
            .iter()
            .rev()
        {
            let label = if *index == 0 { name.as_str() } else { "" };
            let _ = writeln!(text, "{label:width$}{}", line.trim_end());
        }
    }
    for line in axis.ticks() {
        let _ = writeln!(text, "{:width$}{line}", "");
    }
    text
}

fn losses(report: &RecordingReport) -> String {
    let all: Vec<String> = named_losses(&report.losses)
        .map(|(name, number)| format!("{name} {}", count(number)))
        .collect();
    format!(
        "\nLosses: {} activations lost; {}\n",
        count(report.losses.activations()),
        all.join(", ")
    )
}

/// A shorter time gives no rate: what is done once, at the beginning, is most
/// of it.
const LEAST_FOR_RATES: Nanos = Nanos::from_ms(100);

fn cost(report: &RecordingReport) -> String {
    let cost = &report.cost;
    if cost.wall_ns == Nanos::ZERO {
        return "Own cost: not known (the recording has no end)\n".into();
    }
    if cost.wall_ns < LEAST_FOR_RATES {
        return format!(
            "Own cost: {} of CPU time in {}, too short a time for a share\n",
            cost.total(),
            cost.wall_ns
        );
    }
    let share = |time: Nanos| 100.0 * time.ns() as f64 / cost.wall_ns.ns() as f64;
    let bpf = cost
        .programs
        .iter()
        .fold(Nanos::ZERO, |sum, one| sum + one.run_ns);
    let mut text = format!(
        "Own cost: {:.2} % of one CPU (measuring threads {:.2} %, BPF {:.2} %, collecting and writing {:.2} %), {:.1} MB written, {:.1} MB resident, {} page faults while measuring\n",
        share(cost.total()),
        share(cost.measuring_cpu_ns),
        share(bpf),
        share(cost.other_cpu_ns),
        cost.written_bytes as f64 / 1e6,
        cost.resident_bytes as f64 / 1e6,
        count(cost.measuring_faults),
    );
    let each: Vec<String> = cost
        .programs
        .iter()
        .filter(|one| one.runs > 0)
        .map(|one| format!("{} {} ns", one.name, one.run_ns.ns() / one.runs))
        .collect();
    if !each.is_empty() {
        let _ = writeln!(text, "  each run of a BPF program: {}", each.join(", "));
    }
    text
}

fn caveats(title: &str, all: &[Caveat]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title}:\n");
    for caveat in all {
        let _ = writeln!(
            text,
            "  - {}; {}",
            printable(&caveat.what),
            printable(&caveat.advice)
        );
    }
    text
}
