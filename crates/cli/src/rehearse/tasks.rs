//! Tasks of a rehearsal, from a file in the format of `laggard sched`.

use anyhow::Context as _;
use laggard_analyze::exceedance::Stream;
use laggard_answer::Load;
use laggard_answer::sched::{SchedQuestion, TaskAsked, read_tasks};
use laggard_measure::linux;
use laggard_model::{ModelledTask, Nanos};
use laggard_workload::task::TaskSet;

use crate::args::RehearseArgs;
use crate::pipe;

/// Tasks as they are analysed and as they are run, in the same order.
pub(super) struct RehearsedTasks {
    pub(super) question: SchedQuestion,
    pub(super) set: TaskSet,
}

impl RehearsedTasks {
    pub(super) fn read(args: &RehearseArgs) -> anyhow::Result<Self> {
        let mut question = read_tasks(&args.tasks)?;
        for remark in &question.remarks {
            pipe::say(&laggard_view::sched::remark(remark));
        }
        // More urgent services first. Tasks of equal urgency stay in order of their rates.
        question
            .tasks
            .sort_by_key(|task| std::cmp::Reverse(task.service.urgency()));
        let online = linux::online_cpus();
        let last = *online.as_slice().last().context("cannot find a CPU")?;
        let tasks = question
            .tasks
            .iter()
            .map(|task| {
                let cpu = task.cpu.unwrap_or(last);
                if !online.contains(cpu) {
                    anyhow::bail!(
                        "task `{}`: CPU {cpu} is not online; choose from {online}",
                        task.name
                    );
                }
                Ok(modelled(task, cpu))
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(Self {
            set: TaskSet {
                tasks,
                duration: args.duration,
            },
            question,
        })
    }

    /// Returns the shortest slack of all tasks.
    pub(super) fn slack(&self) -> Nanos {
        let slack = |task: &ModelledTask| task.deadline_ns.saturating_sub(task.compute_ns);
        self.set.tasks.iter().map(slack).min().unwrap_or_default()
    }
}

/// Fails if no recorded service in `load` predicts `task`.
pub(super) fn check_recorded(task: &ModelledTask, load: &Load) -> anyhow::Result<()> {
    let streams = || load.runs.iter().flat_map(|run| &run.streams);
    let kind = std::mem::discriminant(&task.service);
    let alike = |stream: &&Stream| {
        std::mem::discriminant(&stream.service) == kind && stream.cpu == task.cpu
    };
    if streams().any(|stream| alike(&stream)) {
        Ok(())
    } else {
        anyhow::bail!(
            "task `{}` runs as `{}` on CPU {}, which the recording to predict from did not measure; measure them, or choose others",
            task.name,
            task.service,
            task.cpu
        )
    }
}

fn modelled(task: &TaskAsked, cpu: laggard_model::Cpu) -> ModelledTask {
    ModelledTask {
        name: task.name.clone(),
        service: task.service,
        cpu,
        period_ns: task.period_ns,
        compute_ns: task.compute_ns,
        deadline_ns: task.deadline_ns,
    }
}
