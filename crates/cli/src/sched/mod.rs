//! `laggard sched`: whether a task set can be scheduled here.

mod rtapp;
mod tasks;

use std::path::Path;

use anyhow::Context as _;
use laggard_answer::sched::{Asked, SchedReport, Verdict, analyse};
use laggard_answer::{Load, loads};
use laggard_view::text;

use crate::args::SchedArgs;
use crate::exit::Outcome;
use crate::pipe;

pub(crate) fn sched(args: &SchedArgs) -> anyhow::Result<Outcome> {
    let asked = read(&args.tasks)?;
    let seen = loads(std::slice::from_ref(&args.recording))?;
    let Some(load) = seen.first() else {
        anyhow::bail!("`{}` holds no activation", args.recording.display());
    };
    let report = analysed(load, &asked)?;
    pipe::print(&if args.json {
        format!("{}\n", serde_json::to_string_pretty(&report)?)
    } else {
        text::sched(&report)
    })?;
    let all_meet = report.tasks.iter().all(|one| one.verdict == Verdict::Meets);
    Ok(match Outcome::of(&seen) {
        Outcome::Ok if !all_meet => Outcome::Unmet,
        outcome => outcome,
    })
}

/// Whether the tasks can be scheduled where `load` was recorded.
fn analysed(load: &Load, asked: &Asked) -> anyhow::Result<SchedReport> {
    for task in &asked.tasks {
        let groups = load.runs.iter().flat_map(|one| &one.groups);
        if !groups
            .into_iter()
            .any(|group| group.key.service == task.service)
        {
            let paths: Vec<&str> = load.runs.iter().map(|run| run.path.as_str()).collect();
            anyhow::bail!(
                "task `{}` runs as `{}`, which `{}` did not measure; give it a service that `laggard show` lists",
                task.name,
                task.service,
                paths.join("`, `")
            );
        }
    }
    Ok(analyse(load, asked)?)
}

/// The answers for the task set in a file, one per load.
pub(crate) fn answers(file: &Path, seen: &[Load]) -> anyhow::Result<Vec<SchedReport>> {
    let asked = read(file)?;
    seen.iter().map(|one| analysed(one, &asked)).collect()
}

/// Reads a task set: TOML, or rt-app's JSON where the name ends so.
pub(crate) fn read(file: &Path) -> anyhow::Result<Asked> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("read the tasks `{}`", file.display()))?;
    let asked = if file.extension().is_some_and(|end| end == "json") {
        rtapp::parse(&text)
    } else {
        tasks::parse(&text)
    };
    let asked = asked.with_context(|| format!("tasks of `{}`", file.display()))?;
    for task in &asked.tasks {
        tasks::check(task)?;
    }
    if asked.tasks.is_empty() {
        anyhow::bail!("`{}` has no task; write at least one", file.display());
    }
    Ok(asked)
}
