//! `laggard serve` with a script: its responses, its store, and its reaction to errors.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted;
use crate::scripted::{Printed as _, Texts as _, manifest, wait_for};
use crate::served::{Serve, value};

/// Removes a directory that `serve` writes to. It may create a file before the directory is gone.
fn remove(dir: &Path) {
    wait_for("the directory is removed", || {
        match fs::remove_dir_all(dir) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => false,
            removed => removed.map(|()| true).unwrap(),
        }
    });
}

fn recordings(store: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(store).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "laggard"));
    paths.sort();
    paths
}

fn show(recording: &Path) -> Value {
    let output = scripted::laggard()
        .args(["show", "--json"])
        .arg(recording)
        .output()
        .unwrap();
    output.json()
}

/// Returns the number of samples of `fifo:90`.
fn samples(recording: &Path) -> f64 {
    let shown = show(recording);
    let services = shown["recordings"][0]["services"].as_array().unwrap();
    let service = services.iter().find(|row| row["service"] == "fifo:90");
    service.map_or(0.0, |row| row["latency"]["samples"].as_f64().unwrap())
}

/// `fifo:90` has a latency of 18.851 us, and of 50 ms 3 s after the start.
fn stalled() -> String {
    scripted::script(10_000_000, &scripted::stall(3_000_000_000, 50_000_000))
}

#[test]
fn scraped_values_match_show_of_the_stored_recording() {
    let dir = TempDir::new().unwrap();
    let store = dir.path().join("store");
    let option = format!("--store={}", store.display());
    // Seldom enough that none comes between the last scrape and the end.
    let other = "[[line]]\nservice = \"other\"\nroute = \"direct\"\n\
                 steps = [[[\"irq\", 25000], [\"waking\", 400], [\"user\", 2345678]]]\n";
    let script = scripted::script(12_000_000_000, other);
    let serve = Serve::start(dir.path(), &script, &[&option], "");
    let count = "laggard_latency_seconds_count{service=\"fifo:90\",route=\"direct\",cpu=\"0\"} ";

    let is_whole = |text: &str| {
        let of_other = count.replace("fifo:90", "other");
        (value(text, count), value(text, &of_other)) == (Some(1.0), Some(1.0))
    };
    let text = serve.until("/metrics", is_whole);
    let (code, message) = serve.end();

    assert_eq!(code, Some(0), "{message}");
    let [recording] = &recordings(&store)[..] else {
        panic!("{:?}", recordings(&store))
    };
    let shown = show(recording);
    let services = shown["recordings"][0]["services"].as_array().unwrap();
    for service in services {
        let name = service["service"].as_str().unwrap();
        let labels = format!("{{service=\"{name}\",route=\"direct\",cpu=\"0\"}} ");
        let value_of = |what: &str| value(&text, &format!("laggard_{what}{labels}"));
        let count = service["latency"]["samples"].as_f64();
        assert!(count.is_some(), "{service}");
        assert_eq!(value_of("latency_seconds_count"), count, "{name}");
        let largest = service["latency"]["largest_ns"].as_f64().unwrap();
        assert_eq!(
            value_of("largest_latency_seconds"),
            Some(largest / 1e9),
            "{name}"
        );
    }
    assert_eq!(
        services.len(),
        3,
        "two threads, and interrupts: {services:?}"
    );
}

#[test]
fn a_late_activation_is_counted_listed_and_on_the_page() {
    let dir = TempDir::new().unwrap();
    let serve = Serve::start(dir.path(), &stalled(), &["--threshold=1ms"], "");

    let list = serve.until("/episodes", |text| text.contains("\"episode\": 1"));
    let (_, json) = list.split_once("\r\n\r\n").unwrap();
    let list: Value = serde_json::from_str(json).unwrap();
    let late = &list["episodes"][0];
    assert_eq!(late["service"], "fifo:90");
    assert!(late["latency_ns"].as_u64().unwrap() > 1_000_000, "{late}");
    assert_eq!(
        late["causes"],
        Value::Array(Vec::new()),
        "nobody watched a script"
    );
    let episodes = "laggard_episodes_total{class=\"not_watched\",culprit=\"\"} ";
    let count = list["count"].as_f64();
    serve.until("/metrics", |text| value(text, episodes) == count);
    serve.until("/", |text| {
        text.contains("Late wakeups") && text.contains("SCHED_FIFO 90")
    });
    assert!(serve.get("/nothing").starts_with("HTTP/1.1 404"));
    assert!(serve.get("/healthz").ends_with("\r\n\r\nok\n"));
}

/// An error at the start of an hour ended a program that must run for months.
#[test]
fn failure_at_the_start_of_a_later_piece_is_reported_and_retried() {
    let dir = TempDir::new().unwrap();
    let option = format!("--store={}", dir.path().join("store").display());
    let script = scripted::script(10_000_000, "");
    let serve = Serve::start(dir.path(), &script, &[&option, "--every=2s"], "");
    let (file, aside) = (dir.path().join("script.toml"), dir.path().join("aside"));
    let is_measuring = |text: &str| value(text, "laggard_measuring ") == Some(1.0);
    serve.until("/metrics", is_measuring);

    // The script is missing for a while.
    fs::rename(&file, &aside).unwrap();
    let ill = serve.until("/healthz", |text| text.contains("nothing is measured"));
    let metrics = serve.until("/metrics", |text| !is_measuring(text));
    serve.until("/", |text| text.contains("Not measuring:"));
    fs::rename(&aside, &file).unwrap();
    serve.until("/healthz", |text| text.ends_with("\r\n\r\nok\n"));
    let again = serve.until("/metrics", is_measuring);
    let (code, message) = serve.end();

    assert!(ill.starts_with("HTTP/1.1 503"), "{ill}");
    ill.assert_has("read the script");
    assert_eq!(value(&metrics, "laggard_measuring "), Some(0.0));
    assert_eq!(value(&metrics, "laggard_store_recording "), Some(0.0));
    let failures = value(&again, "laggard_measuring_failures_total ");
    assert!(failures >= Some(1.0), "{again}");
    assert_eq!(code, Some(0), "{message}");
    // However often it was tried.
    assert_eq!(
        message.matches("it is tried again in").count(),
        1,
        "{message}"
    );
    message.assert_has("it is measured again");
}

#[test]
fn each_piece_is_a_whole_recording_and_counters_go_on() {
    let dir = TempDir::new().unwrap();
    let store = dir.path().join("store");
    let option = format!("--store={}", store.display());
    let script = scripted::script(10_000_000, "");
    let serve = Serve::start(dir.path(), &script, &[&option, "--every=2s"], "");
    let count = "laggard_latency_seconds_count{service=\"fifo:90\",route=\"direct\",cpu=\"0\"} ";

    wait_for("three recordings", || recordings(&store).len() >= 3);
    let whole: f64 = recordings(&store)[..2]
        .iter()
        .map(|path| samples(path))
        .sum();
    assert!(whole > 0.0);
    let text = serve.until("/metrics", |text| value(text, count) >= Some(whole));
    let scraped = value(&text, count).unwrap();
    let (code, message) = serve.end();
    assert_eq!(code, Some(0), "{message}");
    let stored = recordings(&store);
    for recording in &stored {
        let state = &manifest(recording)["state"];
        assert!(*state == "complete" || *state == "interrupted", "{state}");
    }
    let sum: f64 = stored.iter().map(|path| samples(path)).sum();
    assert!(scraped <= sum, "{scraped} of {sum}");
}

#[test]
fn unwritable_store_is_reported_and_measuring_continues() {
    let dir = TempDir::new().unwrap();
    let store = dir.path().join("store");
    let option = format!("--store={}", store.display());
    let script = scripted::script(1_000_000, "");
    // A file may have 4 kB: enough for the manifest, but not for the samples.
    let serve = Serve::start(dir.path(), &script, &[&option], "ulimit -f 8;");
    let count = "laggard_latency_seconds_count{service=\"fifo:90\",route=\"direct\",cpu=\"0\"} ";

    let health = serve.until("/healthz", |text| text.contains("does not record"));
    let before = value(&serve.get("/metrics"), count).unwrap();
    let text = serve.until("/metrics", |text| value(text, count) > Some(before + 100.0));

    health.assert_has("ulimit -f");
    assert!(health.starts_with("HTTP/1.1 503"), "{health}");
    assert_eq!(value(&text, "laggard_store_recording "), Some(0.0));
    assert_eq!(value(&text, "laggard_store_failures_total "), Some(1.0));
    let (code, health) = serve.end();
    assert_eq!(code, Some(0), "{health}");
    health.assert_has("measuring continues");
}

/// The store stayed lost for the rest of the run, with status 200.
#[test]
fn a_store_that_is_lost_during_the_run_is_made_again_and_health_shows_it_meanwhile() {
    let dir = TempDir::new().unwrap();
    let store = dir.path().join("store");
    let option = format!("--store={}", store.display());
    let script = scripted::script(10_000_000, "");
    let serve = Serve::start(dir.path(), &script, &[&option], "");
    let is_recorded = |text: &str| value(text, "laggard_store_recording ") == Some(1.0);
    let is_well = |text: &str| text.ends_with("\r\n\r\nok\n");
    serve.until("/metrics", is_recorded);
    serve.until("/healthz", is_well);

    // Removed as a whole.
    remove(&store);
    let removed = serve.until("/healthz", |text| text.starts_with("HTTP/1.1 503"));
    serve.until("/healthz", is_well);
    let [first] = &recordings(&store)[..] else {
        panic!("{:?}", recordings(&store))
    };

    // The recording alone.
    remove(first);
    serve.until("/healthz", |text| text.starts_with("HTTP/1.1 503"));
    serve.until("/healthz", is_well);

    // Replaced by a file.
    remove(&store);
    fs::write(&store, "precious").unwrap();
    let replaced = serve.until("/healthz", |text| text.contains("Not a directory"));
    let failures = "laggard_store_failures_total ";
    let metrics = serve.until("/metrics", |text| value(text, failures) >= Some(3.0));
    assert_eq!(fs::read_to_string(&store).unwrap(), "precious");
    fs::remove_file(&store).unwrap();
    serve.until("/healthz", is_well);
    serve.until("/metrics", is_recorded);
    let (code, message) = serve.end();

    assert_eq!(code, Some(0), "{message}");
    removed.assert_has("was removed");
    assert!(replaced.starts_with("HTTP/1.1 503"), "{replaced}");
    replaced.assert_has("does not record");
    assert_eq!(value(&metrics, "laggard_measuring "), Some(1.0));
    message.assert_has("can be written again");
    assert_eq!(recordings(&store).len(), 1);
}

#[test]
fn a_second_writer_of_a_store_is_refused_until_the_first_is_killed() {
    let dir = TempDir::new().unwrap();
    let option = format!("--store={}", dir.path().join("store").display());
    let script = scripted::script(10_000_000, "");
    let first = Serve::start(dir.path(), &script, &[&option], "");
    std::os::unix::fs::symlink(dir.path().join("store"), dir.path().join("link")).unwrap();

    for path in ["store/.", "link", "link/../store"] {
        let output = scripted::laggard()
            .args(["serve", "--listen=127.0.0.1:0"])
            .arg(format!("--store={}", dir.path().join(path).display()))
            .output()
            .unwrap();
        let stderr = output.errors();
        assert_eq!(output.status.code(), Some(2), "{path}: {stderr}");
        assert!(
            stderr.contains("another `laggard serve`"),
            "{path}: {stderr}"
        );
    }
    // It dies in no order; the lock dies with it.
    first.signal("-KILL");
    drop(first);
    let second = Serve::start(dir.path(), &script, &[&option], "");
    second.until("/healthz", |text| text.ends_with("\r\n\r\nok\n"));
}

#[test]
fn recording_survives_a_kill_and_the_store_is_released() {
    let dir = TempDir::new().unwrap();
    let store = dir.path().join("store");
    let option = format!("--store={}", store.display());
    let script = scripted::script(1_000_000, "");
    let serve = Serve::start(dir.path(), &script, &[&option], "");
    let count = "laggard_latency_seconds_count{service=\"fifo:90\",route=\"direct\",cpu=\"0\"} ";

    serve.until("/metrics", |text| value(text, count) > Some(8_000.0));
    serve.signal("-KILL");
    drop(serve);
    let kept = samples(&recordings(&store)[0]);
    let again = Serve::start(dir.path(), &script, &[&option], "");

    assert!(kept > 100.0, "{kept}");
    again.until("/metrics", |text| value(text, count) > Some(0.0));
    assert_eq!(recordings(&store).len(), 2);
}

#[test]
fn other_machines_are_refused_without_an_option() {
    let refused = |options: &[&str]| {
        let output = scripted::laggard()
            .arg("serve")
            .args(options)
            .output()
            .unwrap();
        (output.status.code(), output.errors())
    };

    let (code, message) = refused(&["--listen=0.0.0.0:0"]);
    assert_eq!(code, Some(2), "{message}");
    assert!(
        message.contains("names of processes") && message.contains("--expose"),
        "{message}"
    );

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("--listen={}", taken.local_addr().unwrap());
    let (code, message) = refused(&[&listen]);
    assert_eq!(code, Some(2), "{message}");
    message.assert_has("--listen");
}
