//! `laggard why`: causes of late wakeups.

use laggard_answer::why::{
    self, EpisodeCauses, Explained, ExplainedEpisode, LateWakeup, RecordedEpisodes, WhyReport,
};
use laggard_answer::{KnownCauses, Load, loads};
use laggard_model::text::Unit;
use laggard_model::{UsagePattern, printable};
use laggard_record::Recording;
use laggard_view::doc::{self, Detail, Document};
use laggard_view::why as view;
use laggard_view::{flame, perfetto};

use crate::args::WhyArgs;
use crate::exit::Exit;
use crate::redacted::Copies;
use crate::{ask, pipe, terminal};

/// Number of causes in the short form.
const SHORT_TOP: usize = 5;
/// Share of the latency below which the short form does not list a cause.
const MIN_SHORT_SHARE: f64 = 0.01;
/// Number of causes and episodes of a series in the full form.
const FULL_TOP: usize = 20;
/// Number of handlers in each table, so that one screen has both.
const TOP_HANDLERS: usize = 8;

pub(crate) fn why(args: &WhyArgs) -> anyhow::Result<Exit> {
    if let Some(number) = args.bug {
        return bug(args, number);
    }
    let recording = Recording::open(&args.recording)?;
    let is_drawn = args.flame.is_some() || args.perfetto.is_some();
    if !(is_drawn || args.handlers || args.episode.is_some()) {
        return rank(args, &recording);
    }
    let late = match args.episode {
        Some(number) => RecordedEpisodes::read_one(&recording, number)?,
        None => RecordedEpisodes::read_with(&recording, |_| !args.handlers)?,
    };
    late.has(args.service)?;
    if is_drawn {
        return draw(args, &late);
    }
    if args.handlers {
        return handlers(args, &late);
    }
    let symbols = &late.notes.symbols;
    let [episode] = late.episodes.as_slice() else {
        anyhow::bail!(
            "--episode takes the number of one episode of `{}`",
            late.path
        )
    };
    let lines = &late.manifest.lines;
    let line = lines.get(usize::from(episode.line.0)).ok_or_else(|| {
        let number = episode.number;
        anyhow::anyhow!(
            "episode {number} belongs to a series that `{}` lacks",
            late.path
        )
    })?;
    let explained = ExplainedEpisode::new(episode, *line, symbols);
    if args.json {
        pipe::print(&pipe::json(&LateWakeup::new(&explained, symbols))?)?;
        return Ok(Exit::Ok);
    }
    let detail = Detail::new(args.all);
    let start = late.manifest.clock.start_ns;
    print(&view::episode(&explained, symbols, start, detail))
}

fn print(document: &Document) -> anyhow::Result<Exit> {
    let look = terminal::look(Unit::Auto);
    pipe::print_screen(&doc::terminal(document, look))?;
    Ok(Exit::Ok)
}

/// Writes one cause for the author of its code.
fn bug(args: &WhyArgs, number: usize) -> anyhow::Result<Exit> {
    let recordings = [args.recording.clone()];
    let copies = if args.redact {
        Some(Copies::make(&recordings)?)
    } else {
        None
    };
    let [recording] = copies
        .as_ref()
        .map_or(&recordings[..], |copies| &copies.names)
    else {
        anyhow::bail!("--bug takes one recording");
    };
    let late = RecordedEpisodes::read(&Recording::open(recording)?)?;
    late.has(args.service)?;
    let report = why::bug(&Explained::new(&late, args.service), number)?;
    pipe::print(&if args.json {
        pipe::json(&report)?
    } else {
        doc::markdown(&laggard_view::bug::document(&report))
    })?;
    Ok(Exit::Ok)
}

fn handlers(args: &WhyArgs, late: &RecordedEpisodes) -> anyhow::Result<Exit> {
    let report = why::handlers(late).ok_or_else(|| {
        anyhow::anyhow!(
            "`{}` did not count handlers; record with `--handlers`",
            late.path
        )
    })?;
    if args.json {
        pipe::print(&pipe::json(&report)?)?;
        return Ok(Exit::Ok);
    }
    let top = if args.all {
        usize::MAX
    } else {
        args.top.unwrap_or(TOP_HANDLERS)
    };
    print(&view::handlers(&report, top))
}

/// Prints the causes of each series, sorted by total time.
fn rank(args: &WhyArgs, recording: &Recording) -> anyhow::Result<Exit> {
    let is_full = args.all || args.json;
    let (mut causes, classified) = if is_full {
        let (causes, classified) = EpisodeCauses::read_known(recording)?;
        (causes, Some(classified))
    } else {
        (EpisodeCauses::read(recording)?, None)
    };
    causes.late.has(args.service)?;
    let samples = loads(&ask::of(std::slice::from_ref(&args.recording)));
    if let Ok(samples) = &samples {
        let runs = || samples.iter().flat_map(|load| &load.runs);
        let end = runs().map(|run| run.start + run.duration).max();
        causes
            .late
            .note_samples(runs().flat_map(|run| &run.groups), end);
    }
    let top = args
        .top
        .unwrap_or(if is_full { FULL_TOP } else { SHORT_TOP });
    let mut report = causes.explained(args.service).why(top);
    let gains = samples.map_err(anyhow::Error::from).and_then(|samples| {
        classified.map_or(Ok(()), |classified| {
            add_gains(args, &mut report, &samples, &classified)
        })
    });
    if let Err(error) = gains {
        pipe::say(&format!(
            "warning: cannot read the samples of {}: {}",
            printable(&args.recording.display().to_string()),
            printable(&format!("{error:#}"))
        ));
    }
    if args.json {
        pipe::print(&pipe::json(&report)?)?;
        return Ok(Exit::Ok);
    }
    if !args.all && args.top.is_none() {
        for late in &mut report.series {
            late.hide_below(MIN_SHORT_SHARE);
        }
        return print(&view::screen(&report));
    }
    let detail = Detail::new(args.all);
    print(&view::document(&report, detail))
}

/// Adds the gains of the leading causes, which needs all samples.
fn add_gains(
    args: &WhyArgs,
    report: &mut WhyReport,
    samples: &[Load],
    classified: &KnownCauses,
) -> anyhow::Result<()> {
    for load in samples {
        let usage = args.usage.or(load.usage()).unwrap_or(UsagePattern::ALWAYS);
        why::add_gains(report, load, classified, usage)?;
    }
    Ok(())
}

/// Writes a flame graph or a trace.
fn draw(args: &WhyArgs, late: &RecordedEpisodes) -> anyhow::Result<Exit> {
    let explained = Explained::new(late, args.service);
    if let Some(path) = &args.flame {
        let svg = flame(&explained)?;
        laggard_files::write(path, "flame graph", svg.as_bytes())?;
        pipe::print(&format!(
            "Wrote {}; open it in a browser\n",
            printable(&path.display().to_string())
        ))?;
    }
    if let Some(path) = &args.perfetto {
        laggard_files::write(path, "trace", &perfetto(&explained))?;
        pipe::print(&format!(
            "Wrote {}; open it in https://ui.perfetto.dev, which reads it without sending it anywhere\n",
            printable(&path.display().to_string())
        ))?;
    }
    Ok(Exit::Ok)
}
