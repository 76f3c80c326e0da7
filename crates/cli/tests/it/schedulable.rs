//! `sched` says `meets` only where the recording shows it.

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{LINE, Texts as _, laggard, must_record, often, script, stall};

/// A task of 1 ms in 50 ms, its slack shorter than every tenth stall.
const TIGHT: &str =
    "[[task]]\nname = \"loop\"\nperiod = \"50ms\"\ncompute = \"1ms\"\ndeadline = \"4500us\"\n";
/// A task with a period that is shorter than the probe's interval.
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
    (output.json(), output.status.code())
}

/// Records a script, under this name.
fn recorded(dir: &TempDir, name: &str, script: &str, options: &[&str]) {
    must_record(&dir.path().join(name), script, options);
}

fn ns(task: &Value, key: &str) -> f64 {
    task[key]
        .as_f64()
        .unwrap_or_else(|| panic!("{key} of {task}"))
}

fn doubt<'a>(task: &'a Value, kind: &str) -> &'a Value {
    let mut doubts = task["doubts"].as_array().unwrap().iter();
    let doubt = doubts.find(|doubt| doubt["kind"] == kind);
    doubt.unwrap_or_else(|| panic!("no {kind} in {task}"))
}

#[test]
fn a_constant_latency_delays_a_task_by_exactly_itself() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "r", &script(1_000_000, ""), &["--duration=20s"]);

    let (report, code) = sched(&dir, "r", &format!("permitted = \"5s\"\n{SHORT}{LONG}"));

    // A stall of two periods could have come unseen, but no latency did.
    let (short, long) = (&report["tasks"][0], &report["tasks"][1]);
    assert_eq!(ns(short, "least_ns"), 60_000.0 + 18_851.0);
    assert_eq!((&short["verdict"], code), (&"unknown".into(), Some(1)));
    let finer = &doubt(short, "coarse")["finer"];
    assert!(finer["period_ns"].as_u64().unwrap() < 1_000_000, "{short}");
    let limit = &short["limit"];
    assert_eq!(
        (&limit["kind"], ns(limit, "time_ns")),
        (&"work".into(), 60_000.0)
    );
    assert_eq!(limit["unseen"]["kind"], "up_to", "{limit}");
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

    let (report, code) = sched(&dir, "r", tasks);

    assert_eq!(code, Some(0), "{report}");
    let most = ns(&report["tasks"][0], "most_ns");
    assert!((618_851.0..1_200_000.0).contains(&most), "{most}");
}

#[test]
fn many_stalls_before_a_deadline_add_up_however_short_each_is() {
    let dir = TempDir::new().unwrap();
    // A fifth of the time, in stalls of a fortieth of the slack.
    let stalls: String = (0..380)
        .map(|index| stall(50_000_000 * index + 500_000, 10_000_000))
        .collect();
    recorded(&dir, "r", &script(1_000_000, &stalls), &["--duration=20s"]);

    let (report, _) = sched(&dir, "r", &format!("permitted = \"5s\"\n{LONG}"));

    // 600 ms of work in the 40 of each 50 ms that are free.
    let (least, most) = (
        ns(&report["tasks"][0], "least_ns"),
        ns(&report["tasks"][0], "most_ns"),
    );
    assert!((735e6..=751e6).contains(&least), "{report}");
    assert!((750e6..780e6).contains(&most), "{report}");
}

/// A task that may miss each of its activations always meets its requirement.
#[test]
fn less_than_a_period_between_misses_is_neither_advised_nor_accepted() {
    let dir = TempDir::new().unwrap();
    recorded(&dir, "r", &script(1_000_000, ""), &["--duration=20s"]);
    let slow = LONG.replace("1s", "10s");

    let (hourly, _) = sched(&dir, "r", &slow);

    let short = doubt(&hourly["tasks"][0], "short");
    assert_eq!(short["permitted_ns"], 3_600_000_000_000_u64, "{short}");
    assert!(ns(short, "needed_ns") > 3_600e9, "{short}");
    assert_eq!(short["shown_ns"], Value::Null, "{short}");
    let file = dir.path().join("seldom.toml");
    std::fs::write(&file, format!("permitted = \"5s\"\n{slow}")).unwrap();
    let refused = laggard()
        .args(["sched", "--tasks"])
        .args([&file, &dir.path().join("r")])
        .output()
        .unwrap();
    refused.assert_fails(2, "it could miss every time");
}

#[test]
fn requirement_that_a_short_recording_cannot_decide_is_unknown() {
    let dir = TempDir::new().unwrap();
    let stalls: String = (1..20)
        .map(|index| stall(1_000_500_000 * index, 2_000_000))
        .collect();
    recorded(&dir, "r", &script(1_000_000, &stalls), &["--duration=20s"]);
    let tasks = LONG.replace("600ms", "60ms");

    let (hourly, refused) = sched(&dir, "r", &tasks);
    let (seldom, code) = sched(&dir, "r", &format!("permitted = \"5s\"\n{tasks}"));

    let task = &hourly["tasks"][0];
    assert_eq!((&task["verdict"], refused), (&"unknown".into(), Some(1)));
    assert_eq!(
        doubt(task, "short")["shown_ns"],
        5_400_000_000_u64,
        "{task}"
    );
    assert_eq!(
        (&seldom["tasks"][0]["verdict"], code),
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
                assert_eq!(tail["verdict"], "unknown", "{what}");
                assert_eq!(doubt(tail, "not_kept")["is_tail"], true, "{what}");
            }
            assert!(ns(tail, "least_ns") <= ns(whole, "least_ns"), "{what}");
            if let Some(most) = tail["most_ns"].as_f64() {
                assert!(most >= ns(whole, "most_ns"), "{what}");
            }
        }
    }
}

/// The task met every deadline, with a rare latency of 0 ns.
#[test]
fn recording_with_zero_latencies_proves_no_deadline() {
    let dir = TempDir::new().unwrap();
    let zero = "period_ns = 1000000\n[[line]]\nservice = \"fifo:90\"\nroute = \"direct\"\nsteps = [[[\"user\", 0]]]\n";
    recorded(&dir, "r", zero, &["--duration=20s"]);
    let tasks = format!("permitted = \"5s\"\n{TIGHT}buffers = 3\n");

    let (report, code) = sched(&dir, "r", &tasks);

    let task = &report["tasks"][0];
    assert_eq!((&task["verdict"], code), (&"unknown".into(), Some(1)));
    doubt(task, "all_zero");
    assert_eq!(task["most_ns"], Value::Null, "{task}");
    let pseudo = &task["pseudo"];
    assert_eq!(
        (&pseudo["exact_passes"], &pseudo["amortised_passes"]),
        (&false.into(), &false.into()),
        "{pseudo}"
    );
    assert_eq!(report["set"]["edf"], Value::Null, "{report}");
}

/// The answer about a task set in an rt-app file.
fn rt_app(dir: &TempDir, tasks: &str) -> std::process::Output {
    let file = dir.path().join("tasks.json");
    std::fs::write(&file, tasks).unwrap();
    let mut command = laggard();
    command.args(["sched", "--json", "--tasks"]).arg(file);
    command.arg(dir.path().join("r")).output().unwrap()
}

/// Records `fifo:90` and `fifo:40` with a constant latency of 18.9 us.
fn two_priorities(dir: &TempDir) {
    let lower = LINE.replace("fifo:90", "fifo:40");
    let text = script(250_000, &lower);
    recorded(dir, "r", &text, &["--duration=4s"]);
}

/// A task of rt-app: work and period in us.
fn rt_task(name: &str, keys: &str, run: u32, period: u32) -> String {
    format!(
        "\"{name}\" : {{ {keys} \"run\" : {run}, \"timer\" : {{ \"ref\" : \"unique\", \"period\" : {period} }} }},"
    )
}

#[test]
fn rt_app_tasks_are_analysed_as_the_service_of_their_priority_or_the_nearest_below() {
    let dir = TempDir::new().unwrap();
    two_priorities(&dir);
    let fifo = |name: &str, priority: u8, run, period| {
        let keys = format!("\"policy\" : \"SCHED_RR\", \"priority\" : {priority}, \"cpus\" : [0],");
        rt_task(name, &keys, run, period)
    };
    let text = format!(
        "{{ /* a comment */ \"tasks\" : {{ {}{}{} }} }}",
        fifo("low", 40, 400, 20_000),
        fifo("high", 90, 300, 10_000),
        // The slack is shorter than the latency of the substitute service.
        fifo("between", 60, 95, 100),
    );

    let output = rt_app(&dir, &text);

    let report: Value = output.json();
    let tasks = report["tasks"].as_array().unwrap();
    let verdicts: Vec<_> = tasks
        .iter()
        .map(|task| {
            (
                task["name"].as_str().unwrap(),
                task["service"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        verdicts,
        [
            ("high", "fifo:90"),
            ("between", "fifo:40"),
            ("low", "fifo:40")
        ]
    );
    // After `high`, the task misses its deadline even without latency. Alone it would not.
    assert_eq!(tasks[1]["verdict"], "misses");
    let remark = &report["remarks"][0];
    assert_eq!(
        (&remark["kind"], &remark["wanted"]),
        (&"stand_in".into(), &"fifo:60".into())
    );

    let alone = rt_app(
        &dir,
        &format!("{{ \"tasks\" : {{ {} }} }}", fifo("a", 60, 95, 100)),
    );

    let alone: Value = alone.json();
    assert_eq!(alone["tasks"][0]["verdict"], "unknown", "{alone}");
    let doubt = doubt(&alone["tasks"][0], "not_measured");
    assert_eq!(doubt["wanted"], "fifo:60");

    let refused = rt_app(
        &dir,
        &format!("{{ \"tasks\" : {{ {} }} }}", fifo("a", 10, 95, 200)),
    );

    let error = refused.errors();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(
        error.contains("`fifo:10`") && error.contains("--services fifo:10"),
        "{error}"
    );
}

/// The order of tasks with the same priority is unknown.
#[test]
fn tasks_of_one_priority_delay_each_other_at_most_and_need_not() {
    let dir = TempDir::new().unwrap();
    two_priorities(&dir);
    let latency_of = |deadline: &str| {
        let task = |name: &str| {
            format!(
                "[[task]]\nname = \"{name}\"\nperiod = \"20ms\"\ncompute = \"2ms\"\n\
                 deadline = \"{deadline}\"\npriority = 7\n"
            )
        };
        let tasks = format!("permitted = \"1s\"\n{}{}", task("a"), task("b"));
        sched(&dir, "r", &tasks).0
    };

    let (ample, short) = (latency_of("15ms"), latency_of("3ms"));

    for name in [0, 1] {
        let (ample, short) = (&ample["tasks"][name], &short["tasks"][name]);
        assert_eq!(ample["verdict"], "meets", "{ample}");
        assert!(ns(ample, "least_ns") < 2_100_000.0, "{ample}");
        assert!(ns(ample, "most_ns") > 4_000_000.0, "{ample}");
        assert_eq!(short["verdict"], "unknown", "{short}");
        doubt(short, "shared");
    }
}

#[test]
fn a_file_of_rt_app_that_cannot_be_analysed_is_refused_with_line_and_task() {
    let dir = TempDir::new().unwrap();
    two_priorities(&dir);

    let refused = rt_app(
        &dir,
        "{ \"tasks\" : {\n \"a\" : { \"run\" : 5,\n \"suspend\" } } }",
    );

    refused.assert_fails(2, "line 3: task `a`: `suspend` waits for another thread");
}
