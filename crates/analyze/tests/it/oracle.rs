//! Response times compared with another implementation: pyRTA, the Python package
//! `response-time-analysis`. Skipped, with the reason, if it is missing.

use std::io::Write as _;
use std::process::{Command, Stdio};

use laggard_analyze::sched::{Supply, Task, response_time};
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

const SCRIPT: &str = r"
import json, sys
from response_time_analysis import fp
from response_time_analysis.model import *
sets = json.load(sys.stdin)
out = []
for tasks in sets:
    bounds = []
    for index in range(len(tasks)):
        objects = [
            Task(PeriodicWithJitter(period=t['period'], jitter=t['jitter'] if i != index else 0),
                 FullyPreemptive(WCET(t['cost'])), Deadline(10**9), Priority(100 - i))
            for i, t in enumerate(tasks)]
        found = fp.rta(taskset(*objects), objects[index], IdealProcessor(), horizon=10**6)
        bounds.append(found.response_time_bound if found.bound_found() else None)
    out.append(bounds)
json.dump(out, sys.stdout)
";

/// Returns pyRTA's result, or the reason why it is not available.
fn ask(sets: &Value) -> Result<Value, String> {
    let has = Command::new("python3")
        .args(["-c", "import response_time_analysis"])
        .stderr(Stdio::null())
        .status()
        .map_err(|err| format!("python3 cannot be run: {err}"))?;
    if !has.success() {
        return Err("pip install response-time-analysis is needed".into());
    }
    let mut python = Command::new("python3")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    python
        .stdin
        .take()
        .unwrap()
        .write_all(sets.to_string().as_bytes())
        .unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "pyRTA failed");
    Ok(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn response_times_equal_pyrta() {
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(3);
    let sets: Vec<Vec<Task>> = (0..60)
        .map(|_| {
            let count = 1 + random.random_range(0..4);
            (0..count)
                .map(|_| {
                    let period = f64::from(random.random_range(10..60_u32));
                    Task {
                        jitter: f64::from(random.random_range(0..15_u32)),
                        ..Task::new(f64::from(random.random_range(1..8_u32)), period)
                    }
                })
                .collect()
        })
        .filter(|set: &Vec<Task>| set.iter().map(|task| task.utilization()).sum::<f64>() < 0.95)
        .collect();
    #[allow(
        clippy::cast_possible_truncation,
        reason = "a few whole numbers"
    )]
    let requests: Vec<Value> = sets
        .iter()
        .map(|set| {
            let task_json = |task: &Task| {
                let whole = |time: f64| time as i64;
                json!({ "period": whole(task.period), "cost": whole(task.cost), "jitter": whole(task.jitter) })
            };
            set.iter().map(task_json).collect()
        })
        .collect();
    let answers = match ask(&requests.into()) {
        Ok(answers) => answers,
        Err(why) => {
            eprintln!("skipped: {why}");
            return;
        }
    };

    assert!(sets.len() > 30, "{}", sets.len());
    for (set, answer) in sets.iter().zip(answers.as_array().unwrap()) {
        let ours: Vec<Option<f64>> = (0..set.len())
            .map(|index| {
                // pyRTA counts from the release, laggard from the arrival: equal for a
                // task without jitter.
                let mut set = set.clone();
                set[index].jitter = 0.0;
                let response = response_time(&set, index, Supply::default()).unwrap();
                response.time.is_finite().then_some(response.time)
            })
            .collect();
        let theirs: Vec<Option<f64>> = serde_json::from_value(answer.clone()).unwrap();
        assert_eq!(ours, theirs, "for {set:?}");
    }
}
