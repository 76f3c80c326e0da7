//! Export of episodes to Perfetto's viewer (<https://ui.perfetto.dev>).
//!
//! Tracks per CPU show its threads and interruptions. Tracks per line show each late wakeup with
//! its stages, and beneath them its causes. Stack samples are point events and samples of Perfetto.
//! Switches and wakeups have the form of the kernel's tracer. Times are `CLOCK_MONOTONIC`, ns.

mod chains;
mod sched;
mod tracks;
mod wire;

use std::collections::BTreeMap;

use laggard_answer::why::{CpuTimeline, Explained, ExplainedEpisode, Part, Slice};
use laggard_model::name::{activity_name, line_name, part_name};
use laggard_model::text::Unit;
use laggard_model::{
    Episode, LineId, Manifest, NamedCause, Nanos, Sampler, Stage, Symbols, printable,
};
use prost::Message as _;

use crate::phrase::cause;

use chains::Chains;
use tracks::{Annotation, Tracks};

/// Returns the late wakeups as a file for Perfetto's viewer.
pub fn perfetto(late: &Explained<'_>) -> Vec<u8> {
    let symbols = late.symbols();
    let mut tracks = Tracks::default();
    let mut chains = Chains::default();
    let spans = late.timelines();
    let rate = late
        .episodes
        .iter()
        .find_map(|explained| explained.episode.evidence.sampler);
    let mut lines: BTreeMap<LineId, Vec<&ExplainedEpisode<'_>>> = BTreeMap::new();
    for episode in &late.episodes {
        lines.entry(episode.episode.line).or_default().push(episode);
    }
    for of_line in lines.into_values() {
        draw_line(&mut tracks, of_line, symbols);
    }
    draw_cpus(&mut tracks, &mut chains, &spans, symbols);
    let mut bytes = Vec::new();
    write(&mut bytes, clocks(&late.late.manifest));
    write(&mut bytes, chains.packet(rate, tracks.names()));
    tracks.write(&mut bytes);
    for sample in chains.samples(&thread_names(&spans)) {
        write(&mut bytes, sample);
    }
    for bundle in sched::bundles(&spans, &late.episodes) {
        write(&mut bytes, tracks::scheduled(bundle));
    }
    bytes
}

/// Appends a packet to a trace.
fn write(bytes: &mut Vec<u8>, packet: wire::TracePacket) {
    let trace = wire::Trace {
        packet: vec![packet],
    };
    // A vector grows as needed, so that encoding cannot fail.
    let _ = trace.encode(bytes);
}

/// The trace uses laggard's clock. The first packet relates it to the wall clock.
fn clocks(manifest: &Manifest) -> wire::TracePacket {
    let start = manifest.clock.start_ns.ns();
    let clock = |clock_id, timestamp| wire::Clock {
        clock_id: Some(clock_id),
        timestamp: Some(timestamp),
    };
    // The viewer assumes that the tracer's events use the boot clock, which the trace does not use
    // otherwise. In fact they use laggard's clock. Both clocks are declared equal, so that no time
    // changes.
    let mut clocks = vec![clock(wire::MONOTONIC, start), clock(wire::BOOTTIME, start)];
    let wall = manifest.clock.start_wall.parse::<jiff::Timestamp>().ok();
    let wall = wall.and_then(|wall| u64::try_from(wall.as_nanosecond()).ok());
    clocks.extend(wall.map(|wall| clock(wire::REALTIME, wall)));
    wire::TracePacket {
        clock_snapshot: Some(wire::ClockSnapshot {
            clocks,
            primary_trace_clock: Some(wire::MONOTONIC),
        }),
        timestamp_clock_id: Some(wire::MONOTONIC),
        ..tracks::packet(manifest.clock.start_ns)
    }
}

/// Draws the late wakeups of one line, with their stages and causes.
fn draw_line(tracks: &mut Tracks, mut late: Vec<&ExplainedEpisode<'_>>, symbols: &Symbols) {
    let Some(line) = late.first().map(|explained| explained.line) else {
        return;
    };
    let service = line_name(line.service, line.route);
    let group = tracks.group(&format!("Late: {service} on CPU {}", line.cpu));
    let stages = tracks.track(group, "stages");
    let causes = tracks.track(group, "causes");
    late.sort_by_key(|explained| explained.episode.expiry_ns);
    let mut busy_until = Nanos::ZERO;
    for explained in late {
        let episode = explained.episode;
        // Slices of a track must nest or follow each other. A line serves one expiry at a time, but
        // a damaged recording may violate this.
        if episode.expiry_ns < busy_until {
            continue;
        }
        busy_until = episode.end();
        let title = format!(
            "#{}: {} late",
            episode.number,
            Unit::Auto.write_nanos(episode.latency())
        );
        tracks.begin(stages, episode.expiry_ns, &title, notes(episode));
        draw_stages(tracks, stages, episode);
        tracks.end(stages, episode.end());
        // The order of recorded causes is unknown.
        if episode.causes.is_empty() {
            draw_causes(tracks, causes, &explained.explanation.parts, symbols);
        }
    }
}

fn notes(episode: &Episode) -> Vec<Annotation> {
    vec![
        Annotation::number("episode", episode.number),
        Annotation::number("activation", episode.seq),
        Annotation::number("latency_ns", episode.latency().ns()),
        Annotation::number("late_from_ns", episode.threshold_ns.ns()),
    ]
}

/// Draws a slice from each stage to the next.
fn draw_stages(tracks: &mut Tracks, track: u64, episode: &Episode) {
    let mut stages: Vec<(Nanos, Stage)> = episode
        .stages
        .iter()
        .map(|(&stage, &after)| (episode.expiry_ns + after, stage))
        .collect();
    stages.sort();
    let mut from = episode.expiry_ns;
    let mut before = None;
    for (at, stage) in stages {
        if at > from {
            tracks.begin(track, from, &part_name(stage, before), Vec::new());
            tracks.end(track, at);
        }
        (from, before) = (at, Some(stage));
    }
}

/// Draws one slice per cause, one after the other.
fn draw_causes(tracks: &mut Tracks, track: u64, parts: &[Part], symbols: &Symbols) {
    let same = |a: &Part, b: &Part| a.class == b.class && a.culprit == b.culprit;
    for run in parts.chunk_by(same) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else {
            continue;
        };
        let cause = NamedCause::from_culprit(first.class, &first.culprit, symbols);
        let title = cause::name(&cause, &[]);
        tracks.begin(track, first.slice.from, &title, Vec::new());
        tracks.end(track, last.slice.to);
    }
}

/// Draws the threads on every CPU, and their code.
fn draw_cpus(tracks: &mut Tracks, chains: &mut Chains, spans: &[CpuTimeline], symbols: &Symbols) {
    let mut drawn: BTreeMap<laggard_model::Cpu, (u64, u64)> = BTreeMap::new();
    for span in spans {
        let (runs, samples) = *drawn.entry(span.cpu).or_insert_with(|| {
            let group = tracks.group(&format!("CPU {}", span.cpu));
            let runs = tracks.track(group, "running");
            (runs, tracks.track(group, "stack samples"))
        });
        draw_runs(tracks, runs, &span.slices, symbols);
        for sample in &span.samples {
            let chain = chains.add(span.cpu, sample, symbols);
            let title = chain.innermost();
            tracks.instant(samples, sample.at_ns, title, vec![chain.note()]);
        }
    }
}

/// Returns the last name of each thread that was switched in.
fn thread_names(spans: &[CpuTimeline]) -> BTreeMap<u32, String> {
    spans
        .iter()
        .flat_map(|span| &span.slices)
        .filter_map(|slice| slice.context.thread.as_ref())
        .map(|thread| (thread.tid.0, printable(&thread.name).to_string()))
        .collect()
}

/// Draws threads, and the activities that interrupted them, as nested slices.
fn draw_runs(tracks: &mut Tracks, track: u64, slices: &[Slice], symbols: &Symbols) {
    // Open slices, outermost first, with their start times.
    let mut open: Vec<(String, Nanos)> = Vec::new();
    for slice in slices {
        let layers = layers(slice, symbols);
        let kept = open
            .iter()
            .zip(&layers)
            .take_while(|(open, layer)| *open == *layer)
            .count();
        for _ in open.drain(kept..) {
            tracks.end(track, slice.from);
        }
        for (title, since) in layers.into_iter().skip(kept) {
            tracks.begin(track, slice.from, &title, Vec::new());
            open.push((title, since));
        }
    }
    let end = slices.last().map_or(Nanos::ZERO, |last| last.to);
    for _ in open {
        tracks.end(track, end);
    }
}

/// Returns the thread and its activities, each with its start. The start distinguishes the next
/// interrupt with the same name.
fn layers(slice: &Slice, symbols: &Symbols) -> Vec<(String, Nanos)> {
    let thread = slice.context.thread.as_ref().map(|thread| {
        let title = match thread.tid.0 {
            0 => "idle".to_owned(),
            tid => format!("{} ({tid})", printable(&thread.name)),
        };
        (title, Nanos::ZERO)
    });
    let activities = slice
        .context
        .activities()
        .into_iter()
        .map(|open| (activity_name(open.activity, symbols), open.since));
    thread
        .or_else(|| Some(("not known".to_owned(), Nanos::ZERO)))
        .into_iter()
        .chain(activities)
        .collect()
}

/// Returns the sampling frequency per second, and the sampler.
fn frequency((sampler, period): (Sampler, Nanos)) -> (u64, &'static str) {
    let name = match sampler {
        Sampler::Nmi => "non-maskable interrupt",
        Sampler::CpuClock => "cpu-clock",
        Sampler::Profile => "profile interrupt",
    };
    (1_000_000_000 / period.ns().max(1), name)
}

#[cfg(test)]
mod tests;
