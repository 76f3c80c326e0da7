//! `laggard check`: whether recordings meet requirements.

use laggard_answer::check::{CheckQuestion, check as answer, read_requirements};
use laggard_view::check::{document, github, junit};
use laggard_view::doc::Detail;

use crate::args::CheckArgs;
use crate::exit::Exit;
use crate::pipe::Format;
use crate::{ask, pipe};

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
    let format = Format {
        json: args.json,
        markdown: args.markdown,
    };
    let detail = Detail::new(args.all);
    pipe::print_answer(format, &report, || document(&report, detail))?;
    Ok(Exit::of_check(&report))
}
