//! `laggard-serve --otlp` sends the values that it counted, and a stopped collector does not stop
//! the measurement.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use laggard_otlp::proto::{
    Data, HistogramPoint, KeyValue, MetricsRequest, Span, TracesRequest, Value,
};
use prost::Message as _;
use tempfile::TempDir;

use crate::collector::Collector;

/// Limit that detects a hang, not an expected duration. It is therefore generous.
const DEADLINE: Duration = Duration::from_secs(120);

const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n\
                       Content-Length: 0\r\n\r\n";

/// Each wakeup is late by 4 ms.
const LATE: &str = "\
[[line]]
service = \"fifo:90\"
route = \"direct\"
steps = [[[\"irq\", 4014000], [\"expire\", 400], [\"waking\", 240], [\"running\", 3008], [\"user\", 1203]]]
";

/// Running `laggard-serve` that plays [`LATE`]. It is killed when dropped.
struct Serve {
    child: Child,
    address: String,
}

impl Serve {
    fn start(dir: &Path, period_ns: u64, collector: &str, options: &[&str]) -> Self {
        let script = dir.join("script.toml");
        fs::write(&script, format!("period_ns = {period_ns}\n{LATE}")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_laggard-serve"))
            .args(["--listen=127.0.0.1:0", "--threshold=1ms"])
            .arg(format!("--backend=fake:{}", script.display()))
            .arg(format!("--otlp=http://{collector}"))
            .args(options)
            .env("OTEL_METRIC_EXPORT_INTERVAL", "500")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let lines_printed: Vec<String> = lines.take(3).map(Result::unwrap).collect();
        let lines_printed = lines_printed.join("\n");
        assert!(
            lines_printed.contains(&format!("Sends to http://{collector}")),
            "{lines_printed}"
        );
        let address = lines_printed.split("http://").nth(1).unwrap();
        let address = address.split(": ").next().unwrap().to_owned();
        Self { child, address }
    }

    fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        write!(stream, "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Returns the sum of all series that start with `series`.
    fn value(&self, series: &str) -> f64 {
        let text = self.metrics();
        let lines = text.lines().filter(|line| line.starts_with(series));
        lines
            .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
            .sum()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Returns the exit code and the messages.
    fn end(mut self) -> (Option<i32>, String) {
        self.signal("-TERM");
        let mut messages = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut messages).unwrap();
        (self.child.wait().unwrap().code(), messages)
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < DEADLINE, "waited for {what}");
        sleep(Duration::from_millis(50));
    }
}

fn words(attributes: &[KeyValue]) -> BTreeMap<&str, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().unwrap().value.as_ref().unwrap() {
        Value::Text(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Bool(is_so) => is_so.to_string(),
    };
    attributes
        .iter()
        .map(|pair| (&*pair.key, text(pair)))
        .collect()
}

/// Returns the points of a histogram in all requests.
fn points(collector: &Collector, name: &str) -> Vec<HistogramPoint> {
    let posts = collector.posts();
    let metrics = posts.iter().filter(|post| post.path == "/v1/metrics");
    let mut points = Vec::new();
    for post in metrics {
        let request = MetricsRequest::decode(&*post.body).unwrap();
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        for metric in metrics.iter().filter(|metric| metric.name == name) {
            let Some(Data::Histogram(metrics)) = &metric.data else {
                panic!("{metric:?}");
            };
            assert_eq!(metric.unit, "s");
            points.extend(metrics.data_points.clone());
        }
    }
    points
}

fn spans(collector: &Collector) -> Vec<Span> {
    let posts = collector.posts();
    let traces = posts.iter().filter(|post| post.path == "/v1/traces");
    let service_of = |body: &[u8]| {
        let request = TracesRequest::decode(body).unwrap();
        request.resource_spans[0].scope_spans[0].spans.clone()
    };
    traces.flat_map(|post| service_of(&post.body)).collect()
}

/// Returns the value of a distribution in `/metrics` whose name ends with `ending`.
fn scraped(text: &str, ending: &str) -> f64 {
    let begin = format!("laggard_latency_seconds_{ending}{{");
    let mut lines = text
        .lines()
        .filter(|line| line.starts_with(&begin) && line.contains("service=\"fifo:90\""));
    lines.next().map_or(0.0, |line| {
        line.rsplit(' ').next().unwrap().parse().unwrap()
    })
}

#[test]
fn sent_values_equal_metrics_at_the_same_time() {
    let dir = TempDir::new().unwrap();
    let collector = Collector::new(TAKEN);
    // Wakeups are rare, so that several requests contain the same state.
    let serve = Serve::start(dir.path(), 4_000_000_000, &collector.address, &[]);
    let of_service = |count: u64| {
        let points = points(&collector, "laggard_latency_seconds");
        points
            .into_iter()
            .rev()
            .find(|point| point.count == count && words(&point.attributes)["service"] == "fifo:90")
    };
    wait_until("a request with what /metrics has", || {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count"
        )]
        let count = scraped(&serve.metrics(), "count") as u64;
        count >= 2 && of_service(count).is_some()
    });
    let text = serve.metrics();

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count"
    )]
    let count = scraped(&text, "count") as u64;
    wait_until("that count", || of_service(count).is_some());
    let point = of_service(count).unwrap();
    assert_eq!(point.sum, Some(scraped(&text, "sum")));
    let buckets = point.positive.unwrap();
    assert_eq!(buckets.bucket_counts.iter().sum::<u64>(), count);
    // All of them are 4.018851 ms.
    let edge = |index: i32| (f64::from(index) / 64.0).exp2();
    assert!(edge(buckets.offset) < 0.004_018_851 && 0.004_018_851 <= edge(buckets.offset + 1));
    assert_eq!((buckets.bucket_counts.len(), point.scale), (1, 6));
    assert_eq!(serve.end().0, Some(0));
}

#[test]
fn late_wakeups_survive_a_kill_and_reach_the_collector_once() {
    let dir = TempDir::new().unwrap();
    let store = format!("--store={}", dir.path().join("store").display());
    // The listener is dropped, so that connections are refused.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let named = address.to_string();
    let first = Serve::start(dir.path(), 100_000_000, &named, &[&store]);
    wait_until("a file in the queue", || {
        first.value("laggard_otlp_queue_size_bytes") > 0.0
    });
    let before = first.value("laggard_latency_seconds_count");
    wait_until("more measured data", || {
        first.value("laggard_latency_seconds_count") > before
    });
    first.signal("-KILL");
    drop(first);

    let collector = Collector::at(address, TAKEN);
    let second = Serve::start(dir.path(), 100_000_000, &named, &[&store]);
    wait_until("spans of both runs", || {
        let spans = spans(&collector);
        let of_one = |span: &Span| words(&span.attributes).get("laggard.episode").cloned();
        spans
            .iter()
            .filter(|span| of_one(span).as_deref() == Some("1"))
            .count()
            == 2
    });
    let (code, message) = second.end();

    assert_eq!(code, Some(0), "{message}");
    let spans = spans(&collector);
    let ids: std::collections::BTreeSet<&[u8]> = spans.iter().map(|span| &*span.span_id).collect();
    assert_eq!(ids.len(), spans.len(), "a span came twice");
    for whole in spans.iter().filter(|span| span.parent_span_id.is_empty()) {
        let took = |span: &Span| span.end_time_unix_nano - span.start_time_unix_nano;
        let parts = spans
            .iter()
            .filter(|span| span.parent_span_id == whole.span_id);
        assert_eq!(took(whole), 4_018_851);
        assert_eq!(parts.map(took).sum::<u64>(), took(whole));
    }
}

#[test]
fn invalid_address_ends_the_program_with_an_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_laggard-serve"))
        .args(["--listen=127.0.0.1:0", "--otlp=localhost:4318"])
        .output()
        .unwrap();

    let messages = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{messages}");
    assert!(
        messages.contains("write it as http://localhost:4318"),
        "{messages}"
    );
}
