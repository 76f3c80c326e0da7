//! `laggard check`: whether recordings meet requirements.

use laggard_answer::check::{CheckQuestion, check as answer, read_requirements};
use laggard_model::text::Unit;
use laggard_view::{badge, github, junit, text};

use crate::args::CheckArgs;
use crate::exit::Exit;
use crate::{ask, pipe, terminal};

pub(crate) fn check(args: &CheckArgs) -> anyhow::Result<Exit> {
    let report = answer(&CheckQuestion {
        recordings: args.recordings.clone(),
        baseline: args.baseline.clone(),
        requirements: read_requirements(&args.require)?,
        look: None,
        threads: ask::threads(),
    })?;
    if let Some(path) = &args.junit {
        laggard_files::write(path, "JUnit report", junit(&report).as_bytes())?;
    }
    if let Some(path) = &args.badge {
        laggard_files::write(path, "badge", badge(&report).as_bytes())?;
    }
    if args.github {
        pipe::print_commands(&github(&report))?;
    }
    pipe::print(&if args.json {
        pipe::json(&report)?
    } else {
        text::check(&report, args.all, terminal::look(Unit::Auto))
    })?;
    Ok(Exit::of_check(&report))
}
