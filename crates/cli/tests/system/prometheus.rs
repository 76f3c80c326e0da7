//! Prometheus reads the values that `laggard serve` measured, and answers the queries of the
//! packaged dashboard and rules.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::exported::{free_address, has, packaging, panels};
use crate::scripted;
use crate::served::{DEADLINE, Serve, get, value};

/// Returns a script of two threads that run rarely, so that two scrapes within a second are equal.
fn seldom() -> String {
    let other = "[[line]]\nservice = \"other\"\nroute = \"direct\"\n\
                 steps = [[[\"irq\", 25000], [\"waking\", 400], [\"user\", 2345678]]]\n";
    scripted::script(8_000_000_000, other)
}

/// Prometheus of this test. It is ended when dropped.
pub(super) struct Prometheus {
    pub(super) child: Child,
    pub(super) address: String,
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
        let address = free_address();
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

/// Returns stalls of 50 ms, one in 2 s.
fn repeated_stalls() -> String {
    (1..60)
        .map(|number| scripted::stall(number * 2_000_000_000 + 500_000_000, 50_000_000))
        .collect()
}

/// Queries of the dashboard's panels, with the panel's title.
fn panel_queries() -> Vec<(String, Vec<String>)> {
    let query = |target: &Value| {
        let query = target["expr"].as_str().unwrap();
        query
            .replace("$instance", ".*")
            .replace("$service", ".*")
            .replace("$__rate_interval", "1m")
    };
    panels()
        .iter()
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
        let script = scripted::script(10_000_000, &repeated_stalls());
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
    let stalls = repeated_stalls();
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
