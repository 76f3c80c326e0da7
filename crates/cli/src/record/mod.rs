//! `laggard record`: measure, and keep what was seen.

mod until_decided;

use std::path::Path;

use laggard_answer::{Trust, overview};
use laggard_console::system::end_at_signals;
use laggard_model::printable;
use laggard_model::text::Unit;
use laggard_record::Recording;
use laggard_session::{Session, SessionError};

use crate::args::{RecordArgs, RecordCommand};
use crate::exit::Exit;
use crate::progress::Progress;
use crate::{ask, measuring, pipe, terminal};

pub(crate) fn record(command: &RecordCommand) -> anyhow::Result<Exit> {
    match &command.until.require {
        Some(file) => until_decided::record(&command.record, file, command.until.at_most),
        None => once(&command.record),
    }
}

fn once(args: &RecordArgs) -> anyhow::Result<Exit> {
    let mut plan = measuring::plan(args)?;
    let interrupted = measuring::interruption()?;
    let place = plan
        .recording
        .get_or_insert_with(|| measuring::default_name("").into())
        .clone();
    let session = Session::ready(&plan, &interrupted).map_err(|err| named(args, err))?;
    if !args.quiet && args.cpus.is_none() {
        measuring::say_where();
    }
    let mut progress = Progress::new(args.quiet, plan.duration, &session.manifest().lines);
    let ended = session.run(&mut [&mut progress]);
    let given = measuring::hand_over(place.folder());
    // The recording is whole: to evaluate it may take long, and can be done again.
    end_at_signals();
    let done = ended?;
    let outcome = finish(place.path(), args.quiet)?;
    // What was measured is good all the same: it is shown first.
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

/// Shows the result, unless asked not to: then, what speaks against it.
fn finish(dir: &Path, quiet: bool) -> anyhow::Result<Exit> {
    let (report, overview) = overview::read(&Recording::open(dir)?, None, ask::threads())?;
    if !quiet {
        let look = terminal::look(Unit::Auto);
        pipe::print_screen(&laggard_view::text::overview(&overview, look))?;
    } else if let Some(reasons) = report.trust.reasons() {
        pipe::say(&format!(
            "`{}` is not trustworthy: {reasons}",
            dir.display()
        ));
    }
    Ok(match report.trust {
        Trust::Good => Exit::Ok,
        Trust::None(_) => Exit::Untrustworthy,
    })
}
