//! The program over stores of recordings that `laggard` itself, or its maker of
//! simulated stores, wrote.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

mod stores;

use stores::{core, fleet, fleet_of, json, made, text};

/// A limit against hanging, not an expectation: generous on purpose.
const DEADLINE: Duration = Duration::from_secs(300);

/// A script in which one activation of 1,000 is 4 ms late.
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

/// A recording of the tail of it.
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
fn a_store_of_one_recording_says_what_show_says() {
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
        let (found, said) = (&row["latency"], &service["latency"]);
        for same in ["samples", "min_ns", "mean_ns", "largest_ns", "quantiles"] {
            assert_eq!(found[same], said[same], "{same} of {}", service["service"]);
        }
        for same in ["service", "route", "missed", "still_waiting", "lost"] {
            assert_eq!(found[same], service[same], "{same}");
        }
    }
    assert_eq!(summary["of"]["scripted"], 1);
    assert_eq!(
        rows[0]["group"],
        serde_json::json!([show["host"]["kernel"], "no load"])
    );
}

#[test]
fn faulty_machines_are_ranked_first_and_who_it_is_is_named() {
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
        let all = causes["causes"].as_array().unwrap();
        all.iter()
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
fn what_tells_the_machines_that_got_worse_from_the_others_is_found() {
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
fn three_of_two_hundred_that_cannot_be_read_are_named_and_the_rest_is_answered() {
    let store = made(200, 2, 10);
    let at = |path: &str| store.path().join(path);
    let manifest = |path: &str, text: &str| {
        for name in ["manifest.json", "manifest-start.json"] {
            fs::write(at(path).join(name), text).unwrap();
        }
    };
    manifest("host-0/hour-000.laggard", "{\"schema\": 99}");
    manifest("host-1/hour-000.laggard", "{\"schema\": 2, \"lines\": [");
    // Hostile: more rows than it can hold, in the place where their number is.
    let histograms = at("host-2/hour-000.laggard/histograms-000000.parquet");
    let mut bytes = fs::read(&histograms).unwrap();
    let end = bytes.len();
    bytes[end - 40..end - 8].fill(0xff);
    fs::write(&histograms, bytes).unwrap();
    // A copy under another name.
    let copy = at("copy.laggard");
    let copied = Command::new("cp")
        .arg("-r")
        .args([&at("host-short/once.laggard"), &copy])
        .status();
    assert!(copied.unwrap().success());

    let summary = json(store.path(), &["summary"], 3);

    let of = &summary["of"];
    let refused: Vec<(&str, &str)> = of["refused"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let path = one["path"].as_str().unwrap();
            let ending = path.rsplit_once(store.path().file_name().unwrap().to_str().unwrap());
            (ending.unwrap().1, one["because"].as_str().unwrap())
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
    assert_eq!(of["damaged"].as_array().unwrap().len(), 1, "{of:#}");
    // With the one that is read in part, and the copy in place of what it is of.
    assert_eq!(of["recordings"], 399, "{of:#}");
    let worst = json(store.path(), &["worst"], 3);
    let first: BTreeSet<&str> = worst["hosts"].as_array().unwrap()[..3]
        .iter()
        .map(|host| host["host"].as_str().unwrap())
        .collect();
    assert_eq!(first, BTreeSet::from(["host-101", "host-17", "host-180"]));
    let said = text(store.path(), &["summary"]);
    assert!(said.contains("NOT READ, and in no figure: 3"), "{said}");
    assert!(said.contains("layout version 99"), "{said}");

    // Without the copy, what it was a copy of counts.
    fs::remove_dir_all(&copy).unwrap();
    let again = json(store.path(), &["summary"], 3);
    assert_eq!(again["of"]["refused"].as_array().unwrap().len(), 2);
}

#[test]
fn a_recording_that_comes_or_goes_is_in_the_next_answer_or_not() {
    let store = made(2, 2, 1);
    let count = || json(store.path(), &["summary"], 0)["of"]["recordings"].clone();
    assert_eq!(count(), 5);

    fs::remove_dir_all(store.path().join("host-1/hour-001.laggard")).unwrap();
    assert_eq!(count(), 4);

    recorded(store.path(), "new.laggard", 2);
    assert_eq!(count(), 5);

    // A catalogue that was cut short by a kill is made anew.
    let lines = fs::read_dir(store.path().join(".fleet/lines")).unwrap();
    fs::remove_file(lines.last().unwrap().unwrap().path()).unwrap();
    assert_eq!(count(), 5);

    // So is one whose tables have other columns.
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
fn a_store_is_answered_of_while_serve_writes_it_and_after_it_was_killed() {
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
    let seen = || {
        let output = fleet(store.path(), &["summary", "--json"]);
        let answer: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        let samples = |all: &Value| all["rows"][0]["latency"]["samples"].as_u64();
        let count = answer.as_ref().and_then(samples).unwrap_or(0);
        (output.status.code(), count, answer)
    };
    let began = Instant::now();
    let until_more = |than: u64| {
        loop {
            let (code, count, answer) = seen();
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
    let (killed_code, rest, killed) = seen();

    assert_eq!((code, killed_code), (Some(3), Some(3)), "{under_way:#}");
    let said = &under_way["of"]["damaged"][0]["why"];
    assert!(
        said.as_str().unwrap().contains("has no end"),
        "{under_way:#}"
    );
    assert_eq!(killed.unwrap()["of"]["recordings"], 1);
    // What was answered of once is not gone.
    assert!(rest >= later, "{rest} of {later}");
}

#[test]
fn a_query_is_answered_and_nothing_else() {
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
fn without_a_store_or_a_reader_it_says_what_to_do() {
    let empty = TempDir::new().unwrap();
    let none = fleet(empty.path(), &["summary"]);
    let absent = fleet(&empty.path().join("absent"), &["summary"]);
    let store = made(1, 1, 1);
    let no_reader = fleet_of(Path::new("/nowhere/laggard"), store.path(), &["summary"]);

    for (output, words) in [
        (none, "there is no recording in"),
        (absent, "look for the store"),
        (no_reader, "install it beside laggard-fleet"),
    ] {
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_page_has_a_row_and_a_part_for_each_machine_that_is_listed() {
    let store = made(12, 3, 20);
    let file = store.path().join("worst.html");
    let words = ["worst", "-o", file.to_str().unwrap(), "--top", "5"];

    let said = text(store.path(), &words);

    assert!(
        said.ends_with(&format!("5 machines by hours in {}\n", file.display())),
        "{said}"
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
        // What is counted of it, and who it was, stands in its part.
        let shown = host["cause"].as_str().unwrap();
        assert!(part.contains(shown), "{shown}: {part}");
        assert!(part.contains("<th scope=row>fifo:90</th>"), "{part}");
    }
    assert_eq!(page.matches("<section ").count(), 5);
    // Three recordings of 20 minutes, an hour each.
    let cells = page.matches("of 20 minutes late").count();
    assert!(cells >= 3 * 5, "{cells}");
}

#[test]
fn a_page_that_cannot_be_written_is_refused_and_a_device_is_not_replaced() {
    let store = made(2, 1, 1);
    let refused = |words: &[&str], why: &str| {
        let output = fleet(store.path(), &[&["worst"], words].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
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
