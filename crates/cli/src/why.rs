//! `laggard why`: who made activations late.

use laggard_answer::why::{
    self, EpisodeCauses, Explained, ExplainedEpisode, RecordedEpisodes, WhyReport,
};
use laggard_answer::{KnownCauses, Load, loads};
use laggard_model::text::Unit;
use laggard_model::{Nanos, Route, Service, UsagePattern, printable};
use laggard_record::Recording;
use laggard_view::{flame, perfetto, text};

use crate::args::WhyArgs;
use crate::exit::Exit;
use crate::redacted::Copies;
use crate::{ask, pipe, terminal};

/// Causes and late activations that are listed unless asked otherwise: in a few
/// lines, and in full.
const FEW: usize = 5;
const MANY: usize = 20;
/// Sorts of handlers that are listed of each table, so that one screen has both.
const MOST_HANDLERS: usize = 8;

pub(crate) fn why(args: &WhyArgs) -> anyhow::Result<Exit> {
    if let Some(number) = args.bug {
        return bug(args, number);
    }
    let recording = Recording::open(&args.recording)?;
    let is_drawn = args.flame.is_some() || args.perfetto.is_some();
    if !(is_drawn || args.handlers || args.table4 || args.episode.is_some()) {
        pipe::print(&ranked(args, &recording)?)?;
        return Ok(Exit::Ok);
    }
    let late = match args.episode {
        Some(number) => RecordedEpisodes::read_one(&recording, number)?,
        None => RecordedEpisodes::read_with(&recording, |_| !args.handlers)?,
    };
    late.has(args.service)?;
    if is_drawn {
        return draw(args, &late);
    }
    pipe::print(&said(args, &late)?)?;
    Ok(Exit::Ok)
}

/// One cause for the author of its code.
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
        anyhow::bail!("`--bug` takes one recording");
    };
    let late = RecordedEpisodes::read(&Recording::open(recording)?)?;
    late.has(args.service)?;
    let report = why::bug(&Explained::new(&late, args.service), number)?;
    pipe::print(&if args.json {
        pipe::json(&report)?
    } else {
        laggard_view::bug(&report)
    })?;
    Ok(Exit::Ok)
}

/// Writes handlers, the stack samples of each episode, or one episode.
fn said(args: &WhyArgs, late: &RecordedEpisodes) -> anyhow::Result<String> {
    let look = terminal::look(Unit::Auto);
    if args.handlers {
        let report = why::handlers(late).ok_or_else(|| {
            anyhow::anyhow!(
                "`{}` did not count what the kernel ran; record with `--handlers`",
                late.path
            )
        })?;
        let top = if args.all {
            usize::MAX
        } else {
            args.top.unwrap_or(MOST_HANDLERS)
        };
        return if args.json {
            pipe::json(&report)
        } else {
            Ok(text::handlers(&report, top, look))
        };
    }
    let symbols = &late.notes.symbols;
    if args.table4 {
        return Ok(text::table4(&late.episodes, symbols, look));
    }
    let [episode] = late.episodes.as_slice() else {
        anyhow::bail!("`--episode` takes one episode of `{}`", late.path)
    };
    let lines = &late.manifest.lines;
    let line = lines.get(usize::from(episode.line.0)).ok_or_else(|| {
        let number = episode.number;
        anyhow::anyhow!("episode {number} is of a line that `{}` lacks", late.path)
    })?;
    let explained = ExplainedEpisode::new(episode, *line, symbols);
    Ok(text::episode(&explained, symbols, look))
}

/// Writes the causes, those with most time first.
fn ranked(args: &WhyArgs, recording: &Recording) -> anyhow::Result<String> {
    let look = terminal::look(Unit::Auto);
    let in_full = args.all || args.json;
    let (mut causes, known) = if in_full {
        let (causes, known) = EpisodeCauses::read_known(recording)?;
        (causes, Some(known))
    } else {
        (EpisodeCauses::read(recording)?, None)
    };
    causes.late.has(args.service)?;
    let seen = loads(&ask::of(std::slice::from_ref(&args.recording)));
    causes.late.latest = seen.as_deref().map(latest).unwrap_or_default();
    let top = args.top.unwrap_or(if in_full { MANY } else { FEW });
    let mut report = causes.explained(args.service).report(top);
    let Some(known) = known else {
        report.reservations.extend(seen.err().map(|error| {
            let told = format!("{:#}", anyhow::Error::from(error));
            format!("The samples cannot be read: {}.", printable(&told))
        }));
        return Ok(text::why(&report, false, look));
    };
    let weighed = seen
        .map_err(anyhow::Error::from)
        .and_then(|seen| weighed(args, &report, &seen, &known));
    match weighed {
        Ok(weighed) => report = weighed,
        Err(error) => report.sentences.push(format!(
            "What the causes are worth cannot be told: {}.",
            printable(&format!("{error:#}"))
        )),
    }
    Ok(if args.json {
        pipe::json(&report)?
    } else {
        text::why(&report, true, look)
    })
}

/// The largest latency of each service, by the samples.
fn latest(seen: &[Load]) -> Vec<(Service, Route, Nanos)> {
    let recordings = seen.iter().flat_map(|one| &one.runs);
    let groups = recordings.flat_map(|one| &one.groups);
    groups
        .filter_map(|group| {
            let most = group.latency.histogram().max()?;
            Some((group.key.service, group.key.route, most))
        })
        .collect()
}

/// The report with what causes are worth, which takes all samples.
fn weighed(
    args: &WhyArgs,
    report: &WhyReport,
    seen: &[Load],
    known: &KnownCauses,
) -> anyhow::Result<WhyReport> {
    let mut weighed = report.clone();
    for one in seen {
        let usage = args.usage.or(one.usage()).unwrap_or(UsagePattern::ALWAYS);
        why::weigh(&mut weighed, one, known, usage)?;
    }
    Ok(weighed)
}

/// Writes the files that were asked for.
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
