//! `laggard sched`: whether a task set can be scheduled here.

mod rtapp;
pub(crate) mod tasks;

use std::path::Path;

use laggard_report::sched::{Asked, SchedReport, Verdict, analyse, text};

use crate::args::SchedArgs;
use crate::evidence::{self, Evidence};
use crate::exit::Outcome;
use crate::pipe;

pub(crate) fn sched(args: &SchedArgs) -> anyhow::Result<Outcome> {
    let asked = tasks::read(&args.tasks)?;
    let seen = evidence::read(std::slice::from_ref(&args.recording))?;
    let Some(evidence) = seen.first() else {
        anyhow::bail!("`{}` holds no activation", args.recording.display());
    };
    let report = analysed(evidence, &asked)?;
    pipe::print(&if args.json {
        format!("{}\n", serde_json::to_string_pretty(&report)?)
    } else {
        text(&report)
    })?;
    let all_meet = report.tasks.iter().all(|one| one.verdict == Verdict::Meets);
    Ok(match evidence::outcome(&seen) {
        Outcome::Ok if !all_meet => Outcome::Unmet,
        outcome => outcome,
    })
}

/// Whether the tasks can be scheduled where `evidence` was recorded.
fn analysed(evidence: &Evidence, asked: &Asked) -> anyhow::Result<SchedReport> {
    for task in &asked.tasks {
        let groups = evidence.seen.recordings.iter().flat_map(|one| &one.groups);
        if !groups
            .into_iter()
            .any(|group| group.key.service == task.service)
        {
            let paths: Vec<&str> = evidence
                .seen
                .recordings
                .iter()
                .map(|one| one.path.as_str())
                .collect();
            anyhow::bail!(
                "task `{}` runs as `{}`, which `{}` did not measure; give it a service that `laggard show` lists",
                task.name,
                task.service,
                paths.join("`, `")
            );
        }
    }
    Ok(analyse(&evidence.seen, asked)?)
}

/// The answers for the task set in a file, one per load.
pub(crate) fn answers(file: &Path, seen: &[Evidence]) -> anyhow::Result<Vec<SchedReport>> {
    let asked = tasks::read(file)?;
    seen.iter().map(|one| analysed(one, &asked)).collect()
}
