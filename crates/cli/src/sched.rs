//! `laggard sched`: whether a task set can be scheduled here.

use std::path::Path;

use laggard_answer::sched::{Asked, SchedReport, Verdict, analyse, read_tasks};
use laggard_answer::{Load, loads};
use laggard_view::text;

use crate::args::SchedArgs;
use crate::exit::Exit;
use crate::{ask, pipe};

pub(crate) fn sched(args: &SchedArgs) -> anyhow::Result<Exit> {
    let asked = read_tasks(&args.tasks)?;
    let seen = loads(&ask::of(std::slice::from_ref(&args.recording)))?;
    let Some(load) = seen.first() else {
        anyhow::bail!("`{}` holds no activation", args.recording.display());
    };
    let report = analysed(load, &asked)?;
    pipe::print(&if args.json {
        pipe::json(&report)?
    } else {
        text::sched(&report, args.all)
    })?;
    let all_meet = report.tasks.iter().all(|one| one.verdict == Verdict::Meets);
    Ok(match Exit::of(&seen) {
        Exit::Ok if !all_meet => Exit::Unmet,
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
    let asked = read_tasks(file)?;
    seen.iter().map(|one| analysed(one, &asked)).collect()
}
