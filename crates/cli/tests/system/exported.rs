//! The packaged files for Prometheus and Grafana query only series that `laggard serve` exports, in
//! formats that other programs accept.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::prometheus::Prometheus;
use crate::scripted;
use crate::served;

use crate::scripted::{Printed as _, Texts as _};
use crate::served::{DEADLINE, Serve, get, value};

pub(super) fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// Starts `serve` with a store, and waits until it exports a late wakeup.
fn late(dir: &TempDir, options: &[&str]) -> Serve {
    let store = format!("--store={}", dir.path().join("store").display());
    let script = scripted::script(10_000_000, &scripted::stall(500_000_000, 50_000_000));
    let options = [&["--threshold=1ms", &store], options].concat();
    let serve = Serve::start(dir.path(), &script, &options, "");
    serve.until("/metrics", |text| text.contains("laggard_episodes_total{"));
    serve
}

/// Returns laggard's names in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let words = text.split(|letter| !is_of_name(letter));
    words
        .filter(|word| word.starts_with("laggard_"))
        .map(str::to_owned)
        .collect()
}

/// Names of series in a scrape.
fn scraped(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.starts_with("laggard_"));
    lines
        .filter_map(|line| line.split(['{', ' ']).next())
        .map(str::to_owned)
        .collect()
}

/// Returns true if a program is installed. Otherwise prints that it is missing.
pub(super) fn has(program: &str) -> bool {
    let output = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if output.is_err() {
        println!("skipped: {program} is not installed (Debian: scripts/packages test)");
    }
    output.is_ok()
}

#[test]
fn every_metric_of_the_dashboard_and_the_rules_is_in_a_scrape() {
    let dir = TempDir::new().unwrap();
    let serve = late(&dir, &[]);
    let whole = serve.get("/metrics");
    let there = scraped(&whole);

    for file in ["grafana/laggard.json", "prometheus/laggard.rules.yml"] {
        let text = fs::read_to_string(packaging().join(file)).unwrap();
        let requested = names(&text);
        assert!(requested.len() >= 7, "{file} asks for {requested:?} alone");
        for name in requested {
            // A native histogram is asked for by its name alone.
            let is_there = there.contains(&name) || there.contains(&format!("{name}_bucket"));
            // Causes exist only if they were observed, which is never so for a script.
            let is_of_causes = name == "laggard_episode_causes_seconds_total"
                && whole.contains("# TYPE laggard_episodes_total counter");
            // A script does not have a machine to warn about.
            let is_of_machine = name == "laggard_caveat_info";
            assert!(
                is_there || is_of_causes || is_of_machine,
                "{file} asks for `{name}`, which is not among {there:?}"
            );
        }
    }
    let documented =
        names(&fs::read_to_string(packaging().join("../docs/reference/metrics.md")).unwrap());
    for name in &there {
        let stem = ["_bucket", "_count", "_sum"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        assert!(
            documented.contains(stem),
            "docs/reference/metrics.md does not tell of `{stem}`"
        );
    }
}

pub(super) fn panels() -> Vec<Value> {
    let text = fs::read_to_string(packaging().join("grafana/laggard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    dashboard["panels"].as_array().unwrap().clone()
}

#[test]
fn the_dashboard_is_whole() {
    let panels = panels();
    let mut ids = BTreeSet::new();
    for panel in &panels {
        let title = panel["title"].as_str().unwrap();
        assert!(
            ids.insert(panel["id"].as_u64().unwrap()),
            "{title}: id twice"
        );
        let place = &panel["gridPos"];
        let right = place["x"].as_u64().unwrap() + place["w"].as_u64().unwrap();
        assert!(right <= 24, "{title} is wider than the screen");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title} asks for nothing");
        for target in targets {
            let query = target["expr"].as_str().unwrap();
            assert!(query.contains("$instance"), "{title}: {query}");
        }
    }
    assert!(panels.len() >= 15);
}

#[test]
fn alert_rules_pass_their_tests() {
    if !has("promtool") {
        return;
    }
    for words in [
        ["check", "rules", "laggard.rules.yml"],
        ["test", "rules", "laggard.rules.test.yml"],
        ["check", "config", "scrape.yml"],
    ] {
        let output = Command::new("promtool")
            .args(words)
            .current_dir(packaging().join("prometheus"))
            .output()
            .unwrap();
        let stdout = output.text();
        let wrong = output.errors();
        assert!(
            output.status.success(),
            "promtool {words:?}: {stdout}\n{wrong}"
        );
    }
}

/// Returns an address with a free port, which no other program is expected to take at once.
pub(super) fn free_address() -> String {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().to_string()
}

/// Returns the head of a response, and its body.
fn negotiated(address: &str, accept: &str) -> (String, Vec<u8>) {
    let header = match accept {
        "" => String::new(),
        accept => format!("Accept: {accept}\r\n"),
    };
    let answer = served::get_bytes(address, "/metrics", &header);
    let end = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head, answer[end + 4..].to_vec())
}

#[test]
fn the_format_of_metrics_is_the_one_that_the_client_accepts() {
    const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
    const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    const PROTOBUF: &str = "application/vnd.google.protobuf; \
                            proto=io.prometheus.client.MetricFamily; encoding=delimited";
    let dir = TempDir::new().unwrap();
    let serve = late(&dir, &[]);

    for (accept, kind) in [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain", TEXT),
        ("text/plain;version=0.0.4", TEXT),
        ("application/json", TEXT),
        (
            "text/plain;q=0.5,application/openmetrics-text;version=1.0.0;q=0.4",
            TEXT,
        ),
        (
            "text/plain;q=0.4,application/openmetrics-text;version=1.0.0;q=0.5",
            OPENMETRICS,
        ),
        ("application/openmetrics-text;version=1.0.0", OPENMETRICS),
        (
            "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
             encoding=delimited;q=0.7,text/plain;version=0.0.4;q=0.3",
            PROTOBUF,
        ),
    ] {
        let (head, body) = negotiated(&serve.address, accept);

        assert!(head.starts_with("HTTP/1.1 200"), "{accept}: {head}");
        let content_type = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Type: "));
        assert_eq!(content_type, Some(kind), "{accept}: {head}");
        let body = String::from_utf8_lossy(&body);
        let is_of = |part: &str| body.contains(part);
        // Only the older format describes a counter by the name of its series; only the
        // newer ones have exemplars.
        assert_eq!(
            is_of("# TYPE laggard_episodes_total counter\n"),
            kind == TEXT,
            "{accept}"
        );
        assert_eq!(
            is_of("# TYPE laggard_episodes counter\n"),
            kind == OPENMETRICS,
            "{accept}"
        );
        assert_eq!(body.ends_with("# EOF\n"), kind == OPENMETRICS, "{accept}");
        assert_eq!(is_of("# UNIT"), kind == OPENMETRICS, "{accept}");
        assert_eq!(is_of(" # {episode="), kind == OPENMETRICS, "{accept}");
    }
}

/// Series with their values, without what is only about them. Values of what goes on
/// are not compared.
fn series(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split(" # ").next().unwrap())
        .map(|line| line.rsplit_once(' ').unwrap().0.to_owned())
        .collect()
}

#[test]
fn text_and_openmetrics_have_the_same_series() {
    let dir = TempDir::new().unwrap();
    let serve = late(&dir, &[]);
    let body = |accept| String::from_utf8(negotiated(&serve.address, accept).1).unwrap();

    let (text, openmetrics) = (body("text/plain"), body("application/openmetrics-text"));

    let (text, openmetrics) = (series(&text), series(&openmetrics));
    assert!(text.len() > 60, "{text:?}");
    assert_eq!(text, openmetrics);
}

/// Returns the output of `promtool check metrics` for a text; empty if it is accepted.
fn promtool_check(text: &[u8]) -> String {
    use std::io::Write as _;

    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = output.errors();
    if output.status.success() {
        String::new()
    } else {
        format!("{}: {stderr}", output.status)
    }
}

/// Exports a recording whose name and load contain special characters.
fn exported(dir: &Path, format: &str) -> Vec<u8> {
    let recording = dir.join("odd \"name\\ .laggard");
    if !recording.exists() {
        let script = scripted::script(1_000_000, &scripted::stall(1_000_500_000, 20_000_000));
        scripted::must_record(&recording, &script, &["--duration=2s"]);
    }
    let output = scripted::laggard()
        .args(["export", "--format", format])
        .arg(&recording)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn promtool_takes_metrics_and_the_export_without_a_complaint() {
    if !has("promtool") {
        return;
    }
    let dir = TempDir::new().unwrap();
    let serve = late(&dir, &["--otlp=http://127.0.0.1:9"]);

    let (_, scraped) = negotiated(&serve.address, "");
    assert_eq!(promtool_check(&scraped), "");
    let export = exported(dir.path(), "prometheus");
    assert_eq!(promtool_check(&export), "");

    // The other format is refused. Otherwise this test would prove nothing.
    assert_ne!(promtool_check(&exported(dir.path(), "openmetrics")), "");
    let text = String::from_utf8(export).unwrap();
    text.assert_has("laggard_recording_info{path=\"");
    text.assert_has("quantile=\"0.5\"} ");
}

/// Returns the error state of the textfile collector for `directory`, and its exported text.
fn collected(directory: &Path) -> (Option<f64>, String) {
    let address = free_address();
    let child = Command::new("prometheus-node-exporter")
        .args(["--collector.disable-defaults", "--collector.textfile"])
        .arg(format!(
            "--collector.textfile.directory={}",
            directory.display()
        ))
        .arg(format!("--web.listen-address={address}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let exporter = Prometheus { child, address };
    let begin = Instant::now();
    while std::net::TcpStream::connect(&exporter.address).is_err() {
        assert!(begin.elapsed() < DEADLINE, "node_exporter does not answer");
        sleep(Duration::from_millis(50));
    }
    let text = get(&exporter.address, "/metrics");
    (value(&text, "node_textfile_scrape_error "), text)
}

#[test]
fn the_textfile_collector_takes_the_export() {
    if !has("prometheus-node-exporter") {
        return;
    }
    let dir = TempDir::new().unwrap();
    for (format, error) in [("prometheus", 0.0), ("openmetrics", 1.0)] {
        let textfiles = dir.path().join(format);
        fs::create_dir(&textfiles).unwrap();
        let export = exported(dir.path(), format);
        fs::write(textfiles.join("laggard.prom"), &export).unwrap();

        let (scrape_error, text) = collected(&textfiles);

        assert_eq!(scrape_error, Some(error), "{format}: {text}");
        let count = "laggard_latency_seconds_count{route=\"direct\",service=\"fifo:90\"} ";
        let expected = (error == 0.0).then_some(1_999.0);
        assert_eq!(value(&text, count), expected, "{format}: {text}");
    }
}
