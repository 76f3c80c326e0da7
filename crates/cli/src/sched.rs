//! `laggard sched`: whether a task set is schedulable.

use laggard_answer::loads_for_demand;
use laggard_answer::sched::{Verdict, analysed, read_tasks};
use laggard_model::text::Unit;
use laggard_view::doc::{self, Detail};
use laggard_view::sched::document;

use crate::args::SchedArgs;
use crate::exit::Exit;
use crate::{ask, pipe, terminal};

pub(crate) fn sched(args: &SchedArgs) -> anyhow::Result<Exit> {
    let set = read_tasks(&args.tasks)?;
    let loaded = loads_for_demand(&ask::of(std::slice::from_ref(&args.recording)))?;
    let Some(load) = loaded.first() else {
        anyhow::bail!("`{}` contains no wakeup", args.recording.display());
    };
    let report = analysed(load, &set)?;
    let detail = if args.all || args.markdown {
        Detail::Full
    } else {
        Detail::Short
    };
    if args.json {
        pipe::print(&pipe::json(&report)?)?;
    } else if args.markdown {
        pipe::print(&doc::markdown(&document(&report, detail)))?;
    } else {
        let document = document(&report, detail);
        pipe::print_screen(&doc::terminal(&document, terminal::look(Unit::Auto)))?;
    }
    let all_meet = report
        .tasks
        .iter()
        .all(|task| task.verdict == Verdict::Meets);
    Ok(Exit::of(&loaded).unless_unmet(!all_meet))
}
