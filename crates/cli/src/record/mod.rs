//! `laggard record`: measure, and keep what was seen.

mod until_decided;

use laggard_console::args::OnLateArgs;
use laggard_console::on_late::{self, OnLateRun};
use laggard_console::system::end_at_signals;
use laggard_model::printable;
use laggard_model::text::Unit;
use laggard_session::{LateCommandOutput, Session, SessionError};
use laggard_view::doc::quoted;

use crate::args::{RecordArgs, RecordCommand};
use crate::exit::Exit;
use crate::progress::Progress;
use crate::{closing, measuring, pipe, terminal};

pub(crate) fn record(command: &RecordCommand) -> anyhow::Result<Exit> {
    match &command.until.require {
        Some(file) => until_decided::record(&command.record, file, command.until.at_most),
        None => once(&command.record, &command.late),
    }
}

fn once(args: &RecordArgs, late: &OnLateArgs) -> anyhow::Result<Exit> {
    let mut plan = measuring::plan(args)?;
    let interrupted = measuring::interruption()?;
    let place = plan
        .recording
        .get_or_insert_with(|| measuring::default_name("").into())
        .clone();
    let mut late = OnLateRun::start(late, LateCommandOutput::StandardError, &interrupted)?;
    let session = Session::ready(&plan, &interrupted).map_err(|err| named(args, err))?;
    if !args.quiet && args.cpus.is_none() {
        measuring::say_where();
    }
    let mut progress = Progress::new(args.quiet, plan.duration, &session.manifest().lines);
    let ended = on_late::run(session, &plan, late.as_mut(), &mut progress);
    let given = measuring::hand_over(place.folder());
    let done = ended?;
    let stopped_by = late.map_or(Ok(None), |late| {
        late.end(args.quiet, terminal::look(Unit::Auto))
    })?;
    // The recording is whole: to evaluate it may take long, and can be done again.
    end_at_signals();
    let outcome = match stopped_by {
        // The late wakeup is the result. It is valid even if the recording is too short to trust.
        Some(number) => {
            let path = quoted(&place.path().display().to_string());
            let command = if number > 0 { "why" } else { "show" };
            pipe::print(&format!("\nNext: laggard {command} {path}\n"))?;
            Exit::Ok
        }
        None => closing::finish(place.path(), args.quiet)?,
    };
    // The measured data is valid nevertheless, and is shown first.
    given?;
    Ok(measuring::failed(done.failure).unwrap_or(outcome))
}

/// The error with the application that is measured for.
fn named(args: &RecordArgs, err: SessionError) -> anyhow::Error {
    let err = anyhow::Error::from(err);
    match &args.application {
        Some(name) => err.context(format!("measure what `{}` needs", printable(name))),
        None => err,
    }
}
