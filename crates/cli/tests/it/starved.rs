//! Tests with a service that never runs on one of two CPUs, or not at the end. The recordings are
//! written here in the form that a measurement would write.

use std::path::PathBuf;
use std::process::Output;

use laggard_made::{LENGTH, Made, line};
use laggard_model::{Nanos, Service, Stage};
use serde_json::Value;
use tempfile::TempDir;

use crate::scripted::{Printed as _, Texts as _, in_one_line, laggard, service};

const TASKS: &str =
    "service = \"fifo:90\"\n[[task]]\nname = \"t\"\nperiod = \"100ms\"\ncompute = \"1ms\"\n";

/// `fifo:90` on two CPUs, every ms. CPU 0 is served within 16 us, CPU 1 only
/// until `served_until`; after that it is still waiting when measuring ends.
fn recorded(dir: &TempDir, served_until: Nanos) -> PathBuf {
    recorded_at(dir, served_until, Nanos::ZERO)
}

/// Like `recorded`, with this CPU time of the measurement.
fn recorded_at(dir: &TempDir, served_until: Nanos, price: Nanos) -> PathBuf {
    let path = dir.path().join("r.laggard");
    let steps = [(Stage::Irq, 9_000), (Stage::User, 7_000)];
    let (planned, served) = (LENGTH.ns() / 1_000_000, served_until.ns() / 1_000_000);
    let mut made = Made::new(&[0, 1].map(|cpu| line(Service::Fifo(90), cpu)))
        .served(0, planned, &steps)
        .served(1, served, &steps)
        .waiting(1, planned - served, LENGTH.saturating_sub(served_until));
    made.manifest.plan.dither = false;
    made.manifest.cost.wall_ns = LENGTH;
    made.manifest.cost.measuring_cpu_ns = price;
    made.record(&path);
    path
}

fn ask(recording: &PathBuf, words: &[&str]) -> Output {
    let (command, rest) = words.split_first().unwrap();
    laggard()
        .arg(command)
        .arg(recording)
        .args(rest)
        .output()
        .unwrap()
}

#[test]
fn show_leads_with_a_service_that_was_never_served() {
    let dir = TempDir::new().unwrap();
    let recording = recorded(&dir, Nanos::ZERO);

    let output = ask(&recording, &["show"]);
    let first_screen = output.text();
    let report = ask(&recording, &["show", "--json"]).json();

    assert_eq!(output.status.code(), Some(0), "{first_screen}");
    let verdict = "STARVED";
    let sentence = "SCHED_FIFO 90 on CPU 1 was never served: latency at least 6.00 s";
    let full_screen = ask(&recording, &["show", "--all"]).text();
    for screen in [&first_screen, &full_screen] {
        let words: Vec<&str> = screen.split_whitespace().collect();
        assert!(
            words.join(" ").contains(&format!("{verdict} {sentence}")),
            "{screen}"
        );
        assert!(screen.find(verdict) < screen.find("median"), "{screen}");
    }
    let recording_row = &report["recordings"][0];
    assert_eq!(recording_row["trust"]["verdict"], "good");
    assert_eq!(recording_row["waiting"][0]["served"], 0);
    assert_eq!(recording_row["waiting"][0]["still_waiting"], 6_000);
    let fifo = &service(recording_row, "fifo:90")["latency"];
    assert_eq!(fifo["largest_ns"], 6_000_000_000_u64);
    assert_eq!(fifo["largest_is_at_least"], true);
    assert_eq!(fifo["quantiles"][1]["is_at_least"], true);
}

#[test]
fn a_recording_s_report_and_pictures_say_at_least() {
    let dir = TempDir::new().unwrap();
    let recording = recorded(&dir, Nanos::from_ms(4_700));

    let markdown = ask(&recording, &["report", "--markdown"]).text();

    markdown
        .assert_has("90 on CPU 1 was still waiting when measuring ended: latency at least 1.30 s");
    markdown.assert_has(" >= 1.30 s |");
    for figure in ["distribution", "time", "cpus"] {
        let picture = dir.path().join(format!("{figure}.svg"));
        let output = ask(
            &recording,
            &[
                "report",
                "--figure",
                figure,
                "--output",
                picture.to_str().unwrap(),
            ],
        );
        assert!(output.status.success(), "{figure}: {output:?}");
        let picture = std::fs::read_to_string(picture).unwrap();
        assert!(
            picture.contains("still waiting when measuring ended"),
            "{figure}"
        );
    }
}

#[test]
fn qos_counts_the_failures_that_the_stall_at_least_causes() {
    let dir = TempDir::new().unwrap();
    for (served, failures) in [(Nanos::ZERO, 10.0), (Nanos::from_secs(5), 1.0)] {
        let recording = recorded(&dir, served);
        let words = ["qos", "--buffers=3", "--buffer=5ms", "--compute=1ms"];

        let output = ask(&recording, &[&words[..], &["--json"]].concat());
        let curve = ask(&recording, &[&words[..], &["--curve"]].concat()).text();
        let short = ask(&recording, &words).text();
        std::fs::remove_dir_all(&recording).unwrap();

        let report = output.json();
        let fifo = service(&report["loads"][0], "fifo:90");
        assert!(
            fifo["outlook"]["failures"].as_f64().unwrap() >= failures,
            "{fifo}"
        );
        let waited = fifo["waited_ns"].as_u64().unwrap();
        assert_eq!(waited, 6_000_000_000 - served.ns());
        for goal in fifo["needed"].as_array().unwrap() {
            assert_eq!(goal["surely"], Value::Null, "{goal}");
        }
        for part in [
            "  >= ",
            "<= ",
            "SCHED_FIFO 90 was still waiting when measuring ended, for ",
        ] {
            curve.assert_has(part);
        }
        let short: Vec<&str> = short.split_whitespace().collect();
        let short = short.join(" ");
        assert!(
            short.contains("still waiting when measuring ended") && !short.starts_with("FIT"),
            "{short}"
        );
    }
}

#[test]
fn unknown_task_is_not_reported_as_meeting_its_deadline() {
    let dir = TempDir::new().unwrap();
    let tasks = dir.path().join("t.toml");
    std::fs::write(&tasks, TASKS).unwrap();
    // For 50 ms at the end: less than the task could wait.
    for (served, verdict) in [(0, "misses"), (4_700, "misses"), (5_950, "unknown")] {
        let recording = recorded(&dir, Nanos::from_ms(served));
        let words = ["sched", "--tasks", tasks.to_str().unwrap()];

        let output = ask(&recording, &words);
        let report = ask(&recording, &[&words[..], &["--json"]].concat()).json();
        std::fs::remove_dir_all(&recording).unwrap();

        let message = output.text();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(!message.to_lowercase().contains("meets"), "{message}");
        let task = &report["tasks"][0];
        assert_eq!(
            task["verdict"], verdict,
            "served until {served} ms: {message}"
        );
        assert_eq!(task["most_ns"], Value::Null);
        assert_eq!(task["waited_ns"], (6_000 - served) * 1_000_000);
    }
}

#[test]
fn forecast_fits_no_peak_that_had_not_ended() {
    let dir = TempDir::new().unwrap();
    let recording = recorded(&dir, Nanos::from_secs(3));
    // An hour of use is 3.6 s of this recording.
    let words = ["forecast", "--horizon=hour", "--usage=8,5,1000"];

    let screen = ask(&recording, &words).text();
    let report = ask(&recording, &[&words[..], &["--json"]].concat()).json();

    let fifo = service(&report["loads"][0], "fifo:90");
    assert_eq!(fifo["largest_is_at_least"], true);
    assert_eq!(fifo["cells"][0]["method"], "refused", "{fifo}");
    let ahead = &fifo["cells"][0]["ahead"];
    assert_eq!(ahead["is_at_least"], true, "{ahead}");
    assert_eq!(report["loads"][0]["limits"][0]["limit"], "waiting");
    screen.assert_has(">= 3.00 s");
    let screen = in_one_line(&screen);
    screen.assert_has("Next: record until every wait has ended: one had lasted 3.00 s");
}

/// Each requirement is met by a large margin if all wakeups are as early as the served ones.
const REQUIREMENTS: [&str; 5] = [
    "at_most = \"10ms\"\nshare = 0.1\nlongest = \"20ms\"\n",
    "service = \"fifo:90\"\nat_most = \"10ms\"\nshare = 0.01\nlongest = \"20ms\"\n",
    "level = \"10ms\"\nper = \"1s\"\n",
    "level = \"10s\"\nper = \"1s\"\n",
    "app = \"jack-1024\"\nmttf = \"1s\"\n",
];

#[test]
fn check_does_not_pass_starved_or_overloaded_services() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("r.toml");
    let whole = LENGTH;
    let busy = Nanos::from_ms(3_600);
    for (why, served, price, passes) in [
        ("served and cheap", whole, Nanos::ZERO, true),
        ("starved throughout", Nanos::ZERO, Nanos::ZERO, false),
        (
            "starved at the end",
            Nanos::from_secs(3),
            Nanos::ZERO,
            false,
        ),
        ("its own load", whole, busy, false),
    ] {
        let recording = recorded_at(&dir, served, price);
        for requirement in REQUIREMENTS {
            for when in ["fail", "warn"] {
                let requirements = format!("when_unclear = \"{when}\"\n[[require]]\n{requirement}");
                std::fs::write(&file, &requirements).unwrap();

                let output = ask(&recording, &["check", "--require", file.to_str().unwrap()]);

                let code = output.status.code().unwrap();
                let message = output.text();
                assert!([0, 1, 3].contains(&code), "{why}: {requirements}{output:?}");
                assert_eq!(code == 0, passes, "{why}: {requirements}{message}");
                assert_eq!(
                    message.starts_with("PASS"),
                    passes,
                    "{why}: {requirements}{message}"
                );
            }
        }
        std::fs::remove_dir_all(&recording).unwrap();
    }
}
