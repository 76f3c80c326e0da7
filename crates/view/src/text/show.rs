//! `laggard show`: one recording as text, in the layout of OSDI'99 Table 3
//! turned to services x figures.

use std::fmt::Write as _;

use laggard_answer::show::{
    Figures, HistogramView, RecordingReport, ServiceRow, Share, StageRow, named_losses,
};
use laggard_model::name::line_name;
use laggard_model::text::{count, percent, rate, span};
use laggard_model::{Backend, LoadLabel, Nanos, RowsOf, Stage, State, printable, printable_lines};

use super::Look;
use super::bars::BarAxis;
use super::caveats::caveats;
use super::contexts::contexts;
use super::early::FigureWords;
use super::grid::Grid;
use super::screen::width;

/// Every figure of each service, and of what they are.
pub fn services(report: &RecordingReport, look: Look) -> String {
    let text = head(report, look) + &latency(report, look) + &distrust(report, look);
    printable_lines(&text).to_string()
}

/// Where the time goes on the way to each service.
pub fn stages(report: &RecordingReport, look: Look) -> String {
    let text = match ways(report, look) {
        none if none.is_empty() => "\nNo stage on the way was recorded.\n".into(),
        ways => ways,
    };
    printable_lines(&(head(report, look) + &text)).to_string()
}

/// The recording as text, with all that it shows.
pub fn show(report: &RecordingReport, look: Look) -> String {
    let mut text = head(report, look);
    text += &latency(report, look);
    if let Some(beside) = &report.contexts {
        text += &contexts(beside, look);
    }
    text += &ways(report, look);
    text += &plots(report, look);
    text.push('\n');
    text += &look.hanging("", "  ", &losses(report));
    text += &cost(report, look);
    text += &caveats("Missing", &report.shortfalls, look);
    text += &caveats("Caveats", &report.caveats, look);
    text += &distrust(report, look);
    text.push('\n');
    for sentence in &report.sentences {
        text += &look.filled("", sentence);
    }
    printable_lines(&text).to_string()
}

/// Why it cannot be trusted; nothing where it can.
fn distrust(report: &RecordingReport, look: Look) -> String {
    let of = |reasons: String| {
        let told = format!("NOT TRUSTWORTHY: {}", printable(&reasons));
        format!("\n{}", look.filled("", &told))
    };
    report.trust.reasons().map_or_else(String::new, of)
}

fn latency(report: &RecordingReport, look: Look) -> String {
    let from = match report.plan.rows.latency() {
        Some(from) => from.into(),
        None => format!(
            "from {} to the service's first instruction",
            report.beginning()
        ),
    };
    let what = format!("Latency: {from}");
    let table = service_table(report, look);
    format!(
        "\n{}\n{table}{}",
        look.filled("", &what),
        how_exact(report, look)
    )
}

fn ways(report: &RecordingReport, look: Look) -> String {
    if report.stages.is_empty() {
        String::new()
    } else {
        format!(
            "\nStages: where the time goes\n\n{}",
            stage_table(report, look)
        )
    }
}

/// With what it was measured, and what that sees.
pub(crate) fn measured_with(report: &RecordingReport) -> String {
    match report.plan.rows {
        RowsOf::Expiries => {}
        RowsOf::HandOvers { .. } => return "recorded by `laggard switch`".into(),
        RowsOf::Waits { .. } => return "recorded by `laggard timers`".into(),
        RowsOf::Activations => return "recorded by `laggard attach`".into(),
        RowsOf::Traced => return "read by `laggard import`".into(),
    }
    let of_driver = report.services.iter().any(|row| row.service.is_of_driver());
    match report.backend {
        Backend::User if of_driver => {
            "threads, and by the driver wdmlat.sys DPC and kernel thread".into()
        }
        Backend::Etw => "threads, and by the kernel's events (ETW): waking and running".into(),
        Backend::User if report.host.is_windows() => "threads: expiry and user stage only".into(),
        Backend::Bpf => format!("eBPF: {}", stamped(report.plan.stages.as_deref())),
        Backend::User => "no BPF: expiry and user stage only".into(),
        Backend::Tracer => "the timerlat tracer: expire and kthread stage".into(),
        Backend::Driver => "the driver wdmlat.sys: DPC and kernel thread".into(),
        Backend::Fake => "a script, NOT a measurement".into(),
        Backend::Imported => "recorded by another program".into(),
    }
}

fn head(report: &RecordingReport, look: Look) -> String {
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
    let awake = if report.plan.held_awake {
        ", CPUs held awake"
    } else {
        ""
    };
    let mut text = look.hanging("", "  ", &format!("{}{state}", printable(&report.path)));
    let ran = format!(
        "{} from {}, {load}, {}{awake}, {backend}",
        span(report.duration_ns),
        printable(&report.started),
        report.plan.rhythm(),
    );
    text += &look.hanging("  ", "    ", &ran);
    let model = |text: &Option<String>, before: &str, after: &str| {
        let words = text.as_ref().map(|text| printable(text).to_string());
        words.map_or_else(String::new, |words| format!("{before}{words}{after}"))
    };
    // A trace does not say.
    let processor = Some(host.processor.model.clone()).filter(|model| !model.is_empty());
    let machine = format!(
        "{}{}{}{}",
        printable(&host.system()),
        model(&host.preemption, " (preemption: ", ")"),
        model(&processor, ", ", ""),
        model(&host.hypervisor, ", virtual (", ")"),
    );
    text += &look.hanging("  ", "    ", &machine);
    if let Some(work) = report
        .load
        .as_ref()
        .and_then(|load| load.throughput.as_ref())
        && let Some(per_second) = work.per_second()
    {
        let rate = rate(per_second, &work.unit);
        let rate = format!("throughput of the load: {}", printable(&rate));
        text += &look.hanging("  ", "    ", &rate);
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

fn service_table(report: &RecordingReport, look: Look) -> String {
    let by_cpu = report.services.iter().any(|row| row.cpu.is_some());
    let by_minute = report.services.iter().any(|row| row.minute.is_some());
    let mut header = vec!["service"];
    header.extend(by_minute.then_some("minute"));
    header.extend(by_cpu.then_some("CPU"));
    let keys = header.len();
    header.extend(["samples", "missed", least(&report.services)]);
    header.extend(["mean", "std dev"]);
    let quantiles = header.len();
    header.extend(["median", "p99", "p99.9", "p99.99", "largest", "at"]);
    let mut table = Grid::new(header).keys(keys).parted_before(quantiles);
    let number = |value: Option<String>| value.unwrap_or_default();
    for row in &report.services {
        let mut cells = vec![row.name()];
        if by_minute {
            cells.push(number(row.minute.map(|minute| minute.to_string())));
        }
        if by_cpu {
            cells.push(number(row.cpu.map(|cpu| cpu.to_string())));
        }
        cells.push(count(row.latency.samples));
        cells.push(count(row.missed));
        cells.extend(figure_cells(
            &row.latency,
            FigureWords::of(report, look.unit),
            look,
        ));
        cells.push(at(row.latency.largest_at_ns));
        table.add_row(cells);
    }
    table.written(look)
}

/// What the smallest is called: where some were missed it is of others than the
/// figures beside it.
pub(crate) fn least<'a>(rows: impl IntoIterator<Item = &'a ServiceRow>) -> &'static str {
    if rows.into_iter().any(|row| row.missed > 0) {
        "min (served)"
    } else {
        "min"
    }
}

/// A table for each way: its service, and the stages below it.
fn stage_table(report: &RecordingReport, look: Look) -> String {
    let line = |row: &StageRow| (row.service, row.route);
    let ways = report.stages.chunk_by(|one, next| line(one) == line(next));
    let longest = report.stages.iter().map(|row| width(&row.name)).max();
    let longest = longest.unwrap_or_default();
    let tables = ways.map(|rows| {
        let mut table = Grid::new([
            &*line_name(rows[0].service, rows[0].route),
            "samples",
            "min",
            "mean",
            "std dev",
            "median",
            "p99",
            "p99.9",
            "p99.99",
            "largest",
        ])
        .parted_before(5)
        .no_narrower(longest);
        for row in rows {
            let mut cells = vec![row.name.clone(), count(row.time.samples)];
            cells.extend(figure_cells(
                &row.time,
                FigureWords::of(report, look.unit),
                look,
            ));
            table.add_row(cells);
        }
        table.written(look)
    });
    tables.collect::<Vec<_>>().join("\n")
}

/// min, mean, standard deviation, quantiles, largest.
fn figure_cells(figures: &Figures, words: FigureWords, look: Look) -> Vec<String> {
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let mut cells = vec![
        dash(words.least(figures)),
        dash(words.mean(figures)),
        dash(words.deviation(figures)),
    ];
    let shares = figures.quantiles.iter();
    cells.extend(shares.map(|share| words.share(figures, share)));
    cells.push(dash(figures.largest(look.unit)));
    cells
}

/// How exact the figures are, and why some are limits or missing.
fn how_exact(report: &RecordingReport, look: Look) -> String {
    let rows = &report.services;
    let shares = || rows.iter().flat_map(|row| &row.latency.quantiles);
    let mut notes: Vec<String> = Vec::new();
    if shares().any(|share| share.ns.is_some()) {
        let edge = "Quantiles round up to the edge of a bucket: they are at most 1.09 % high.";
        notes.push(edge.into());
    }
    if rows.iter().any(|row| row.missed > 0) {
        let served = "min (served): of those that were served; all other figures count the missed \
                      too, with the time until the service next ran.";
        notes.push(served.into());
    }
    if !report.waiting.is_empty() {
        let waiting: u64 = report.waiting.iter().map(|one| one.still_waiting).sum();
        notes.push(format!(
            ">= : at least; {} activations were still waiting when measuring ended, and count with how long they had waited",
            count(waiting)
        ));
    }
    let samples = rows.iter().map(|row| row.latency.samples).sum();
    notes.extend(FigureWords::of(report, look.unit).note(samples));
    notes.extend(lossy(rows));
    notes.extend(unsupported(report));
    let lines = notes.iter().map(|note| look.hanging("  ", "    ", note));
    lines.collect()
}

/// Whose quantiles are limits because something was lost, those that lost most
/// first.
fn lossy(rows: &[ServiceRow]) -> Option<String> {
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
        return None;
    }
    lost.sort_by_key(|(_, most)| std::cmp::Reverse(*most));
    let each = lost
        .iter()
        .map(|(name, most)| format!("{name} up to {}", count(*most)));
    let each: Vec<String> = each.collect();
    Some(format!(
        "to, >= : activations that were lost can have been of any latency: {}",
        each.join(", ")
    ))
}

/// Which quantiles are not shown, and how many samples they take.
fn unsupported(report: &RecordingReport) -> Vec<String> {
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
                "- : p{} needs >= {samples} samples",
                percent(share.q)
            ))
        })
        .collect()
}

fn at(time: Option<Nanos>) -> String {
    time.map_or_else(|| "-".into(), |time| format!("{:.3} s", time.as_secs_f64()))
}

fn plots(report: &RecordingReport, look: Look) -> String {
    if report.services.iter().any(|row| row.minute.is_some()) {
        return String::new();
    }
    let names: Vec<String> = report.histograms.iter().map(plotted).collect();
    let longest = names.iter().map(|name| width(name)).max();
    let beside = longest.unwrap_or_default() + 2;
    // Where it is too narrow for both, a name is above what it names.
    let is_beside = beside + BarAxis::LEAST <= look.columns;
    let indent = if is_beside { beside } else { 0 };
    let all = || report.histograms.iter().map(|view| view.buckets.as_slice());
    let Some(axis) = BarAxis::over(all(), look.columns.saturating_sub(indent)) else {
        return String::new();
    };
    let what = "How often each latency was seen (both scales logarithmic; a level is half a power \
                of ten)";
    let mut text = format!("\n{}\n", look.filled("", what));
    for (view, name) in report.histograms.iter().zip(&names) {
        let lines = axis.draw(&view.buckets);
        if !is_beside {
            let _ = writeln!(text, "{name}");
        }
        for (index, line) in lines.iter().enumerate() {
            let is_last = index + 1 == lines.len();
            let label = if is_beside && is_last { name } else { "" };
            let _ = writeln!(text, "{label:indent$}{}", line.trim_end());
        }
    }
    for line in axis.ticks() {
        let _ = writeln!(text, "{:indent$}{line}", "");
    }
    text
}

/// Of what a histogram is.
fn plotted(view: &HistogramView) -> String {
    let name = line_name(view.service, view.route);
    match view.cpu {
        Some(cpu) => format!("{name}, CPU {cpu}"),
        None => name,
    }
}

fn losses(report: &RecordingReport) -> String {
    if report.plan.rows == RowsOf::Traced {
        let not_written = count(report.losses.not_written);
        return format!(
            "Losses: those of the trace are among the caveats; not written {not_written}"
        );
    }
    let all: Vec<String> = named_losses(&report.losses)
        .map(|(name, number)| format!("{name} {}", count(number)))
        .collect();
    format!(
        "Losses: {} activations lost; {}",
        count(report.losses.activations()),
        all.join(", ")
    )
}

/// A shorter time gives no rate: what is done once, at the beginning, is most
/// of it.
const LEAST_FOR_RATES: Nanos = Nanos::from_ms(100);

fn cost(report: &RecordingReport, look: Look) -> String {
    let line = |text: &str| look.hanging("", "  ", text);
    let cost = &report.cost;
    if !report.plan.rows.are_expiries() {
        return line("Own cost: not counted");
    }
    if cost.wall_ns == Nanos::ZERO {
        return line("Own cost: not known (the recording has no end)");
    }
    if cost.wall_ns < LEAST_FOR_RATES {
        return line(&format!(
            "Own cost: {} of CPU time in {}, too short a time for a share",
            cost.total(),
            cost.wall_ns
        ));
    }
    let share = |time: Nanos| 100.0 * time.ns() as f64 / cost.wall_ns.ns() as f64;
    let bpf = cost
        .programs
        .iter()
        .fold(Nanos::ZERO, |sum, one| sum + one.run_ns);
    let faults = if report.host.is_windows() {
        // Windows does not count page faults per thread.
        "page faults not counted".into()
    } else {
        format!(
            "{} page faults while measuring",
            count(cost.measuring_faults)
        )
    };
    let outside = match cost.outside_cpu_ns {
        Nanos::ZERO => String::new(),
        time => format!(
            "; {:.2} s of CPU time to start and finish",
            time.as_secs_f64()
        ),
    };
    let mut text = line(&format!(
        "Own cost: {:.2} % of one CPU (measuring threads {:.2} %, BPF {:.2} %, collecting and writing {:.2} %), {:.1} MB written, {:.1} MB resident, {faults}{outside}",
        share(cost.total()),
        share(cost.measuring_cpu_ns),
        share(bpf),
        share(cost.other_cpu_ns),
        cost.written_bytes as f64 / 1e6,
        cost.resident_bytes as f64 / 1e6,
    ));
    let each: Vec<String> = cost
        .programs
        .iter()
        .filter(|one| one.runs > 0)
        .map(|one| format!("{} {} ns", one.name, one.run_ns.ns() / one.runs))
        .collect();
    if !each.is_empty() {
        let each = format!("each run of a BPF program: {}", each.join(", "));
        text += &look.hanging("  ", "    ", &each);
    }
    text
}
