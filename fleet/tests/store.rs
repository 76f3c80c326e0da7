//! The program with stores that `laggard` or its generator of simulated stores wrote.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

mod stores;

use stores::{core, fleet, fleet_of, json, made, text};

/// Limit that detects a hang, not an expected duration. It is therefore generous.
const DEADLINE: Duration = Duration::from_secs(300);

/// Script: one of 1,000 wakeups is 4 ms late.
fn scripted(dir: &Path) -> String {
    let steps = "[[\"irq\", 14000], [\"user\", 4800]], ".repeat(999);
    let script = format!(
        "period_ns = 500000\n[[line]]\nservice = \"fifo:90\"\nroute = \"direct\"\n\
         steps = [{steps}[[\"irq\", 4014000], [\"user\", 4800]]]\n\
         [[stall]]\nat_ns = 1000500000\nlength_ns = 20000000\n"
    );
    fs::write(dir.join("script.toml"), script).unwrap();
    format!("fake:{}", dir.join("script.toml").display())
}

/// Makes a recording of its tail.
fn recorded(dir: &Path, name: &str, seconds: u32) {
    let mut command = Command::new(core("laggard"));
    command.args([
        "record",
        "--quiet",
        "--keep=tail",
        &format!("--duration={seconds}s"),
        "--backend",
    ]);
    command.arg(scripted(dir));
    let output = command.arg("-o").arg(dir.join(name)).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn store_of_one_recording_matches_show() {
    let dir = TempDir::new().unwrap();
    recorded(dir.path(), "r.laggard", 20);
    let show = Command::new(core("laggard"))
        .args(["show", "--json"])
        .arg(dir.path().join("r.laggard"))
        .output()
        .unwrap();
    let show: Value = serde_json::from_slice(&show.stdout).unwrap();
    let show = &show["recordings"][0];

    let summary = json(dir.path(), &["summary"], 0);

    let (rows, services) = (
        summary["rows"].as_array().unwrap(),
        show["services"].as_array().unwrap(),
    );
    assert_eq!(rows.len(), services.len());
    let has_missed = |service: &Value| service["missed"].as_u64().unwrap() > 0;
    assert!(services.iter().any(has_missed), "missed ones are in it");
    for (row, service) in rows.iter().zip(services) {
        let (row_figures, expected) = (&row["latency"], &service["latency"]);
        for same in ["samples", "min_ns", "mean_ns", "largest_ns", "quantiles"] {
            assert_eq!(
                row_figures[same], expected[same],
                "{same} of {}",
                service["service"]
            );
        }
        for same in ["service", "route", "missed", "still_waiting", "lost"] {
            assert_eq!(row_figures[same], service[same], "{same}");
        }
    }
    assert_eq!(summary["of"]["scripted"], 1);
    assert_eq!(
        rows[0]["group"],
        serde_json::json!([show["host"]["kernel"], "no load"])
    );
}

#[test]
fn faulty_machines_are_ranked_first_with_their_cause() {
    let store = made(200, 2, 10);

    let worst = json(store.path(), &["worst"], 0);
    let causes = json(store.path(), &["causes"], 0);

    let mut first: Vec<(&str, &str)> = worst["hosts"].as_array().unwrap()[..3]
        .iter()
        .map(|host| {
            (
                host["host"].as_str().unwrap(),
                host["cause"].as_str().unwrap(),
            )
        })
        .collect();
    first.sort_unstable();
    assert_eq!(
        first,
        [
            ("host-101", "preempted by higher priority: raid-check"),
            ("host-17", "preempted by higher priority: nicpoll"),
            ("host-180", "preempted by higher priority: snapd-sync"),
        ]
    );
    let named = |who: &str| {
        let listed = causes["causes"].as_array().unwrap();
        listed
            .iter()
            .find(|cause| cause["who"] == who)
            .unwrap()
            .clone()
    };
    let nicpoll = named("nicpoll");
    assert_eq!(
        (&nicpoll["hosts"], &nicpoll["host"]),
        (&1.into(), &"host-17".into())
    );
    assert_eq!(nicpoll["hours"], 2);
    let period = nicpoll["period_ns"][0].as_u64().unwrap();
    assert!((4_900_000_000..5_100_000_000).contains(&period), "{period}");
    let host = json(store.path(), &["show", "host-17"], 0);
    assert_eq!(host["causes"][0]["who"], "nicpoll");
    assert_eq!(host["kernels"], serde_json::json!(["6.12.9", "6.13.1"]));
}

#[test]
fn distinguishing_setting_of_worse_machines_is_found() {
    let dir = made(40, 8, 30);

    let changed = json(dir.path(), &["changed"], 0);

    let worse = changed["worse"].as_array().unwrap();
    assert!(worse.len() >= 4, "of 8: {changed:#}");
    let number = |host: &Value| -> u32 {
        host["host"]
            .as_str()
            .unwrap()
            .trim_start_matches("host-")
            .parse()
            .unwrap()
    };
    let wrong = worse.iter().filter(|host| number(host) % 5 != 2).count();
    assert!(wrong <= 1, "of 32 that did not change: {changed:#}");
    let setting = &changed["settings"][0];
    assert_eq!(setting["name"], "command line: nohz_full=1", "{changed:#}");
    assert_eq!(
        setting["worse_with"].as_u64(),
        Some((worse.len() - wrong) as u64)
    );
}

#[test]
fn unreadable_recordings_are_listed_and_the_rest_is_included() {
    let store = made(200, 2, 10);
    let path_of = |path: &str| store.path().join(path);
    let manifest = |path: &str, text: &str| {
        for name in ["manifest.json", "manifest-start.json"] {
            fs::write(path_of(path).join(name), text).unwrap();
        }
    };
    manifest("host-0/hour-000.laggard", "{\"schema\": 99}");
    manifest("host-1/hour-000.laggard", "{\"schema\": 2, \"lines\": [");
    // Hostile file: in place of the number of rows, it has more than fit into memory.
    let histograms = path_of("host-2/hour-000.laggard/histograms-000000.parquet");
    let mut bytes = fs::read(&histograms).unwrap();
    let end = bytes.len();
    bytes[end - 40..end - 8].fill(0xff);
    fs::write(&histograms, bytes).unwrap();
    // Copy with another name.
    let copy = path_of("copy.laggard");
    let copied = Command::new("cp")
        .arg("-r")
        .args([&path_of("host-short/once.laggard"), &copy])
        .status();
    assert!(copied.unwrap().success());

    let summary = json(store.path(), &["summary"], 3);

    let view = &summary["of"];
    let refused: Vec<(&str, &str)> = view["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|recording| {
            let path = recording["path"].as_str().unwrap();
            let ending = path.rsplit_once(store.path().file_name().unwrap().to_str().unwrap());
            (ending.unwrap().1, recording["because"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        refused,
        [
            ("/host-0/hour-000.laggard", "newer"),
            ("/host-1/hour-000.laggard", "unreadable"),
            ("/host-short/once.laggard", "twice"),
        ]
    );
    assert_eq!(view["damaged"].as_array().unwrap().len(), 1, "{view:#}");
    // Includes the partly read recording, and the copy in place of its original.
    assert_eq!(view["recordings"], 399, "{view:#}");
    let worst = json(store.path(), &["worst"], 3);
    let first: BTreeSet<&str> = worst["hosts"].as_array().unwrap()[..3]
        .iter()
        .map(|host| host["host"].as_str().unwrap())
        .collect();
    assert_eq!(first, BTreeSet::from(["host-101", "host-17", "host-180"]));
    let report = text(store.path(), &["summary"]);
    assert!(report.contains("NOT READ, and in no figure: 3"), "{report}");
    assert!(report.contains("layout version 99"), "{report}");

    // Without the copy, the original counts.
    fs::remove_dir_all(&copy).unwrap();
    let again = json(store.path(), &["summary"], 3);
    assert_eq!(again["of"]["refused"].as_array().unwrap().len(), 2);
}

#[test]
fn added_and_removed_recordings_change_the_next_answer() {
    let store = made(2, 2, 1);
    let count = || json(store.path(), &["summary"], 0)["of"]["recordings"].clone();
    assert_eq!(count(), 5);

    fs::remove_dir_all(store.path().join("host-1/hour-001.laggard")).unwrap();
    assert_eq!(count(), 4);

    recorded(store.path(), "new.laggard", 2);
    assert_eq!(count(), 5);

    // A catalogue that was truncated by a kill is built again.
    let lines = fs::read_dir(store.path().join(".fleet/lines")).unwrap();
    fs::remove_file(lines.last().unwrap().unwrap().path()).unwrap();
    assert_eq!(count(), 5);

    // A catalogue with other columns is built again, too.
    let form = store.path().join(".fleet/catalogue.lock");
    let of_now = fs::read(&form).unwrap();
    fs::write(&form, "").unwrap();
    for table in fs::read_dir(store.path().join(".fleet/lines")).unwrap() {
        fs::write(table.unwrap().path(), "other columns").unwrap();
    }
    assert_eq!(count(), 5);
    assert_eq!(fs::read(&form).unwrap(), of_now);
}

#[test]
fn store_is_readable_while_serve_writes_it_and_after_a_kill() {
    let (dir, store) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut serving = Command::new(core("laggard"))
        .args(["serve", "--every=1h", "--backend", &scripted(dir.path())])
        .arg(format!(
            "--listen=unix:{}",
            dir.path().join("socket").display()
        ))
        .arg("--store")
        .arg(store.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let sample_count = || {
        let output = fleet(store.path(), &["summary", "--json"]);
        let answer: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        let samples = |summary_of: &Value| summary_of["rows"][0]["latency"]["samples"].as_u64();
        let count = answer.as_ref().and_then(samples).unwrap_or(0);
        (output.status.code(), count, answer)
    };
    let began = Instant::now();
    let until_more = |than: u64| {
        loop {
            let (code, count, answer) = sample_count();
            if count > than {
                return (code, count, answer.unwrap());
            }
            assert!(began.elapsed() < DEADLINE, "{code:?} {answer:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    };

    let (code, first, under_way) = until_more(0);
    let (_, later, _) = until_more(first);
    serving.kill().unwrap();
    serving.wait().unwrap();
    let (killed_code, rest, killed) = sample_count();

    assert_eq!((code, killed_code), (Some(3), Some(3)), "{under_way:#}");
    let why = &under_way["of"]["damaged"][0]["why"];
    assert!(
        why.as_str().unwrap().contains("is incomplete"),
        "{under_way:#}"
    );
    assert_eq!(killed.unwrap()["of"]["recordings"], 1);
    // Recordings that were included once stay included.
    assert!(rest >= later, "{rest} of {later}");
}

#[test]
fn only_queries_are_accepted() {
    let store = made(2, 2, 1);

    let rows = json(
        store.path(),
        &[
            "sql",
            "SELECT host, COUNT(*) AS n FROM recordings GROUP BY host ORDER BY host",
        ],
        0,
    );
    let change = fleet(store.path(), &["sql", "DROP TABLE recordings"]);
    let copy = fleet(store.path(), &["sql", "COPY recordings TO '/dev/null'"]);
    let wrong = fleet(store.path(), &["sql", "SELECT nothing FROM nowhere"]);

    assert_eq!(
        rows["rows"][0],
        serde_json::json!({"host": "host-0", "n": 2})
    );
    for refused in [change, copy, wrong] {
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(!refused.stderr.is_empty());
    }
}

#[test]
fn missing_store_or_reader_is_an_error_with_a_remedy() {
    let empty = TempDir::new().unwrap();
    let none = fleet(empty.path(), &["summary"]);
    let absent = fleet(&empty.path().join("absent"), &["summary"]);
    let store = made(1, 1, 1);
    let no_reader = fleet_of(Path::new("/nowhere/laggard"), store.path(), &["summary"]);

    for (output, words) in [
        (none, "there is no recording in"),
        (absent, "cannot search the store"),
        (no_reader, "install it next to laggard-fleet"),
    ] {
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }
}

#[test]
fn page_has_a_row_and_a_section_for_each_listed_machine() {
    let store = made(12, 3, 20);
    let file = store.path().join("worst.html");
    let words = ["worst", "-o", file.to_str().unwrap(), "--top", "5"];

    let report = text(store.path(), &words);

    assert!(
        report.ends_with(&format!("5 machines by hours in {}\n", file.display())),
        "{report}"
    );
    let page = fs::read_to_string(&file).unwrap();
    let worst = json(store.path(), &["worst", "--top", "5"], 0);
    for (place, host) in worst["hosts"].as_array().unwrap().iter().enumerate() {
        let name = host["host"].as_str().unwrap();
        assert!(
            page.contains(&format!("<a href=\"#m{place}\">{name}</a>")),
            "{name}: {page}"
        );
        let part = page.find(&format!("<section id=m{place} ")).unwrap();
        let part = &page[part..part + page[part..].find("</section>").unwrap()];
        // The section has the cause and its figures.
        let shown = host["cause"].as_str().unwrap();
        assert!(part.contains(shown), "{shown}: {part}");
        assert!(part.contains("<th scope=row>fifo:90</th>"), "{part}");
    }
    assert_eq!(page.matches("<section ").count(), 5);
    // Three recordings of 20 minutes, each in a separate hour.
    let cells = page.matches("of 20 minutes late").count();
    assert!(cells >= 3 * 5, "{cells}");
}

#[test]
fn unwritable_page_is_an_error_and_a_device_is_not_replaced() {
    let store = made(2, 1, 1);
    let refused = |words: &[&str], why: &str| {
        let output = fleet(store.path(), &[&["worst"], words].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {stderr}");
        assert!(stderr.contains(why), "{words:?}: {stderr}");
    };

    refused(
        &["-o", "/nowhere/at/all.html"],
        "write `/nowhere/at/all.html`",
    );
    refused(&["-o", store.path().to_str().unwrap()], "name a file");
    refused(&["-o", "a.html", "--json"], "cannot be used with");
    let linked = store.path().join("linked.html");
    std::os::unix::fs::symlink("/dev/null", &linked).unwrap();
    text(store.path(), &["worst", "-o", linked.to_str().unwrap()]);
    assert!(fs::symlink_metadata(&linked).unwrap().is_symlink());
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}
