//! What is packaged for Prometheus and Grafana asks for what `laggard serve` exports, and
//! Prometheus reads it as it was measured.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

mod scripted;
mod served;

use served::{DEADLINE, Serve, get, value};

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// Two threads, seldom: what is scraped now is what is scraped a second later.
fn seldom() -> String {
    let other = "[[line]]\nservice = \"other\"\nroute = \"direct\"\n\
                 steps = [[[\"irq\", 25000], [\"waking\", 400], [\"user\", 2345678]]]\n";
    scripted::script(8_000_000_000, other)
}

/// Names of ours in a text.
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

/// Whether a program is there; else that is said.
fn has(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if found.is_err() {
        println!("skipped: {program} is not installed (Debian: apt install prometheus)");
    }
    found.is_ok()
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
        let asked = names(&text);
        assert!(asked.len() >= 7, "{file} asks for {asked:?} alone");
        for name in asked {
            // A native histogram is asked for by its name alone.
            let is_there = there.contains(&name) || there.contains(&format!("{name}_bucket"));
            // Causes are told where somebody watched, which nobody does of a script.
            let is_of_causes = name == "laggard_episode_causes_seconds_total"
                && whole.contains("# TYPE laggard_episodes counter");
            // A script has no machine to doubt.
            let is_of_machine = name == "laggard_caveat_info";
            assert!(
                is_there || is_of_causes || is_of_machine,
                "{file} asks for `{name}`, which is not among {there:?}"
            );
        }
    }
    let documented = names(&fs::read_to_string(packaging().join("../docs/serve.md")).unwrap());
    for name in &there {
        let stem = ["_bucket", "_count", "_sum"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        assert!(
            documented.contains(stem),
            "docs/serve.md does not tell of `{stem}`"
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
            let asked = target["expr"].as_str().unwrap();
            assert!(asked.contains("$instance"), "{title}: {asked}");
        }
    }
    assert!(panels.len() >= 15);
}

#[test]
fn the_rules_hold_what_their_tests_say() {
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
        let said = String::from_utf8_lossy(&output.stdout);
        let wrong = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "promtool {words:?}: {said}\n{wrong}"
        );
    }
}

/// A Prometheus of our own; ended when it is dropped.
struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    /// That scrapes `target` every second, as text or with native histograms.
    fn start(dir: &Path, target: &str, options: &[&str]) -> Self {
        let config = dir.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: laggard\n    \
             static_configs: [{{targets: [\"{target}\"]}}]\n"
        );
        fs::write(&config, text).unwrap();
        // Free now; nobody else asks for it in the next instant.
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

    /// The answer's values, once there are `wanted`.
    fn ask(&self, query: &str, wanted: usize) -> Vec<f64> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let path = format!("/api/v1/query?query={encoded}");
        let begin = Instant::now();
        loop {
            if std::net::TcpStream::connect(&self.address).is_ok() {
                let text = get(&self.address, &path);
                let (_, body) = text.split_once("\r\n\r\n").unwrap();
                let answer: Value = serde_json::from_str(body).unwrap_or_default();
                let results = answer["data"]["result"].as_array().cloned();
                let values: Vec<f64> = results
                    .unwrap_or_default()
                    .iter()
                    .map(|one| one["value"][1].as_str().unwrap().parse().unwrap())
                    .collect();
                if values.len() == wanted {
                    return values;
                }
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
fn of(service: &str) -> String {
    format!("{{service=\"{service}\",route=\"direct\",cpu=\"0\"}}")
}

/// How many latencies of it are exported now.
fn counted(serve: &Serve, service: &str) -> f64 {
    let count = format!("laggard_latency_seconds_count{} ", of(service));
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
        let count = format!("laggard_latency_seconds_count{} ", of("other"));
        serve.until("/metrics", |text| value(text, &count) >= Some(1.0));
        let prometheus = Prometheus::start(dir.path(), &serve.address, &options);

        for (service, latency_ns) in [("fifo:90", 18_851.0), ("other", 2_371_078.0)] {
            let series = format!("laggard_latency_seconds{}", of(service));
            let largest = format!("laggard_largest_latency_seconds{}", of(service));
            assert_eq!(prometheus.ask(&largest, 1), [latency_ns / 1e9], "{service}");
            let asked = match is_native {
                true => format!("histogram_count({series})"),
                false => format!("laggard_latency_seconds_count{}", of(service)),
            };
            let count = prometheus.ask(&asked, 1)[0];
            // What is exported, and what Prometheus has of it, may be a second old.
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

/// What an alert compares with its threshold.
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
    let asked = compared("LaggardLargeLatency");
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
            let mut found = prometheus.ask(&asked, 1)[0];
            // Of fewer than two scrapes there is no rate.
            while (found.is_nan() || (is_late && found <= 0.5)) && begin.elapsed() < DEADLINE {
                sleep(Duration::from_millis(200));
                found = prometheus.ask(&asked, 1)[0];
            }
            assert!(!found.is_nan(), "{options:?}: nothing in {DEADLINE:?}");
            assert_eq!(found > 0.5, is_late, "{options:?}: {found}");
        }
    }
}
