//! Data that a collector receives, and the handling of slow, dead, full and lying collectors.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant, SystemTime};

use laggard_model::{Cpu, Line, Nanos, Route, Service, Stage};
use laggard_otlp::proto::{Data, MetricsRequest, Resource, TracesRequest};
use laggard_otlp::{
    Handover, LateSpan, OtlpSender, OtlpSeries, OtlpTarget, QueueLimits, SenderParts, SpanQueue,
};
use prometheus_client::encoding::prometheus_protobuf::encode;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use prost::Message as _;

use crate::collector::{Collector, Post};

/// Limit against hanging, not an expectation: generous on purpose.
const DEADLINE: Duration = Duration::from_secs(60);

static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn say(text: &str) {
    SAID.lock().unwrap().push(text.into());
}

/// Running sender.
struct Running {
    handover: Option<Handover>,
    thread: Option<JoinHandle<()>>,
    registry: Arc<Registry>,
    counted: Counter,
}

impl Running {
    fn to(address: &str, queue: Option<&Path>) -> Self {
        let address = format!("http://{address}");
        let target = OtlpTarget::new(Some(&address), |name| {
            let value = match name {
                "OTEL_METRIC_EXPORT_INTERVAL" => "200",
                "OTEL_EXPORTER_OTLP_TIMEOUT" => "1500",
                "OTEL_EXPORTER_OTLP_HEADERS" => "authorization=Bearer%20abc",
                _ => return None,
            };
            Some(value.to_owned())
        });
        let series = OtlpSeries::default();
        let mut registry = Registry::with_prefix("laggard");
        series.register(&mut registry);
        let counted = Counter::default();
        registry.register("activations", "x", counted.clone());
        let registry = Arc::new(registry);
        let theirs = registry.clone();
        let (sender, handover) = OtlpSender::new(SenderParts {
            target: target.unwrap().unwrap(),
            resource: Resource::default(),
            instance: "run".into(),
            began: SystemTime::now(),
            queue: SpanQueue::open(queue, QueueLimits::default(), series.clone()).unwrap(),
            series,
            snapshot: Box::new(move || encode(&theirs).unwrap()),
            say,
        })
        .unwrap();
        Self {
            handover: Some(handover),
            thread: Some(std::thread::spawn(|| sender.run())),
            registry,
            counted,
        }
    }

    fn late(&self, episode: u64) {
        self.handover.as_ref().unwrap().late(late(episode));
    }

    fn end(&mut self) {
        self.handover = None;
        self.thread.take().unwrap().join().unwrap();
    }

    /// Returns the value of one of the sender's series, as in `/metrics`.
    fn value(&self, series: &str) -> u64 {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        let line = line.unwrap_or_else(|| panic!("no {series} in\n{text}"));
        line.trim().parse().unwrap()
    }

    fn wait_for(&self, series: &str, least: u64) {
        let what = format!("{series} to be {least}");
        wait_until(&what, || self.value(series) >= least);
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < DEADLINE, "waited for {what}");
        sleep(Duration::from_millis(20));
    }
}

fn late(episode: u64) -> LateSpan {
    LateSpan {
        episode,
        recorded: None,
        expiry: SystemTime::now(),
        line: Line::new(Cpu(0), Service::Other, Route::Direct),
        cpu: Cpu(0),
        latency: Nanos::from_us(700),
        is_censored: false,
        stages: vec![
            (Stage::Irq, Nanos::from_us(600)),
            (Stage::User, Nanos::from_us(700)),
        ],
        causes: Vec::new(),
    }
}

fn metrics(post: &Post) -> BTreeMap<String, f64> {
    let request = MetricsRequest::decode(&*post.body).unwrap();
    let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
    let sum = |data: &Option<Data>| match data {
        Some(Data::Sum(sum)) => sum
            .data_points
            .iter()
            .filter_map(|metric| metric.as_double)
            .sum(),
        _ => 0.0,
    };
    metrics
        .iter()
        .map(|metric| (metric.name.clone(), sum(&metric.data)))
        .collect()
}

/// Returns the spans of every request that was answered with 200, with their counts.
fn spans(collector: &Collector) -> BTreeMap<Vec<u8>, usize> {
    let mut spans = BTreeMap::new();
    for post in collector
        .posts()
        .iter()
        .filter(|post| post.path == "/v1/traces")
    {
        let request = TracesRequest::decode(&*post.body).unwrap();
        for span in &request.resource_spans[0].scope_spans[0].spans {
            *spans.entry(span.span_id.clone()).or_default() += 1;
        }
    }
    spans
}

const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n\
                       Content-Length: 0\r\n\r\n";
const LATER: &[u8] = b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";

const METRICS_TAKEN: &str = r#"laggard_otlp_requests_total{signal="metrics",outcome="taken"}"#;
const METRICS_DELAYED: &str = r#"laggard_otlp_requests_total{signal="metrics",outcome="delayed"}"#;
const TRACES_REFUSED: &str = r#"laggard_otlp_requests_total{signal="traces",outcome="refused"}"#;

#[test]
fn series_and_late_wakeups_arrive_with_the_configured_headers() {
    let collector = Collector::new(TAKEN);
    let mut running = Running::to(&collector.address, None);
    running.counted.inc_by(42);
    running.late(1);
    running.late(2);
    running.wait_for("laggard_otlp_spans_total", 6);
    running.end();

    let posts = collector.posts();
    let last = posts
        .iter()
        .rev()
        .find(|post| post.path == "/v1/metrics")
        .unwrap();
    let received = metrics(last);
    assert_eq!(received["laggard_activations_total"], 42.0);
    assert_eq!(received["laggard_otlp_lost_spans_total"], 0.0);
    for post in &posts {
        assert_eq!(post.header("content-type"), "application/x-protobuf");
        assert_eq!(post.header("content-encoding"), "gzip");
        assert_eq!(post.header("authorization"), "Bearer abc");
    }
    let spans = spans(&collector);
    assert_eq!(spans.len(), 6);
    assert!(spans.values().all(|times| *times == 1), "{spans:?}");
}

#[test]
fn late_wakeups_without_a_collector_are_sent_by_the_next_run() {
    let dir = tempfile::TempDir::new().unwrap();
    let queue = dir.path().join("queue");
    // No process listens at this address any more.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut first = Running::to(&address.to_string(), Some(&queue));
    (1..=5).for_each(|episode| first.late(episode));
    first.wait_for(METRICS_DELAYED, 1);
    wait_until("a file in the queue", || {
        first.value("laggard_otlp_queue_size_bytes") > 0
    });
    first.end();

    let collector = Collector::at(address, TAKEN);
    let mut second = Running::to(&address.to_string(), Some(&queue));
    second.wait_for("laggard_otlp_spans_total", 15);
    second.end();

    let spans = spans(&collector);
    assert_eq!(spans.len(), 15);
    assert!(spans.values().all(|times| *times == 1), "{spans:?}");
}

#[test]
fn requested_retry_time_is_kept() {
    let collector = Collector::new(LATER);
    let mut running = Running::to(&collector.address, None);
    running.late(1);
    running.wait_for(METRICS_DELAYED, 3);
    collector.answer(TAKEN);
    running.wait_for(METRICS_TAKEN, 1);
    running.wait_for("laggard_otlp_spans_total", 3);
    running.end();

    let posts = collector.posts();
    let metrics = posts.iter().filter(|post| post.path == "/v1/metrics");
    let delayed: Vec<Instant> = metrics
        .filter(|post| !post.is_taken)
        .map(|post| post.at)
        .collect();
    // The last request is sent at the end and does not wait.
    for pair in delayed.windows(2) {
        let apart = pair[1] - pair[0];
        assert!(apart >= Duration::from_millis(950), "{apart:?}");
    }
    assert_eq!(
        running.value(r#"laggard_otlp_lost_spans_total{reason="refused"}"#),
        0
    );
}

#[test]
fn refused_request_is_dropped_and_counted_with_the_collectors_reason() {
    let sentence = b"\x12\x0dno such\x1b[31m\x07x";
    let head =
        "HTTP/1.1 400 Bad\r\nContent-Type: application/x-protobuf\r\nContent-Length: 15\r\n\r\n";
    let collector = Collector::new(&[head.as_bytes(), sentence].concat());
    let mut running = Running::to(&collector.address, None);
    running.late(1);
    running.wait_for(TRACES_REFUSED, 1);
    running.end();

    assert_eq!(
        running.value(r#"laggard_otlp_lost_spans_total{reason="refused"}"#),
        3
    );
    let messages = SAID.lock().unwrap();
    let line = messages
        .iter()
        .find(|line| line.contains("no such"))
        .unwrap();
    assert!(
        line.contains("answers 400") && !line.contains('\u{1b}'),
        "{line}"
    );
}

#[test]
fn rejected_items_of_an_accepted_request_are_counted() {
    let mut body = Vec::new();
    let partial = laggard_otlp::proto::PartialSuccess {
        rejected: 2,
        error_message: "too old".into(),
    };
    let response = laggard_otlp::proto::Response {
        partial_success: Some(partial),
    };
    response.encode(&mut body).unwrap();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let collector = Collector::new(&[head.as_bytes(), &body].concat());
    let mut running = Running::to(&collector.address, None);
    running.late(1);
    running.wait_for(r#"laggard_otlp_lost_spans_total{reason="rejected"}"#, 2);
    running.wait_for("laggard_otlp_rejected_points_total", 2);
    running.end();

    assert_eq!(running.value("laggard_otlp_spans_total"), 1);
}

/// None of these answers may end the sender, block it or lose data.
#[test]
fn data_are_sent_after_any_invalid_answer() {
    let many = "X-Long: yes\r\n".repeat(100_000);
    let cases: [(&str, Vec<u8>); 8] = [
        ("no answer", Vec::new()),
        ("no HTTP", b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()),
        (
            "a head without end",
            format!("HTTP/1.1 200 OK\r\n{many}").into(),
        ),
        ("half a head", b"HTTP/1.1 200 O".to_vec()),
        (
            "a page of a portal",
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"
                .to_vec(),
        ),
        (
            "two lengths",
            b"HTTP/1.1 503 X\r\nContent-Length: 1\r\nContent-Length: 99\r\n\r\n".to_vec(),
        ),
        (
            "an invalid length",
            b"HTTP/1.1 503 X\r\nContent-Length: -7\r\n\r\n".to_vec(),
        ),
        (
            "less than it says",
            b"HTTP/1.1 503 X\r\nContent-Length: 999999999999\r\n\r\nshort".to_vec(),
        ),
    ];
    for (case, answer) in cases {
        let collector = Collector::new(&answer);
        let mut running = Running::to(&collector.address, None);
        running.late(1);
        running.wait_for(METRICS_DELAYED, 1);
        collector.answer(TAKEN);
        running.wait_for("laggard_otlp_spans_total", 3);
        running.end();

        let lost = running.value(r#"laggard_otlp_lost_spans_total{reason="refused"}"#);
        assert_eq!(lost, 0, "for {case}");
    }
}

#[test]
fn redirect_is_not_followed() {
    let elsewhere = Collector::new(TAKEN);
    for status in [301, 302, 307, 308] {
        let answer = format!(
            "HTTP/1.1 {status} Moved\r\nLocation: http://{}/v1/metrics\r\nContent-Length: 0\r\n\r\n",
            elsewhere.address
        );
        let collector = Collector::new(answer.as_bytes());
        let mut running = Running::to(&collector.address, None);
        running.wait_for(
            r#"laggard_otlp_requests_total{signal="metrics",outcome="refused"}"#,
            1,
        );
        running.end();
    }

    assert_eq!(elsewhere.posts().len(), 0);
}

#[test]
fn endless_answer_is_cut_and_missing_answer_times_out() {
    let endless = Collector::endless();
    let mut running = Running::to(&endless.address, None);
    running.wait_for(METRICS_TAKEN, 3);
    running.end();
    let written = endless.written();
    assert!(written < 64 << 20, "{written} bytes were taken of it");

    let silent = Collector::silent();
    let mut running = Running::to(&silent.address, None);
    running.wait_for(METRICS_DELAYED, 1);
    running.end();
}

#[test]
fn late_wakeups_without_room_are_counted_without_blocking() {
    let silent = Collector::silent();
    let mut running = Running::to(&silent.address, None);
    wait_until("the sender to wait", || !silent.posts().is_empty());
    (1..=1_000).for_each(|episode| running.late(episode));

    let crowded = running.value(r#"laggard_otlp_lost_spans_total{reason="crowded"}"#);
    assert!(crowded >= (1_000 - 256 - 100) * 3, "{crowded}");
    running.end();
}
