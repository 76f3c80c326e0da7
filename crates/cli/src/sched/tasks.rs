//! A task set as a user writes it.

use anyhow::Context as _;
use laggard_answer::sched::{Asked, TaskAsked};
use laggard_model::{Cpu, Nanos, Service};
use serde::Deserialize;

/// The service that runs a task unless its file says another.
pub(super) const SERVICE: Service = Service::Fifo(90);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    overhead: Option<String>,
    permitted: Option<String>,
    service: Option<Service>,
    cpu: Option<Cpu>,
    task: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    period: String,
    compute: String,
    deadline: Option<String>,
    blocking: Option<String>,
    priority: Option<u8>,
    service: Option<Service>,
    cpu: Option<Cpu>,
    buffers: Option<u32>,
}

pub(super) fn parse(text: &str) -> anyhow::Result<Asked> {
    let file: File = toml::from_str(text)?;
    let time = |text: &Option<String>, default: Nanos| -> anyhow::Result<Nanos> {
        match text {
            Some(text) => Ok(text.parse()?),
            None => Ok(default),
        }
    };
    let default = file.service.unwrap_or(SERVICE);
    let mut tasks = Vec::new();
    for entry in file.task {
        let read = || -> anyhow::Result<TaskAsked> {
            let period: Nanos = entry.period.parse()?;
            let tolerance = period * u64::from(entry.buffers.unwrap_or(2).saturating_sub(1));
            Ok(TaskAsked {
                compute_ns: entry.compute.parse()?,
                period_ns: period,
                deadline_ns: time(&entry.deadline, tolerance)?,
                blocking_ns: time(&entry.blocking, Nanos::ZERO)?,
                service: entry.service.unwrap_or(default),
                cpu: entry.cpu.or(file.cpu),
                buffers: entry.buffers,
                name: entry.name.clone(),
            })
        };
        let task = read().with_context(|| format!("task `{}`", entry.name))?;
        tasks.push((entry.priority, task));
    }
    Ok(Asked {
        tasks: by_priority(tasks)?,
        overhead: time(&file.overhead, Nanos::ZERO)?,
        permitted: time(&file.permitted, Nanos::from_secs(3_600))?,
    })
}

/// The highest priority first: as given for all tasks, or else the shortest
/// period.
pub(super) fn by_priority(
    mut tasks: Vec<(Option<u8>, TaskAsked)>,
) -> anyhow::Result<Vec<TaskAsked>> {
    let given = tasks
        .iter()
        .filter(|(priority, _)| priority.is_some())
        .count();
    if given == 0 {
        tasks.sort_by_key(|(_, task)| task.period_ns);
    } else if given == tasks.len() {
        tasks.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
    } else {
        anyhow::bail!(
            "only {given} of {} tasks have a priority; give it to all, or to none for rate-monotonic ones",
            tasks.len()
        );
    }
    Ok(tasks.into_iter().map(|(_, task)| task).collect())
}

pub(super) fn check(task: &TaskAsked) -> anyhow::Result<()> {
    let name = &task.name;
    if task.period_ns == Nanos::ZERO || task.compute_ns == Nanos::ZERO {
        anyhow::bail!("task `{name}` needs a period and a compute time above 0");
    }
    if task.deadline_ns <= task.compute_ns {
        anyhow::bail!(
            "task `{name}` computes for {} and has a deadline of {}; no system can meet it",
            task.compute_ns,
            task.deadline_ns
        );
    }
    if task.buffers.is_some_and(|buffers| buffers < 2) {
        anyhow::bail!("task `{name}` has one buffer; write 2 or more, or none");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_without_priorities_are_ordered_by_their_rate() {
        let asked = parse(
            "service = \"fifo:50\"\n\
             [[task]]\nname = \"slow\"\nperiod = \"10ms\"\ncompute = \"2ms\"\n\
             [[task]]\nname = \"fast\"\nperiod = \"1ms\"\ncompute = \"200us\"\nbuffers = 3\n",
        )
        .unwrap();

        assert_eq!(asked.tasks[0].name, "fast");
        assert_eq!(asked.tasks[0].deadline_ns, Nanos::from_ms(2));
        assert_eq!(asked.tasks[1].deadline_ns, Nanos::from_ms(10));
        assert_eq!(asked.tasks[1].service, Service::Fifo(50));
    }

    #[test]
    fn errors_name_the_task_and_what_is_wrong_with_it() {
        for (text, said) in [
            (
                "[[task]]\nname = \"a\"\nperiod = \"1\"\ncompute = \"1ms\"",
                "`1` has no unit",
            ),
            (
                "[[task]]\nname = \"a\"\nperiod = \"1ms\"\ncompute = \"1us\"\npriority = 3\n\
                 [[task]]\nname = \"b\"\nperiod = \"1ms\"\ncompute = \"1us\"",
                "only 1 of 2 tasks have a priority",
            ),
        ] {
            let err = format!("{:#}", parse(text).unwrap_err());
            assert!(err.contains(said), "{err}");
        }
    }
}
