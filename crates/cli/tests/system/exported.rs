//! The packaged files for Prometheus and Grafana query only series that `laggard serve` exports,
//! and Prometheus reads the measured values.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::scripted;
use crate::served;

use crate::scripted::Texts as _;
use crate::served::{DEADLINE, Serve, get, value};

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// Returns a script of two threads that run rarely, so that two scrapes within a second are equal.
fn seldom() -> String {
    let other = "[[line]]\nservice = \"other\"\nroute = \"direct\"\n\
                 steps = [[[\"irq\", 25000], [\"waking\", 400], [\"user\", 2345678]]]\n";
    scripted::script(8_000_000_000, other)
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
fn has(program: &str) -> bool {
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
    let store = format!("--store={}", dir.path().join("store").display());
    let script = scripted::script(10_000_000, &scripted::stall(500_000_000, 50_000_000));
    let serve = Serve::start(dir.path(), &script, &[&store, "--threshold=1ms"], "");
    let whole = serve.until("/metrics", |text| text.contains("laggard_episodes_total{"));
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

#[test]
fn the_dashboard_is_whole() {
    let text = fs::read_to_string(packaging().join("grafana/laggard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();

    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
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

/// Prometheus of this test. It is ended when dropped.
struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    /// Starts it. It scrapes `target` every second, as text or with native histograms.
    fn start(dir: &Path, target: &str, options: &[&str]) -> Self {
        let config = dir.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\n\
             rule_files: [\"{}\"]\nscrape_configs:\n  - job_name: laggard\n    \
             static_configs: [{{targets: [\"{target}\"]}}]\n",
            packaging().join("prometheus/laggard.rules.yml").display()
        );
        fs::write(&config, text).unwrap();
        // The port is free, and no other program is expected to take it at once.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                dir.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, address }
    }

    /// Returns the response at `path` of its API. Waits until it responds.
    fn api(&self, path: &str) -> Value {
        if std::net::TcpStream::connect(&self.address).is_err() {
            return Value::Null;
        }
        let text = get(&self.address, &format!("/api/v1/{path}"));
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_default()
    }

    /// The answer to a query, with its status.
    fn answer(&self, query: &str) -> Value {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        self.api(&format!("query?query={encoded}"))
    }

    /// The answer's values, once there are `wanted`.
    fn ask(&self, query: &str, wanted: usize) -> Vec<f64> {
        let begin = Instant::now();
        loop {
            let results = self.answer(query)["data"]["result"].as_array().cloned();
            let values: Vec<f64> = results
                .unwrap_or_default()
                .iter()
                .map(|series| series["value"][1].as_str().unwrap().parse().unwrap())
                .collect();
            if values.len() == wanted {
                return values;
            }
            assert!(
                begin.elapsed() < DEADLINE,
                "Prometheus has no answer to {query}"
            );
            sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The labels of a thread of the script.
fn labels(service: &str) -> String {
    format!("{{service=\"{service}\",route=\"direct\",cpu=\"0\"}}")
}

/// Returns the current number of exported latencies of a service.
fn counted(serve: &Serve, service: &str) -> f64 {
    let count = format!("laggard_latency_seconds_count{} ", labels(service));
    value(&serve.get("/metrics"), &count).unwrap()
}

#[test]
fn prometheus_reads_text_and_native_histograms_as_they_were_measured() {
    if !has("prometheus") {
        return;
    }
    for (options, is_native) in [
        (vec![], false),
        (vec!["--enable-feature=native-histograms"], true),
    ] {
        let dir = TempDir::new().unwrap();
        let serve = Serve::start(dir.path(), &seldom(), &[], "");
        let count = format!("laggard_latency_seconds_count{} ", labels("other"));
        serve.until("/metrics", |text| value(text, &count) >= Some(1.0));
        let prometheus = Prometheus::start(dir.path(), &serve.address, &options);

        for (service, latency_ns) in [("fifo:90", 18_851.0), ("other", 2_371_078.0)] {
            let series = format!("laggard_latency_seconds{}", labels(service));
            let largest = format!("laggard_largest_latency_seconds{}", labels(service));
            assert_eq!(prometheus.ask(&largest, 1), [latency_ns / 1e9], "{service}");
            let query = if is_native {
                format!("histogram_count({series})")
            } else {
                format!("laggard_latency_seconds_count{}", labels(service))
            };
            let count = prometheus.ask(&query, 1)[0];
            // The exported values, and their copies in Prometheus, may be a second old.
            let after = counted(&serve, service);
            assert!(
                (1.0..=after + 1.0).contains(&count),
                "{service}: {count} of {after}"
            );
            if !is_native {
                continue;
            }
            // All of them are equally late.
            let mean = format!("histogram_sum({series}) / histogram_count({series})");
            let mean = prometheus.ask(&mean, 1)[0] * 1e9 / latency_ns;
            assert!((mean - 1.0).abs() < 1e-6, "{service}: {mean}");
            let median = prometheus.ask(&format!("histogram_quantile(0.5, {series})"), 1);
            // A bucket is 1.09 % wide.
            let off = median[0] * 1e9 / latency_ns;
            assert!((off - 1.0).abs() < 0.011, "{service}: {off}");
        }
    }
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
    let script = scripted::script(10_000_000, &scripted::stall(500_000_000, 50_000_000));
    let serve = Serve::start(dir.path(), &script, &["--threshold=1ms"], "");
    serve.until("/metrics", |text| text.contains("laggard_episodes_total{"));

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
    let store = format!("--store={}", dir.path().join("store").display());
    let script = scripted::script(10_000_000, &scripted::stall(500_000_000, 50_000_000));
    let serve = Serve::start(dir.path(), &script, &["--threshold=1ms", &store], "");
    serve.until("/metrics", |text| text.contains("laggard_episodes_total{"));
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
    let store = format!("--store={}", dir.path().join("store").display());
    let script = scripted::script(10_000_000, &scripted::stall(500_000_000, 50_000_000));
    let options = ["--threshold=1ms", &store, "--otlp=http://127.0.0.1:9"];
    let serve = Serve::start(dir.path(), &script, &options, "");
    serve.until("/metrics", |text| text.contains("laggard_episodes_total{"));

    let (_, scraped) = negotiated(&serve.address, "");
    assert_eq!(promtool_check(&scraped), "");
    let export = exported(dir.path(), "prometheus");
    assert_eq!(promtool_check(&export), "");

    // The other format is refused. Otherwise this test would prove nothing.
    assert_ne!(promtool_check(&exported(dir.path(), "openmetrics")), "");
    let text = String::from_utf8(export).unwrap();
    assert!(text.contains("laggard_recording_info{path=\""), "{text}");
    assert!(text.contains("quantile=\"0.5\"} "), "{text}");
}

/// Returns the error state of the textfile collector for `directory`, and its exported text.
fn collected(directory: &Path) -> (Option<f64>, String) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
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

/// Queries of the dashboard's panels, with the panel's title.
fn panel_queries() -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(packaging().join("grafana/laggard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let query = |target: &Value| {
        let query = target["expr"].as_str().unwrap();
        query
            .replace("$instance", ".*")
            .replace("$service", ".*")
            .replace("$__rate_interval", "1m")
    };
    let panels = dashboard["panels"].as_array().unwrap().iter();
    panels
        .map(|panel| {
            let targets = panel["targets"].as_array().unwrap().iter();
            let title = panel["title"].as_str().unwrap().to_owned();
            (title, targets.map(query).collect())
        })
        .collect()
}

/// The heatmap was empty with native histograms.
#[test]
fn prometheus_answers_every_panel_and_rule_with_classic_and_with_native_histograms() {
    /// Causes of a script are not observed, and its machine is simulated.
    const EMPTY: [&str; 2] = ["Time of late activations, by culprit", "Caveats"];
    if !has("prometheus") {
        return;
    }
    for options in [vec![], vec!["--enable-feature=native-histograms"]] {
        let dir = TempDir::new().unwrap();
        let store = format!("--store={}", dir.path().join("store").display());
        let stalls: String = (1..60)
            .map(|number| scripted::stall(number * 2_000_000_000 + 500_000_000, 50_000_000))
            .collect();
        let script = scripted::script(10_000_000, &stalls);
        let serve = Serve::start(dir.path(), &script, &[&store, "--threshold=1ms"], "");
        let prometheus = Prometheus::start(dir.path(), &serve.address, &options);
        let begin = Instant::now();

        let mut panels = panel_queries();
        panels.push(("variables".into(), vec!["laggard_build_info".into()]));
        assert!(panels.len() > 15);
        for (title, queries) in &panels {
            let mut non_empty = 0;
            while non_empty == 0 {
                for query in queries {
                    let answer = prometheus.answer(query);
                    if answer.is_null() {
                        continue;
                    }
                    assert_eq!(answer["status"], "success", "{title}: {query}: {answer}");
                    non_empty += answer["data"]["result"].as_array().unwrap().len();
                }
                if EMPTY.contains(&title.as_str()) {
                    break;
                }
                let has_time = begin.elapsed() < DEADLINE;
                assert!(
                    non_empty > 0 || has_time,
                    "{options:?}: {title} is empty: {queries:?}"
                );
                sleep(Duration::from_millis(200));
            }
        }

        let rules = loop {
            let answer = prometheus.api("rules");
            let groups = answer["data"]["groups"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let rules: Vec<Value> = groups
                .iter()
                .flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default())
                .collect();
            let is_evaluated = |rule: &Value| rule["health"] != "unknown";
            if rules.len() > 5 && rules.iter().all(is_evaluated) {
                break rules;
            }
            assert!(begin.elapsed() < DEADLINE, "{answer}");
            sleep(Duration::from_millis(200));
        };
        for rule in rules {
            assert_eq!(rule["health"], "ok", "{options:?}: {rule}");
        }
    }
}

/// Returns the expression that an alert compares with its threshold.
fn compared(alert: &str) -> String {
    let rules = fs::read_to_string(packaging().join("prometheus/laggard.rules.yml")).unwrap();
    let (_, rule) = rules.split_once(&format!("alert: {alert}\n")).unwrap();
    let (_, expression) = rule.split_once("expr: |\n").unwrap();
    let (expression, _) = expression.split_once(") > ").unwrap();
    format!("{expression})")
}

#[test]
fn a_large_latency_is_counted_of_classic_and_of_native_buckets_and_a_small_one_is_not() {
    if !has("prometheus") {
        return;
    }
    let query = compared("LaggardLargeLatency");
    let stalls: String = (1..60)
        .map(|number| scripted::stall(number * 2_000_000_000 + 500_000_000, 50_000_000))
        .collect();
    for options in [vec![], vec!["--enable-feature=native-histograms"]] {
        for (stalls, is_late) in [("", false), (&*stalls, true)] {
            let dir = TempDir::new().unwrap();
            let script = scripted::script(10_000_000, stalls);
            let serve = Serve::start(dir.path(), &script, &[], "");
            let prometheus = Prometheus::start(dir.path(), &serve.address, &options);
            let begin = Instant::now();
            let mut rate = prometheus.ask(&query, 1)[0];
            // A rate needs at least two scrapes.
            while (rate.is_nan() || (is_late && rate <= 0.5)) && begin.elapsed() < DEADLINE {
                sleep(Duration::from_millis(200));
                rate = prometheus.ask(&query, 1)[0];
            }
            assert!(!rate.is_nan(), "{options:?}: nothing in {DEADLINE:?}");
            assert_eq!(rate > 0.5, is_late, "{options:?}: {rate}");
        }
    }
}
