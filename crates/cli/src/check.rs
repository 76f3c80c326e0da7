//! `laggard check`: whether recordings meet requirements.

use laggard_answer::check::{CheckQuestion, check as answer, read_requirements};
use laggard_model::text::Unit;
use laggard_view::check::{document, github, junit};
use laggard_view::doc::{self, Detail};

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
    if args.github {
        pipe::print_commands(&github(&report))?;
    }
    let detail = if args.all {
        Detail::Full
    } else {
        Detail::Short
    };
    if args.json {
        pipe::print(&pipe::json(&report)?)?;
    } else if args.markdown {
        pipe::print(&doc::markdown(&document(&report, detail)))?;
    } else {
        let screen = doc::terminal(&document(&report, detail), terminal::look(Unit::Auto));
        pipe::print_screen(&screen)?;
    }
    Ok(Exit::of_check(&report))
}
