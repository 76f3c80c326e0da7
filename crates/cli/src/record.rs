//! `laggard record`: measure, and keep what was seen.

use std::path::Path;

use laggard_answer::Trust;
use laggard_answer::show::{self, By};
use laggard_model::printable;
use laggard_record::Recording;
use laggard_session::Session;

use crate::args::RecordArgs;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::{ask, measuring, pipe};

pub(crate) fn record(args: &RecordArgs) -> anyhow::Result<Exit> {
    let interrupted = measuring::interruption()?;
    let mut plan = measuring::plan(args);
    let dir = plan
        .recording
        .get_or_insert_with(|| measuring::default_name(""))
        .clone();
    let session = Session::ready(&plan, &interrupted)?;
    let mut progress = Progress::new(args.quiet, plan.duration, &session.manifest().lines);
    let done = session.run(&mut [&mut progress])?;
    let outcome = finish(&dir, args.quiet)?;
    Ok(measuring::failed(done.failure).unwrap_or(outcome))
}

/// Shows the result, unless asked not to.
fn finish(dir: &Path, quiet: bool) -> anyhow::Result<Exit> {
    let report = show::report(&Recording::open(dir)?, By::Service, ask::threads())?;
    let good = report.trust == Trust::Good;
    if !quiet {
        pipe::print(&laggard_view::text::show(
            &report,
            laggard_view::text::Options::default(),
        ))?;
        let dir = dir.display().to_string();
        let dir = printable(&dir);
        pipe::print(&format!(
            "\nRecorded in {dir}; see it again with `laggard show {dir}`\n"
        ))?;
    }
    Ok(if good { Exit::Ok } else { Exit::Untrustworthy })
}
