//! `laggard study`: repeats the experiments of a paper.
//!
//! Each recording is made by a process of this program, as a user would make it, so that an
//! interrupted study has whole recordings.

mod directory;
mod figures;
mod steps;

use std::path::Path;

use anyhow::bail;
use laggard_answer::study::{Against, StudyDir, StudyName, TOLERANCE, study as evaluate};
use laggard_console::system::end_at_signals;
use laggard_model::text::Unit;
use laggard_view::doc::{self, Figure};
use laggard_view::study::{add_page, document};

use crate::args::StudyArgs;
use crate::exit::Exit;
use crate::{ask, measuring, pipe, terminal};

use directory::{PAGE, against, check_host, lock, settle};
use steps::{announce, missing, record};

pub(crate) fn study(args: &StudyArgs) -> anyhow::Result<Exit> {
    // Checked first, because recording takes long.
    pipe::stdout()?;
    if let (Some(host), false) = (&args.receive_from, args.study == StudyName::Hotos99) {
        bail!(
            "--receive-from {host} has no effect on {}: only hotos99 receives",
            args.study
        );
    }
    if !args.loads.is_empty() && args.study != StudyName::Osdi99 {
        bail!(
            "--loads has no effect on {}: only osdi99 has other loads",
            args.study
        );
    }
    let path = args.output.clone();
    let path = path.unwrap_or_else(|| format!("study-{}", args.study).into());
    let against = against(args)?;
    let kind = settle(args, &path)?;
    let dir = StudyDir::open(&path, &kind)?;
    let mut missing = missing(&dir, args)?;
    if !args.show {
        check_host(&dir, &path)?;
        let _lock = lock(&path)?;
        let stop = measuring::interruption()?;
        announce(args, &dir, &missing);
        record(args, &kind, &path, &mut missing, &stop)?;
        // To evaluate recordings can be repeated.
        end_at_signals();
    }
    let dir = StudyDir::open(&path, &kind)?.without(missing);
    print(args, &dir, &path, against.as_ref())
}

fn print(
    args: &StudyArgs,
    dir: &StudyDir,
    path: &Path,
    against: Option<&Against>,
) -> anyhow::Result<Exit> {
    let report = evaluate(args.study, dir, against, ask::threads())?;
    let other = match against {
        Some(Against::Directory(other)) => Some(other),
        Some(Against::Paper) | None => None,
    };
    let systems: Vec<&StudyDir> = std::iter::once(dir).chain(other).collect();
    let drawings = figures::figures(&report, &systems)?;
    let names: Vec<String> = drawings
        .figures
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    let mut document = document(&report, &names);
    document.notes("Not drawn", drawings.notes);
    let draw = |figure: &Figure| {
        let drawing = drawings.figures.iter().find(|(name, _)| *name == figure.id);
        drawing.map(|(_, svg)| svg.clone())
    };
    let page = path.join(PAGE);
    let title = format!("laggard study {}", args.study);
    let html = doc::html(&document, &title, &draw);
    let written = laggard_files::check_regular(&page, "page")
        .and_then(|()| laggard_files::write(&page, "page", html.as_bytes()));
    if let Err(err) = &written {
        pipe::say(&format!("the page is missing: {err:#}"));
    }
    if args.json {
        pipe::print(&pipe::json(&report)?)?;
    } else {
        if written.is_ok() {
            add_page(&mut document, &page.display().to_string());
        }
        pipe::print_screen(&doc::terminal(&document, terminal::look(Unit::Auto)))?;
    }
    let own = &report.systems[0];
    let is_complete = own
        .steps
        .iter()
        .all(|step| step.recorded_ns + TOLERANCE >= step.planned_ns);
    Ok(if !is_complete {
        Exit::Unmet
    } else if own.steps.iter().any(|step| step.is_trusted == Some(false)) {
        Exit::Untrustworthy
    } else {
        Exit::Ok
    })
}
