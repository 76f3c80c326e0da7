//! `laggard sched`: whether a task set is schedulable.

use laggard_answer::loads_for_demand;
use laggard_answer::sched::{Verdict, analysed, read_tasks};
use laggard_view::doc::Detail;
use laggard_view::sched::document;

use crate::args::SchedArgs;
use crate::exit::Exit;
use crate::pipe::Format;
use crate::{ask, pipe};

pub(crate) fn sched(args: &SchedArgs) -> anyhow::Result<Exit> {
    let set = read_tasks(&args.tasks)?;
    let loaded = loads_for_demand(&ask::of(std::slice::from_ref(&args.recording)))?;
    let Some(load) = loaded.first() else {
        anyhow::bail!("`{}` contains no wakeup", args.recording.display());
    };
    let report = analysed(load, &set)?;
    let format = Format {
        json: args.json,
        markdown: args.markdown,
    };
    let detail = Detail::new(args.all || args.markdown);
    pipe::print_answer(format, &report, || document(&report, detail))?;
    let all_meet = report
        .tasks
        .iter()
        .all(|task| task.verdict == Verdict::Meets);
    Ok(Exit::from_loads(&loaded).unless_unmet(!all_meet))
}
