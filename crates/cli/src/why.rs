//! `laggard why`: who made activations late.

use laggard_model::Caveat;
use laggard_record::Recording;
use laggard_report::why::{self, Late};

use crate::args::WhyArgs;
use crate::exit::Outcome;
use crate::pipe;

pub(crate) fn why(args: &WhyArgs) -> anyhow::Result<Outcome> {
    let dir = args.recording.display().to_string();
    let recording = Recording::open(&args.recording)?;
    let read = recording.episodes()?;
    let Some(notes) = read.notes else {
        anyhow::bail!(
            "`{dir}` was recorded without episodes; record as root on a kernel with BTF, \
             without `--episodes off`"
        );
    };
    if let Some(number) = args.episode {
        let Some(episode) = read.episodes.iter().find(|one| one.number == number) else {
            anyhow::bail!(
                "`{dir}` has no episode {number}; `laggard why {dir}` lists the largest of its {}",
                read.episodes.len()
            );
        };
        let text = if args.table4 {
            why::table4([episode], &notes.symbols)
        } else {
            let line = recording
                .manifest()
                .lines
                .get(usize::from(episode.line.0))
                .ok_or_else(|| {
                    anyhow::anyhow!("episode {number} is of a line that `{dir}` lacks")
                })?;
            why::episode_text(episode, *line, &notes.symbols)
        };
        pipe::print(&text)?;
        return Ok(Outcome::Ok);
    }
    if args.table4 {
        pipe::print(&why::table4(&read.episodes, &notes.symbols))?;
        return Ok(Outcome::Ok);
    }
    let shortfalls = recording.shortfalls().iter().chain(&read.shortfalls);
    let late = Late {
        path: dir,
        manifest: recording.manifest(),
        episodes: &read.episodes,
        notes: &notes,
        shortfalls: shortfalls.map(Caveat::from).collect(),
    };
    let report = why::why(&late, args.service, args.top);
    if args.json {
        pipe::print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    } else {
        pipe::print(&why::why_text(&report))?;
    }
    Ok(Outcome::Ok)
}
