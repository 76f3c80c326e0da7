//! The first lines: measurement, machine, losses and warnings.

use laggard_model::text::{brief_count, span};
use laggard_model::{Backend, LoadLabel, Manifest, Nanos, printable};
use ratatui::text::{Line, Span};

use super::{Shown, cut};

/// Number of lines.
pub(super) const HEIGHT: u16 = 3;

pub(super) fn lines(shown: &Shown<'_>, width: usize) -> Vec<Line<'static>> {
    vec![title(shown, width), machine(shown), losses(shown)]
}

fn title(shown: &Shown<'_>, width: usize) -> Line<'static> {
    let manifest = &shown.state.manifest;
    let mut right = String::new();
    if shown.look.is_paused {
        right += " PAUSED";
    }
    // The path is on the panel of key 4, because it may be long.
    if shown.look.kept.is_some() {
        right += " REC";
    }
    right.push(' ');
    let room = width.saturating_sub(right.chars().count());
    let cpus = shown.state.cpus().len();
    let parts = [
        load(manifest),
        format!("{cpus} CPU{}", if cpus == 1 { "" } else { "s" }),
        format!("every {}", manifest.plan.pace()),
        // For a script, this states that it is not a measurement.
        backend(manifest.backend).to_owned(),
    ];
    let with = |kept: &[usize]| {
        let kept: Vec<&str> = kept.iter().map(|&part| parts[part].as_str()).collect();
        let clock = clock(shown.state.now);
        format!(" laggard top  {clock}  {}", kept.join(", "))
    };
    // A part that does not fit is left out, the least important first.
    let left = [&[0, 1, 2, 3][..], &[0, 1, 3], &[0, 3], &[3]]
        .into_iter()
        .map(with)
        .find(|left| left.chars().count() <= room)
        .unwrap_or_else(|| with(&[3]));
    let left = cut(&left, room);
    Line::styled(format!("{left:room$}{right}"), shown.palette.bar())
}

fn machine(shown: &Shown<'_>) -> Line<'static> {
    let host = &shown.state.manifest.host;
    let mut parts = Vec::new();
    if !host.node.is_empty() {
        parts.push(host.node.clone());
    }
    if !host.kernel.is_empty() {
        let model = host.preemption.as_deref().unwrap_or("unknown");
        parts.push(format!("Linux {} (preempt={model})", host.kernel));
    }
    if !host.processor.model.is_empty() {
        parts.push(host.processor.model.clone());
    }
    parts.extend(host.hypervisor.clone());
    Line::from(format!(" {}", printable(&parts.join(", "))))
}

fn losses(shown: &Shown<'_>) -> Line<'static> {
    let (state, palette) = (shown.state, shown.palette);
    let losses = state.losses();
    let lost = losses.activations();
    let partly: u64 = losses.iter().map(|(_, count)| count).sum::<u64>() - lost;
    let mut spans = vec![Span::from(" lost ")];
    let style = if lost > 0 {
        palette.warning()
    } else {
        palette.chosen()
    };
    spans.push(Span::styled(brief_count(lost), style));
    spans.push(format!(", incomplete {}; ", brief_count(partly)).into());
    spans.push(format!("overhead {}; ", cost(shown)).into());
    let caveats = state.manifest.caveats.len();
    let style = if caveats > 0 {
        palette.warning()
    } else {
        palette.chosen()
    };
    let plural = if caveats == 1 { "" } else { "s" };
    spans.push(Span::styled(format!("{caveats} warning{plural}"), style));
    spans.push(" (key 4)".into());
    if state.since > Nanos::ZERO {
        spans.push(format!("; reset at {}", clock(state.since)).into());
    }
    Line::from(spans)
}

fn cost(shown: &Shown<'_>) -> String {
    match &shown.state.cost {
        Some(cost) if cost.wall_ns > Nanos::ZERO => format!(
            "{:.1} % CPU",
            100.0 * cost.total().ns() as f64 / cost.wall_ns.ns() as f64
        ),
        _ => "unknown yet".into(),
    }
}

pub(in crate::top) fn load(manifest: &Manifest) -> String {
    match LoadLabel::of(manifest.load.as_ref()).load() {
        Some(load) => format!("load {}", printable(load)),
        None => "no load".into(),
    }
}

pub(in crate::top) const fn backend(backend: Backend) -> &'static str {
    match backend {
        Backend::Bpf => "eBPF",
        Backend::Etw => "kernel events",
        Backend::Perf => "perf tracepoints",
        Backend::User => "no BPF",
        Backend::Tracer => "timerlat tracer",
        Backend::Driver => "driver wdmlat.sys",
        Backend::Fake => "a script, NOT a measurement",
        Backend::Imported => "imported trace",
    }
}

/// Writes a time as minutes and seconds, or as hours.
pub(in crate::top) fn clock(time: Nanos) -> String {
    let seconds = time.ns() / 1_000_000_000;
    if seconds >= 3_600 {
        return span(time);
    }
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
