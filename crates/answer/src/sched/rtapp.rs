//! rt-app's JSON: tasks that run for a time and wait for a timer.
//!
//! Read: `run` (also `run0`, `runtime` ...), `timer` with a `period`,
//! `priority`, `policy`, and `dl-runtime`, `dl-period`, `dl-deadline`. Times
//! are whole microseconds. Tasks with several phases have no single period.

use laggard_model::{Nanos, Service};
use serde_json::{Map, Value};

use super::tasks::{SERVICE, TasksError, by_priority};
use super::{SchedQuestion, TaskAsked};

pub(super) fn parse(text: &str) -> Result<SchedQuestion, TasksError> {
    let json: Value = serde_json::from_str(text).map_err(TasksError::Json)?;
    let tasks = json
        .get("tasks")
        .and_then(Value::as_object)
        .ok_or(TasksError::NoTasks)?;
    let policy = json
        .pointer("/global/default_policy")
        .and_then(Value::as_str);
    let mut found = Vec::new();
    for (name, task) in tasks {
        let task = task
            .as_object()
            .ok_or_else(|| TasksError::TaskNoObject(name.clone()))?;
        found.push(one(name, task, policy).map_err(|error| error.of_task(name))?);
    }
    Ok(SchedQuestion {
        tasks: by_priority(found)?,
        overhead: Nanos::ZERO,
        permitted: Nanos::from_secs(3_600),
    })
}

fn one(
    name: &str,
    task: &Map<String, Value>,
    default_policy: Option<&str>,
) -> Result<(Option<u8>, TaskAsked), TasksError> {
    let body = match task.get("phases").and_then(Value::as_object) {
        None => task,
        Some(phases) if phases.len() == 1 => phases
            .values()
            .next()
            .and_then(Value::as_object)
            .ok_or(TasksError::PhaseNoObject)?,
        Some(phases) => return Err(TasksError::Phases(phases.len())),
    };
    let number = |key: &str| task.get(key).and_then(Value::as_u64).map(Nanos::from_us);
    let runs = body.iter().filter(|(key, _)| key.starts_with("run"));
    let run: u64 = runs.filter_map(|(_, value)| value.as_u64()).sum();
    let timer = body
        .iter()
        .find(|(key, _)| key.starts_with("timer"))
        .and_then(|(_, value)| value.get("period"))
        .and_then(Value::as_u64)
        .map(Nanos::from_us);
    let period = timer.or(number("dl-period")).ok_or(TasksError::NoPeriod)?;
    let compute = if run > 0 {
        Nanos::from_us(run)
    } else {
        number("dl-runtime").ok_or(TasksError::NoRun)?
    };
    let priority = task.get("priority").and_then(Value::as_u64);
    let priority = priority.and_then(|number| u8::try_from(number).ok());
    let policy = task
        .get("policy")
        .and_then(Value::as_str)
        .or(default_policy);
    Ok((
        priority,
        TaskAsked {
            name: name.into(),
            compute_ns: compute,
            period_ns: period,
            deadline_ns: number("dl-deadline").unwrap_or(period),
            blocking_ns: Nanos::ZERO,
            service: match policy {
                Some("SCHED_OTHER") => Service::Other,
                _ => SERVICE,
            },
            cpu: None,
            buffers: None,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periodic_tasks_are_read_with_their_priorities() {
        let asked = parse(
            r#"{ "global": { "default_policy": "SCHED_FIFO" }, "tasks": {
                "low": { "priority": 10, "run": 20000, "timer": { "ref": "unique", "period": 100000 } },
                "high": { "priority": 20, "phases": { "p": { "run0": 300, "run1": 200, "timer0": { "period": 5000 } } } }
            } }"#,
        )
        .unwrap();

        assert_eq!(asked.tasks[0].name, "high");
        assert_eq!(asked.tasks[0].compute_ns, Nanos::from_us(500));
        assert_eq!(asked.tasks[1].period_ns, Nanos::from_ms(100));
        assert_eq!(asked.tasks[1].service, SERVICE);
    }

    #[test]
    fn a_task_without_a_period_is_refused() {
        let err = parse(r#"{ "tasks": { "a": { "run": 5, "sleep": 9 } } }"#).unwrap_err();

        assert_eq!(
            super::super::tasks::tests::told(&err),
            "task `a`: it has no timer with a period; only periodic tasks can be analysed"
        );
    }
}
