//! `laggard sched`: whether a task set can be scheduled here.

use laggard_answer::loads_for_demand;
use laggard_answer::sched::{Verdict, analysed, read_tasks};
use laggard_model::text::Unit;
use laggard_view::text;

use crate::args::SchedArgs;
use crate::exit::Exit;
use crate::{ask, pipe, terminal};

pub(crate) fn sched(args: &SchedArgs) -> anyhow::Result<Exit> {
    let asked = read_tasks(&args.tasks)?;
    let seen = loads_for_demand(&ask::of(std::slice::from_ref(&args.recording)))?;
    let Some(load) = seen.first() else {
        anyhow::bail!("`{}` contains no wakeup", args.recording.display());
    };
    let report = analysed(load, &asked)?;
    pipe::print(&if args.json {
        pipe::json(&report)?
    } else {
        text::sched(&report, args.all, terminal::look(Unit::Auto))
    })?;
    let all_meet = report.tasks.iter().all(|one| one.verdict == Verdict::Meets);
    Ok(Exit::of(&seen).unless_unmet(!all_meet))
}
