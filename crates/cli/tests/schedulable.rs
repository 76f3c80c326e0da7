//! `sched` says `meets` only where the recording shows it.

use serde_json::Value;
use tempfile::TempDir;

mod scripted;

use scripted::{LINE, laggard, often, record, script, stall};

/// A task of 1 ms in 50 ms, its slack shorter than every tenth stall.
const TIGHT: &str =
    "[[task]]\nname = \"loop\"\nperiod = \"50ms\"\ncompute = \"1ms\"\ndeadline = \"4500us\"\n";
/// A task that a gap of the probe hides.
const SHORT: &str = "[[task]]\nname = \"short\"\nperiod = \"250us\"\ncompute = \"60us\"\n";
const LONG: &str = "[[task]]\nname = \"long\"\nperiod = \"1s\"\ncompute = \"600ms\"\n";

/// The answer, and the exit code.
fn sched(dir: &TempDir, recording: &str, tasks: &str) -> (Value, Option<i32>) {
    let file = dir.path().join("tasks.toml");
    std::fs::write(&file, tasks).unwrap();
    let output = laggard()
        .args(["sched", "--json", "--tasks"])
        .arg(file)
        .arg(dir.path().join(recording))
        .output()
        .unwrap();
    let report = serde_json::from_slice(&output.stdout);
    (
        report.unwrap_or_else(|err| panic!("{err}: {output:?}")),
        output.status.code(),
    )
}

/// Records a script, under this name.
fn recorded(dir: &TempDir, name: &str, script: &str, options: &[&str]) {
    record(&dir.path().join(name), script, options)
        .assert()
        .success();
}

fn ns(task: &Value, key: &str) -> f64 {
    task[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} of {task}"))
}

fn doubts(task: &Value) -> String {
    let doubts = task["doubts"].as_array().unwrap().iter();
    doubts.filter_map(Value::as_str).collect()
}

#[test]
fn a_constant_latency_delays_a_task_by_itself_and_by_nothing_else() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "r", &script(1_000_000, ""), &["--duration=20s"]);

    let (found, code) = sched(&dir, "r", &format!("permitted = \"5s\"\n{SHORT}{LONG}"));

    // A stall of two periods could have come unseen, but no latency did.
    let (short, long) = (&found["tasks"][0], &found["tasks"][1]);
    assert_eq!(ns(short, "least_ns"), 60_000.0 + 18_851.0);
    assert_eq!((&short["verdict"], code), (&"unclear".into(), Some(1)));
    assert!(doubts(short).contains("record with `--period"), "{short}");
    let limit = short["limit"].as_str().unwrap();
    assert!(limit.starts_with("its own work, "), "{limit}");
    assert!(limit.contains("a bound, not a measurement"), "{limit}");
    // The other's work takes 190 of these 790 ms.
    let (ideal, most) = (ns(long, "ideal_ns"), ns(long, "most_ns"));
    assert_eq!(ns(long, "least_ns"), ideal + 18_851.0);
    assert!(most - ideal < 3e6, "{long}");
    assert_eq!(long["verdict"], "meets");
}

#[test]
fn with_a_probe_that_is_fine_enough_a_constant_latency_meets() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "r", &script(250_000, ""), &["--duration=4s"]);
    let tasks = "permitted = \"1s\"\n\
                 [[task]]\nname = \"ten times\"\nperiod = \"2500us\"\ncompute = \"600us\"\n";

    let (found, code) = sched(&dir, "r", tasks);

    assert_eq!(code, Some(0), "{found}");
    let most = ns(&found["tasks"][0], "most_ns");
    assert!((618_851.0..1_200_000.0).contains(&most), "{most}");
}

#[test]
fn many_stalls_before_a_deadline_add_up_however_short_each_is() {
    let dir = TempDir::new().unwrap();
    // A fifth of the time, in stalls of a fortieth of the slack.
    let stalls: String = (0..380)
        .map(|at| stall(50_000_000 * at + 500_000, 10_000_000))
        .collect();
    recorded(&dir, "r", &script(1_000_000, &stalls), &["--duration=20s"]);

    let (found, _) = sched(&dir, "r", &format!("permitted = \"5s\"\n{LONG}"));

    // 600 ms of work in the 40 of each 50 ms that are free.
    let (least, most) = (
        ns(&found["tasks"][0], "least_ns"),
        ns(&found["tasks"][0], "most_ns"),
    );
    assert!((735e6..=751e6).contains(&least), "{found}");
    assert!((750e6..780e6).contains(&most), "{found}");
}

/// A task that may miss each of its activations always meets what is asked.
#[test]
fn less_than_a_period_between_misses_is_neither_advised_nor_accepted() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "r", &script(1_000_000, ""), &["--duration=20s"]);
    let slow = LONG.replace("1s", "10s");

    let (hourly, _) = sched(&dir, "r", &slow);

    let said = doubts(&hourly["tasks"][0]);
    assert!(said.contains("once in 1.0 h: record for"), "{said}");
    assert!(!said.contains("permitted ="), "{said}");
    let file = dir.path().join("seldom.toml");
    std::fs::write(&file, format!("permitted = \"5s\"\n{slow}")).unwrap();
    let refused = laggard()
        .args(["sched", "--tasks"])
        .args([&file, &dir.path().join("r")])
        .output()
        .unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("it could miss every time"), "{error}");
}

#[test]
fn what_a_short_recording_cannot_tell_is_not_said_to_be_met() {
    let dir = TempDir::new().unwrap();
    let stalls: String = (1..20)
        .map(|at| stall(1_000_500_000 * at, 2_000_000))
        .collect();
    recorded(&dir, "r", &script(1_000_000, &stalls), &["--duration=20s"]);
    let tasks = LONG.replace("600ms", "60ms");

    let (hourly, refused) = sched(&dir, "r", &tasks);
    let (seldom, told) = sched(&dir, "r", &format!("permitted = \"5s\"\n{tasks}"));

    let task = &hourly["tasks"][0];
    assert_eq!((&task["verdict"], refused), (&"unclear".into(), Some(1)));
    assert!(doubts(task).contains("once in 1.0 h"), "{task}");
    assert!(doubts(task).contains("permitted = \"5400ms\""), "{task}");
    assert_eq!(
        (&seldom["tasks"][0]["verdict"], told),
        (&"meets".into(), Some(0)),
        "{seldom}"
    );
}

#[test]
fn a_recording_of_the_tail_answers_as_the_whole_one_or_does_not_tell() {
    let late = often(200);
    for (name, line, stalls) in [
        ("often", late.as_str(), String::new()),
        ("once", LINE, stall(3_000_500_000, 4_000_000)),
        ("never", LINE, String::new()),
    ] {
        let dir = TempDir::new().unwrap();
        let script = format!("period_ns = 1000000\n{line}\n{stalls}");
        recorded(&dir, "all", &script, &["--duration=20s", "--keep=all"]);
        recorded(&dir, "tail", &script, &["--duration=20s", "--keep=tail"]);
        for tasks in [TIGHT, LONG, SHORT] {
            let tasks = format!("permitted = \"5s\"\n{tasks}");

            let (whole, tail) = (sched(&dir, "all", &tasks), sched(&dir, "tail", &tasks));

            let (whole, tail) = (&whole.0["tasks"][0], &tail.0["tasks"][0]);
            let what = format!("{name}: {whole:#}\nfrom the tail: {tail:#}");
            if tail["verdict"] != whole["verdict"] {
                assert_eq!(tail["verdict"], "unclear", "{what}");
                assert!(doubts(tail).contains("by the histogram"), "{what}");
            }
            assert!(ns(tail, "least_ns") <= ns(whole, "least_ns"), "{what}");
            if let Some(most) = tail["most_ns"].as_f64() {
                assert!(most >= ns(whole, "most_ns"), "{what}");
            }
        }
    }
}
