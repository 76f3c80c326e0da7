//! `laggard sched`: whether a task set can be scheduled here.

mod rtapp;
pub(crate) mod tasks;

use laggard_report::sched::{Verdict, analyse, text};

use crate::args::SchedArgs;
use crate::exit::Outcome;
use crate::{evidence, pipe};

pub(crate) fn sched(args: &SchedArgs) -> anyhow::Result<Outcome> {
    let asked = tasks::read(&args.tasks)?;
    let seen = evidence::read(std::slice::from_ref(&args.recording))?;
    let Some(evidence) = seen.first() else {
        anyhow::bail!("`{}` holds no activation", args.recording.display());
    };
    for task in &asked.tasks {
        let groups = evidence.seen.recordings.iter().flat_map(|one| &one.groups);
        if !groups
            .into_iter()
            .any(|group| group.key.service == task.service)
        {
            anyhow::bail!(
                "task `{}` runs as `{}`, which `{}` did not measure; give it a service that `laggard show` lists",
                task.name,
                task.service,
                args.recording.display()
            );
        }
    }
    let report = analyse(&evidence.seen, &asked)?;
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
