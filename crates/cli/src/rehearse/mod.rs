//! `laggard rehearse`: runs a model of an application, counts its misses, and compares
//! them with the prediction.

mod recording;
mod tasks;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use laggard_answer::rehearsal::{RehearsalReport, Rehearsed, TaskRehearsal, compare};
use laggard_answer::{Load, loads_for_demand};
use laggard_model::LoadLabel;
use laggard_record::{Destination, Recorder, put_answer};
use laggard_view::doc::Detail;
use laggard_view::rehearsal as view;
use laggard_workload::load::NamedLoad;
use laggard_workload::task::TaskSet;

use crate::args::RehearseArgs;
use crate::exit::Exit;
use crate::pipe::Format;
use crate::{ask, measuring, pipe};
use tasks::RehearsedTasks;

/// Name of the result in the directory of the recording of the run.
const RESULT: &str = "rehearsal.json";

pub(crate) fn rehearse(args: &RehearseArgs) -> anyhow::Result<Exit> {
    let wanted = RehearsedTasks::read(args)?;
    wanted.set.check()?;
    // A closed standard output would lose the result.
    pipe::stdout()?;
    let interrupted = measuring::interruption()?;
    if args.count_only {
        return count_only(args, &wanted.set, &interrupted);
    }
    let name = args.output.clone();
    let place = Destination::from(name.unwrap_or_else(|| measuring::default_name("rehearsal")));
    // The first recording takes a minute, so an error must come before it.
    Recorder::check(&place)?;
    let made = if args.from.is_empty() {
        Some(recording::before(args, &wanted, &place, &interrupted)?)
    } else {
        None
    };
    let before = match &made {
        Some(made) => vec![made.path().to_owned()],
        None => args.from.clone(),
    };
    let loaded = under_the_load(args, &before)?;
    for task in &wanted.set.tasks {
        tasks::check_recorded(task, &loaded)?;
    }
    let counts = recording::with_tasks(args, &wanted, &place, &interrupted)?;
    let now = loads_for_demand(&ask::of(&[place.path().to_owned()]))?.pop();
    let is_trusted = loaded.is_trusted() && now.as_ref().is_none_or(Load::is_trusted);
    let rehearsed = Rehearsed {
        file: args.tasks.display().to_string(),
        asked: wanted.question,
        counts,
        recorded_in: place.path().display().to_string(),
        meanwhile: now,
    };
    let report = compare(&loaded, &rehearsed)?;
    let kept = keep(&report, &place);
    let mut given = made.iter().chain([&place]);
    let given = given.try_for_each(|place| measuring::hand_over(place.folder()));
    // The answer is valid even if it cannot be stored, so show it first.
    show(args, &report)?;
    kept.and(given)?;
    let all_inside = report.tasks.iter().all(TaskRehearsal::is_as_predicted);
    Ok(if !is_trusted {
        Exit::Untrustworthy
    } else if all_inside {
        Exit::Ok
    } else {
        Exit::Unmet
    })
}

/// Runs the tasks in this process.
fn count_only(
    args: &RehearseArgs,
    set: &TaskSet,
    interrupted: &AtomicBool,
) -> anyhow::Result<Exit> {
    let ready = set.ready()?;
    if args.hold {
        measuring::wait_for_word();
    }
    let counts = ready.run(interrupted)?;
    if args.json {
        pipe::print(&pipe::json_line(&counts)?)?;
    } else {
        pipe::print_answer(format(args), &counts, || {
            view::counts(&counts, detail(args))
        })?;
    }
    Ok(Exit::Ok)
}

/// Reads the recordings in `dirs`, which must be of the load of the rehearsal.
fn under_the_load(args: &RehearseArgs, dirs: &[PathBuf]) -> anyhow::Result<Load> {
    let label = match &args.load {
        Some(name) => LoadLabel::named(NamedLoad::named(name)?.name()),
        None => LoadLabel::none(),
    };
    let mut loaded = loads_for_demand(&ask::of(dirs))?;
    if let Some(other) = loaded.iter().find(|load| load.label != label) {
        anyhow::bail!(
            "`{}` was recorded under `{}`, not under `{label}`; a prediction is only valid for its load",
            other.runs[0].path,
            other.label
        );
    }
    loaded
        .pop()
        .context("cannot read a recording to predict from")
}

fn keep(report: &RehearsalReport, place: &Destination) -> anyhow::Result<()> {
    let folder = place
        .folder()
        .context("cannot find the recording of the run")?;
    put_answer(folder, RESULT, pipe::json(report)?.as_bytes()).context("cannot write the result")
}

fn show(args: &RehearseArgs, report: &RehearsalReport) -> anyhow::Result<()> {
    pipe::print_answer(format(args), report, || {
        view::document(report, detail(args))
    })
}

const fn format(args: &RehearseArgs) -> Format {
    Format {
        json: args.json,
        markdown: args.markdown,
    }
}

const fn detail(args: &RehearseArgs) -> Detail {
    Detail::new(args.all || args.markdown)
}

/// Fails if the user ended the recording, because the run would have another length than
/// the user wants.
fn unless_interrupted(interrupted: &AtomicBool) -> anyhow::Result<()> {
    if interrupted.load(Ordering::Relaxed) {
        Err(anyhow::anyhow!("interrupted; nothing was compared"))
    } else {
        Ok(())
    }
}
