//! `laggard top`: measures and shows latencies live.

mod batch;
mod keys;
mod look;
#[cfg(test)]
mod made;
mod panel;
#[cfg(test)]
mod random;
mod screen;

use std::io::{self, IsTerminal as _};
use std::path::Path;

use laggard_answer::Trust;
use laggard_answer::live::{LateFinder, Live};
use laggard_console::on_late::{self, OnLateRun};
use laggard_measure::LiveNames;
use laggard_model::text::Unit;
use laggard_model::{Names, Nanos, printable};
use laggard_record::Destination;
use laggard_session::{LOOK_EVERY, LateCommandOutput, Plan, ScriptPace, Session};
use laggard_view::{doc, live_summary, trust};

use crate::args::TopArgs;
use crate::exit::Exit;
use crate::{measuring, pipe, terminal};
use look::KeptRecording;

/// Length of the window `now` on the screen.
const SECOND: Nanos = Nanos::from_secs(1);

pub(crate) fn top(args: TopArgs) -> anyhow::Result<Exit> {
    let shortest = Nanos::from(LOOK_EVERY);
    if args.every < shortest {
        anyhow::bail!(
            "--every {} is too often; laggard collects samples every {shortest}",
            args.every
        );
    }
    let is_batch = args.batch || !io::stdout().is_terminal();
    let interrupted = measuring::interruption()?;
    let plan = Plan {
        duration: args.record.duration,
        ..measuring::plan(&args.record)?
    };
    let output = if is_batch {
        LateCommandOutput::StandardError
    } else {
        LateCommandOutput::Discarded
    };
    let mut late = OnLateRun::start(&args.late, output, &interrupted)?;
    let session = Session::ready(&plan, &interrupted)?;
    let manifest = session.manifest();
    // Read before measuring, because this takes a while.
    let names = session
        .explains()
        .then(|| -> Box<dyn Names> { Box::new(LiveNames::read()) });
    let finder = LateFinder::new(&manifest.lines, names, plan.threshold);
    let (state, messages, done) = if is_batch {
        let mut lines = batch::Lines::new(Live::new(manifest, args.every), finder);
        let done = on_late::run(session, &plan, late.as_mut(), &mut lines)?;
        (lines.into_live(), Vec::new(), done)
    } else {
        let from_start = plan.recording.as_ref().map(|place| KeptRecording {
            dir: place.path().to_owned(),
            from: Nanos::ZERO,
        });
        let state = Live::new(manifest, SECOND);
        let mut screen = screen::LiveScreen::open(state, finder, from_start)?;
        let session = session.at_pace(ScriptPace::RealTime);
        let done = on_late::run(session, &plan, late.as_mut(), &mut screen);
        let (state, messages) = screen.into_live();
        (state, messages, done?)
    };
    let kept = done.recording.as_ref();
    measuring::hand_over(kept.and_then(Destination::folder))?;
    let outcome = finish(
        &state,
        &messages,
        kept.map(Destination::path),
        args.record.quiet,
    )?;
    if let Some(late) = late {
        late.end(args.record.quiet, terminal::look(Unit::Auto))?;
    }
    Ok(measuring::failed(done.failure).unwrap_or(outcome))
}

/// Prints the summary, and the path of the recording.
fn finish(
    state: &Live,
    messages: &[String],
    kept: Option<&Path>,
    quiet: bool,
) -> anyhow::Result<Exit> {
    let trust = state.judge().trust;
    let mut text = String::new();
    for message in messages {
        text += &format!("{message}\n");
    }
    if !quiet {
        let look = terminal::look(Unit::Auto);
        text += &format!("\n{}", doc::terminal(&live_summary(state), look).plain());
    }
    if let Some(reasons) = trust::reasons(&trust) {
        text += &format!("NOT TRUSTWORTHY: {reasons}\n");
    }
    if let Some(dir) = kept {
        let dir = dir.display().to_string();
        let dir = printable(&dir);
        text += &format!("Recorded in {dir}; next: laggard show {dir}\n");
    }
    pipe::print(&text)?;
    Ok(match trust {
        Trust::Good => Exit::Ok,
        Trust::None(_) => Exit::Untrustworthy,
    })
}
